#include "dedupe.h"

#include "base/container.h"
#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "host/log.h"
#include "host/machine.h"
#include "journal.h"
#include "shard_ask.h"

#define READ_ROWS 4096
#define TRIM_ROWS 4096
#define FORGET_MAX 4096 /* of a turn */
#define REST_MS 1000    /* between two rounds of a queue, so that a round is worth it */
#define PENDINGS_KEPT 4096

TAILQ_HEAD(dedupe_queue_list, dedupe_queue);

/* A message that was done with, though Redis still had it when the broker was killed. */
struct dedupe_removal {
	STAILQ_ENTRY(dedupe_removal) link;
	struct shard_ask ask;
	uint64_t id;
};

STAILQ_HEAD(dedupe_removal_list, dedupe_removal);

struct dedupe {
	struct shard_env *env;
	struct heap due; /* of queues, by when something is to be forgotten */
	struct dedupe_queue_list dropped; /* of queues that are gone: freed bit by bit */
	struct pool pendings;
	struct dedupe_removal_list removals; /* to be begun */
	size_t bytes;                        /* of all records */
	size_t max_bytes;
};

struct dedupe_queue {
	struct dedupe *dedupe;
	struct shard **shards; /* borrowed; NULL: the queue is gone */
	unsigned shard_count;
	struct dedupe_table table;
	bool is_queued; /* an id is remembered for as long as its message is there */
	struct heap_node due;
	TAILQ_ENTRY(dedupe_queue) dropped_link;
};

struct dedupe_wait {
	struct waiter *waiter;
	struct dedupe_wait *next;
};

struct dedupe_pending {
	struct waiter entry; /* told by the message's entry */
	struct shard *shard;
	struct dedupe_record *record; /* NULL: the queue is gone */
	struct dedupe_wait *waits;    /* who wants to know */
	TAILQ_ENTRY(dedupe_pending) link;
	uint8_t state; /* enum dedupe_state */
};

/* Over, and nobody waits for what becomes of it. */
static bool is_over(const struct dedupe_record *r, int64_t now_ms)
{
	return r->until_unix_ms <= now_ms && !r->pending;
}

static struct dedupe_record *remember(struct dedupe_queue *dq,
				      const struct dedupe_key *key, uint64_t msg_id,
				      int64_t until_unix_ms)
{
	struct dedupe_record *r = dedupe_table_add(&dq->table, key, msg_id);

	r->until_unix_ms = until_unix_ms;
	dq->dedupe->bytes += dedupe_table_record_bytes(&dq->table, r->len);
	if (!heap_has(&dq->due) && !dq->is_queued)
		heap_set(&dq->dedupe->due, &dq->due, until_unix_ms + REST_MS);
	return r;
}

static void forget(struct dedupe_queue *dq, struct dedupe_record *r)
{
	if (dq->shards && dq->shards[r->shard]->keys && !dq->is_queued)
		dq->shards[r->shard]->dedupe.is_stale = true;
	dq->dedupe->bytes -= dedupe_table_record_bytes(&dq->table, r->len);
	dedupe_table_remove(&dq->table, r);
}

struct dedupe_queue *dedupe_open(struct dedupe *d, struct shard **shards, unsigned count,
				 bool is_queued)
{
	struct dedupe_queue *dq = mem_zalloc(sizeof(*dq));

	dq->dedupe = d;
	dq->shards = shards;
	dq->shard_count = count;
	dq->is_queued = is_queued;
	dedupe_table_init(&dq->table, is_queued);
	return dq;
}

void dedupe_join(struct dedupe_queue *dq, struct shard *sh)
{
	sh->dedupe.queue = dq;
	sh->dedupe.is_queued = dq->is_queued;
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

/* It ends as `status` says, and those who wait are told. */
static void settle(struct dedupe_pending *p, int status, const char *text)
{
	struct dedupe_shard *ds = &p->shard->dedupe;
	struct dedupe_wait *wait = p->waits, *next;
	struct dedupe_record *r = p->record;

	TAILQ_REMOVE(&ds->lists[p->state], p, link);
	if (r)
		r->pending = NULL;
	if (r && status < 0)
		forget(ds->queue, r);
	pool_give(&p->shard->env->dedupe->pendings, p);
	for (; wait; wait = next) {
		next = wait->next;
		waiter_done(wait->waiter, status, text);
		mem_free(wait);
	}
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
		forget(p->shard->dedupe.queue, p->record);
		p->record = NULL;
		settle(p, TIDE_OK, NULL);
		return;
	}
	move(p, DEDUPE_ALONE);
	journal_add(p->shard->env->journal, p->shard);
}

