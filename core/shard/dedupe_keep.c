/* What publish ids are kept in: made and dropped with their queues, read at the start,
 * forgotten in time. */

#include "base/mem.h"
#include "host/log.h"
#include "host/machine.h"
#include "dedupe_private.h"
#include "journal.h"

#define READ_ROWS 4096
#define TRIM_ROWS 4096
#define FORGET_MAX 4096 /* of a turn */
#define REST_MS 1000    /* between two rounds of a queue, so that a round is worth it */
#define PENDINGS_KEPT 4096

/* ---- life ------------------------------------------------------------------------- */

struct dedupe *dedupe_create(struct shard_env *env, size_t max_bytes)
{
	struct dedupe *d = mem_zalloc(sizeof(*d));

	d->env = env;
	d->max_bytes = max_bytes;
	heap_init(&d->due);
	TAILQ_INIT(&d->dropped);
	pool_init(&d->pendings, sizeof(struct dedupe_pending), PENDINGS_KEPT);
	/* With a predictable seed a client can slow down only its own lookups. */
	d->seed = (uint32_t)machine_random();
	return d;
}

static void free_dropped(struct dedupe *d, unsigned *budget)
{
	struct dedupe_queue *dq;
	struct dedupe_record *r;

	while ((dq = TAILQ_FIRST(&d->dropped)) != NULL && *budget > 0) {
		while ((r = dedupe_table_oldest(&dq->table)) != NULL && *budget > 0) {
			(*budget)--;
			dedupe_forget(dq, r);
		}
		if (r)
			return;
		TAILQ_REMOVE(&d->dropped, dq, dropped_link);
		mem_free(dq);
	}
}

void dedupe_destroy(struct dedupe *d)
{
	unsigned all = UINT32_MAX;

	if (!d)
		return;
	free_dropped(d, &all);
	heap_deinit(&d->due);
	pool_deinit(&d->pendings);
	mem_free(d);
}

size_t dedupe_bytes(const struct dedupe *d)
{
	return d->bytes;
}

/* ---- records ---------------------------------------------------------------------- */

bool dedupe_is_over(const struct dedupe_record *r, int64_t now_ms)
{
	return r->until_unix_ms <= now_ms && !r->pending;
}

struct dedupe_record *dedupe_remember(struct dedupe_queue *dq,
				      const struct dedupe_key *key, uint64_t msg_id,
				      int64_t until_unix_ms)
{
	struct dedupe_record *r = dedupe_table_add(&dq->table, key);

	r->msg_id = msg_id;
	r->until_unix_ms = until_unix_ms;
	dq->dedupe->bytes += dedupe_record_bytes(r->len);
	if (!heap_has(&dq->due))
		heap_set(&dq->dedupe->due, &dq->due, until_unix_ms + REST_MS);
	return r;
}

void dedupe_forget(struct dedupe_queue *dq, struct dedupe_record *r)
{
	struct shard *sh = dq->queue ? dq->queue->shards[r->shard] : NULL;

	if (sh && sh->dedupe && sh->keys)
		sh->dedupe->is_stale = true;
	dq->dedupe->bytes -= dedupe_record_bytes(r->len);
	dedupe_table_remove(&dq->table, r);
}

/* ---- queues ----------------------------------------------------------------------- */

struct dedupe_queue *dedupe_queue_of(struct queue *q)
{
	struct dedupe_queue *dq = q->dedupe;

	if (dq)
		return dq;
	dq = q->dedupe = mem_zalloc(sizeof(*dq));
	dq->dedupe = q->vhost->broker->dedupe;
	dq->queue = q;
	dedupe_table_init(&dq->table, dq->dedupe->seed);
	heap_node_init(&dq->due);
	return dq;
}

struct dedupe_shard *dedupe_shard_of(struct shard *sh)
{
	struct dedupe_shard *ds = sh->dedupe;

	if (ds)
		return ds;
	ds = sh->dedupe = mem_zalloc(sizeof(*ds));
	ds->shard = sh;
	ds->queue = dedupe_queue_of(sh->owner);
	for (int i = 0; i < DEDUPE_STATE_COUNT; i++)
		TAILQ_INIT(&ds->lists[i]);
	return ds;
}

void dedupe_shard_destroy(struct dedupe_shard *ds)
{
	mem_free(ds);
}

size_t dedupe_count(const struct queue *q)
{
	return q->dedupe ? q->dedupe->table.count : 0;
}

/* What its messages or a batch will still tell about finds no record any more. */
static void close_shard(struct shard *sh)
{
	struct dedupe_shard *ds = sh->dedupe;
	struct dedupe_pending *p;

	ds->queue = NULL;
	for (int i = 0; i < DEDUPE_STATE_COUNT; i++)
		TAILQ_FOREACH (p, &ds->lists[i], link)
			p->record = NULL;
	while ((p = TAILQ_FIRST(&ds->lists[DEDUPE_ALONE])) != NULL)
		dedupe_settle(p, TIDE_OK, NULL);
	if (TAILQ_EMPTY(&sh->dirty))
		journal_drop(sh->env->journal, sh);
}

