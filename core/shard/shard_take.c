/* shard_take.c: messages are taken out of Redis's sets, behind the edges of the windows.
 *
 * Those that expire are found by the expiry set, from its front; others are asked for by
 * their ids (struct shard_ask). They enter the unack set, as if somebody held them. What
 * has expired goes the way of all that fail.
 *
 * No batch of the shard is under way while they are taken, and no read, nor the other way
 * round: what is sent again after a reconnect would put a message back into the set that
 * it has been taken out of. */
#include "base/id_table.h"
#include "base/mem.h"
#include "host/log.h"
#include "dedupe.h"
#include "shard.h"

/* ---- the entries of a shard by the ids of their messages */

#define INDEX_IDLE_MS 10000

/* The places where entries are, in the order of the walk. */
enum walk_place {
	WALK_WINDOWS,
	WALK_OUTSIDE = WALK_WINDOWS + SHARD_STAGES,
	WALK_HELD = WALK_OUTSIDE + SHARD_STAGES,
	WALK_YOUNG,
	WALK_MOVING,
	WALK_PARKED,
	WALK_END,
};

struct shard_index {
	struct id_table table;
	unsigned place;       /* enum walk_place */
	struct entry *cursor; /* the next one there; NULL: none is left */
	int64_t used_ms;
	bool is_dropping;
};

static struct entry *first_at(const struct shard *sh, unsigned place)
{
	if (place < WALK_OUTSIDE)
		return window_first(&sh->stages[place].window);
	if (place < WALK_HELD)
		return TAILQ_FIRST(&sh->stages[place - WALK_OUTSIDE].outside);
	if (place == WALK_HELD)
		return window_first(&sh->held);
	if (place == WALK_PARKED)
		return sh->order ? order_any(sh->order) : NULL;
	return TAILQ_FIRST(place == WALK_YOUNG ? &sh->young : &sh->moving);
}

static struct entry *next_at(const struct shard *sh, unsigned place,
			     const struct entry *e)
{
	if (place < WALK_OUTSIDE)
		return window_next(&sh->stages[place].window, e);
	if (place == WALK_PARKED)
		return order_another(e);
	return place == WALK_HELD ? window_next(&sh->held, e) : TAILQ_NEXT(e, link);
}

static bool index_is_built(const struct shard_index *x)
{
	return x->place == WALK_END;
}

static void index_add(struct shard_index *x, struct entry *e)
{
	if (!id_table_find(&x->table, e->id))
		id_table_add(&x->table, e->id, e);
}

static void index_step(struct shard *sh)
{
	struct shard_index *x = sh->by_id;

	if (x->cursor) {
		index_add(x, x->cursor);
		x->cursor = next_at(sh, x->place, x->cursor);
	} else if (++x->place < WALK_END) {
		x->cursor = first_at(sh, x->place);
	}
}

/* Add some of what is missing. True when nothing is: then index_find may be asked.
 * @param max  entries to look at */
static bool index_build(struct shard *sh, unsigned max)
{
	struct shard_index *x = sh->by_id;

	if (!x)
		x = sh->by_id = mem_zalloc(sizeof(*x));
	if (x->is_dropping || x->used_ms == 0) {
		x->is_dropping = false;
		x->place = WALK_WINDOWS;
		x->cursor = first_at(sh, WALK_WINDOWS);
	}
	x->used_ms = sh->env->now_ms;
	for (; max > 0 && !index_is_built(x); max--)
		index_step(sh);
	return index_is_built(x);
}

/* The entry with that id, whatever its state; NULL when memory has none. */
static struct entry *index_find(const struct shard *sh, uint64_t id)
{
	return id_table_find(&sh->by_id->table, id);
}

void shard_index_destroy(struct shard *sh)
{
	if (!sh->by_id)
		return;
	id_table_deinit(&sh->by_id->table);
	mem_free(sh->by_id);
	sh->by_id = NULL;
}

void shard_index_drop(struct shard *sh, unsigned max)
{
	struct shard_index *x = sh->by_id;

	if (!x)
		return;
	/* Entries that leave their place now need not be added. */
	x->is_dropping = true;
	x->place = WALK_END;
	x->cursor = NULL;
	while (max > 0 && id_table_take(&x->table))
		max--;
	if (max > 0)
		shard_index_destroy(sh);
}

/* When it is to be dropped; 0: there is none. */
static int64_t index_due_ms(const struct shard *sh)
{
	const struct shard_index *x = sh->by_id;

	if (!x)
		return 0;
	return x->is_dropping ? sh->env->now_ms : x->used_ms + INDEX_IDLE_MS;
}