static void wait_for(struct dedupe_pending *p, struct waiter *waiter)
{
	struct dedupe_wait *wait;

	if (!waiter)
		return;
	waiter_add(waiter);
	wait = mem_alloc(sizeof(*wait));
	*wait = (struct dedupe_wait){ waiter, p->waits };
	p->waits = wait;
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

/* NULL when the queue has not seen it, or long ago. */
static struct dedupe_record *find_seen(const struct dedupe_queue *dq,
				       const struct dedupe_key *key)
{
	struct dedupe_record *r = dedupe_table_find(&dq->table, key);

	return r && !is_over(r, dq->dedupe->env->now_ms) ? r : NULL;
}

size_t dedupe_wanted(const struct dedupe_queue *dq, const struct dedupe_key *key)
{
	return find_seen(dq, key)
		       ? 0
		       : dedupe_table_record_bytes(&dq->table, key->publish_id.len);
}

static bool has_room(const struct dedupe *d, size_t bytes)
{
	return bytes == 0 ||
	       (d->bytes <= d->max_bytes && bytes <= d->max_bytes - d->bytes);
}

int dedupe_admit(const struct dedupe *d, size_t bytes, struct error *err)
{
	if (has_room(d, bytes))
		return TIDE_OK;
	return error_set(err, TIDE_EFULL,
			 "remembered publish ids fill their limit of %zu KiB "
			 "(--max-dedupe-bytes); room returns as their windows end, or as "
			 "their messages leave queues with dedupe=queued",
			 d->bytes >> 10);
}

static struct dedupe_record *remember_first(struct dedupe_queue *dq,
					    const struct dedupe_publish *publish)
{
	struct dedupe_record *r = dedupe_table_find(&dq->table, &publish->key);
	int64_t end_ms = dq->dedupe->env->now_ms + publish->window_ms;

	if (r)
		forget(dq, r); /* it is over */
	r = remember(dq, &publish->key, publish->msg->id,
		     dq->is_queued ? DEDUPE_QUEUED_MS : end_ms);
	r->shard = (uint8_t)publish->shard->index;
	return r;
}

bool dedupe_publish(struct dedupe_queue *dq, const struct dedupe_publish *p,
		    struct waiter *waiter, uint64_t *first)
{
	const struct dedupe_record *seen = find_seen(dq, &p->key);
	struct dedupe_pending *pending;

	if (seen) {
		*first = seen->msg_id;
		if (seen->pending)
			wait_for(seen->pending, waiter);
	} else if (!p->shard->keys) {
		remember_first(dq, p);
		shard_publish(p->shard, p->msg, p->rank, waiter, false);
	} else {
		pending = pend(remember_first(dq, p), p->shard);
		wait_for(pending, waiter);
		shard_publish(p->shard, p->msg, p->rank, &pending->entry, true);
		waiter_done(&pending->entry, TIDE_OK, NULL);
	}
	return !seen;
}

struct waiter *dedupe_commit(struct dedupe_queue *dq, const struct dedupe_publish *p,
			     uint64_t *first)
{
	const struct dedupe_record *seen = find_seen(dq, &p->key);

	if (!seen)
		return &pend(remember_first(dq, p), p->shard)->entry;
	*first = seen->msg_id;
	return NULL;
}

bool dedupe_is_pending(const struct dedupe_queue *dq, const struct dedupe_key *key)
{
	const struct dedupe_record *seen = find_seen(dq, key);

	return seen && seen->pending;
}

void dedupe_explain(const struct dedupe_queue *dq, const struct dedupe_key *key,
		    int64_t window_ms, struct json *j)
{
	const struct dedupe_record *seen = find_seen(dq, key);

	if (window_ms == 0)
		json_member_text(j, "dedupe", "off");
	else if (seen)
		json_member_text(j, "dedupe", "duplicate");
	else if (has_room(dq->dedupe,
			  dedupe_table_record_bytes(&dq->table, key->publish_id.len)))
		json_member_text(j, "dedupe", "new");
	else
		json_member_text(j, "dedupe", "full");
	if (dq->is_queued)
		json_member_text(j, "dedupe_window", "queued");
	else
		json_member_int(j, "dedupe_window", window_ms);
	if (window_ms == 0 || !seen)
		return;
	json_member_hex(j, "first", seen->msg_id);
	if (!dq->is_queued)
		json_member_int(j, "remembered_until", seen->until_unix_ms);
}

static struct store_seen seen_of(const struct dedupe_record *r)
{
	return (struct store_seen){
		.publish_id = dedupe_record_id(r),
		.msg_id = r->msg_id,
		.copy = r->copy,
		.until_unix_ms = r->until_unix_ms,
	};
}

static void encode(struct dedupe_pending *p, struct batch *b)
{
	struct store_seen seen = seen_of(p->record);

	batch_dedupe(b, &seen);
	move(p, DEDUPE_FLYING);
}

void dedupe_encode(const struct entry *e, struct batch *b)
{
	encode(pending_of(e->waiter), b);
}

void dedupe_wait(const struct entry *e, struct waiter *waiter)
{
	wait_for(pending_of(e->waiter), waiter);
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
	d->max_bytes = max_bytes;
	TAILQ_INIT(&d->dropped);
	STAILQ_INIT(&d->removals);
	pool_init(&d->pendings, sizeof(struct dedupe_pending), PENDINGS_KEPT);
	return d;
}

static void free_dropped(struct dedupe *d, unsigned *budget)
{
	struct dedupe_queue *dq;
	struct dedupe_record *r;

	while ((dq = TAILQ_FIRST(&d->dropped)) != NULL && *budget > 0) {
		while (((r = dedupe_table_oldest(&dq->table)) != NULL ||
			(r = TAILQ_FIRST(&dq->table.leaving)) != NULL) &&
		       *budget > 0) {
			(*budget)--;
			forget(dq, r);
		}
		if (r)
			return;
		TAILQ_REMOVE(&d->dropped, dq, dropped_link);
		mem_free(dq);
	}
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
	free_dropped(d, &all);
	heap_deinit(&d->due);
	pool_deinit(&d->pendings);
	mem_free(d);
}

size_t dedupe_bytes(const struct dedupe *d)
{
	return d->bytes;
}

size_t dedupe_count(const struct dedupe_queue *dq)
{
	return dq->table.count;
}

/* What its messages or a batch will still tell about finds no record any more. */
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
	heap_remove(&dq->dedupe->due, &dq->due);
	dq->shards = NULL;
	TAILQ_INSERT_TAIL(&dq->dedupe->dropped, dq, dropped_link);
	free_dropped(dq->dedupe, &budget);
}

