#include "base/id.h"
#include "shard.h"

/* Ranks that are looked at: a figure must not cost a turn. */
#define LOOKS_MAX 4096
#define FRONT_LOOKS_MAX 64

/* Since when it could have been delivered. */
static int64_t ready_since(const struct entry *e)
{
	const struct msg *m = e->msg;

	if (!m)
		return 0;
	return m->due_unix_ms > m->ts_unix_ms ? m->due_unix_ms : m->ts_unix_ms;
}

static int64_t age_ready(const struct shard *sh, unsigned most)
{
	const struct window *w = &sh->stages[ENTRY_READY].window;
	const struct entry *e;
	unsigned looks = 0;
	int64_t since = 0;
	uint64_t parked;

	/* The first of a rank is its oldest. */
	for (e = window_first(w); e && looks++ < most; e = window_next_score(w, e))
		since = heap_earlier(since, ready_since(e));
	/* Of some that are parked no more is known than the id. */
	if (sh->order && (parked = order_oldest_id(sh->order, most)) != 0)
		since = heap_earlier(since, id_unix_ms(parked));
	return since;
}

int64_t shard_age_ready(const struct shard *sh)
{
	return age_ready(sh, LOOKS_MAX);
}

int64_t shard_age_front(const struct shard *sh)
{
	return age_ready(sh, FRONT_LOOKS_MAX);
}

int64_t shard_age_held(const struct shard *sh)
{
	const struct entry *e = window_first(&sh->held);

	if (!e)
		e = TAILQ_FIRST(&sh->young);
	return e ? e->at_unix_ms : 0;
}
