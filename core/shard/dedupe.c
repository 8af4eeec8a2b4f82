#include "dedupe.h"

#include <assert.h>

#include "base/mem.h"
#include "dedupe_private.h"
#include "journal.h"

/* ---- ids that are not settled -------------------------------------------------------
 */

static struct dedupe_pending *pending_of(struct waiter *w)
{
	return (struct dedupe_pending *)((char *)w -
					 offsetof(struct dedupe_pending, entry));
}

static void move(struct dedupe_pending *p, enum dedupe_state state)
{
	TAILQ_REMOVE(&p->home->lists[p->state], p, link);
	p->state = (uint8_t)state;
	TAILQ_INSERT_TAIL(&p->home->lists[state], p, link);
}

void dedupe_settle(struct dedupe_pending *p, int status, const char *text)
{
	struct dedupe_shard *ds = p->home;
	struct dedupe_wait *wait = p->waits, *next;
	struct dedupe_record *r = p->record;
	struct shard_env *env = ds->shard->env;

	TAILQ_REMOVE(&ds->lists[p->state], p, link);
	if (r)
		r->pending = NULL;
	if (r && status < 0)
		dedupe_forget(ds->queue, r);
	pool_give(&env->dedupe->pendings, p);
	for (; wait; wait = next) {
		next = wait->next;
		waiter_done(wait->waiter, status, text);
		mem_free(wait);
	}
}

/* The message is written, refused or done with. When the id is under way too, its own
 * batch tells what becomes of it. */
static void on_entry_done(struct waiter *w)
{
	struct dedupe_pending *p = pending_of(w);
	struct shard *sh = p->home->shard;

	if (p->state != DEDUPE_FRESH)
		return;
	if (w->status < 0 || !p->record) {
		dedupe_settle(p, w->status, w->text);
		return;
	}
	move(p, DEDUPE_ALONE);
	journal_add(sh->env->journal, sh);
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
	struct dedupe_shard *ds = dedupe_shard_of(sh);
	struct dedupe_pending *p = pool_take(&sh->env->dedupe->pendings);

	waiter_init(&p->entry, on_entry_done);
	p->home = ds;
	p->record = r;
	p->state = DEDUPE_FRESH;
	TAILQ_INSERT_TAIL(&ds->lists[DEDUPE_FRESH], p, link);
	r->pending = p;
	return p;
}

/* ---- publishing -------------------------------------------------------------------- */

int64_t dedupe_window_ms(const struct queue *q)
{
	return q->config.dedupe_ms >= 0 ? q->config.dedupe_ms
					: q->vhost->broker->config.dedupe_window_ms;
}

static struct dedupe_key key_of(const struct outcome *o)
{
	return (struct dedupe_key){ msg_dedupe_id(o->msg), o->number };
}

/* NULL when the queue has not seen it, or long ago. */
static struct dedupe_record *find_seen(const struct queue *q, const struct outcome *o)
{
	struct dedupe_key key = key_of(o);
	struct dedupe_record *r =
		q->dedupe ? dedupe_table_find(&q->dedupe->table, &key) : NULL;

	return r && !dedupe_is_over(r, q->vhost->broker->now_ms) ? r : NULL;
}

static size_t wanted_bytes(const struct outcome *o)
{
	size_t count = 0;

	if (o->msg->dedupe_len == 0)
		return 0;
	for (unsigned i = 0; i < o->count; i++)
		if (dedupe_window_ms(o->picks[i].queue) > 0 &&
		    !find_seen(o->picks[i].queue, o))
			count++;
	return count * dedupe_record_bytes(o->msg->dedupe_len);
}

static bool has_room(const struct dedupe *d, size_t bytes)
{
	return bytes == 0 ||
	       (d->bytes <= d->max_bytes && bytes <= d->max_bytes - d->bytes);
}

int dedupe_admit(struct broker *b, const struct decision *decision, struct error *err)
{
	size_t bytes = wanted_bytes(&decision->first);

	for (unsigned i = 0; i < decision->copy_count; i++)
		bytes += wanted_bytes(&decision->copies[i]);
	if (has_room(b->dedupe, bytes))
		return TIDE_OK;
	return error_set(err, TIDE_EFULL,
			 "the publish ids that are remembered fill %zu KiB, which is the "
			 "limit (--max-dedupe-bytes); there is room again when a dedupe "
			 "window is over",
			 b->dedupe->bytes >> 10);
}

