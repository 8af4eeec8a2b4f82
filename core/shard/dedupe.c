#include "dedupe.h"

#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "journal.h"
#include "shard.h"

#define FORGET_MAX 4096 /* of a turn */
#define PENDINGS_KEPT 4096

/* A message that was done with, though Redis still had it when the broker was killed. */
struct dedupe_removal {
	STAILQ_ENTRY(dedupe_removal) link;
	struct shard_ask ask;
	uint64_t id;
};

STAILQ_HEAD(dedupe_removal_list, dedupe_removal);

struct dedupe {
	struct shard_env *env;
	struct publish_ids_env ids; /* of all queues and topics */
	struct pool pendings;
	struct dedupe_removal_list removals; /* to be begun */
};

struct dedupe_queue {
	struct publish_ids ids;
	struct dedupe *dedupe;
	struct shard **shards; /* borrowed */
	unsigned shard_count;
};

struct dedupe_pending {
	struct waiter entry; /* told by the message's entry */
	struct shard *shard;
	struct dedupe_record *record;   /* NULL: the queue is gone */
	struct publish_ids_wait *waits; /* who wants to know */
	TAILQ_ENTRY(dedupe_pending) link;
	uint8_t state; /* enum dedupe_state */
};

static struct store_shard *keys_of(const struct publish_ids *ids, unsigned part)
{
	const struct dedupe_queue *dq = container_of(ids, struct dedupe_queue, ids);

	return dq->shards[part] ? dq->shards[part]->keys : NULL;
}

static void free_queue(struct publish_ids *ids)
{
	mem_free(container_of(ids, struct dedupe_queue, ids));
}

static bool on_removed(struct shard_ask *ask, struct entry *e, enum entry_state state)
{
	if (state >= SHARD_STAGES)
		return false;
	log_info("message %016llx was done with before a newer one with its publish id "
		 "came, and is removed",
		 (unsigned long long)e->id);
	shard_remove(e, NULL);
	return true;
}

static void on_removal_end(struct shard_ask *ask, int status, const char *text)
{
	mem_free(container_of(ask, struct dedupe_removal, ask));
}

/* Messages are asked for when all shards are there. */
static void on_older(struct publish_ids *ids, struct dedupe_record *r)
{
	struct dedupe_queue *dq = container_of(ids, struct dedupe_queue, ids);
	struct dedupe_removal *removal = mem_zalloc(sizeof(*removal));

	removal->id = r->msg_id;
	removal->ask = (struct shard_ask){ .shard = shard_ref(dq->shards[r->shard]),
					   .ids = &removal->id,
					   .count = 1,
					   .on_entry = on_removed,
					   .on_end = on_removal_end };
	STAILQ_INSERT_TAIL(&dq->dedupe->removals, removal, link);
}

static const struct publish_ids_ops ops = { keys_of, free_queue, on_older };

struct dedupe_queue *dedupe_open(struct dedupe *d, bool is_queued)
{
	struct dedupe_queue *dq = mem_zalloc(sizeof(*dq));

	dq->dedupe = d;
	publish_ids_init(&dq->ids, &d->ids, &ops,
			 is_queued ? DEDUPE_TABLE_MESSAGES : DEDUPE_TABLE_PLAIN);
	return dq;
}

struct publish_ids *dedupe_ids(struct dedupe_queue *dq)
{
	return &dq->ids;
}

struct slice dedupe_id_of(const struct dedupe_queue *dq, uint64_t msg_id)
{
	const struct dedupe_record *r =
		dq->ids.is_queued ? dedupe_table_of_message(&dq->ids.table, msg_id)
				  : NULL;

	return r && r->copy == 0 ? dedupe_record_id(r) : (struct slice){ 0 };
}

struct publish_ids_env *dedupe_env(struct dedupe *d)
{
	return &d->ids;
}

void dedupe_set_shards(struct dedupe_queue *dq, struct shard **shards, unsigned count)
{
	dq->shards = shards;
	dq->shard_count = count;
}

void dedupe_join(struct dedupe_queue *dq, struct shard *sh)
{
	sh->dedupe.queue = dq;
	sh->dedupe.is_queued = dq->ids.is_queued;
}

static struct dedupe_pending *pending_of(struct waiter *w)
{
	return container_of(w, struct dedupe_pending, entry);
}

static void move(struct dedupe_pending *p, enum dedupe_state state)
{
	struct dedupe_shard *ds = &p->shard->dedupe;

	TAILQ_REMOVE(&ds->lists[p->state], p, link);
	p->state = (uint8_t)state;
	TAILQ_INSERT_TAIL(&ds->lists[state], p, link);
}

