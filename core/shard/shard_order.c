/* shard_order.c: which message of a shard comes next, where groups of messages have an
 * order of their own. */
#include "base/duration.h"
#include "base/mem.h"
#include "host/log.h"
#include "shard.h"

#define SEARCH_MAX 8192 /* messages that a turn looks at and passes by */
#define RETRY_MS 500    /* after a read that failed */
#define LOG_MS 60000

static void park(struct shard *sh, struct entry *e)
{
	struct stage *st = &sh->stages[ENTRY_READY];

	stage_set_aside(st, e);
	order_park(sh->order, e);
	stage_shrink_parked(st, e);
}

/* Back into the window: all that is parked sorts before the edge. */
static void unpark(struct shard *sh, struct entry *e)
{
	struct stage *st = &sh->stages[ENTRY_READY];

	stage_remove(st, e);
	stage_insert(st, e, e->rank);
}

/* ---- places of which the message is read */

static void take_row(struct shard *sh, const struct store_row *row)
{
	struct entry *e = stage_row_entry(sh, row, STORE_READY);

	if (!e)
		return;
	e->state = ENTRY_READY;
	e->rank = row->score;
	if (e->expires_unix_ms)
		shard_expiry_enter(&sh->stages[ENTRY_READY], e);
	order_park(sh->order, e);
}

/* The rows come in the order in which they were asked for. Those behind the last one may
 * have been too large for one read. */
static void take_rows(struct shard *sh, const struct store_row *rows, size_t count)
{
	struct order *o = sh->order;
	size_t at = 0;

	for (unsigned i = 0; i < o->load_count; i++) {
		const struct order_loading *l = &o->loads[i];

		order_load_settle(o, l);
		if (at == count && count > 0) {
			order_put_back(o, l);
			continue;
		}
		/* Counted among those before the edge until now. */
		sh->stages[ENTRY_READY].indexed--;
		if (at < count && rows[at].id == l->place.id)
			take_row(sh, &rows[at++]);
	}
}

static void put_back_all(struct shard *sh, int status, const char *text)
{
	struct order *o = sh->order;

	for (unsigned i = 0; i < o->load_count; i++) {
		order_load_settle(o, &o->loads[i]);
		order_put_back(o, &o->loads[i]);
	}
	if (status == TIDE_ESHUTDOWN)
		return;
	log_warn("%s: cannot read parked messages: %s", o->spec.label,
		 text ? text : error_text(status));
	o->retry_ms = sh->env->now_ms + RETRY_MS;
	shard_wake_by(sh, o->retry_ms);
}

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	struct shard *sh = ctx;
	struct order *o = sh->order;

	if (!o->is_load_void && status < 0)
		put_back_all(sh, status, text);
	else if (!o->is_load_void)
		take_rows(sh, rows, count);
	order_load_end(o);
	if (!sh->is_closed) {
		sh->env->ops->on_ready(sh);
		if (!TAILQ_EMPTY(&sh->take.asks))
			shard_wake_by(sh, sh->env->now_ms);
	}
	shard_unref(sh);
}

static void load(struct shard *sh)
{
	struct order *o = sh->order;
	uint64_t ids[ORDER_LOAD_MAX];

	if (o->is_load_sent || sh->is_held_back || sh->is_closed ||
	    duration_is_resting(sh->env->now_ms, o->retry_ms, RETRY_MS))
		return;
	order_load_begin(o);
	if (o->load_count == 0)
		return;
	o->is_load_sent = true;
	for (unsigned i = 0; i < o->load_count; i++)
		ids[i] = o->loads[i].place.id;
	store_read_ids(sh->env->store, sh->keys,
		       &(struct store_ids){ .set = STORE_READY,
					    .ids = ids,
					    .count = o->load_count,
					    .max_bytes = sh->env->window_bytes / 2 + 1 },
		       on_rows, shard_ref(sh));
}

void shard_order_by(struct shard *sh, const struct order_spec *spec)
{
	struct order *o = sh->order = order_create(spec, &sh->env->lanes, !sh->keys);

	o->on_asked = load;
	/* In memory alone there is nowhere else to keep them. */
	if (!sh->keys)
		return;
	o->max = sh->env->parked_messages;
	o->keep_max = sh->env->window_messages;
	o->keep_bytes_max = sh->env->window_bytes;
}

/* ---- the next message */

static void stop(struct shard *sh)
{
	struct order *o = sh->order;

	o->is_stopped = true;
	if (!log_is_due(&o->logged_ms, sh->env->now_ms, LOG_MS))
		return;
	log_warn("%s: %llu messages of groups that are full are parked, in %llu groups: "
		 "nothing behind them is delivered until a group has room; "
		 "see --parked-messages",
		 o->spec.label, (unsigned long long)o->parked,
		 (unsigned long long)o->blocked);
}