static void publish_first(const struct outcome *o, const struct pick *pick,
			  int64_t window_ms, struct waiter *waiter)
{
	struct dedupe_queue *dq = dedupe_queue_of(pick->queue);
	struct shard *sh = pick->shard;
	struct dedupe_key key = key_of(o);
	struct dedupe_record *r = dedupe_table_find(&dq->table, &key);
	struct dedupe_pending *p;

	if (r)
		dedupe_forget(dq, r); /* it is over */
	r = dedupe_remember(dq, &key, o->msg->id, sh->env->now_ms + window_ms);
	r->shard = (uint8_t)sh->index;
	if (!sh->keys) {
		shard_publish(sh, o->msg, pick->rank, waiter);
		return;
	}
	p = pend(r, sh);
	wait_for(p, waiter);
	shard_publish_once(sh, o->msg, pick->rank, &p->entry);
	waiter_done(&p->entry, TIDE_OK, NULL);
}

bool dedupe_publish(const struct outcome *o, const struct pick *pick,
		    struct waiter *waiter, uint64_t *first)
{
	int64_t window_ms = dedupe_window_ms(pick->queue);
	const struct dedupe_record *seen =
		window_ms > 0 ? find_seen(pick->queue, o) : NULL;

	if (seen) {
		*first = seen->msg_id;
		if (seen->pending)
			wait_for(seen->pending, waiter);
		return false;
	}
	if (window_ms > 0)
		publish_first(o, pick, window_ms, waiter);
	else
		shard_publish(pick->shard, o->msg, pick->rank, waiter);
	return true;
}

void dedupe_explain(const struct outcome *o, const struct pick *pick, struct json *j)
{
	int64_t window_ms = dedupe_window_ms(pick->queue);
	const struct dedupe_record *seen = find_seen(pick->queue, o);
	const struct dedupe *d = pick->queue->vhost->broker->dedupe;
	char id[ID_HEX_LEN];

	if (window_ms == 0)
		json_member_text(j, "dedupe", "off");
	else if (seen)
		json_member_text(j, "dedupe", "duplicate");
	else if (has_room(d, dedupe_record_bytes(o->msg->dedupe_len)))
		json_member_text(j, "dedupe", "new");
	else
		json_member_text(j, "dedupe", "full");
	json_member_int(j, "dedupe_window", window_ms);
	if (window_ms == 0 || !seen)
		return;
	id_format(seen->msg_id, id);
	json_member_string(j, "first", (struct slice){ id, sizeof(id) });
	json_member_int(j, "remembered_until", seen->until_unix_ms);
}

/* ---- for the journal ----------------------------------------------------------------
 */

bool dedupe_is_dirty(const struct dedupe_shard *ds)
{
	return !TAILQ_EMPTY(&ds->lists[DEDUPE_ALONE]);
}

static void encode(struct dedupe_pending *p, struct batch *b)
{
	const struct dedupe_record *r = p->record;
	struct store_seen seen = {
		.publish_id = dedupe_record_id(r),
		.msg_id = r->msg_id,
		.copy = r->copy,
		.until_unix_ms = r->until_unix_ms,
	};

	batch_dedupe(b, &seen);
	move(p, DEDUPE_FLYING);
}

void dedupe_encode(struct entry *e, struct batch *b)
{
	/* Whatever tells the waiter before this leaves an entry that is not written. */
	assert(e->waiter);
	e->flags &= (uint16_t)~ENTRY_DEDUPE;
	encode(pending_of(e->waiter), b);
}

void dedupe_flush(struct dedupe_shard *ds, struct batch *b, unsigned *budget)
{
	struct dedupe_pending *p;

	while ((p = TAILQ_FIRST(&ds->lists[DEDUPE_ALONE])) != NULL && *budget > 0) {
		(*budget)--;
		encode(p, b);
	}
}

void dedupe_landed(struct dedupe_shard *ds, const struct batch_result *result)
{
	struct dedupe_pending *p;

	while ((p = TAILQ_FIRST(&ds->lists[DEDUPE_FLYING])) != NULL)
		dedupe_settle(p, result->written, result->text);
}
