/* shard_trim.c: the first messages of a set go that Redis alone has, or the last: they
 * are not read.
 *
 * Their places are known when nothing of the set is about to change: no batch or read is
 * under way, and what is dirty has no place in it. */
#include "base/mem.h"
#include "host/log.h"
#include "shard.h"

#define TRIM_MAX 4096 /* of one request */

struct trim {
	struct stage *stage;
	uint64_t asked;
	shard_trimmed_fn on_trimmed;
};

static void on_purged(void *ctx, int status, const char *text, uint64_t removed,
		      const uint64_t *ids, size_t id_count)
{
	struct trim *t = ctx;
	struct stage *st = t->stage;
	struct shard *sh = st->shard;

	if (status < 0 && status != TIDE_ESHUTDOWN)
		log_warn("cannot drop messages of a queue that is over its limit: %s",
			 text ? text : error_text(status));
	if (removed > t->asked)
		removed = t->asked;
	if (!sh->is_closed) {
		/* Else the set is not what it was thought to be: a read corrects that. */
		sh->may_trim = removed > 0;
		sh->size.is_unknown = true;
		st->beyond -= removed < st->beyond ? removed : st->beyond;
		t->on_trimmed(sh, removed);
	}
	shard_resume(sh);
	shard_unref(sh);
	mem_free(t);
}

static bool has_place(const struct shard *sh, const struct stage *st)
{
	const struct entry *e;

	TAILQ_FOREACH (e, &st->outside, link)
		if (e->home == st->set || (e->flags & ENTRY_UNSURE))
			return true;
	TAILQ_FOREACH (e, &sh->dirty, dirty_link)
		if (e->home == st->set || (e->flags & ENTRY_UNSURE))
			return true;
	return false;
}

/* Something that will end is in the way. */
static bool is_unsettled(const struct shard *sh, const struct stage *st)
{
	return sh->is_held_back || sh->kick || sh->flight.count > 0 ||
	       sh->take.is_taking || sh->take.is_looking || st->is_refilling ||
	       has_place(sh, st);
}

bool shard_trim(struct shard *sh, enum entry_state state, uint64_t count, bool is_last,
		shard_trimmed_fn on_trimmed)
{
	struct stage *st = &sh->stages[state];
	uint64_t stored = st->beyond - st->outside_unwritten;
	struct trim *t;

	/* The publish ids of what goes are to be forgotten with it, if they are kept so,
	 * and what waits for its next attempt has a slot of its group. */
	if ((sh->order && state == ENTRY_DELAYED) || !sh->keys || !sh->may_trim ||
	    sh->dedupe.is_queued || sh->size.is_kept ||
	    (st->window.count > 0 && !is_last) || stored == 0)
		return false;
	if (is_unsettled(sh, st))
		return true;
	count = count < stored ? count : stored;
	t = mem_alloc(sizeof(*t));
	*t = (struct trim){ st, count < TRIM_MAX ? count : TRIM_MAX, on_trimmed };
	sh->is_held_back = true;
	shard_ref(sh);
	store_purge(sh->env->store, sh->keys,
		    &(struct store_purge){ .set = st->set,
					   .start = is_last ? -(int64_t)t->asked
							    : (int64_t)st->indexed,
					   .count = (unsigned)t->asked },
		    on_purged, t);
	return true;
}
