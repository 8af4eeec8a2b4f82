/* shard_kick.c: buried messages are made ready, those that were buried first of all
 * shards of a queue. */
#include "base/mem.h"
#include "shard.h"

#define KICK_RETRY_MS 100
#define KICK_STEP 4096 /* messages of one step, so that a turn stays short */

struct shard_kick {
	struct waiter *waiter;
	uint64_t left;
	unsigned count;
	struct shard *shards[];
};

static void kick_end(struct shard_kick *k, int status, const char *text)
{
	for (unsigned i = 0; i < k->count; i++) {
		k->shards[i]->kick = NULL;
		shard_unref(k->shards[i]);
	}
	waiter_done(k->waiter, status, text);
	mem_free(k);
}

/* The first buried message of a shard; NULL when none is in memory. */
static struct entry *first_buried(struct shard *sh)
{
	struct stage *st = &sh->stages[ENTRY_BURIED];

	if (st->window.count == 0)
		stage_refill(st);
	return window_first(&st->window);
}

/* The one that was buried first. NULL: there is none, or a shard has to be read
 * before it is known (`*unread`). */
static struct entry *next_buried(const struct shard_kick *k, struct shard **unread)
{
	struct entry *next = NULL;

	*unread = NULL;
	for (unsigned i = 0; i < k->count; i++) {
		struct shard *sh = k->shards[i];
		struct entry *e = first_buried(sh);

		if (!e && sh->stages[ENTRY_BURIED].beyond > 0)
			*unread = sh;
		if (e && (!next || place_is_before(window_place(e), window_place(next))))
			next = e;
	}
	return *unread ? NULL : next;
}

static void make_ready(struct entry *e)
{
	shard_forget_failures(e);
	shard_move(e, ENTRY_READY, 0);
}

static void kick_go_on(struct shard_kick *k)
{
	struct shard *unread = NULL;
	struct entry *e = NULL;
	unsigned n = 0;

	while (k->left > 0 && n++ < KICK_STEP && (e = next_buried(k, &unread)) != NULL) {
		k->left--;
		make_ready(e);
	}
	if (k->left > 0 && unread) {
		/* The read that brings them will call again. */
		if (!unread->stages[ENTRY_BURIED].is_refilling)
			shard_wake_by(unread, unread->env->now_ms + KICK_RETRY_MS);
	} else if (k->left > 0 && e) {
		shard_wake_by(k->shards[0], k->shards[0]->env->now_ms);
	} else {
		kick_end(k, TIDE_OK, NULL);
	}
}

void shard_kick_continue(struct shard *sh)
{
	if (sh->kick)
		kick_go_on(sh->kick);
}

void shard_kick_cancel(struct shard *sh)
{
	if (sh->kick)
		kick_end(sh->kick, TIDE_ENOTFOUND, "the queue was deleted");
}

uint64_t shard_kick(struct shard *const *shards, unsigned count, uint64_t n,
		    struct waiter *waiter)
{
	struct shard_kick *k = mem_alloc(sizeof(*k) + count * sizeof(struct shard *));
	uint64_t buried = 0;

	waiter_add(waiter);
	*k = (struct shard_kick){ .waiter = waiter, .count = count };
	for (unsigned i = 0; i < count; i++) {
		buried += shard_count(shards[i], ENTRY_BURIED);
		k->shards[i] = shard_ref(shards[i]);
		shards[i]->kick = k;
	}
	k->left = n = n < buried ? n : buried;
	kick_go_on(k);
	return n;
}
