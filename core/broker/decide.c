#include "decide.h"

#include "base/mem.h"
#include "route.h"
#include "broker.h"
#include "rules/engine/strategy.h"

static void deinit_outcome(struct decision *d, struct outcome *o)
{
	if (o->picks && o->picks != d->picks)
		mem_free(o->picks);
	msg_unref(o->msg);
}

void decide_deinit(struct decision *d)
{
	deinit_outcome(d, &d->first);
	if (!d->copies)
		return;
	for (unsigned i = 0; i < d->copy_count; i++)
		deinit_outcome(d, &d->copies[i]);
	mem_free(d->copies);
}

struct filtering {
	const struct decide_spec *spec;
	struct decision *decision;
	struct outcome *outcome;
	struct filter_pass pass;
};

static void on_step(void *ctx, const struct filter_step *step)
{
	struct filtering *f = ctx;

	decide_tell(f->spec, &(struct step){ .kind = STEP_FILTERED,
					     .outcome = f->outcome->number,
					     .filter = step });
}

/* The copies that a filter made of an outcome, as outcomes of their own. Those that may
 * be stored have their own ids from here on. `rc` is what the filters say. */
static int take_copies(struct filtering *f, int rc, struct error *err)
{
	bool is_active = f->spec->rules->slot == RULESET_ACTIVE || f->spec->is_canary;
	struct decision *d = f->decision;
	unsigned hops = f->outcome->hops, made = f->pass.copies.count;
	bool has_ids = true;

	if (made == 0)
		return rc;
	/* f->outcome may be in this array: it is not used after this. */
	d->copies = mem_realloc(d->copies, (d->copy_count + made) * sizeof(*d->copies));
	for (unsigned i = 0; i < made; i++) {
		struct msg *m = f->pass.copies.items[i];

		if (is_active)
			m->id = broker_next_id(f->spec->vhost->broker);
		has_ids = has_ids && (m->id || !is_active);
		d->copies[d->copy_count++] = (struct outcome){
			.msg = m,
			.number = ++d->copies_made,
			.hops = hops + 1,
			.sender = f->pass.copy_senders[i],
			.sender_line = f->pass.copy_lines[i],
		};
	}
	if (rc == TIDE_OK && !has_ids)
		rc = id_lease_check(f->spec->vhost->broker, err);
	return rc;
}

static int filter_outcome(struct filtering *f, struct outcome *o, struct error *err)
{
	struct filter_pass *p = &f->pass;
	int rc;

	f->outcome = o;
	p->copies.count = 0;
	if (o->hops > FILTER_HOPS_MAX)
		return error_set(err, TIDE_ERULE,
				 "%s:%d: the message has been rerouted or copied more "
				 "than %d times; do filters send it in a circle?",
				 o->sender, o->sender_line, FILTER_HOPS_MAX);
	p->msg = o->msg;
	p->vhost = vhost_slice(f->spec->vhost);
	p->context = f->spec->context;
	p->now_unix_ms = f->spec->now_ms;
	p->hops = o->hops;
	p->sender = o->sender;
	p->sender_line = o->sender_line;
	p->copies.max = DRAFT_COPIES_MAX - f->decision->copies_made;
	rc = filter_run(f->spec->rules->engine, p, err);
	o->msg = p->msg;
	o->hops = p->hops;
	o->sender = p->sender;
	o->sender_line = p->sender_line;
	return rc;
}

/* A copy that a filter refuses is left out; the message goes its way. */
static void drop_copy(struct filtering *f, unsigned at)
{
	struct decision *d = f->decision;

	for (unsigned i = 0; i < f->pass.copies.count; i++)
		msg_unref(f->pass.copies.items[i]);
	deinit_outcome(d, &d->copies[at]);
	memmove(&d->copies[at], &d->copies[at + 1],
		(d->copy_count - at - 1) * sizeof(*d->copies));
	d->copy_count--;
}

/* Where a filter sends it, the subject must be allowed to publish, as to the address that
 * it has named itself. */
static int check_address(const struct decide_spec *spec, const struct outcome *o,
			 struct error *err)
{
	const struct msg *asked = spec->msg, *m = o->msg;
	struct error why;
	int rc;

	if (slice_is_equal(m->exchange, asked->exchange) &&
	    (m->exchange.len > 0 || slice_is_equal(m->key, asked->key)))
		return TIDE_OK;
	rc = route_check_access(spec->subject, spec->vhost, m->exchange, m->key, &why);
	if (rc == TIDE_OK)
		return TIDE_OK;
	return error_set(err, rc, "%s:%d sends the %s elsewhere: %s", o->sender,
			 o->sender_line, o->number ? "copy" : "message", why.text);
}