void shard_index_created(struct entry *e)
{
	if (!e->shard->by_id->is_dropping)
		index_add(e->shard->by_id, e);
}

void shard_index_freed(struct entry *e)
{
	struct id_table *t = &e->shard->by_id->table;

	if (id_table_find(t, e->id) == e)
		id_table_remove(t, e->id);
}

void shard_index_leaving(struct entry *e)
{
	struct shard_index *x = e->shard->by_id;

	if (index_is_built(x))
		return;
	index_add(x, e);
	if (x->cursor == e)
		x->cursor = next_at(e->shard, x->place, e);
}

/* ---- taking */

#define TAKE_ROWS 128 /* of one request */
#define RETRY_MS 1000
#define TURN_MS 10     /* until the next look at what must be written before */
#define BUILD_MAX 4096 /* entries of one step */

void shard_take_note_expiry(struct shard *sh, int64_t at_ms)
{
	if (sh->take.due_ms && sh->take.due_ms <= at_ms)
		return;
	sh->take.due_ms = at_ms;
	shard_wake_by(sh, at_ms);
}

enum store_set shard_take_recover(struct shard *sh, double score, int64_t *at_ms)
{
	enum store_set from = store_read_taken_from(score, at_ms);
	int64_t number = score < 0 ? (int64_t)(-score / 2) : 0;

	/* The entry was taken, and must not be found by a request of this process. */
	if (from == STORE_UNACK && number > sh->take.last_number)
		sh->take.last_number = number;
	return from;
}

/* The message, between two states, may have waited for its next attempt. */
static void leave_group(struct entry *e)
{
	e->state = ENTRY_DELAYED;
	order_adopt(e->shard->order, e);
	if (e->group)
		order_release(e->shard->order, e);
}

/* The entry of a message that was taken out of a set; NULL: it is none any more. */
static struct entry *take_row(struct shard *sh, const struct store_row *row,
			      enum store_set from)
{
	bool is_purged = sh->take.purges != sh->purges;
	struct entry *e = stage_row_entry(sh, row, STORE_UNACK);

	if (!is_purged && sh->stages[from].beyond > 0)
		sh->stages[from].beyond--;
	if (!e)
		return NULL;
	/* A slot of what was purged is free, and may be another's already. */
	if (sh->order && from == STORE_DELAYED && !is_purged)
		leave_group(e);
	if (!is_purged && from != STORE_BURIED)
		sh->waiting_bytes -= e->msg->payload_len;
	if (sh->size.is_kept && from == STORE_BURIED)
		shard_size_move(e, STORE_BURIED, STORE_UNACK);
	e->state = ENTRY_MOVING;
	TAILQ_INSERT_TAIL(&sh->moving, e, link);
	if (!is_purged)
		return e;
	shard_remove(e, NULL);
	return NULL;
}

/* The take is over: what has waited for it may go on. */
static void take_end(struct shard *sh)
{
	if (!sh->is_closed) {
		shard_wake_by(sh, sh->env->now_ms);
		sh->env->ops->on_ready(sh);
	}
	shard_unref(sh);
}

static struct store_take begin(struct shard *sh)
{
	struct store_take request = {
		.now_ms = sh->env->now_ms,
		.count = TAKE_ROWS,
		.max_bytes = sh->env->window_bytes,
	};

	for (int i = 0; i < SHARD_STAGES; i++)
		request.starts[i] = (int64_t)sh->stages[i].indexed;
	return request;
}

static void begin_take(struct shard *sh)
{
	struct shard_take *t = &sh->take;

	t->is_taking = t->is_after = true;
	t->purges = sh->purges;
}

/* ---- what has expired */

/* The messages are held by nobody; what becomes of each is decided now. */
static void expire_rows(struct shard *sh, const struct store_taken *taken)
{
	for (size_t i = 0; i < taken->count && !sh->is_closed; i++) {
		const struct store_row *row = &taken->rows[i];
		struct entry *e = take_row(sh, row, store_read_expired_from(row->score));

		if (e)
			sh->env->ops->on_expired(sh, e);
	}
}

static void note_next(struct shard *sh, const struct store_taken *taken)
{
	struct shard_take *t = &sh->take;

	t->has_taken |= taken->count > 0;
	t->offset = taken->offset > 0 ? taken->offset : 0;
	if (taken->offset >= 0 || t->has_taken)
		shard_take_note_expiry(sh, sh->env->now_ms);
	if (taken->offset >= 0)
		return;
	t->has_taken = false;
	if (taken->next_ms)
		shard_take_note_expiry(sh, taken->next_ms);
	/* An entry that is not yet in Redis was not found there. */
	if (sh->stages[ENTRY_READY].outside_unwritten ||
	    sh->stages[ENTRY_DELAYED].outside_unwritten)
		shard_take_note_expiry(sh, sh->env->now_ms + RETRY_MS);
}

