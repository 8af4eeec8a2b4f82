/* cells.c: rules follow those of the other owners of a store that is split into cells.
 *
 * Whoever makes rules active writes them to Redis, and counts that. The others see
 * another number within half a second, read which generation is the last one, and load it
 * by all steps. One that cannot load it keeps its own, and says so. */
#include <inttypes.h>

#include "history.h"
#include "host/log.h"
#include "rollout.h"

#define REST_MS 1000

static void retry(struct rollout *r)
{
	r->cells_seen = UINT64_MAX;
	r->cells_rest_ms = r->broker->mono_ms + REST_MS;
}

static void on_followed(void *ctx, const struct error *result)
{
	struct rollout *r = ctx;

	if (r->broker->is_closing)
		return;
	if (result->code == TIDE_EBUSY) {
		retry(r);
		return;
	}
	r->is_behind = result->code < 0;
	if (r->is_behind)
		log_error("rules: the owner of another cell has made other rules active, "
			  "which cannot be loaded here; ours stay: %s",
			  result->text);
}

/* @param files  of the generation that was made active last; NULL: they are not kept */
static void follow(struct rollout *r, struct bundle *files)
{
	const struct rollout_change spec = { .origin = ENGINE_CELL,
					     .files = files,
					     .specs_dir = r->broker->config.rules_dir,
					     .by = "the owner of another cell",
					     .on_done = on_followed,
					     .ctx = r };

	if (files && bundle_hash(files) != engine_hash(r->broker->engine))
		rollout_begin(r, &spec);
	else
		r->is_behind = false;
}

static void on_read(void *ctx, int status, const char *text)
{
	struct rollout *r = ctx;
	struct history *fresh = r->fresh;
	/* Ours were changed meanwhile. */
	bool is_late = r->loading > 0 || r->fresh_notes != history_notes(r->history);

	r->fresh = NULL;
	if (status < 0 || is_late || r->broker->is_closing) {
		history_destroy(fresh);
		retry(r);
		return;
	}
	r->cells_seen = r->cells_asked;
	history_adopt_take(r->history, fresh);
	follow(r, history_last_good(r->history));
}

void rollout_cells_turn(struct rollout *r)
{
	const struct broker *b = r->broker;
	const struct store *store = b->env.store;

	if (!store || store_cells(store) == 1 || !b->is_started || b->is_closing ||
	    r->fresh || r->loading > 0 || b->mono_ms < r->cells_rest_ms)
		return;
	r->cells_asked = store_changes(store, STORE_CHANGE_RULES);
	if (r->cells_asked == r->cells_seen)
		return;
	r->fresh = history_create(r->broker);
	r->fresh_notes = history_notes(r->history);
	history_load(r->fresh, on_read, r);
}
