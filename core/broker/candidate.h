/* candidate.h: a generation of rules beside the one in force, which decides
 * without anything being done: for the shadow and for the replay.
 *
 * It has an engine of its own, loaded once from a directory, with the exchanges,
 * bindings and queues of the broker as they are; it follows them as they change.
 * What its scripts remember, and their random numbers, are its own too. */
#ifndef TIDE_BROKER_CANDIDATE_H
#define TIDE_BROKER_CANDIDATE_H

#include "broker.h"
#include "verdict.h"

struct candidate;

/* `dir` is absolute, or relative to the folder that the rules directory is in.
 * TIDE_ERULE when a reload of this directory would be refused, with the reason. */
TIDE_MUST_USE int candidate_create(struct candidate **out, struct broker *b,
				   struct slice dir, struct error *err);
/* Accepts NULL. */
void candidate_destroy(struct candidate *c);

/* For what was published at another time: what it decides, and its scripts see as
 * tide.now(), is of then. */
void candidate_set_clock(struct candidate *c, int64_t now_ms);

/* What would become of the message; err->text tells of a refusal, which is
 * verdict->status and no failure of the call. */
void candidate_decide(struct candidate *c, struct vhost *v, struct msg *m,
		      struct verdict *verdict, struct error *err);

const char *candidate_dir(const struct candidate *c);
/* For the promotion. */
struct bundle *candidate_files(const struct candidate *c);
/* Members of an object: the directory and the hash. */
void candidate_write(const struct candidate *c, struct json *out);

#endif
