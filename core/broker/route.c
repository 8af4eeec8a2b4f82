#include "route.h"

#include <stdlib.h>

#include "base/mem.h"
#include "broker.h"
#include "decide.h"
#include "rules/engine/index.h"
#include "rules/engine/strategy.h"
#include "unusable.h"

/* Where a publish goes, and who may send it there. */

enum subject_kind route_subject_kind(struct vhost *v, struct slice name)
{
	const struct queue *q = queue_find(v, name);

	return q && q->topic ? SUBJECT_TOPIC : SUBJECT_QUEUE;
}

int route_check_access(struct subject *s, struct vhost *v, struct slice exchange,
		       struct slice key, struct error *err)
{
	if (subject_is_free(s))
		return TIDE_OK;
	if (exchange.len > 0)
		return subject_ask(s, USER_WRITE, SUBJECT_EXCHANGE, exchange, err);
	return subject_ask(s, USER_WRITE, route_subject_kind(v, key), key, err);
}

/* Of one routing: clients make chains of them of any length. */
#define ROUTE_ALTERNATES_MAX 32

/* A routing under way. */
struct route_walk {
	const struct decide_spec *spec;
	const struct outcome *outcome;
	struct script_question question;
	struct broker *broker;
	struct route *route;
	struct exchange *todo; /* a list, and no recursion: clients make long chains */
	/* All that were visited, in that order. Those up to `passed` need not be asked
	 * for their alternate any more. */
	struct exchange *first, *last, *passed;
	unsigned alternates; /* that were followed */
};

/* Decide now what the queue's scripts decide by the key alone. */
static int fill_target(const struct route_walk *w, struct route_target *t,
		       struct error *err)
{
	struct queue *q = t->queue;
	struct strategy **strategies = q->strategies[w->spec->rules->slot];
	struct strategy *priority = strategies[SCRIPT_PRIORITY];

	if (!strategies[SCRIPT_SHARDING])
		return error_set(err, TIDE_ERULE, "a script of %s '%s' is missing",
				 definition_kind(q->definition.table), q->name);
	if (q->config.shards > 1 && !strategy_is_pure(strategies[SCRIPT_SHARDING])) {
		t->shard = ROUTE_ASK;
	} else if (q->config.shards > 1) {
		int rc = strategy_pick(strategies[SCRIPT_SHARDING], &w->question,
				       q->config.shards, &t->shard, err);

		decide_tell_picked(w->spec, w->outcome, q, SCRIPT_SHARDING);
		if (rc < 0)
			return rc;
	}
	t->has_rank = q->topic != NULL;
	if (!q->topic && strategy_is_pure(priority)) {
		struct queue_view view;
		struct error ignored; /* counted; asked again for the message */

		queue_view(q, queue_shard(q, 0), &view);
		t->has_rank = strategy_rank(priority, &w->question, &view, &t->rank,
					    &ignored) == TIDE_OK;
		decide_tell_picked(w->spec, w->outcome, q, SCRIPT_PRIORITY);
		if (!t->has_rank)
			w->route->is_pure = false;
	}
	return TIDE_OK;
}

static int add_queue(const struct route_walk *w, struct queue *q,
		     const struct binding *binding, struct error *err)
{
	struct route *r = w->route;

	if (q->visit == w->broker->route_stamp)
		return TIDE_OK;
	if (q->definition.unusable)
		return unusable_check(&q->definition, err);
	q->visit = w->broker->route_stamp;
	MEM_GROW(r->targets, r->count, r->cap, 4);
	r->targets[r->count] = (struct route_target){ .queue = q, .binding = binding };
	return fill_target(w, &r->targets[r->count++], err);
}

/* Once, so bindings and alternates may form a loop. */
static void add_exchange(struct route_walk *w, struct exchange *x,
			 const struct exchange *alternate_of)
{
	if (x->visit == w->broker->route_stamp)
		return;
	w->alternates += alternate_of != NULL;
	x->visit = w->broker->route_stamp;
	x->alternate_of = alternate_of;
	x->next_todo = w->todo;
	w->todo = x;
}