static void on_expired(void *ctx, int status, const char *text,
		       const struct store_taken *taken)
{
	struct shard *sh = ctx;

	sh->take.is_taking = false;
	if (status == TIDE_OK && !sh->is_closed) {
		sh->take.number = 0;
		sh->take.is_failing = false;
		expire_rows(sh, taken);
	}
	if (status < 0 && status != TIDE_ESHUTDOWN && !sh->is_closed) {
		if (!sh->take.is_failing)
			log_warn("cannot take expired messages out of Redis, trying "
				 "again each second: %s",
				 text ? text : error_text(status));
		sh->take.is_failing = true;
		shard_take_note_expiry(sh, sh->env->now_ms + RETRY_MS);
	} else if (status == TIDE_OK && !sh->is_closed) {
		note_next(sh, taken);
	}
	take_end(sh);
}

static void take_expired(struct shard *sh)
{
	struct store_take request = begin(sh);
	struct shard_take *t = &sh->take;

	/* After a failure: what that one may have taken is found by its number. */
	if (!t->number)
		t->number = sh->env->now_ms > t->last_number ? sh->env->now_ms
							     : t->last_number + 1;
	request.number = t->last_number = t->number;
	request.offset = t->offset;
	t->due_ms = 0;
	t->was_ask = false;
	begin_take(sh);
	store_read_take(sh->env->store, sh->keys, &request, on_expired, shard_ref(sh));
}

/* Redis's set has it, or may have it. */
static bool has_place(const struct stage *st, const struct entry *e)
{
	return e->home == st->set || (e->flags & OWED_UNSURE);
}

/* One that is outside, with a place in Redis's set that may be looked at: it would be
 * taken although memory has it. */
static bool has_stored_outside(const struct stage *st)
{
	const struct entry *e = TAILQ_FIRST(&st->outside);

	while (e && !has_place(st, e))
		e = TAILQ_NEXT(e, link);
	return e;
}

static bool is_expiry_due(struct shard *sh)
{
	struct shard_take *t = &sh->take;

	if (!t->due_ms)
		return false;
	if (sh->stages[ENTRY_READY].beyond + sh->stages[ENTRY_DELAYED].beyond == 0) {
		t->due_ms = 0;
		return false;
	}
	if (t->due_ms > sh->env->now_ms)
		shard_wake_by(sh, t->due_ms);
	else if (!sh->env->may_expire)
		shard_wake_by(sh, sh->env->now_ms + RETRY_MS);
	else
		return true;
	return false;
}

/* ---- what is asked for by its id */

static void drop_id(struct shard_ask *ask, unsigned i)
{
	ask->ids[i] = ask->ids[--ask->count];
}

static void end_ask(struct shard_ask *ask, int status, const char *text)
{
	TAILQ_REMOVE(&ask->shard->take.asks, ask, link);
	ask->on_end(ask, status, text);
}

/* Redis alone has it, or is about to: by its place there it would be read a second time.
 * A look may come before, unless it was sent already and is none of memory's any more. */
static bool is_left_to_redis(const struct shard_ask *ask, const struct entry *e)
{
	if (!(e->flags & LIES_OUTSIDE))
		return false;
	if (ask->on_row)
		return !(e->flags & LIES_LISTED);
	return e->home == e->state || (e->flags & (OWED_UNSURE | OWED_ANSWER));
}

/* Look at what memory has. False: one must be written before it can be taken. */
static bool ask_memory(struct shard_ask *ask)
{
	struct shard *sh = ask->shard;
	bool is_written = true;
	unsigned i = 0;

	while (i < ask->count && !sh->is_closed) {
		struct entry *e = index_find(sh, ask->ids[i]);
		bool is_left = e && is_left_to_redis(ask, e);

		is_written &= !is_left;
		if (!e || is_left) {
			i++;
			continue;
		}
		drop_id(ask, i);
		if (e->msg && e->state != ENTRY_GONE)
			ask->on_entry(ask, e, e->state);
	}
	return is_written;
}

/* One of them is parked, and only its place is in memory: it is read first, and the end
 * of that wakes the shard. */
static bool is_parked(const struct shard_ask *ask)
{
	return order_ask(ask->shard->order, ask->ids, ask->count);
}

static uint64_t count_beyond(const struct shard *sh)
{
	uint64_t n = 0;

	for (int i = 0; i < SHARD_STAGES; i++)
		n += sh->stages[i].beyond;
	return n;
}