static int check_addresses(const struct decision *d, const struct decide_spec *spec,
			   struct error *err)
{
	int rc = check_address(spec, &d->first, err);

	for (unsigned i = 0; rc == TIDE_OK && i < d->copy_count; i++)
		rc = check_address(spec, &d->copies[i], err);
	return rc;
}

static int run_filters(struct decision *d, const struct decide_spec *spec,
		       struct error *err)
{
	struct filtering f;
	unsigned i = 0;
	int rc;

	f.spec = spec;
	f.decision = d;
	f.pass.on_step = spec->follower ? on_step : NULL;
	f.pass.ctx = &f;
	rc = filter_outcome(&f, &d->first, err);
	rc = take_copies(&f, rc, err);
	while (rc == TIDE_OK && i < d->copy_count) {
		rc = filter_outcome(&f, &d->copies[i], err);
		if (rc == TIDE_EREJECTED) {
			drop_copy(&f, i);
			rc = TIDE_OK;
		} else {
			rc = take_copies(&f, rc, err);
			i++;
		}
	}
	return rc == TIDE_OK && !subject_is_free(spec->subject)
		       ? check_addresses(d, spec, err)
		       : rc;
}

/* The exchange that the message names, or a filter has named. */
static int find_exchange(struct outcome *o, const struct decide_spec *spec,
			 struct error *err)
{
	o->exchange = NULL;
	if (o->msg->exchange.len == 0)
		return TIDE_OK;
	o->exchange = exchange_find(spec->vhost, o->msg->exchange);
	if (o->exchange)
		return TIDE_OK;
	if (!o->sender)
		return vhost_refuse(spec->vhost, "exchange", o->msg->exchange, err);
	return error_set(err, TIDE_ERULE,
			 "%s:%d: the message is sent to exchange '%" SLICE_FMT
			 "', which does not exist",
			 o->sender, o->sender_line, SLICE_ARG(o->msg->exchange));
}

static int pick_shard(const struct decide_spec *spec, const struct outcome *o,
		      struct queue *q, unsigned *shard, struct error *err)
{
	const struct script_question question = { o->msg, spec->context };
	int rc = strategy_pick(q->strategies[spec->rules->slot][SCRIPT_SHARDING],
			       &question, q->config.shards, shard, err);

	decide_tell_picked(spec, o, q, SCRIPT_SHARDING);
	return rc;
}

/* When the script fails, the message is stored all the same, behind the newest. */
void decide_rank(const struct decide_spec *spec, const struct outcome *o,
		 struct pick *pick)
{
	struct queue *q = pick->queue;
	const struct script_question question = { o->msg, spec->context };
	struct queue_view view;
	struct error err;

	queue_view(q, pick->shard, &view);
	int rc = strategy_rank(q->strategies[spec->rules->slot][SCRIPT_PRIORITY],
			       &question, &view, &pick->rank, &err);
	decide_tell_picked(spec, o, q, SCRIPT_PRIORITY);
	if (rc == TIDE_OK)
		return;
	pick->is_unranked = true;
	pick->rank = queue_newest_rank(pick->shard);
	if (spec->follower)
		decide_tell(spec, &(struct step){ .kind = STEP_UNRANKED,
						  .outcome = o->number,
						  .queue = q,
						  .error = &err });
}

static int pick_queues(struct outcome *o, const struct decide_spec *spec,
		       const struct route *route, struct error *err)
{
	for (unsigned i = 0; i < route->count; i++) {
		const struct route_target *t = &route->targets[i];
		struct pick *pick = &o->picks[i];
		unsigned shard = t->shard;
		int rc = shard == ROUTE_ASK ? pick_shard(spec, o, t->queue, &shard, err)
					    : TIDE_OK;

		if (rc < 0) {
			o->count = i;
			return rc;
		}
		pick->queue = t->queue;
		pick->index = shard;
		pick->shard = queue_shard(t->queue, shard);
		pick->rank = t->rank;
		pick->is_unranked = false;
		if (!t->has_rank)
			decide_rank(spec, o, pick);
		/* With the rank that it would have there. */
		if (__builtin_expect(o->msg->is_transient, 0))
			pick->shard = queue_shard_of(t->queue, o->msg, shard);
		pick->binding = t->binding;
		pick->is_shard_known = t->shard != ROUTE_ASK;
		pick->is_rank_known = t->has_rank;
	}
	return TIDE_OK;
}

