/* shard_expiry.c: messages that nobody asks for expire in time.
 *
 * Those in a window are in a heap of the broker. Those in Redis alone are found by the
 * expiry set, from its front: they are taken out of their set into the unack set, as if
 * somebody held them, and go the way of all that fail. What is held or buried does not
 * expire; a message that comes back from there may do so at once.
 *
 * No batch of the shard is under way while they are taken, nor the other way round: what
 * is sent again after a reconnect would put a message back into the set that it has been
 * taken out of. */
#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "shard.h"

#define TAKE_ROWS 128 /* of one request */
#define RETRY_MS 1000

struct shard_expiring {
	struct heap_node node; /* in the heap of the environment */
	struct entry *entry;
};

void shard_expiry_enter(const struct stage *st, struct entry *e)
{
	struct shard_env *env = e->shard->env;
	struct shard_expiring *x;

	if (st->set == STORE_BURIED)
		return;
	x = pool_take(&env->expirings);
	*x = (struct shard_expiring){ .entry = e };
	e->expiring = x;
	heap_set(&env->expiries, &x->node, e->expires_unix_ms);
}

void shard_expiry_leave(const struct stage *st, struct entry *e)
{
	struct shard_env *env = e->shard->env;

	if (st->set == STORE_BURIED)
		return;
	heap_remove(&env->expiries, &e->expiring->node);
	pool_give(&env->expirings, e->expiring);
	e->expiring = NULL;
}

void shard_expiry_init(struct shard_env *env)
{
	pool_init(&env->expirings, sizeof(struct shard_expiring), 4096);
}

void shard_expiry_deinit(struct shard_env *env)
{
	heap_deinit(&env->expiries);
	pool_deinit(&env->expirings);
}

void shard_expiry_turn(struct shard_env *env)
{
	struct heap_node *n;

	while ((n = heap_min(&env->expiries)) != NULL && n->key <= env->now_ms) {
		struct entry *e = container_of(n, struct shard_expiring, node)->entry;

		if (!env->ops->on_expired(e->shard, e))
			return;
	}
}

int64_t shard_expiry_due_ms(const struct shard_env *env)
{
	const struct heap_node *n = heap_min(&env->expiries);

	return n ? n->key : 0;
}

void shard_expiry_note(struct shard *sh, int64_t at_ms)
{
	if (sh->expiry.due_ms && sh->expiry.due_ms <= at_ms)
		return;
	sh->expiry.due_ms = at_ms;
	shard_wake_by(sh, at_ms);
}

void shard_expiry_recover(struct shard *sh, double score)
{
	int64_t number = score < 0 ? (int64_t)(-score / 2) : 0;

	/* It was taken, and must not be found by a request of this process. */
	if (number > sh->expiry.last_number)
		sh->expiry.last_number = number;
}

/* It has waited for its next attempt, which there will not be. */
static void leave_order(struct entry *e)
{
	e->state = ENTRY_DELAYED;
	order_adopt(e->shard->order, e);
	if (e->group)
		order_release(e->shard->order, e);
}

/* The messages are held by nobody; what becomes of each is decided now. */
static void expire_rows(struct shard *sh, const struct store_expired *expired)
{
	bool is_purged = sh->expiry.purges != sh->purges;

	for (size_t i = 0; i < expired->count && !sh->is_closed; i++) {
		struct stage *from = &sh->stages[i < expired->from_delayed ? ENTRY_DELAYED
									   : ENTRY_READY];
		struct entry *e = stage_row_entry(sh, &expired->rows[i], STORE_UNACK);

		if (!is_purged && from->beyond > 0)
			from->beyond--;
		if (!e)
			continue;
		if (sh->order && i < expired->from_delayed)
			leave_order(e);
		e->state = ENTRY_MOVING;
		TAILQ_INSERT_TAIL(&sh->moving, e, link);
		if (is_purged)
			shard_remove(e, NULL);
		else
			sh->env->ops->on_expired(sh, e);
	}
}