static void add_alternate(struct route_walk *w, const struct exchange *x)
{
	struct exchange *alternate =
		x->config.alternate
			? exchange_find(x->vhost, slice_from(x->config.alternate))
			: NULL;

	if (alternate && w->alternates < ROUTE_ALTERNATES_MAX)
		add_exchange(w, alternate, x);
}

static void note_visited(struct route_walk *w, struct exchange *x)
{
	x->next_visited = NULL;
	if (w->last)
		w->last->next_visited = x;
	else
		w->first = x;
	w->last = x;
}

/* No queue takes the message so far: the alternates of the exchanges that it has come by
 * are next, one after the other. Those that lead nowhere have given it on already. */
static void add_next_alternate(struct route_walk *w)
{
	struct exchange *x = w->passed ? w->passed->next_visited : w->first;

	while (x && !w->todo) {
		add_alternate(w, x);
		w->passed = x;
		x = x->next_visited;
	}
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static const struct binding *binding_at(const struct exchange *x, uint32_t number)
{
	const struct binding *b = number < x->number_count ? x->bindings[number] : NULL;

	return b && !b->is_released ? b : NULL;
}

static void trace(const struct route_walk *w, struct exchange *x, const uint32_t *found,
		  size_t count)
{
	const struct decide_spec *spec = w->spec;
	struct route_visit v = { .exchange = x, .alternate_of = x->alternate_of };
	uint32_t *numbers = mem_alloc((count + 1) * sizeof(*numbers));

	if (count) {
		memcpy(numbers, found, count * sizeof(*numbers));
		qsort(numbers, count, sizeof(*numbers), by_number);
	}
	for (size_t i = 0; i < count; i++)
		if ((i == 0 || numbers[i] != numbers[i - 1]) && binding_at(x, numbers[i]))
			numbers[v.count++] = numbers[i];
	v.numbers = numbers;
	decide_tell(spec, &(struct step){ .kind = STEP_ROUTED,
					  .outcome = w->outcome->number,
					  .visit = &v });
	mem_free(numbers);
}

/* Follow the matching bindings of an exchange. */
static int visit(struct route_walk *w, struct exchange *x, struct error *err)
{
	struct index *index = x->indexes[w->spec->rules->slot];
	const uint32_t *found;
	uint32_t *numbers;
	bool leads_on = false;
	size_t count;
	int rc;

	note_visited(w, x);
	if (x->definition.unusable)
		return unusable_check(&x->definition, err);
	if (!index)
		return error_set(err, TIDE_ERULE,
				 "the script of exchange '%s' is missing", x->name);
	w->route->is_pure = w->route->is_pure && index_is_pure(index);
	rc = index_route(index, &w->question, &found, &count, err);
	if (rc == TIDE_OK && w->spec->follower)
		trace(w, x, found, count);
	if (rc < 0)
		return rc;
	/* The engine's array is good until the next script is asked. */
	numbers = count ? mem_alloc(count * sizeof(*numbers)) : NULL;
	if (count)
		memcpy(numbers, found, count * sizeof(*numbers));
	for (size_t i = 0; i < count && rc == TIDE_OK; i++) {
		const struct binding *b = binding_at(x, numbers[i]);

		if (!b)
			continue; /* it is gone, and the script has not been told yet */
		leads_on = true;
		if (b->queue)
			rc = add_queue(w, b->queue, b, err);
		else
			add_exchange(w, b->exchange, NULL);
	}
	if (!leads_on)
		add_alternate(w, x);
	mem_free(numbers);
	return rc;
}

static int visit_all(struct route_walk *w, struct error *err)
{
	const struct outcome *o = w->outcome;
	struct exchange *x;
	struct queue *q;
	int rc = TIDE_OK;

	w->broker->route_stamp++;
	if (!o->exchange) {
		q = queue_find(w->spec->vhost, o->msg->key);
		if (!q && w->spec->make_queue && vhost_makes(w->spec->vhost, o->msg->key))
			rc = w->spec->make_queue(w->spec->vhost, w->spec->subject,
						 msg_user(o->msg), o->msg->key, &q, err);
		w->route->is_pure = q != NULL;
		return q ? add_queue(w, q, NULL, err) : rc;
	}
	add_exchange(w, o->exchange, NULL);
	while (rc == TIDE_OK && (x = w->todo) != NULL) {
		w->todo = x->next_todo;
		rc = visit(w, x, err);
		if (!w->todo && w->route->count == 0)
			add_next_alternate(w);
	}
	return rc;
}

static int make(const struct decide_spec *spec, const struct outcome *o,
		struct decision_context *context, struct route **out, struct error *err)
{
	struct broker *b = spec->vhost->broker;
	struct route *r = route_cache_new(o->exchange ? o->msg->key : SLICE(""));
	struct route_walk w = { .spec = spec,
				.outcome = o,
				.question = { o->msg, context },
				.broker = b,
				.route = r };
	int rc;

	r->is_pure = true;
	rc = visit_all(&w, err);
	if (rc < 0) {
		route_cache_free(r);
		return rc;
	}
	r->version = b->route_version;
	r->epoch = engine_epoch(spec->rules->engine);
	*out = r;
	return TIDE_OK;
}

/* The remembered route, or NULL. */
static inline struct route *recall(const struct decide_spec *spec,
				   const struct outcome *o)
{
	const struct msg *m = o->msg;
	const struct broker *b = spec->vhost->broker;
	struct queue *q;
	struct route *r;

	if (o->exchange) {
		HASH_FIND(hh, o->exchange->routes, m->key.data, m->key.len, r);
	} else {
		q = queue_find(spec->vhost, m->key);
		r = q ? q->direct : NULL;
	}
	return r && r->version == b->route_version ? r : NULL;
}

static void keep(const struct decide_spec *spec, const struct outcome *o, struct route *r)
{
	struct broker *b = spec->vhost->broker;
	bool is_trial = spec->rules->slot != RULESET_ACTIVE ||
			(spec->context && spec->context->is_dry);

	if (is_trial || !r->is_pure) {
		route_cache_free(b->route);
		b->route = r;
	} else if (o->exchange) {
		route_cache_add(o->exchange, r);
	} else {
		route_cache_free(r->targets[0].queue->direct);
		r->targets[0].queue->direct = r;
	}
}

/* The scripts are asked once more, for the tracer alone: what they cost is not part of
 * the decision, nor is whether they fail. */
static void visit_again(const struct decide_spec *spec, const struct outcome *o)
{
	struct decision_context quiet = *spec->context;
	struct route *r;
	struct error ignored;

	quiet.costs = NULL;
	quiet.is_dry = true;
	if (make(spec, o, &quiet, &r, &ignored) == TIDE_OK)
		route_cache_free(r);
}

/* Out of line: a route that is remembered must not pay for its registers.
 *
 * @param known  what is remembered; NULL: nothing */
static __attribute__((noinline)) int find(const struct decide_spec *spec,
					  const struct outcome *o, struct route *known,
					  const struct route **out, struct error *err)
{
	struct route *made;
	int rc;

	if (known) {
		visit_again(spec, o);
		known->was_cached = true;
		*out = known;
		return TIDE_OK;
	}
	rc = make(spec, o, spec->context, &made, err);
	if (rc < 0)
		return rc;
	keep(spec, o, made);
	*out = made;
	return TIDE_OK;
}

int route_find(const struct decide_spec *spec, const struct outcome *o,
	       const struct route **out, struct error *err)
{
	struct route *r = spec->rules->slot == RULESET_ACTIVE ? recall(spec, o) : NULL;

	if (!r || spec->follower)
		return find(spec, o, r, out, err);
	if (o->exchange)
		index_count_hit(o->exchange->indexes[RULESET_ACTIVE]);
	r->was_cached = true;
	*out = r;
	return TIDE_OK;
}
