/* shared_sync.h: what scripts keep in tide.shared is written behind to Redis, and
 * read at the start.
 *
 * One batch of changes at a time, SHARED_SYNC_REST_MS after the last unless that was
 * full: a counter that changes with every message costs Redis ten writes a second. The
 * broker's turn drives it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

#define SHARED_SYNC_REST_MS 100

struct broker;

struct shared_sync {
	bool is_sending;
	bool is_behind;   /* there was more than the batch could take */
	bool has_failed;  /* the last batch; it was logged */
	int64_t after_ms; /* no batch before this */
	store_done_fn on_loaded;
	void *ctx;
};

/* Read what there is, then on_loaded. */
void shared_sync_load(struct broker *b, store_done_fn on_loaded, void *ctx);
/* The end of a turn. */
void shared_sync_turn(struct broker *b);
/* When a turn is needed; 0 = not by itself. */
int64_t shared_sync_due_ms(const struct broker *b);
bool shared_sync_is_idle(const struct broker *b);
