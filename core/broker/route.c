#include "route.h"

#include <stdlib.h>

#include "base/mem.h"
#include "host/log.h"
#include "rules/api/dry_run.h"
#include "rules/engine/index.h"
#include "rules/engine/strategy.h"
#include "unusable.h"

void route_destroy(struct route *r)
{
	if (!r)
		return;
	mem_free(r->targets);
	mem_free(r);
}

static size_t size_of(const struct route *r)
{
	return sizeof(*r) + r->key_len + r->cap * sizeof(*r->targets);
}

static void forget(struct route *r)
{
	struct exchange *x = r->exchange;
	struct broker *b = x->vhost->broker;

	HASH_DEL(x->routes, r);
	x->route_count--;
	TAILQ_REMOVE(&b->routes, r, memory_link);
	b->route_bytes -= size_of(r);
	route_destroy(r);
}

void route_cache_clear(struct exchange *x)
{
	while (x->routes)
		forget(x->routes);
}

static struct route *route_create(struct slice key)
{
	struct route *r = mem_zalloc(sizeof(*r) + key.len);

	r->key_len = key.len;
	if (key.len)
		memcpy(r->key, key.data, key.len);
	return r;
}

/* What the queue's scripts decide by the key alone is decided now. */
static int fill_target(struct route_target *t, const struct msg *m, bool *is_pure,
		       struct error *err)
{
	struct queue *q = t->queue;
	struct strategy *sharding = q->strategies[SCRIPT_SHARDING];
	struct strategy *priority = q->strategies[SCRIPT_PRIORITY];

	t->shard = 0;
	if (q->config.shards > 1 && !strategy_is_pure(sharding)) {
		t->shard = ROUTE_ASK;
	} else if (q->config.shards > 1) {
		int rc = strategy_pick(sharding, m, q->config.shards, &t->shard, err);

		if (rc < 0)
			return rc;
	}
	t->has_rank = false;
	if (strategy_is_pure(priority)) {
		struct queue_view view;
		struct error
			ignored; /* counted by the engine; asked again for the message */

		queue_view(q, q->shards[0], &view);
		t->has_rank =
			strategy_rank(priority, m, &view, &t->rank, &ignored) == TIDE_OK;
		if (!t->has_rank)
			*is_pure = false;
	}
	return TIDE_OK;
}

static int add_queue(struct route *r, struct queue *q, const struct binding *binding,
		     const struct msg *m, struct error *err)
{
	uint64_t stamp = q->vhost->broker->route_stamp;

	if (q->visit == stamp)
		return TIDE_OK;
	if (q->unusable)
		return unusable_queue_error(q, err);
	q->visit = stamp;
	if (r->count == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 4;
		r->targets = mem_realloc(r->targets, r->cap * sizeof(*r->targets));
	}
	r->targets[r->count] = (struct route_target){ .queue = q, .binding = binding };
	return fill_target(&r->targets[r->count++], m, &r->is_pure, err);
}

/* Put an exchange in the list of those to be visited; once, so bindings between
 * exchanges may form a loop. */