static bool is_picked(const struct outcome *o, const struct queue *q)
{
	for (unsigned i = 0; i < o->count; i++)
		if (o->picks[i].queue == q)
			return true;
	return false;
}

static void add_picks(struct decision *d, struct outcome *o, const struct outcome *more)
{
	struct pick *all;

	if (more->count == 0)
		return;
	all = mem_alloc((o->count + more->count) * sizeof(*all));
	for (unsigned i = 0; i < o->count; i++)
		all[i] = o->picks[i];
	if (o->picks != d->picks)
		mem_free(o->picks);
	o->picks = all;
	for (unsigned i = 0; i < more->count; i++)
		if (!is_picked(o, more->picks[i].queue))
			all[o->count++] = more->picks[i];
}

/* By one more key, which the scripts see as the message's. */
static int route_by(struct decision *d, struct outcome *o, const struct decide_spec *spec,
		    struct slice key, struct error *err)
{
	const struct slice own = o->msg->key;
	struct outcome more = *o;
	const struct route *route;
	int rc;

	o->msg->key = key;
	rc = route_find(spec, &more, &route, err);
	if (rc == TIDE_OK) {
		more.picks = mem_alloc((route->count + 1) * sizeof(*more.picks));
		more.count = route->count;
		rc = pick_queues(&more, spec, route, err);
		if (rc == TIDE_OK)
			add_picks(d, o, &more);
		mem_free(more.picks);
	}
	o->msg->key = own;
	return rc;
}

static int route_outcome(struct decision *d, struct outcome *o,
			 const struct decide_spec *spec, struct error *err)
{
	const struct route *route;
	int rc = TIDE_OK;

	o->exchange = spec->exchange;
	if (o->sender || !o->exchange)
		rc = find_exchange(o, spec, err);
	if (rc == TIDE_OK)
		rc = route_find(spec, o, &route, err);
	if (rc < 0)
		return rc;
	o->count = route->count;
	o->epoch = route->epoch;
	o->is_pure = route->is_pure;
	o->was_cached = route->was_cached;
	if (o == &d->first && route->count <= DECIDE_PICKS_INLINE)
		o->picks = d->picks;
	else if (route->count > 0)
		o->picks = mem_alloc(route->count * sizeof(*o->picks));
	rc = pick_queues(o, spec, route, err);
	if (__builtin_expect(spec->key_count > 0, 0) && o == &d->first && !o->sender)
		for (unsigned i = 0; i < spec->key_count && rc == TIDE_OK; i++)
			rc = route_by(d, o, spec, spec->keys[i], err);
	return rc;
}

/* The path of every publish: the rest of it is set when it is known. */
static inline void begin(struct decision *d, const struct decide_spec *spec)
{
	d->first.msg = msg_ref(spec->msg);
	d->first.sender = NULL;
	d->first.picks = NULL;
	d->first.epoch = 0;
	d->first.number = d->first.hops = d->first.count = 0;
	d->copies = NULL;
	d->copy_count = d->copies_made = 0;
}

static inline int filter_all(struct decision *d, const struct decide_spec *spec,
			     struct error *err)
{
	begin(d, spec);
	if (filter_count(spec->rules->engine) == 0)
		return TIDE_OK;
	return run_filters(d, spec, err);
}

static inline int route_all(struct decision *d, const struct decide_spec *spec,
			    struct error *err)
{
	int rc = route_outcome(d, &d->first, spec, err);

	for (unsigned i = 0; rc == TIDE_OK && i < d->copy_count; i++)
		rc = route_outcome(d, &d->copies[i], spec, err);
	return rc;
}

int decide_filter(struct decision *d, const struct decide_spec *spec, struct error *err)
{
	return filter_all(d, spec, err);
}

int decide_route(struct decision *d, const struct decide_spec *spec, struct error *err)
{
	return route_all(d, spec, err);
}

int decide_queue(struct decision *d, const struct decide_spec *spec, struct queue *q,
		 struct error *err)
{
	struct route_target target = { .queue = q,
				       .shard = ROUTE_ASK,
				       .has_rank = q->topic != NULL };
	const struct route route = { .targets = &target, .count = 1 };

	begin(d, spec);
	d->first.exchange = NULL;
	d->first.picks = d->picks;
	d->first.count = 1;
	return pick_queues(&d->first, spec, &route, err);
}

int decide(struct decision *d, const struct decide_spec *spec, struct error *err)
{
	int rc = filter_all(d, spec, err);

	return rc == TIDE_OK ? route_all(d, spec, err) : rc;
}