/* End a pending id with `status`, and tell its waiters. */
static void settle(struct dedupe_pending *p, int status, const char *text)
{
	struct dedupe_shard *ds = &p->shard->dedupe;
	struct publish_ids_wait *waits = p->waits;
	struct dedupe_record *r = p->record;

	TAILQ_REMOVE(&ds->lists[p->state], p, link);
	if (r)
		r->pending = NULL;
	if (r && status < 0)
		publish_ids_forget(&ds->queue->ids, r);
	pool_give(&p->shard->env->dedupe->pendings, p);
	publish_ids_tell(waits, status, text);
}

/* The message is written, refused or done. The batch of an id under way settles it. */
static void on_entry_done(struct waiter *w)
{
	struct dedupe_pending *p = pending_of(w);

	if (p->state != DEDUPE_FRESH)
		return;
	if (w->status < 0 || !p->record || !p->shard->keys) {
		settle(p, w->status, w->text);
		return;
	}
	/* Done with, and never written. */
	if (p->shard->dedupe.is_queued) {
		publish_ids_forget(&p->shard->dedupe.queue->ids, p->record);
		p->record = NULL;
		settle(p, TIDE_OK, NULL);
		return;
	}
	move(p, DEDUPE_ALONE);
	journal_add(p->shard->env->journal, p->shard);
}

static struct dedupe_pending *pend(struct dedupe_record *r, struct shard *sh)
{
	struct dedupe_pending *p = pool_take(&sh->env->dedupe->pendings);

	*p = (struct dedupe_pending){ .shard = sh, .record = r, .state = DEDUPE_FRESH };
	waiter_init(&p->entry, on_entry_done);
	TAILQ_INSERT_TAIL(&sh->dedupe.lists[DEDUPE_FRESH], p, link);
	r->pending = p;
	return p;
}

static struct dedupe_record *remember_first(struct dedupe_queue *dq,
					    const struct dedupe_publish *publish)
{
	return publish_ids_add(&dq->ids, &publish->key, publish->msg->id,
			       publish->shard->index, publish->window_ms);
}

bool dedupe_publish(struct dedupe_queue *dq, const struct dedupe_publish *p,
		    struct waiter *waiter, uint64_t *first)
{
	const struct dedupe_record *seen = publish_ids_find(&dq->ids, &p->key);
	struct dedupe_pending *pending;

	if (seen) {
		*first = seen->msg_id;
		pending = seen->pending;
		if (pending)
			publish_ids_wait_for(&pending->waits, waiter);
	} else if (!p->shard->keys) {
		remember_first(dq, p);
		shard_publish(p->shard, p->msg, p->rank, waiter, false);
	} else {
		pending = pend(remember_first(dq, p), p->shard);
		publish_ids_wait_for(&pending->waits, waiter);
		shard_publish(p->shard, p->msg, p->rank, &pending->entry, true);
		waiter_done(&pending->entry, TIDE_OK, NULL);
	}
	return !seen;
}

struct waiter *dedupe_commit(struct dedupe_queue *dq, const struct dedupe_publish *p,
			     uint64_t *first)
{
	const struct dedupe_record *seen = publish_ids_find(&dq->ids, &p->key);

	if (!seen)
		return &pend(remember_first(dq, p), p->shard)->entry;
	*first = seen->msg_id;
	return NULL;
}

static void encode(struct dedupe_pending *p, struct batch *b)
{
	struct store_seen seen =
		publish_ids_seen(&p->shard->dedupe.queue->ids, p->record);

	batch_dedupe(b, &seen);
	move(p, DEDUPE_FLYING);
}

void dedupe_encode(const struct entry *e, struct batch *b)
{
	encode(pending_of(e->waiter), b);
}

void dedupe_wait(const struct entry *e, struct waiter *waiter)
{
	publish_ids_wait_for(&pending_of(e->waiter)->waits, waiter);
}

void dedupe_flush(struct shard *sh, struct batch *b, unsigned *budget)
{
	struct dedupe_pending *p;

	while ((p = TAILQ_FIRST(&sh->dedupe.lists[DEDUPE_ALONE])) != NULL &&
	       *budget > 0) {
		(*budget)--;
		encode(p, b);
	}
}

void dedupe_landed(struct shard *sh, const struct batch_result *result)
{
	struct dedupe_pending *p;

	while ((p = TAILQ_FIRST(&sh->dedupe.lists[DEDUPE_FLYING])) != NULL)
		settle(p, result->written, result->text);
}

struct dedupe *dedupe_create(struct shard_env *env, size_t max_bytes)
{
	struct dedupe *d = mem_zalloc(sizeof(*d));

	d->env = env;
	d->ids.env = env;
	d->ids.max_bytes = max_bytes;
	TAILQ_INIT(&d->ids.dropped);
	STAILQ_INIT(&d->removals);
	pool_init(&d->pendings, sizeof(struct dedupe_pending), PENDINGS_KEPT);
	return d;
}