/* The record of a shard's message; NULL: there is none. */
static struct dedupe_record *record_of(const struct shard *sh, uint64_t msg_id)
{
	const struct dedupe_queue *dq = sh->dedupe.queue;

	return dq ? dedupe_table_of_message(&dq->table, msg_id) : NULL;
}

void dedupe_done(const struct entry *e)
{
	struct dedupe_record *r = record_of(e->shard, e->id);

	if (!r || r->is_leaving)
		return;
	/* Its batch is under way: who waits for that is told as before. */
	if (r->pending)
		r->pending->record = NULL;
	r->pending = NULL;
	if (e->home == HOME_NONE && !(e->flags & ENTRY_IN_FLIGHT))
		forget(e->shard->dedupe.queue, r);
	else
		dedupe_table_leave(&e->shard->dedupe.queue->table, r);
}

void dedupe_encode_removal(const struct entry *e, struct batch *b)
{
	const struct dedupe_record *r = record_of(e->shard, e->id);
	struct store_seen seen;

	if (!r)
		return;
	seen = seen_of(r);
	batch_dedupe_remove(b, &seen);
}

void dedupe_freed(const struct entry *e)
{
	struct dedupe_record *r = record_of(e->shard, e->id);

	if (r && r->is_leaving)
		forget(e->shard->dedupe.queue, r);
}