void dedupe_close_queue(struct queue *q)
{
	struct dedupe_queue *dq = q->dedupe;
	unsigned budget = FORGET_MAX;

	if (!dq)
		return;
	for (unsigned i = 0; i < q->config.shards; i++)
		if (q->shards[i]->dedupe)
			close_shard(q->shards[i]);
	heap_remove(&dq->dedupe->due, &dq->due);
	q->dedupe = NULL;
	dq->queue = NULL;
	TAILQ_INSERT_TAIL(&dq->dedupe->dropped, dq, dropped_link);
	free_dropped(dq->dedupe, &budget);
}

/* ---- recovery ---------------------------------------------------------------------- */

struct recovery {
	struct shard *shard;
	struct waiter *waiter;
	int64_t start;
};

static void recover_row(struct shard *sh, const struct store_seen *row)
{
	struct dedupe_shard *ds = dedupe_shard_of(sh);
	struct dedupe_key key = { row->publish_id, row->copy };
	struct dedupe_record *r;

	if (row->until_unix_ms <= sh->env->now_ms) {
		ds->is_stale = true;
		heap_set(&ds->queue->dedupe->due, &ds->queue->due, sh->env->now_ms);
		return;
	}
	r = dedupe_table_find(&ds->queue->table, &key);
	if (r && r->until_unix_ms >= row->until_unix_ms)
		return;
	if (r)
		dedupe_forget(ds->queue, r);
	r = dedupe_remember(ds->queue, &key, row->msg_id, row->until_unix_ms);
	r->shard = (uint8_t)sh->index;
}

static void recovery_end(struct recovery *r, int status, const char *text)
{
	waiter_done(r->waiter, status, text);
	shard_unref(r->shard);
	mem_free(r);
}

static void on_rows(void *ctx, int status, const char *text,
		    const struct store_seen *rows, size_t count, size_t total)
{
	struct recovery *r = ctx;
	struct shard *sh = r->shard;

	if (status < 0 || sh->is_closed) {
		recovery_end(r, status, text);
		return;
	}
	for (size_t i = 0; i < count; i++)
		recover_row(sh, &rows[i]);
	if (total < READ_ROWS) {
		recovery_end(r, TIDE_OK, NULL);
		return;
	}
	r->start += (int64_t)total;
	store_dedupe_read(sh->env->store, sh->keys, r->start, READ_ROWS, on_rows, r);
}

void dedupe_recover(struct shard *sh, struct waiter *waiter)
{
	struct recovery *r = mem_zalloc(sizeof(*r));

	waiter_add(waiter);
	r->shard = shard_ref(sh);
	r->waiter = waiter;
	store_dedupe_read(sh->env->store, sh->keys, 0, READ_ROWS, on_rows, r);
}

/* ---- time ------------------------------------------------------------------------- */

static void on_trimmed(void *ctx, int status, const char *text, uint64_t removed)
{
	struct shard *sh = ctx;
	struct dedupe_shard *ds = sh->dedupe;
	int64_t rest_ms = status < 0 ? REST_MS : 0;

	ds->is_trimming = false;
	if (status < 0 && status != TIDE_ESHUTDOWN)
		log_warn("publish ids that are over stay in Redis: %s", text);
	if ((status < 0 || removed >= TRIM_ROWS) && ds->queue) {
		ds->is_stale = true;
		heap_set(&ds->queue->dedupe->due, &ds->queue->due,
			 sh->env->now_ms + rest_ms);
	}
	shard_unref(sh);
}

/* What memory has forgotten leaves Redis too, in pieces. */
static void trim(struct dedupe_shard *ds)
{
	struct shard *sh = ds->shard;

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
	const struct queue *q = dq->queue;
	struct dedupe_record *r;

	while ((r = dedupe_table_oldest(&dq->table)) != NULL &&
	       dedupe_is_over(r, now_ms) && *budget > 0) {
		(*budget)--;
		dedupe_forget(dq, r);
	}
	for (unsigned i = 0; i < q->config.shards; i++)
		if (q->shards[i]->dedupe)
			trim(q->shards[i]->dedupe);
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
		forget_due((struct dedupe_queue *)((char *)n -
						   offsetof(struct dedupe_queue, due)),
			   &budget);
	free_dropped(d, &budget);
}

int64_t dedupe_due_ms(const struct dedupe *d)
{
	const struct heap_node *n = heap_min(&d->due);

	if (!TAILQ_EMPTY(&d->dropped))
		return d->env->now_ms;
	return n ? n->key : 0;
}