static void add_exchange(struct exchange *x, struct exchange **todo)
{
	uint64_t stamp = x->vhost->broker->route_stamp;

	if (x->visit == stamp)
		return;
	x->visit = stamp;
	x->next_visit = *todo;
	*todo = x;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void trace(struct exchange *x, const uint32_t *found, size_t count)
{
	const struct route_tracer *t = x->vhost->broker->tracer;
	uint32_t *numbers = mem_alloc((count + 1) * sizeof(*numbers));
	size_t distinct = 0;

	if (count) {
		memcpy(numbers, found, count * sizeof(*numbers));
		qsort(numbers, count, sizeof(*numbers), by_number);
	}
	for (size_t i = 0; i < count; i++)
		if ((i == 0 || numbers[i] != numbers[i - 1]) &&
		    numbers[i] < x->binding_cap && x->bindings[numbers[i]])
			numbers[distinct++] = numbers[i];
	t->on_visit(t->ctx, x, numbers, distinct);
	mem_free(numbers);
}

/* Follow the matching bindings of an exchange. */
static int visit(struct route *r, struct exchange *x, const struct msg *m,
		 struct exchange **todo, struct error *err)
{
	const uint32_t *found;
	uint32_t *numbers;
	size_t count;
	int rc;

	if (x->unusable)
		return unusable_exchange_error(x, err);
	r->is_pure = r->is_pure && index_is_pure(x->index);
	rc = index_route(x->index, m, &found, &count, err);
	if (rc == TIDE_OK && x->vhost->broker->tracer)
		trace(x, found, count);
	if (rc < 0 || count == 0)
		return rc;
	/* The engine's array is good until the next script is asked. */
	numbers = mem_alloc(count * sizeof(*numbers));
	memcpy(numbers, found, count * sizeof(*numbers));
	for (size_t i = 0; i < count && rc == TIDE_OK; i++) {
		struct binding *b =
			numbers[i] < x->binding_cap ? x->bindings[numbers[i]] : NULL;

		if (!b)
			continue; /* it is gone, and the script has not been told yet */
		if (b->queue)
			rc = add_queue(r, b->queue, b, m, err);
		else
			add_exchange(b->exchange, todo);
	}
	mem_free(numbers);
	return rc;
}

/* A list and no recursion: clients decide how long a chain of exchanges is. */
static int visit_all(struct route *r, struct exchange *x, const struct msg *m,
		     struct error *err)
{
	struct exchange *todo = NULL;
	int rc = TIDE_OK;

	add_exchange(x, &todo);
	while (rc == TIDE_OK && (x = todo) != NULL) {
		todo = x->next_visit;
		rc = visit(r, x, m, &todo, err);
	}
	return rc;
}

static bool is_current(const struct route *r, const struct broker *b)
{
	return r->version == b->route_version && r->epoch == engine_epoch(b->engine);
}

static void stamp_route(struct route *r, const struct broker *b)
{
	r->version = b->route_version;
	r->epoch = engine_epoch(b->engine);
}

static int route_direct(struct vhost *v, const struct msg *m, const struct route **out,
			struct error *err)
{
	struct broker *b = v->broker;
	struct queue *q = queue_find(v, m->key);
	struct route *r;
	int rc;

	if (!q) {
		route_destroy(b->route);
		*out = b->route = route_create(m->key);
		stamp_route(b->route, b);
		return TIDE_OK;
	}
	r = q->direct;
	if (r && is_current(r, b) && r->is_pure) {
		r->was_cached = true;
		*out = r;
		return TIDE_OK;
	}
	route_destroy(r);
	q->direct = r = route_create((struct slice){ NULL, 0 });
	r->is_pure = true;
	b->route_stamp++;
	rc = add_queue(r, q, NULL, m, err);
	if (rc < 0) {
		route_destroy(r);
		q->direct = NULL;
		return rc;
	}
	stamp_route(r, b);
	*out = r;
	return TIDE_OK;
}

/* Keep a pure decision, in the place of an outdated one for the same key. */
static void remember(struct exchange *x, struct route *r)
{
	struct route *old;

	struct broker *b = x->vhost->broker;

	HASH_FIND(hh, x->routes, r->key, r->key_len, old);
	if (old)
		forget(old);
	/* The first of the table is the oldest. */
	if (x->route_count >= ROUTE_CACHE_MAX)
		forget(x->routes);
	if (r->count && r->count < r->cap) {
		r->cap = r->count;
		r->targets = mem_realloc(r->targets, r->cap * sizeof(*r->targets));
	}
	r->exchange = x;
	HASH_ADD_KEYPTR(hh, x->routes, r->key, r->key_len, r);
	x->route_count++;
	TAILQ_INSERT_TAIL(&b->routes, r, memory_link);
	b->route_bytes += size_of(r);
	while (b->route_bytes > b->config.memory_max_bytes / ROUTE_CACHE_SHARE &&
	       TAILQ_FIRST(&b->routes) != r)
		forget(TAILQ_FIRST(&b->routes));
}

int route_find(struct vhost *v, struct exchange *x, const struct msg *m,
	       const struct route **out, struct error *err)
{
	struct broker *b = v->broker;
	struct route *r;
	int rc;

	if (!x)
		return route_direct(v, m, out, err);
	HASH_FIND(hh, x->routes, m->key.data, m->key.len, r);
	if (r && is_current(r, b)) {
		index_count_hit(x->index);
		r->was_cached = true;
		*out = r;
		return TIDE_OK;
	}
	r = route_create(m->key);
	r->is_pure = true;
	b->route_stamp++;
	rc = visit_all(r, x, m, err);
	if (rc < 0) {
		route_destroy(r);
		return rc;
	}
	stamp_route(r, b);
	if (r->is_pure) {
		remember(x, r);
	} else {
		route_destroy(b->route);
		b->route = r;
	}
	*out = r;
	return TIDE_OK;
}

/* What is remembered for the query, or NULL. */
static struct route *recall(const struct route_query *q)
{
	const struct msg *m = q->msg;
	struct queue *queue;
	struct route *r;

	if (q->exchange) {
		HASH_FIND(hh, q->exchange->routes, m->key.data, m->key.len, r);
	} else {
		queue = queue_find(q->vhost, m->key);
		r = queue && queue->direct && queue->direct->is_pure ? queue->direct
								     : NULL;
	}
	return r && is_current(r, q->vhost->broker) ? r : NULL;
}

/* Decide anew, into the broker's place for what is not remembered. */
static int decide_anew(const struct route_query *q, struct error *err)
{
	struct broker *b = q->vhost->broker;
	struct route *r = route_create(q->msg->key);
	struct queue *queue;
	int rc = TIDE_OK;

	r->is_pure = true;
	b->route_stamp++;
	if (q->exchange)
		rc = visit_all(r, q->exchange, q->msg, err);
	else if ((queue = queue_find(q->vhost, q->msg->key)) != NULL)
		rc = add_queue(r, queue, NULL, q->msg, err);
	else
		r->is_pure = false;
	if (rc < 0) {
		route_destroy(r);
		return rc;
	}
	stamp_route(r, b);
	route_destroy(b->route);
	b->route = r;
	return TIDE_OK;
}

int route_explain(const struct route_query *q, const struct route **out,
		  struct error *err)
{
	struct broker *b = q->vhost->broker;
	struct route *known = recall(q);
	int rc;

	b->tracer = q->tracer;
	/* What the scripts are asked for the tracer is not part of the decision; nor
	 * is whether it fails. */
	if (known)
		engine_dry_run_hush(b->engine, true);
	rc = decide_anew(q, err);
	if (known) {
		engine_dry_run_hush(b->engine, false);
		known->was_cached = true;
		rc = TIDE_OK;
	}
	b->tracer = NULL;
	*out = known ? known : b->route;
	return rc;
}

int route_pick(const struct route_target *t, const struct msg *m, unsigned *shard,
	       struct error *err)
{
	if (t->shard != ROUTE_ASK) {
		if (t->queue->config.shards > 1)
			strategy_count_hit(t->queue->strategies[SCRIPT_SHARDING]);
		*shard = t->shard;
		return TIDE_OK;
	}
	return strategy_pick(t->queue->strategies[SCRIPT_SHARDING], m,
			     t->queue->config.shards, shard, err);
}
