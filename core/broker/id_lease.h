/* id_lease.h: ids of messages that no other start of the broker has given.
 *
 * Redis keeps a mark for each node, in the hash {tide}:ids: no id made so far lies above
 * it. The ids of a start begin above the mark that it finds, whatever its clock says.
 * An id is made only below a mark that Redis has confirmed, in this start. So a message
 * never has the id of another one, and cannot overwrite it.
 *
 * The mark is some seconds ahead of the clock and moves with it. A start after a kill
 * begins at the old mark, ahead of the clock, and moves it by little then: any number of
 * kills brings ids no further ahead than 20 seconds. While Redis is late to confirm a
 * new mark, ids continue below the last one and fall behind the clock; the time of a
 * message stays the clock's. When they are used up, or when Redis has refused the first
 * mark, there are none. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "store/store.h"

struct broker;

struct id_lease {
	struct id_source source;
	int64_t due_ms;  /* when the mark is to move; wall clock */
	int64_t sent_ms; /* the mark on its way, or the last one that was */
	int64_t half_ms; /* half of what it was ahead: ids above it have it moved */
	bool is_sent;    /* a mark is on its way */
	bool is_refused; /* the last one was */
	char why[ERROR_TEXT_MAX];
	store_done_fn on_loaded; /* NULL when the first mark has been answered */
	void *ctx;
	uint64_t token;      /* of a lock: the last one */
	uint64_t token_lead; /* how far it is ahead because of an earlier start */
};

/* With no store nothing is written, and ids have no limit. */
void id_lease_init(struct id_lease *l, unsigned node);
/* Read the mark and move it, then on_loaded; no id may be made before. It succeeds when
 * Redis refuses the new mark: what is there can be consumed without new ids. It fails
 * when the mark cannot be read. */
void id_lease_load(struct broker *b, store_done_fn on_loaded, void *ctx);
/* Move the mark when that is due. */
void id_lease_turn(struct broker *b);
/* When id_lease_turn is to be called; 0: no time is known. */
int64_t id_lease_due_ms(const struct broker *b);
/* Redis may have come back with an earlier mark: move it in the next turn. */
void id_lease_hurry(struct broker *b);
/* Is there an id? TIDE_ESTORE */
TIDE_MUST_USE int id_lease_check(const struct broker *b, struct error *err);
/* The last id has been made: the mark need not be ahead any more. After a clean end
 * the next start knows that nothing handed out has gone unnoticed. */
void id_lease_end(struct broker *b, bool is_clean);
/* A token for a lock, greater than all before; 0: there is none until the mark moves.
 * Tokens are milliseconds, as the mark is: they begin at the clock or the last mark, and
 * stay below the next, so that those of a later start are greater. */
uint64_t id_lease_next_token(struct broker *b);
/* A lock is held with this token since an earlier start. */
void id_lease_raise_token(struct broker *b, uint64_t token);
