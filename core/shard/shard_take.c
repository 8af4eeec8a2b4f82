/* shard_take.c: messages are taken out of Redis's sets, behind the edges of the windows.
 *
 * Those that expire are found by the expiry set, from its front; others are asked for by
 * their ids (shard_ask.h). They enter the unack set, as if somebody held them. What has
 * expired goes the way of all that fail.
 *
 * No batch of the shard is under way while they are taken, and no read, nor the other way
 * round: what is sent again after a reconnect would put a message back into the set that
 * it has been taken out of. */
#include "host/log.h"
#include "shard_ask.h"
#include "shard_index.h"

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

	/* It was taken, and must not be found by a request of this process. */
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

/* It is over: what has waited for it may go on. */
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

/* ---- what has expired ---------------------------------------------------------- */

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
	/* What is not yet in Redis was not found there. */
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

/* One that is outside, with a place in Redis's set that may be looked at: it would be
 * taken although memory has it. */
static bool has_stored_outside(const struct stage *st)
{
	const struct entry *e;

	TAILQ_FOREACH (e, &st->outside, link)
		if (e->home == st->set || (e->flags & ENTRY_UNSURE))
			return true;
	return false;
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

/* ---- what is asked for by its id ----------------------------------------------- */

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
	if (!(e->flags & ENTRY_OUTSIDE))
		return false;
	if (ask->on_row)
		return !(e->flags & ENTRY_LISTED);
	return e->home == e->state || (e->flags & (ENTRY_UNSURE | ENTRY_IN_FLIGHT));
}

/* Look at what memory has. False: one must be written before it can be taken. */
static bool ask_memory(struct shard_ask *ask)
{
	struct shard *sh = ask->shard;
	bool is_written = true;
	unsigned i = 0;

	while (i < ask->count && !sh->is_closed) {
		struct entry *e = shard_index_find(sh, ask->ids[i]);
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
		if (!shard_index_build(sh, BUILD_MAX)) {
			shard_wake_by(sh, sh->env->now_ms);
			return NULL;
		}
		*is_written = ask_memory(ask);
		if (!sh->is_closed && sh->order && is_parked(ask)) {
			sh->order->on_asked(sh);
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

/* ---- both ------------------------------------------------------------------------ */

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

	if (sh->is_held_back)
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
	if (shard_index_due_ms(sh) <= sh->env->now_ms)
		shard_index_drop(sh, BUILD_MAX);
	if (sh->by_id)
		shard_wake_by(sh, shard_index_due_ms(sh));
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