static void drop_removals(struct dedupe *d)
{
	struct dedupe_removal *removal;

	while ((removal = STAILQ_FIRST(&d->removals)) != NULL) {
		STAILQ_REMOVE_HEAD(&d->removals, link);
		shard_unref(removal->ask.shard);
		mem_free(removal);
	}
}

void dedupe_destroy(struct dedupe *d)
{
	unsigned all = UINT32_MAX;

	if (!d)
		return;
	drop_removals(d);
	publish_ids_free_dropped(&d->ids, &all);
	heap_deinit(&d->ids.due);
	pool_deinit(&d->pendings);
	mem_free(d);
}

size_t dedupe_bytes(const struct dedupe *d)
{
	return d->ids.bytes;
}

/* Messages or a batch of the shard that tell later find no record any more. */
static void close_shard(struct shard *sh)
{
	struct dedupe_shard *ds = &sh->dedupe;
	struct dedupe_pending *p;

	ds->queue = NULL;
	for (int i = 0; i < DEDUPE_STATE_COUNT; i++)
		TAILQ_FOREACH (p, &ds->lists[i], link)
			p->record = NULL;
	while ((p = TAILQ_FIRST(&ds->lists[DEDUPE_ALONE])) != NULL)
		settle(p, TIDE_OK, NULL);
	if (!shard_is_dirty(sh))
		journal_drop(sh->env->journal, sh);
}

void dedupe_close(struct dedupe_queue *dq)
{
	unsigned budget = FORGET_MAX;

	for (unsigned i = 0; i < dq->shard_count; i++)
		if (dq->shards[i])
			close_shard(dq->shards[i]);
	publish_ids_drop(&dq->ids);
	publish_ids_free_dropped(&dq->dedupe->ids, &budget);
}

/* The record of a shard's message; NULL: there is none. */
static struct dedupe_record *record_of(const struct shard *sh, uint64_t msg_id)
{
	const struct dedupe_queue *dq = sh->dedupe.queue;

	return dq ? dedupe_table_of_message(&dq->ids.table, msg_id) : NULL;
}

void dedupe_done(const struct entry *e)
{
	struct dedupe_record *r = record_of(e->shard, e->id);
	struct dedupe_pending *pending;

	if (!r || r->is_leaving)
		return;
	/* The batch is under way: its waiters are told as before. */
	pending = r->pending;
	if (pending)
		pending->record = NULL;
	r->pending = NULL;
	if (e->home == HOME_NONE && !(e->flags & OWED_ANSWER))
		publish_ids_forget(&e->shard->dedupe.queue->ids, r);
	else
		dedupe_table_leave(&e->shard->dedupe.queue->ids.table, r);
}

void dedupe_encode_removal(const struct entry *e, struct batch *b)
{
	const struct dedupe_record *r = record_of(e->shard, e->id);
	struct store_seen seen;

	if (!r)
		return;
	seen = publish_ids_seen(&e->shard->dedupe.queue->ids, r);
	batch_dedupe_remove(b, &seen);
}

void dedupe_freed(const struct entry *e)
{
	struct dedupe_record *r = record_of(e->shard, e->id);

	if (r && r->is_leaving)
		publish_ids_forget(&e->shard->dedupe.queue->ids, r);
}

void dedupe_purged(struct shard *sh, const uint64_t *ids, size_t count)
{
	struct dedupe_record **records =
		mem_alloc(count * sizeof(struct dedupe_record *));
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		struct dedupe_record *r = record_of(sh, ids[i]);

		/* Of those that leave, the entry does it. */
		if (r && !r->is_leaving && !r->pending)
			records[found++] = r;
	}
	if (found > 0)
		publish_ids_remove(&sh->dedupe.queue->ids, sh->index, records, found);
	mem_free(records);
}

/* Begin what the recovery has found. */
static void begin_removals(struct dedupe *d)
{
	struct dedupe_removal *removal;

	while ((removal = STAILQ_FIRST(&d->removals)) != NULL) {
		struct shard *sh = removal->ask.shard;

		STAILQ_REMOVE_HEAD(&d->removals, link);
		if (sh->is_closed)
			mem_free(removal);
		else
			shard_take_ask(&removal->ask);
		shard_unref(sh);
	}
}

void dedupe_turn(struct dedupe *d)
{
	unsigned budget = FORGET_MAX;

	publish_ids_turn(&d->ids, &budget);
	begin_removals(d);
}

int64_t dedupe_due_ms(const struct dedupe *d)
{
	if (!STAILQ_EMPTY(&d->removals))
		return d->env->now_ms;
	return publish_ids_due_ms(&d->ids);
}
