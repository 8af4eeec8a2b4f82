/* shard_purge.c: everything that nobody holds is removed, in memory and in Redis. */
#include "base/mem.h"
#include "host/log.h"
#include "dedupe.h"
#include "shard.h"

#define PURGE_ROWS 2048 /* of one request */

struct purge {
	struct shard *shard;
	struct waiter *waiter;
	struct store_size waiting;   /* what Redis alone had of it, ready or delayed */
	uint64_t left[SHARD_STAGES]; /* to be removed from Redis alone */
	unsigned asked;              /* how many the request under way may remove */
	unsigned recounts;
	int stage;
};

/* A request that was sent twice removes less than it is asked to, and says so;
 * what else is a reason to count once more ends after some times. */
#define RECOUNTS_MAX 16

/* What Redis refused to remove counts again; of some of many, by their mean. */
static void restore_size(const struct purge *p)
{
	struct shard *sh = p->shard;
	uint64_t left = p->left[ENTRY_READY] + p->left[ENTRY_DELAYED];
	uint64_t bytes = p->waiting.bytes;

	if (left < p->waiting.messages)
		bytes = (uint64_t)((double)bytes * (double)left /
				   (double)p->waiting.messages);
	sh->waiting_bytes += bytes;
	sh->size.stored.bytes += bytes;
	sh->size.stored.messages += left;
}

static void purge_end(struct purge *p, int status, const char *text)
{
	struct shard *sh = p->shard;

	if (status < 0)
		log_warn("purge: %s", text ? text : error_text(status));
	if (status < 0)
		restore_size(p);
	for (int i = 0; i < SHARD_STAGES && !sh->is_closed; i++)
		stage_restore_beyond(&sh->stages[i], p->left[i]);
	shard_resume(sh);
	waiter_done(p->waiter, status, text);
	shard_unref(sh);
	mem_free(p);
}

static void purge_next(struct purge *p);
static void purge_count(struct purge *p);

/* How many places of Redis's set are before the edge. What has changed since the last
 * batch counts where Redis has it: an entry that was behind the edge, and is to be
 * removed, is behind it there. */
static uint64_t count_before(const struct stage *st)
{
	uint64_t n = st->indexed;
	const struct entry *e;

	TAILQ_FOREACH (e, &st->shard->dirty, dirty_link) {
		struct place stored = { e->stored_score, e->id };

		if (e->home == st->set)
			n += (uint64_t)place_is_before(stored, st->edge) -
			     (uint64_t)shard_is_indexed(e);
	}
	return n;
}

static void on_purged(void *ctx, int status, const char *text, uint64_t removed,
		      const uint64_t *ids, size_t id_count)
{
	struct purge *p = ctx;

	if (id_count > 0)
		dedupe_purged(p->shard, ids, id_count);
	if (status < 0) {
		purge_end(p, status, text);
		return;
	}
	p->left[p->stage] -= removed < p->asked ? removed : p->asked;
	if (removed < p->asked && p->recounts++ < RECOUNTS_MAX)
		purge_count(p);
	else
		purge_next(p);
}

static void purge_next(struct purge *p)
{
	struct shard *sh = p->shard;
	struct store_purge request;

	while (p->stage < SHARD_STAGES && p->left[p->stage] == 0)
		p->stage++;
	if (p->stage == SHARD_STAGES || sh->is_closed || p->recounts > RECOUNTS_MAX) {
		purge_end(p, TIDE_OK, NULL);
		return;
	}
	p->asked =
		p->left[p->stage] < PURGE_ROWS ? (unsigned)p->left[p->stage] : PURGE_ROWS;
	request = (struct store_purge){
		.set = sh->stages[p->stage].set,
		.start = (int64_t)count_before(&sh->stages[p->stage]),
		.count = p->asked,
		.wants_ids = sh->dedupe.is_queued,
	};
	store_purge(sh->env->store, sh->keys, &request, on_purged, p);
}

/* No batch is under way any more, and none will be: what Redis has before the
 * edge is known for certain, and all that is behind it is to go. */
static void on_purge_counts(void *ctx, int status, const char *text,
			    const struct store_counts *counts)
{
	struct purge *p = ctx;

	if (status < 0) {
		purge_end(p, status, text);
		return;
	}
	for (int i = 0; i < SHARD_STAGES; i++) {
		const struct stage *st = &p->shard->stages[i];
		uint64_t size = counts->sets[st->set], before = count_before(st);

		p->left[i] = size > before ? size - before : 0;
	}
	p->stage = 0;
	purge_next(p);
}

static void purge_count(struct purge *p)
{
	store_read_counts(p->shard->env->store, p->shard->keys, on_purge_counts, p);
}

uint64_t shard_purge(struct shard *sh, struct waiter *waiter)
{
	struct purge *p = mem_zalloc(sizeof(*p));
	struct entry *e;
	uint64_t n = 0;

	for (int i = 0; i < SHARD_STAGES; i++) {
		p->left[i] = stage_forget_beyond(&sh->stages[i]);
		n += p->left[i];
		for (; (e = stage_any(&sh->stages[i])) != NULL; n++)
			shard_remove(e, waiter);
	}
	p->waiting.messages = p->left[ENTRY_READY] + p->left[ENTRY_DELAYED];
	if (sh->order) {
		p->waiting.messages += sh->order->in_redis;
		n += shard_order_purge(sh, waiter);
	}
	p->waiting.bytes = sh->waiting_bytes; /* nothing is in memory any more */
	sh->waiting_bytes = 0;
	sh->size.stored.messages -= p->waiting.messages;
	sh->size.stored.bytes -= p->waiting.bytes;
	sh->purges++;
	waiter_add(waiter);
	p->shard = shard_ref(sh);
	p->waiter = waiter;
	if (!sh->keys) {
		purge_end(p, TIDE_OK, NULL);
		return n;
	}
	sh->is_held_back = true;
	purge_count(p);
	return n;
}