/* Redis forgets them, and so does memory. */
static void forget_stored(struct shard *sh, struct dedupe_record **records, size_t count)
{
	struct store_seen *seen;

	if (count == 0)
		return;
	seen = mem_alloc(count * sizeof(*seen));
	for (size_t i = 0; i < count; i++)
		seen[i] = seen_of(records[i]);
	store_dedupe_remove(sh->env->store, sh->keys, seen, count, NULL, NULL);
	for (size_t i = 0; i < count; i++)
		forget(sh->dedupe.queue, records[i]);
	mem_free(seen);
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
	forget_stored(sh, records, found);
	mem_free(records);
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

/* Two messages have one publish id: the older was done with before the newer came, and
 * only its removal is missing in Redis. */
static void remove_older(struct dedupe_queue *dq, struct dedupe_record *r)
{
	struct dedupe_removal *removal = mem_zalloc(sizeof(*removal));

	dedupe_table_leave(&dq->table, r);
	removal->id = r->msg_id;
	removal->ask = (struct shard_ask){ .shard = shard_ref(dq->shards[r->shard]),
					   .ids = &removal->id,
					   .count = 1,
					   .on_entry = on_removed,
					   .on_end = on_removal_end };
	STAILQ_INSERT_TAIL(&dq->dedupe->removals, removal, link);
}

struct dedupe_recovery {
	struct shard *shard;
	struct waiter *waiter;
	int64_t start;
	/* Of a queue with dedupe=queued: the messages of the rows that were read. */
	uint64_t *ids;
	bool is_last;
};

static void remember_row(struct shard *sh, const struct store_seen *row)
{
	const struct dedupe_key key = { row->publish_id, row->copy };
	struct dedupe_record *r =
		remember(sh->dedupe.queue, &key, row->msg_id, row->until_unix_ms);

	r->shard = (uint8_t)sh->index;
}

static void recover_row(struct shard *sh, const struct store_seen *row)
{
	struct dedupe_queue *dq = sh->dedupe.queue;
	struct dedupe_key key = { row->publish_id, row->copy };
	struct dedupe_record *r;

	if (row->until_unix_ms <= sh->env->now_ms) {
		sh->dedupe.is_stale = true;
		heap_set(&dq->dedupe->due, &dq->due, sh->env->now_ms);
		return;
	}
	r = dedupe_table_find(&dq->table, &key);
	if (r && r->until_unix_ms >= row->until_unix_ms)
		return;
	if (r)
		forget(dq, r);
	remember_row(sh, row);
}

static void recover_queued_row(struct shard *sh, const struct store_seen *row)
{
	struct dedupe_queue *dq = sh->dedupe.queue;
	struct dedupe_key key = { row->publish_id, row->copy };
	struct dedupe_record *r = dedupe_table_find(&dq->table, &key);
	struct store_seen newer;
	unsigned shard;

	if (!r) {
		remember_row(sh, row);
		return;
	}
	if (r->msg_id < row->msg_id) {
		remove_older(dq, r);
		remember_row(sh, row);
		return;
	}
	/* The row is the older one: it enters after the other has made room. */
	newer = seen_of(r);
	shard = r->shard;
	dedupe_table_leave(&dq->table, r);
	remember_row(sh, row);
	remove_older(dq, dedupe_table_find(&dq->table, &key));
	newer.publish_id = row->publish_id;
	forget(dq, r);
	remember_row(dq->shards[shard], &newer);
}

static void recovery_end(struct dedupe_recovery *r, int status, const char *text)
{
	waiter_done(r->waiter, status, text);
	shard_unref(r->shard);
	mem_free(r->ids);
	mem_free(r);
}

static void recovery_next(struct dedupe_recovery *r);

/* An id whose message is gone is left of a removal that a crash has cut short. */
static void on_has(void *ctx, int status, const bool *found, unsigned count)
{
	struct dedupe_recovery *r = ctx;
	struct shard *sh = r->shard;
	struct dedupe_record **records;
	size_t gone = 0;

	if (status < 0 || sh->is_closed) {
		recovery_end(r, status, NULL);
		return;
	}
	records = mem_alloc(count * sizeof(struct dedupe_record *));
	for (unsigned i = 0; i < count; i++) {
		struct dedupe_record *record = found[i] ? NULL : record_of(sh, r->ids[i]);

		if (record)
			records[gone++] = record;
	}
	forget_stored(sh, records, gone);
	mem_free(records);
	recovery_next(r);
}

static void on_rows(void *ctx, int status, const char *text,
		    const struct store_seen *rows, size_t count, size_t total)
{
	struct dedupe_recovery *r = ctx;
	struct shard *sh = r->shard;

	if (status < 0 || sh->is_closed) {
		recovery_end(r, status, text);
		return;
	}
	r->is_last = total < READ_ROWS;
	r->start += (int64_t)total;
	for (size_t i = 0; i < count; i++) {
		if (!sh->dedupe.is_queued) {
			recover_row(sh, &rows[i]);
			continue;
		}
		recover_queued_row(sh, &rows[i]);
		r->ids[i] = rows[i].msg_id;
	}
	if (sh->dedupe.is_queued && count > 0)
		store_read_has(sh->env->store, sh->keys, r->ids, (unsigned)count, on_has,
			       r);
	else
		recovery_next(r);
}

static void recovery_next(struct dedupe_recovery *r)
{
	struct shard *sh = r->shard;

	if (r->is_last)
		recovery_end(r, TIDE_OK, NULL);
	else
		store_dedupe_read(sh->env->store, sh->keys, r->start, READ_ROWS, on_rows,
				  r);
}

void dedupe_recover(struct shard *sh, struct waiter *waiter)
{
	struct dedupe_recovery *r = mem_zalloc(sizeof(*r));

	waiter_add(waiter);
	r->shard = shard_ref(sh);
	r->waiter = waiter;
	if (sh->dedupe.is_queued)
		r->ids = mem_alloc(READ_ROWS * sizeof(*r->ids));
	recovery_next(r);
}

static void on_trimmed(void *ctx, int status, const char *text, uint64_t removed)
{
	struct shard *sh = ctx;
	struct dedupe_shard *ds = &sh->dedupe;
	int64_t rest_ms = status < 0 ? REST_MS : 0;

	ds->is_trimming = false;
	if (status < 0 && status != TIDE_ESHUTDOWN)
		log_warn("cannot remove expired publish ids from Redis: %s", text);
	if ((status < 0 || removed >= TRIM_ROWS) && ds->queue) {
		ds->is_stale = true;
		heap_set(&ds->queue->dedupe->due, &ds->queue->due,
			 sh->env->now_ms + rest_ms);
	}
	shard_unref(sh);
}

/* What memory has forgotten leaves Redis too, in pieces. */
static void trim(struct shard *sh)
{
	struct dedupe_shard *ds = &sh->dedupe;

	if (!ds->is_stale || ds->is_trimming)
		return;
	ds->is_stale = false;
	ds->is_trimming = true;
	store_dedupe_trim(sh->env->store, sh->keys, sh->env->now_ms, TRIM_ROWS,
			  on_trimmed, shard_ref(sh));
}

static void set_due(struct dedupe_queue *dq, bool is_cut_short)
{
	const struct dedupe_record *r = dedupe_table_oldest(&dq->table);
	int64_t now_ms = dq->dedupe->env->now_ms;
	int64_t due_ms = now_ms;

	if (!r) {
		heap_remove(&dq->dedupe->due, &dq->due);
		return;
	}
	/* One that is pending yet, though its time is over, keeps those behind it. */
	if (!is_cut_short)
		due_ms =
			REST_MS + (r->until_unix_ms > now_ms ? r->until_unix_ms : now_ms);
	heap_set(&dq->dedupe->due, &dq->due, due_ms);
}

static void forget_due(struct dedupe_queue *dq, unsigned *budget)
{
	int64_t now_ms = dq->dedupe->env->now_ms;
	struct dedupe_record *r;

	while ((r = dedupe_table_oldest(&dq->table)) != NULL && is_over(r, now_ms) &&
	       *budget > 0) {
		(*budget)--;
		forget(dq, r);
	}
	for (unsigned i = 0; i < dq->shard_count; i++)
		if (dq->shards[i])
			trim(dq->shards[i]);
	/* Queues cost something too, however little they have to forget. */
	set_due(dq, *budget == 0);
	if (*budget > 0)
		(*budget)--;
}

void dedupe_turn(struct dedupe *d)
{
	unsigned budget = FORGET_MAX;
	struct heap_node *n;

	while ((n = heap_min(&d->due)) != NULL && n->key <= d->env->now_ms && budget > 0)
		forget_due(container_of(n, struct dedupe_queue, due), &budget);
	free_dropped(d, &budget);
	begin_removals(d);
}

int64_t dedupe_due_ms(const struct dedupe *d)
{
	const struct heap_node *n = heap_min(&d->due);

	if (!TAILQ_EMPTY(&d->dropped) || !STAILQ_EMPTY(&d->removals))
		return d->env->now_ms;
	return n ? n->key : 0;
}