static bool is_spent(struct shard *sh)
{
	struct order *o = sh->order;

	if (o->search_left > 0) {
		o->search_left--;
		return false;
	}
	o->is_skipping = true;
	sh->env->ops->on_ready(sh);
	return true;
}

static void begin_search(struct order *o, int64_t now_ms)
{
	o->is_skipping = o->is_stopped = false;
	if (o->search_ms == now_ms)
		return;
	o->search_ms = now_ms;
	o->search_left = SEARCH_MAX;
}

struct entry *shard_order_next(struct shard *sh)
{
	struct order *o = sh->order;
	struct entry *e;

	begin_search(o, sh->env->now_ms);
	while ((e = order_next_due(o)) != NULL)
		unpark(sh, e);
	load(sh);
	while ((e = shard_front(sh, ENTRY_READY)) != NULL && order_blocks(o, e)) {
		if (o->spec.by == ORDER_SHARD || is_spent(sh))
			return NULL;
		if (!order_has_room(o)) {
			stop(sh);
			return NULL;
		}
		park(sh, e);
	}
	return e;
}

struct entry *shard_order_head(struct shard *sh)
{
	struct order *o = sh->order;
	struct entry *e = order_any(o);

	if (!e && o->parked > 0) {
		order_want_any(o);
		load(sh);
	}
	return e;
}

/* ---- recovery */

struct order_recovery {
	struct shard *shard;
	store_done_fn on_done;
	void *ctx;
	uint64_t *ids;
	size_t count, at;
};

static void recovery_end(struct order_recovery *r, int status, const char *text)
{
	r->on_done(r->ctx, status, text);
	shard_unref(r->shard);
	mem_free(r->ids);
	mem_free(r);
}

static void read_next(struct order_recovery *r);

static void on_waiting(void *ctx, int status, const char *text, struct store_row *rows,
		       size_t count)
{
	struct order_recovery *r = ctx;
	struct shard *sh = r->shard;
	size_t end = r->at + ORDER_LOAD_MAX;

	if (status < 0 || sh->is_closed) {
		recovery_end(r, status, text);
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (rows[i].msg && rows[i].deliveries > 0)
			order_recover(sh->order, rows[i].msg);
	if (count == 0)
		r->at = end;
	else
		while (r->at < r->count && r->ids[r->at++] != rows[count - 1].id)
			;
	read_next(r);
}

static void read_next(struct order_recovery *r)
{
	struct shard *sh = r->shard;
	size_t left = r->at < r->count ? r->count - r->at : 0;

	if (left == 0) {
		recovery_end(r, TIDE_OK, NULL);
		return;
	}
	store_read_ids(sh->env->store, sh->keys,
		       &(struct store_ids){ .set = STORE_DELAYED,
					    .ids = &r->ids[r->at],
					    .count = left < ORDER_LOAD_MAX
							     ? (unsigned)left
							     : ORDER_LOAD_MAX,
					    .max_bytes = sh->env->window_bytes },
		       on_waiting, r);
}

static void on_tried(void *ctx, int status, const char *text, const uint64_t *ids,
		     size_t count)
{
	struct order_recovery *r = ctx;

	if (status < 0 || r->shard->is_closed) {
		recovery_end(r, status, text);
		return;
	}
	if (count > 0) {
		r->ids = mem_alloc(count * sizeof(*ids));
		memcpy(r->ids, ids, count * sizeof(*ids));
	}
	r->count = count;
	read_next(r);
}

void shard_order_recover(struct shard *sh, store_done_fn on_done, void *ctx)
{
	struct order_recovery *r = mem_zalloc(sizeof(*r));

	r->shard = shard_ref(sh);
	r->on_done = on_done;
	r->ctx = ctx;
	store_tried_read(sh->env->store, sh->keys, STORE_DELAYED, on_tried, r);
}

/* ---- purge */

struct order_purge {
	struct shard *shard;
	struct waiter *waiter;
	uint64_t count;
};

/* Redis alone has it: an entry without a body stands for it until it is removed. */
static void remove_place(void *ctx, struct place place)
{
	struct order_purge *p = ctx;
	struct entry *e = shard_entry_create(p->shard, NULL, place.id, place.score);

	e->state = ENTRY_GONE;
	e->home = STORE_READY;
	e->stored_score = place.score;
	e->flags |= LIES_TRIED;
	waiter_add(p->waiter);
	e->waiter = p->waiter;
	shard_entry_dirty(e);
	p->count++;
}

uint64_t shard_order_purge(struct shard *sh, struct waiter *waiter)
{
	struct order_purge p = { sh, waiter, 0 };
	struct entry *e;

	order_purge_ids(sh->order, remove_place, &p);
	for (; (e = order_any(sh->order)) != NULL; p.count++)
		shard_remove(e, waiter);
	order_forget_waiting(sh->order);
	return p.count;
}
