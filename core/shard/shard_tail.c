#include "shard_tail.h"

bool shard_tail_is_far(const struct shard *sh, enum entry_state state)
{
	return sh->keys && (sh->stages[state].beyond > 0 ||
			    (state == ENTRY_READY && shard_parked(sh) > 0));
}

struct entry *shard_tail_entry(const struct shard *sh, enum entry_state state)
{
	struct entry *last = window_last(&sh->stages[state].window);
	struct entry *parked =
		state == ENTRY_READY && sh->order ? order_last(sh->order) : NULL;

	if (!last || !parked)
		return last ? last : parked;
	return place_is_before(window_place(last), window_place(parked)) ? parked : last;
}

static bool is_unsettled(const struct entry *e, enum entry_state state)
{
	return e->state == state && !(e->flags & ENTRY_UNSTORED) &&
	       (e->home != state || e->flags & ENTRY_SCORE_DIRTY);
}

const struct entry *shard_tail_next_unsettled(const struct shard *sh,
					      enum entry_state state,
					      const struct entry *e)
{
	e = e ? TAILQ_NEXT(e, dirty_link) : TAILQ_FIRST(&sh->dirty);
	while (e && !is_unsettled(e, state))
		e = TAILQ_NEXT(e, dirty_link);
	return e;
}

void shard_tail_read(struct shard *sh, enum entry_state state, unsigned count,
		     store_rows_fn on_rows, void *ctx)
{
	store_read(sh->env->store, sh->keys, sh->stages[state].set, -(int64_t)count,
		   count, 0, true, on_rows, ctx);
}
