/* id_lease.h: ids of messages that do not repeat when the clock is set back.
 *
 * Redis keeps, for each node, a mark that no id made so far lies above: the hash
 * tide:ids. A broker's ids go on from there, whatever its clock says; the time of
 * a message stays the clock's. The mark is some seconds ahead, so that it is
 * written once in that time, by the first id that comes near it. That write is
 * sent before anything with the id is, on the same connection. */
#pragma once

#include <stdint.h>

#include "base/id.h"
#include "store/store.h"

struct broker;

struct id_lease {
	struct id_source source;
	int64_t renew_ms; /* an id of a later time writes a new mark */
	store_done_fn on_loaded;
	void *ctx;
};

/* With no store there is nothing to write. */
void id_lease_init(struct id_lease *l, unsigned node);
/* Read the mark, then on_loaded; no id may be made before. */
void id_lease_load(struct broker *b, store_done_fn on_loaded, void *ctx);
/* Between the files: write a mark ahead of the ids. */
void id_lease_renew(struct broker *b);
/* The last id has been made: the mark need not be ahead any more. */
void id_lease_end(struct broker *b);