static void note_next(struct shard *sh, const struct store_expired *expired)
{
	struct shard_expiry *x = &sh->expiry;

	x->has_taken |= expired->count > 0;
	x->offset = expired->offset > 0 ? expired->offset : 0;
	if (expired->offset >= 0 || x->has_taken)
		shard_expiry_note(sh, sh->env->now_ms);
	if (expired->offset >= 0)
		return;
	x->has_taken = false;
	if (expired->next_ms)
		shard_expiry_note(sh, expired->next_ms);
	/* What is not yet in Redis was not found there. */
	if (sh->stages[ENTRY_READY].outside_unwritten ||
	    sh->stages[ENTRY_DELAYED].outside_unwritten)
		shard_expiry_note(sh, sh->env->now_ms + RETRY_MS);
}

static void on_expired(void *ctx, int status, const char *text,
		       const struct store_expired *expired)
{
	struct shard *sh = ctx;

	sh->expiry.is_taking = false;
	if (status == TIDE_OK && !sh->is_closed) {
		sh->expiry.number = 0;
		sh->expiry.is_failing = false;
		expire_rows(sh, expired);
	}
	if (status < 0 && status != TIDE_ESHUTDOWN && !sh->is_closed) {
		if (!sh->expiry.is_failing)
			log_warn("cannot take expired messages out of Redis, trying "
				 "again each second: %s",
				 text ? text : error_text(status));
		sh->expiry.is_failing = true;
		shard_expiry_note(sh, sh->env->now_ms + RETRY_MS);
	} else if (status == TIDE_OK && !sh->is_closed) {
		note_next(sh, expired);
	}
	if (!sh->is_closed) {
		/* Reads of Redis have waited. */
		shard_wake_by(sh, sh->env->now_ms);
		sh->env->ops->on_ready(sh);
	}
	shard_unref(sh);
}

static bool is_read(const struct stage *st)
{
	return st->is_refilling || st->is_void;
}

static void take(struct shard *sh)
{
	const struct stage *ready = &sh->stages[ENTRY_READY];
	const struct stage *delayed = &sh->stages[ENTRY_DELAYED];
	struct store_expiry request = {
		.now_ms = sh->env->now_ms,
		.ready_start = (int64_t)ready->indexed,
		.delayed_start = (int64_t)delayed->indexed,
		.count = TAKE_ROWS,
		.max_bytes = sh->env->window_bytes,
		.offset = sh->expiry.offset,
	};

	/* After a failure: what that one may have taken is found by its number. */
	if (!sh->expiry.number)
		sh->expiry.number = sh->env->now_ms > sh->expiry.last_number
					    ? sh->env->now_ms
					    : sh->expiry.last_number + 1;
	request.number = sh->expiry.last_number = sh->expiry.number;
	sh->expiry.is_taking = sh->expiry.is_after = true;
	sh->expiry.due_ms = 0;
	sh->expiry.purges = sh->purges;
	store_read_expired(sh->env->store, sh->keys, &request, on_expired, shard_ref(sh));
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

void shard_expiry_tick(struct shard *sh)
{
	const struct stage *ready = &sh->stages[ENTRY_READY];
	const struct stage *delayed = &sh->stages[ENTRY_DELAYED];
	int64_t due_ms = sh->expiry.due_ms;

	sh->expiry.is_wanted = false;
	if (!due_ms || sh->expiry.is_taking || sh->is_closed)
		return;
	if (ready->beyond + delayed->beyond == 0)
		sh->expiry.due_ms = 0;
	else if (due_ms > sh->env->now_ms)
		shard_wake_by(sh, due_ms);
	else if (!sh->env->may_expire || sh->is_held_back)
		shard_wake_by(sh, sh->env->now_ms + RETRY_MS);
	else if (is_read(ready) || is_read(delayed))
		; /* its end wakes the shard */
	else if (sh->flight.count > 0)
		sh->expiry.is_wanted = true; /* its landing comes back here */
	else if ((sh->expiry.is_after && shard_is_dirty(sh)) ||
		 has_stored_outside(ready) || has_stored_outside(delayed))
		shard_wake_by(sh, sh->env->now_ms + 10);
	else
		take(sh);
}