static void use_row(struct shard_ask *ask, const struct store_row *row)
{
	struct shard *sh = ask->shard;
	struct store_row shown = *row;
	int64_t at_ms = 0;
	enum store_set from = store_read_taken_from(row->score, &at_ms);
	struct entry *e;

	if (ask->on_row) {
		shown.score = (double)at_ms;
		if (row->msg)
			ask->on_row(ask, &shown, (enum entry_state)from);
		return;
	}
	e = take_row(sh, row, from);
	if (!e)
		return;
	e->at_unix_ms = at_ms;
	if (!ask->on_entry(ask, e, (enum entry_state)from))
		shard_move(e, (enum entry_state)from, at_ms);
}

/* The first ids were looked at: those that were found are in the rows, in their order. */
static void use_rows(struct shard_ask *ask, const struct store_taken *taken)
{
	unsigned looked = (unsigned)taken->offset;

	looked = looked < ask->count ? looked : ask->count;
	memmove(ask->ids, ask->ids + looked, (ask->count - looked) * sizeof(*ask->ids));
	ask->count -= looked;
	for (size_t i = 0; i < taken->count && !ask->shard->is_closed; i++)
		use_row(ask, &taken->rows[i]);
}

static void on_taken(void *ctx, int status, const char *text,
		     const struct store_taken *taken)
{
	struct shard *sh = ctx;
	struct shard_ask *ask = TAILQ_FIRST(&sh->take.asks);

	sh->take.is_taking = sh->take.is_looking = false;
	if (status == TIDE_OK && !sh->is_closed)
		use_rows(ask, taken);
	if (!sh->is_closed && (status < 0 || ask->count == 0))
		end_ask(ask, status, text);
	take_end(sh);
}

static void take_asked(struct shard_ask *ask)
{
	struct shard *sh = ask->shard;
	struct store_take request = begin(sh);

	request.ids = ask->ids;
	request.id_count = ask->count < TAKE_ROWS ? ask->count : TAKE_ROWS;
	request.is_look = ask->on_row != NULL;
	sh->take.was_ask = true;
	if (request.is_look)
		sh->take.is_looking = true;
	else
		begin_take(sh);
	store_read_take(sh->env->store, sh->keys, &request, on_taken, shard_ref(sh));
}

/* The first ask that waits for Redis; those before it have ended. NULL: there is none. */
static struct shard_ask *next_ask(struct shard *sh, bool *is_written)
{
	struct shard_ask *ask;

	while ((ask = TAILQ_FIRST(&sh->take.asks)) != NULL) {
		if (!index_build(sh, BUILD_MAX)) {
			shard_wake_by(sh, sh->env->now_ms);
			return NULL;
		}
		*is_written = ask_memory(ask);
		if (!sh->is_closed && sh->order && is_parked(ask)) {
			shard_order_load(sh);
			shard_wake_by(sh, sh->env->now_ms + TURN_MS);
			return NULL;
		}
		if (sh->is_closed || (sh->keys && ask->count && count_beyond(sh)))
			return sh->is_closed ? NULL : ask;
		end_ask(ask, TIDE_OK, NULL);
		if (sh->is_closed)
			return NULL;
	}
	return NULL;
}

/* ---- both */

static bool is_read(const struct shard *sh)
{
	for (int i = 0; i < SHARD_STAGES; i++)
		if (sh->stages[i].is_refilling || sh->stages[i].is_void)
			return true;
	return false;
}

/* Something must be written before: the next batch comes back here, or else the time. */
static void let_batch_go(struct shard *sh)
{
	sh->take.is_wanted = true;
	shard_wake_by(sh, sh->env->now_ms + TURN_MS);
}

static void take_when_quiet(struct shard *sh, struct shard_ask *ask, bool is_written)
{
	struct shard_take *t = &sh->take;
	bool is_blocked = ask ? !is_written
			      : has_stored_outside(&sh->stages[ENTRY_READY]) ||
					  has_stored_outside(&sh->stages[ENTRY_DELAYED]);

	if (sh->is_held_back || sh->is_undefined)
		shard_wake_by(sh, sh->env->now_ms + RETRY_MS);
	else if (ask && ask->on_row)
		take_asked(ask);
	else if (is_read(sh)) /* its end wakes the shard */
		t->is_next = !is_blocked;
	else if (sh->flight.count > 0 ||
		 sh->is_committing) /* its landing comes back here */
		t->is_wanted = t->is_next = true;
	else if (is_blocked || (t->is_after && shard_is_dirty(sh)))
		let_batch_go(sh);
	else if (ask)
		take_asked(ask);
	else
		take_expired(sh);
}

void shard_take_tick(struct shard *sh)
{
	struct shard_take *t = &sh->take;
	struct shard_ask *ask;
	bool is_written = true, is_due;

	t->is_wanted = t->is_next = false;
	if (t->is_taking || t->is_looking || sh->is_closed)
		return;
	ask = next_ask(sh, &is_written);
	if (sh->is_closed)
		return;
	is_due = is_expiry_due(sh);
	if (ask && is_due && t->was_ask)
		ask = NULL;
	if (ask || is_due)
		take_when_quiet(sh, ask, is_written);
	if (!sh->by_id || !TAILQ_EMPTY(&t->asks))
		return;
	if (index_due_ms(sh) <= sh->env->now_ms)
		shard_index_drop(sh, BUILD_MAX);
	if (sh->by_id)
		shard_wake_by(sh, index_due_ms(sh));
}

void shard_take_ask(struct shard_ask *ask)
{
	struct shard *sh = ask->shard;

	TAILQ_INSERT_TAIL(&sh->take.asks, ask, link);
	/* One that was there before is being looked after already. */
	if (TAILQ_FIRST(&sh->take.asks) != ask)
		return;
	shard_ref(sh);
	shard_take_tick(sh);
	shard_unref(sh);
}

void shard_take_cancel(struct shard *sh)
{
	struct shard_ask *ask;

	while ((ask = TAILQ_FIRST(&sh->take.asks)) != NULL)
		end_ask(ask, TIDE_ENOTFOUND, "the queue was deleted");
}

#define KICK_RETRY_MS 100
#define KICK_STEP 4096 /* messages of one step, so that a turn stays short */

struct shard_kick {
	struct waiter *waiter;
	uint64_t left;
	enum entry_state state; /* buried or delayed */
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

/* The first message of a stage; NULL when none is in memory. */
static struct entry *first_of(struct stage *st)
{
	if (st->window.count == 0)
		stage_refill(st);
	return window_first(&st->window);
}

/* The message that was buried first, or is due first. NULL: there is none, or a shard has
 * to be read before it is known (`*unread`). */
static struct entry *next_kicked(const struct shard_kick *k, struct shard **unread)
{
	struct entry *next = NULL;

	*unread = NULL;
	for (unsigned i = 0; i < k->count; i++) {
		struct stage *st = &k->shards[i]->stages[k->state];
		struct entry *e = first_of(st);

		if (!e && st->beyond > 0)
			*unread = st->shard;
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

	while (k->left > 0 && n++ < KICK_STEP && (e = next_kicked(k, &unread)) != NULL) {
		k->left--;
		make_ready(e);
	}
	if (k->left > 0 && unread) {
		/* The read that brings them will call again. */
		if (!unread->stages[k->state].is_refilling)
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

static uint64_t count_all(struct shard *const *shards, unsigned count,
			  enum entry_state state)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < count; i++)
		sum += shard_count(shards[i], state);
	return sum;
}

uint64_t shard_kick(struct shard *const *shards, unsigned count, uint64_t max,
		    struct waiter *waiter)
{
	struct shard_kick *k = mem_alloc(sizeof(*k) + count * sizeof(struct shard *));
	uint64_t n = count_all(shards, count, ENTRY_BURIED);

	waiter_add(waiter);
	*k = (struct shard_kick){ waiter, .state = ENTRY_BURIED, .count = count };
	if (n == 0 && max > 0) {
		k->state = ENTRY_DELAYED;
		n = count_all(shards, count, ENTRY_DELAYED);
	}
	for (unsigned i = 0; i < count; i++) {
		k->shards[i] = shard_ref(shards[i]);
		shards[i]->kick = k;
	}
	k->left = n = max > 0 && max < n ? max : n;
	kick_go_on(k);
	return n;
}

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

/* Messages that Redis refused to remove count again; of some of many, by their mean. */
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

#define TRIM_MAX 4096 /* of one request */

struct trim {
	struct stage *stage;
	uint64_t asked;
	shard_trimmed_fn on_trimmed;
};

static void on_trimmed_rows(void *ctx, int status, const char *text, uint64_t removed,
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

/* Something that will end is in the way. */
static bool is_unsettled(const struct shard *sh, const struct stage *st)
{
	const struct entry *e = TAILQ_FIRST(&sh->dirty);

	while (e && !has_place(st, e))
		e = TAILQ_NEXT(e, dirty_link);
	return e || sh->is_held_back || sh->kick || sh->flight.count > 0 ||
	       sh->take.is_taking || sh->take.is_looking || st->is_refilling ||
	       has_stored_outside(st);
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
		    on_trimmed_rows, t);
	return true;
}
