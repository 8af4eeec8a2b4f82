#include "declare.h"

#include <stdio.h>

#include "base/container.h"
#include "base/mem.h"
#include "unusable.h"
#include "host/log.h"
#include "broker.h"
#include "retention.h"
#include "rules/engine/hook.h"
#include "rules/engine/index.h"
#include "walk.h"

/* ---- other options for what is in use, by a DECLARE or by other policies ------------
 *
 * All of them change at once, or none. Redis is told first: until it has confirmed, the
 * options are the old ones. Messages, consumers and publishers stay.
 *
 * With another number of shards, or another sharding, no message moves. New ones are
 * placed by the new options; those that are there stay in their shards, which are *mixed*
 * until they have been empty once. While one is, the queue deals its messages in the
 * order that they would have in a single shard: so those of one key keep theirs, whatever
 * shards they are in. */

/* The new strategies are the queue's: it may go before Redis has answered. */
struct update {
	struct definition_job job; /* without a waiter Redis is not told */
	struct broker *broker;
	struct terms next;
	uint64_t epoch; /* of the policies that were asked */
	bool is_declared_anew;
	bool is_revived; /* it could not be used */
	bool is_idle;    /* it does what it did */
	bool is_sharded_anew, is_mixing, is_ranked_anew;
};

static void renew_terms(struct definition *d);

static struct queue *queue_of(struct definition *d)
{
	return definition_is_queue(d->table) ? container_of(d, struct queue, definition)
					     : NULL;
}

static struct exchange *exchange_of(struct definition *d)
{
	return container_of(d, struct exchange, definition);
}

/* ---- what changes ------------------------------------------------------------------ */

static bool has_other_script(const struct queue *q, const struct config *next,
			     enum script_kind kind)
{
	const struct config *has = &q->config;
	struct option_difference d;

	if (!has->scripts[kind])
		return false;
	return strcmp(has->scripts[kind], next->scripts[kind]) != 0 ||
	       strategy_differs(q->vhost->broker->engine, kind, has->scripts[kind],
				&has->script_args[kind], &next->script_args[kind], &d);
}

/* Some options can change while nothing depends on them. */
static int check_state(const struct queue *q, const struct config *next,
		       struct error *err)
{
	const struct config *has = &q->config;

	if (has->is_single_active != next->is_single_active && q->consumer_count > 0)
		return error_set(err, TIDE_EMISMATCH,
				 "it keeps single-active=%d while it has subscriptions; "
				 "end them first",
				 has->is_single_active);
	for (unsigned i = 0; !has->max_bytes && next->max_bytes && i < q->shard_count;
	     i++)
		if (!shard_size_is_known(q->shards[i]))
			return error_set(
				err, TIDE_EMISMATCH,
				"it keeps max-bytes=0 while Redis alone has some of its "
				"messages and their bytes are not known; try again when "
				"fewer wait, or use max-length=");
	return TIDE_OK;
}

static const char another_exchange[] =
	"declare an exchange of another name, and bind to it";

/* One that its script refuses may get any options of the script. */
static int check_exchange(const struct exchange *x, const struct config *next,
			  struct error *why)
{
	const struct index *index = x->indexes[RULESET_ACTIVE];
	struct option_difference d;
	struct error cause;

	if (x->definition.unusable)
		return exchange_try(x, next, &cause) < 0
			       ? error_set(why, cause.code, "it %s", cause.text)
			       : TIDE_OK;
	if (!index_differs(index, &x->config.script_args[SCRIPT_ROUTING],
			   &next->script_args[SCRIPT_ROUTING], &d))
		return TIDE_OK;
	return error_set(why, TIDE_EMISMATCH,
			 "it keeps %s=%s, because its bindings are indexed by it; %s",
			 d.name, d.has ? d.has : "(none)", another_exchange);
}

static int check_update(struct definition *d, const struct update *u, struct error *err)
{
	const char *kind = definition_kind(d->table), *name = definition_name(d).data;
	const struct config *next = &u->next.config;
	struct queue *q = queue_of(d);
	struct error why;
	int rc = config_check_change(&definition_terms(d)->config, next,
				     u->is_sharded_anew, &why);

	if (rc < 0 && q)
		return error_set(err, rc,
				 "%s '%s' cannot change so: %s; declare a %s of another "
				 "name",
				 kind, name, why.text, kind);
	if (rc < 0)
		return error_set(err, rc, "%s '%s' cannot change so: %s; %s", kind, name,
				 why.text, another_exchange);
	rc = q ? check_state(q, next, &why) : check_exchange(exchange_of(d), next, &why);
	return rc < 0 ? error_set(err, rc, "%s '%s' cannot change so: %s", kind, name,
				  why.text)
		      : TIDE_OK;
}

static void drop_strategies(struct queue *q)
{
	for (int kind = 0; kind < CONFIG_SCRIPTS; kind++) {
		strategy_destroy(q->next_strategies[kind]);
		q->next_strategies[kind] = NULL;
	}
}

static int create_strategies(struct queue *q, const struct update *u, struct error *err)
{
	int rc = TIDE_OK;

	for (int kind = SCRIPT_SHARDING; kind < CONFIG_SCRIPTS && rc == TIDE_OK; kind++)
		if (u->next.config.scripts[kind] &&
		    (u->is_revived ||
		     has_other_script(q, &u->next.config, (enum script_kind)kind)))
			rc = queue_create_strategy(q, &u->next.config,
						   (enum script_kind)kind,
						   &q->next_strategies[kind], err);
	if (rc == TIDE_OK)
		return TIDE_OK;
	drop_strategies(q);
	return terms_blame(u->next.policy, err);
}

/* ---- doing it ---------------------------------------------------------------------- */

static void swap_strategies(struct queue *q)
{
	bool has_other = false;

	for (int kind = 0; kind < CONFIG_SCRIPTS; kind++) {
		struct strategy *former = q->strategies[RULESET_ACTIVE][kind];

		if (!q->next_strategies[kind])
			continue;
		q->strategies[RULESET_ACTIVE][kind] = q->next_strategies[kind];
		q->next_strategies[kind] = NULL;
		strategy_destroy(former);
		has_other = true;
	}
	for (int slot = RULESET_ACTIVE + 1; slot < RULESET_SLOTS && has_other; slot++)
		queue_detach(q, (enum ruleset_slot)slot);
}

static void change_shards(struct queue *q, const struct update *u, unsigned had)
{
	const struct config *c = &q->config;

	if (q->topic)
		return;
	for (unsigned i = 0; i < q->shard_count; i++) {
		struct shard *sh = q->shards[i];

		if (u->is_ranked_anew)
			shard_forget_ranks(sh);
		if (u->is_mixing)
			sh->is_mixed = true;
		queue_set_up_shard(q, sh);
	}
	q->is_mixed |= u->is_mixing;
	if (config_shards(c) > had)
		queue_widen(q, had);
}

static void change_clocks(struct queue *q, const struct config *former)
{
	if (q->config.rate_ns != former->rate_ns)
		q->next_delivery_ns = 0;
	queue_guard(q);
	queue_use(q);
	/* A queue that is asked learns when to be asked again. */
	if (q->config.expires_ms)
		heap_set(&q->vhost->broker->wakes, &q->wake, q->vhost->broker->mono_ms);
}

/* Tell the consumers that have messages for a time which the queue sets. */
static void tell_consumers(const struct queue *q, const struct config *former)
{
	struct consumer *c;

	if (q->config.ack_timeout_ms == former->ack_timeout_ms &&
	    q->config.ack_timeout_max_ms == former->ack_timeout_max_ms)
		return;
	TAILQ_FOREACH (c, &q->consumers, queue_link)
		if (!c->getter)
			c->ops->on_updated(c);
}

static void tell_log(struct definition *d, const struct config *former)
{
	const char *name = definition_name(d).data, *vhost = definition_vhost(d)->name;
	const struct terms *t = definition_terms(d);
	struct buf text = { 0 };

	for (size_t i = 0; i < t->config.canonical.count; i++) {
		const struct arg *a = &t->config.canonical.items[i];
		const char *had = args_get(&former->canonical, a->name);

		if (strcmp(a->name, "reshard") != 0 &&
		    (!had || strcmp(had, a->value) != 0))
			buf_printf(&text, " %s=%s", a->name, a->value);
	}
	for (size_t i = 0; i < former->canonical.count; i++)
		if (!args_get(&t->config.canonical, former->canonical.items[i].name))
			buf_printf(&text, " %s=", former->canonical.items[i].name);
	if (t->policy)
		buf_printf(&text, " (with %s)", t->policy);
	EVENT_TELL(definition_vhost(d)->broker,
		   d->table == STORE_EXCHANGES ? EVENT_EXCHANGE_CHANGED
		   : d->table == STORE_TOPICS  ? EVENT_TOPIC_CHANGED
					       : EVENT_QUEUE_CHANGED,
		   slice_from(vhost), slice_from(name),
		   slice_skip(buf_slice(&text), buf_len(&text) > 0));
	/* Lines of one format share what the log has room for: one for each kind. */
	if (d->table == STORE_EXCHANGES)
		log_info("exchange '%s' of vhost '%s' has other options:%s", name, vhost,
			 buf_cstr(&text));
	else
		log_info("%s '%s' of vhost '%s' has other options:%s",
			 definition_kind(d->table), name, vhost, buf_cstr(&text));
	buf_deinit(&text);
}

/* Let a queue act by its new options. */
static void adapt_queue(struct queue *q, const struct update *u,
			const struct config *former)
{
	if (q->topic && q->config.shards > former->shards)
		queue_widen(q, former->shards);
	if (u->is_revived) {
		/* A shard is attached, and its messages are read, as if this were the
		 * start. */
		if (u->is_mixing)
			queue_renew_shards(q);
		change_clocks(q, former);
		return;
	}
	swap_strategies(q);
	change_shards(q, u, config_shards(former));
	change_clocks(q, former);
	if (q->topic)
		retention_renew(q->topic);
	definition_follow(&q->definition);
	queue_activate(q);
	tell_consumers(q, former);
}

static void apply_update(struct definition *d, struct update *u)
{
	struct terms *terms = definition_terms(d), former = *terms;

	*terms = u->next;
	u->next = (struct terms){ 0 };
	if (queue_of(d) && !u->is_idle)
		adapt_queue(queue_of(d), u, &former.config);
	if (!u->is_idle) {
		/* Remembered routes say which shard. */
		u->broker->route_version++;
		tell_log(d, &former.config);
	}
	terms_deinit(&former);
}

static void on_answer(void *ctx, int status, const char *text)
{
	struct update *u = ctx;
	struct definition *d = definition_end(&u->job);

	if (d) {
		d->next_terms = NULL;
		if (status == TIDE_OK)
			apply_update(d, u);
		if (queue_of(d))
			drop_strategies(queue_of(d));
		/* There are other policies now. */
		if (u->epoch != engine_epoch(u->broker->engine))
			renew_terms(d);
		unusable_retry(d, queue_of(d) ? u->job.waiter : NULL);
		definition_settled(d);
	}
	if (u->job.waiter)
		waiter_done(u->job.waiter, status, text);
	terms_deinit(&u->next);
	mem_free(u);
}

/* ---- asking for it ----------------------------------------------------------------- */

static void keep_shards(struct config *c, unsigned had)
{
	c->reshard = had;
	config_reshard(c, c->shards);
}

static void plan_shards(const struct queue *q, struct update *u)
{
	unsigned had = config_shards(&q->config);
	struct config *next = &u->next.config;

	u->is_sharded_anew = (!q->topic && next->shards != q->config.shards) ||
			     has_other_script(q, next, SCRIPT_SHARDING);
	u->is_ranked_anew = has_other_script(q, next, SCRIPT_PRIORITY);
	if (q->topic)
		return;
	u->is_mixing = u->is_sharded_anew && (had > 1 || next->shards > 1);
	/* A start finds them mixed by that. */
	if (q->config.reshard || u->is_mixing) {
		keep_shards(next, had);
		if (u->next.own)
			keep_shards(u->next.own, had);
	}
}

static bool does_same(struct definition *d, const struct config *next)
{
	const struct config *has = &definition_terms(d)->config;
	const struct queue *q = queue_of(d);
	struct option_difference difference;

	for (int kind = 0; q && kind < CONFIG_SCRIPTS; kind++)
		if (has_other_script(q, next, (enum script_kind)kind))
			return false;
	if (!q && index_differs(exchange_of(d)->indexes[RULESET_ACTIVE],
				&has->script_args[SCRIPT_ROUTING],
				&next->script_args[SCRIPT_ROUTING], &difference))
		return false;
	return config_is_same(has, next, NULL);
}

static bool is_same_text(const struct config *a, const struct config *b)
{
	struct buf x = { 0 }, y = { 0 };
	bool is_same;

	config_format(a, &x);
	config_format(b, &y);
	is_same = strcmp(buf_cstr(&x), buf_cstr(&y)) == 0;
	buf_deinit(&x);
	buf_deinit(&y);
	return is_same;
}

/* The waiter is told when it is done; without one, Redis is not told. A queue that could
 * not be used for its options can be then, with its messages: they have been read. The
 * definition is not busy: definition_is_busy. TIDE_EMISMATCH: an option cannot change, or
 * a script refuses its own. */
static int update_terms(struct definition *d, struct terms *next_take,
			struct waiter *waiter, struct error *err)
{
	struct update *u = mem_zalloc(sizeof(*u));
	int rc = TIDE_OK;

	u->broker = definition_vhost(d)->broker;
	u->epoch = engine_epoch(u->broker->engine);
	u->next = *next_take;
	u->is_revived = d->unusable != NULL;
	if (queue_of(d))
		plan_shards(queue_of(d), u);
	u->is_idle = !u->is_revived && does_same(d, &u->next.config);
	u->is_declared_anew =
		u->is_revived || (waiter && !is_same_text(terms_own(definition_terms(d)),
							  terms_own(&u->next)));
	if (!u->is_idle || u->is_declared_anew)
		rc = check_update(d, u, err);
	if (rc == TIDE_OK && queue_of(d) && !u->is_idle)
		rc = create_strategies(queue_of(d), u, err);
	if (rc < 0) {
		terms_deinit(&u->next);
		mem_free(u);
		return rc;
	}
	definition_begin(d, &u->job);
	if (u->is_declared_anew && definition_is_durable(d)) {
		u->job.waiter = waiter;
		waiter_add(waiter);
		d->next_terms = &u->next;
		definition_write(d, &u->next, on_answer, u);
	} else {
		on_answer(u, TIDE_OK, NULL);
	}
	return TIDE_OK;
}

/* ---- policies ---------------------------------------------------------------------- */

/* The terms of a definition: its own options, with the policies of now. */
static int make_terms(struct definition *d, const struct policy_watch *w,
		      struct terms *out, struct error *err)
{
	static const struct args none;
	const struct terms_spec spec = { .name = definition_name(d),
					 .type = slice_from(
						 queue_of(d) ? "" : exchange_of(d)->type),
					 .args = &none,
					 .watch = w };

	return terms_merge(definition_vhost(d), &spec, terms_own(definition_terms(d)),
			   out, err);
}

void declare_ask_again(struct definition *d, const struct policy_watch *w)
{
	struct terms terms;
	struct error ignored;

	if (make_terms(d, w, &terms, &ignored) == TIDE_OK)
		terms_deinit(&terms);
}

static void tell_refusal(const struct definition *d, const struct error *why)
{
	const char *name = definition_name(d).data, *vhost = definition_vhost(d)->name;

	if (d->table == STORE_EXCHANGES)
		log_warn("exchange '%s' of vhost '%s' keeps its options, whatever its "
			 "policies say: %s",
			 name, vhost, why->text);
	else
		log_warn("%s '%s' of vhost '%s' keeps its options, whatever its policies "
			 "say: %s",
			 definition_kind(d->table), name, vhost, why->text);
}

/* At the start, before it has scripts and messages: Redis is not told. */
static void restore_terms(struct definition *d)
{
	struct terms *has = definition_terms(d), terms, former;
	struct error why;

	if (make_terms(d, NULL, &terms, &why) < 0) {
		tell_refusal(d, &why);
		return;
	}
	former = *has;
	*has = terms;
	terms_deinit(&former);
	if (queue_of(d))
		change_clocks(queue_of(d), &has->config);
}

/* Ask the policies (declare/) again. What they cannot change stays, and the log says so.
 */
static void renew_terms(struct definition *d)
{
	struct terms terms;
	struct error why;
	int rc;

	/* Without an answer of Redis the definition is asked again later. */
	if (d->next_terms || d->is_unreadable || d->is_recovering)
		return;
	if (d->unusable) {
		restore_terms(d);
		return;
	}
	rc = make_terms(d, NULL, &terms, &why);
	if (rc == TIDE_OK)
		rc = update_terms(d, &terms, NULL, &why);
	if (rc < 0)
		tell_refusal(d, &why);
}

struct policies {
	struct job job;
	struct broker *broker;
	struct walk walk;
	bool is_walking;
	bool are_used; /* by the generation that was asked last */
};

static void end_walk(struct policies *p)
{
	if (p->is_walking)
		walk_end(&p->walk);
	p->is_walking = false;
}

/* @return  false: all were asked about */
static bool renew_next(struct walk *w)
{
	struct definition *d = walk_definition(w);

	if (d)
		renew_terms(d);
	return d;
}

static void run_walk(struct job *job)
{
	struct policies *p = container_of(job, struct policies, job);
	struct broker *b = p->broker;

	while (!b->is_closing && renew_next(&p->walk))
		if (pace_is_spent(&b->pace, false)) {
			job_add(b, job);
			return;
		}
	end_walk(p);
}

static bool renew_unusable(void *ctx, struct definition *d)
{
	if (d->unusable)
		renew_terms(d);
	return true;
}

void declare_policies_renew(struct broker *b)
{
	struct policies *p = b->policies;
	bool were_used = p->are_used;

	p->are_used = hook_is_used(b->engine, SCRIPT_DECLARE);
	/* Without policies queues do what they were declared with. */
	if (!p->are_used && !were_used)
		return;
	if (b->unusable)
		definition_each(b, renew_unusable, NULL);
	end_walk(p);
	walk_begin(&p->walk, b);
	p->is_walking = true;
	job_add(b, &p->job);
}

static bool restore_one(void *ctx, struct definition *d)
{
	if (!d->is_unreadable)
		restore_terms(d);
	return true;
}

void declare_policies_begin(struct broker *b)
{
	bool were_used = b->policies->are_used;

	b->policies->are_used = hook_is_used(b->engine, SCRIPT_DECLARE);
	if (b->policies->are_used || were_used)
		definition_each(b, restore_one, NULL);
}

struct policies *declare_policies_create(struct broker *b)
{
	struct policies *p = mem_zalloc(sizeof(*p));

	p->broker = b;
	p->job.run = run_walk;
	b->on_policies_missed = renew_terms;
	return p;
}

void declare_policies_destroy(struct policies *p)
{
	end_walk(p);
	mem_free(p);
}

static struct definition *find_definition(struct vhost *v, const struct terms_spec *spec)
{
	struct exchange *x;
	struct queue *q;

	if (spec->kind == CONFIG_EXCHANGE) {
		x = exchange_find(v, spec->name);
		return x ? &x->definition : NULL;
	}
	q = queue_find(v, spec->name);
	return q ? &q->definition : NULL;
}

static int check_kind(const struct definition *d, const struct terms_spec *spec,
		      struct error *err)
{
	if (!d || definition_terms(d)->config.kind == spec->kind)
		return TIDE_OK;
	return error_set(err, TIDE_EEXISTS,
			 "there is a %s '%s': queues and topics of a vhost share their "
			 "names",
			 definition_kind(d->table), definition_name(d).data);
}

/* One that its scripts refuse may be given other options. */
static int check_updatable(const struct definition *d, struct error *err)
{
	if (d->is_unreadable)
		return error_set(err, TIDE_ERULE,
				 "%s '%s' cannot change: it %s; mend it in Redis while "
				 "no broker runs, or DELETE it",
				 definition_kind(d->table), definition_name(d).data,
				 d->unusable);
	return d->is_recovering ? unusable_check(d, err) : TIDE_OK;
}

/* DECLAREs of one that exists are carried out in their order. */
static int check_turn(const struct definition *d, bool is_its_turn, struct error *err)
{
	if (!definition_is_busy(d, is_its_turn))
		return TIDE_OK;
	return error_set(err, TIDE_EBUSY,
			 "too many DECLAREs of %s '%s' wait for Redis; try again",
			 definition_kind(d->table), definition_name(d).data);
}

/* One of before may give it what is wanted. */
static int check_changing(int rc, const struct definition *d, bool is_its_turn,
			  struct error *err)
{
	bool may_change = d->next_terms || (d->line && !is_its_turn);

	return rc == TIDE_EMISMATCH && may_change ? check_turn(d, is_its_turn, err) : rc;
}

/* An update with a wrong name makes no new thing. */
static int check_exists(const struct definition *d, const struct vhost *v,
			const struct terms_spec *spec, struct error *err)
{
	if (d)
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND,
			 "there is no %s '%" SLICE_FMT
			 "' to update in vhost '%s'; DECLARE without update makes one",
			 spec->kind == CONFIG_EXCHANGE ? "exchange"
			 : spec->kind == CONFIG_TOPIC  ? "topic"
						       : "queue",
			 SLICE_ARG(spec->name), v->name);
}

/* Split the flag `update` from the options of DECLARE. */
static int take_update(const struct args *given, struct args *rest, bool *is_update,
		       struct error *err)
{
	*rest = (struct args){ 0 };
	*is_update = false;
	for (size_t i = 0; i < given->count; i++) {
		const struct arg *a = &given->items[i];
		int rc = TIDE_OK;

		if (strcmp(a->name, "update") != 0)
			rc = args_add(rest, slice_from(a->name),
				      (struct slice){ a->value, a->value_len });
		else if (strcmp(a->value, "0") != 0 && strcmp(a->value, "1") != 0)
			rc = TIDE_ESYNTAX;
		else
			*is_update = a->value[0] == '1';
		if (rc < 0) {
			args_deinit(rest);
			return error_set(err, rc, "%s=%s: expected 0 or 1", a->name,
					 a->value);
		}
	}
	return TIDE_OK;
}

/* ---- comparing --------------------------------------------------------------------- */

static int check_type(const struct exchange *x, struct slice type, struct error *err)
{
	if (slice_is(type, x->type))
		return TIDE_OK;
	return error_set(err, TIDE_EMISMATCH,
			 "exchange '%s' exists with type %s, not %" SLICE_FMT, x->name,
			 x->type, SLICE_ARG(type));
}

/* The options of the script of one kind. Those that are given come first. */
static int compare_script(struct definition *d, const struct config *wanted,
			  enum script_kind kind, bool is_given, struct error *err)
{
	const struct config *own = terms_own(definition_terms(d));
	const struct args *has = &own->script_args[kind],
			  *args = &wanted->script_args[kind];
	const struct engine *e = definition_vhost(d)->broker->engine;
	const char *script = script_kind_name(kind);
	bool is_queue = kind != SCRIPT_ROUTING;
	struct option_difference o;
	bool differs;

	if (is_queue)
		differs = own->scripts[kind] &&
			  strategy_differs(e, kind, own->scripts[kind], has, args, &o);
	else
		differs = !queue_of(d) &&
			  index_differs(exchange_of(d)->indexes[RULESET_ACTIVE], has,
					args, &o);
	if (!differs || (args_get(args, o.name) != NULL) != is_given)
		return TIDE_OK;
	return error_set(err, TIDE_EMISMATCH, "it has %s%s%s=%s, not %s%s%s=%s%s",
			 is_queue ? script : "", is_queue ? "." : "", o.name,
			 o.has ? o.has : "(none)", is_queue ? script : "",
			 is_queue ? "." : "", o.name, o.wanted ? o.wanted : "(none)",
			 is_queue ? "; the option update changes that" : "");
}

/* Options that are given are named before those that are left out. */
static int compare_options(struct definition *d, const struct config *wanted,
			   struct error *err)
{
	int64_t dedupe_ms = definition_vhost(d)->broker->config.dedupe_window_ms;
	int rc = TIDE_OK;

	for (int is_given = 1; is_given >= 0 && rc == TIDE_OK; is_given--) {
		rc = config_compare(terms_own(definition_terms(d)), wanted, is_given,
				    dedupe_ms, err);
		for (int kind = 0; kind < CONFIG_SCRIPTS && rc == TIDE_OK; kind++)
			rc = compare_script(d, wanted, (enum script_kind)kind, is_given,
					    err);
	}
	return rc;
}

/* Compare an existing thing with what is wanted. */
static int check_same(struct definition *d, const struct terms_spec *spec,
		      const struct config *wanted, struct error *err)
{
	struct error why;

	if (!d->is_unreadable && !queue_of(d) &&
	    check_type(exchange_of(d), spec->type, err) < 0)
		return err->code;
	if (!d->is_unreadable && compare_options(d, wanted, &why) < 0)
		return error_set(err, why.code, "%s '%s' exists with other options: %s",
				 definition_kind(d->table), definition_name(d).data,
				 why.text);
	if (queue_of(d))
		queue_use(queue_of(d));
	return unusable_check(d, err);
}

/* ---- changing ---------------------------------------------------------------------- */

/* The options that an existing thing would have: the given ones, over its own. */
static int merge_options(struct definition *d, const struct terms_spec *spec,
			 struct terms *out, struct error *err)
{
	struct error why;

	if (check_updatable(d, err) < 0)
		return err->code;
	if (!queue_of(d) && check_type(exchange_of(d), spec->type, &why) < 0)
		return error_set(
			err, why.code,
			"%s; declare an exchange of another name, and bind to it",
			why.text);
	return terms_merge(definition_vhost(d), spec, terms_own(definition_terms(d)), out,
			   err);
}

static int change(struct definition *d, const struct terms_spec *spec,
		  struct waiter *waiter, struct error *err)
{
	struct terms terms;
	int rc = check_turn(d, spec->is_its_turn, err);

	if (rc == TIDE_OK)
		rc = merge_options(d, spec, &terms, err);
	if (rc < 0)
		return rc;
	if (queue_of(d))
		queue_use(queue_of(d));
	return update_terms(d, &terms, waiter, err);
}

/* With `reshard`: another number of shards, and nothing else. */
static int reshard(struct definition *d, struct config *wanted,
		   const struct terms_spec *spec, struct waiter *waiter,
		   struct error *err)
{
	char shards[16];
	struct args given = { 0 };
	struct terms_spec other = *spec;
	int rc = check_turn(d, spec->is_its_turn, err);

	snprintf(shards, sizeof(shards), "%u", wanted->shards);
	wanted->shards = terms_own(definition_terms(d))->shards;
	other.args = &given;
	if (rc == TIDE_OK)
		rc = check_same(d, spec, wanted, err);
	if (rc == TIDE_OK)
		rc = args_add(&given, SLICE("shards"), slice_from(shards));
	if (rc == TIDE_OK)
		rc = change(d, &other, waiter, err);
	args_deinit(&given);
	return rc;
}

static int create(struct vhost *v, const struct terms_spec *spec, struct config *own_take,
		  struct definition **out, struct error *err)
{
	struct exchange *x;
	struct terms terms;
	struct queue *q;
	int rc = terms_make(v, spec, own_take, &terms, err);

	if (rc < 0)
		return rc;
	if (spec->kind == CONFIG_EXCHANGE) {
		rc = exchange_create(v, spec, &terms, &x, err);
		if (rc == TIDE_OK)
			*out = &x->definition;
		return rc;
	}
	rc = queue_create(v, spec, &terms, &q, err);
	if (rc == TIDE_OK)
		*out = &q->definition;
	return rc;
}

/* @param spec  without the option `update` */
static int declare(struct vhost *v, const struct terms_spec *spec,
		   struct definition **out, struct waiter *waiter, struct error *err)
{
	struct definition *d = *out;
	struct config config;
	bool may_reshard;
	int rc = config_parse(&config, spec->kind, spec->args, err);

	if (rc < 0)
		return rc;
	rc = config_take_reshard(&config, &may_reshard, err);
	if (rc == TIDE_OK && !d && spec->kind != CONFIG_EXCHANGE)
		rc = removal_check(v->broker, vhost_slice(v), spec->name, err);
	if (rc == TIDE_OK && !d)
		return create(v, spec, &config, out, err);
	if (rc == TIDE_OK)
		rc = may_reshard ? reshard(d, &config, spec, waiter, err)
				 : check_changing(check_same(d, spec, &config, err), d,
						  spec->is_its_turn, err);
	config_deinit(&config);
	return rc;
}

/* Read what DECLARE says of an existing thing, `*d`, or a new one.
 *
 * @param rest       receives the spec without the option `update`; its args are `args`,
 *                   to be freed
 * @param is_update  receives that option */
static int read_declaration(struct vhost *v, const struct terms_spec *spec,
			    struct definition **d, struct terms_spec *rest,
			    struct args *args, bool *is_update, struct error *err)
{
	int rc;

	*d = find_definition(v, spec);
	*rest = *spec;
	rc = check_kind(*d, spec, err);
	if (rc == TIDE_OK)
		rc = take_update(spec->args, args, is_update, err);
	rest->args = args;
	if (rc == TIDE_OK && *is_update)
		rc = check_exists(*d, v, spec, err);
	return rc;
}

int declare_one(struct vhost *v, const struct terms_spec *spec, struct definition **out,
		struct waiter *waiter, struct error *err)
{
	struct args args = { 0 };
	struct terms_spec rest;
	bool is_update;
	int rc = read_declaration(v, spec, out, &rest, &args, &is_update, err);

	if (rc == TIDE_OK)
		rc = is_update ? change(*out, &rest, waiter, err)
			       : declare(v, &rest, out, waiter, err);
	args_deinit(&args);
	return rc;
}

int declare_check_room(const struct broker *b, struct error *err)
{
	size_t count = HASH_CNT(serial_hh, b->queues_by_serial);

	if (count < b->config.queues_max)
		return TIDE_OK;
	return error_set(err, TIDE_ELIMIT, "the limit of %zu queues is reached", count);
}

int declare_on_demand(struct vhost *v, struct subject *subject, struct slice user,
		      struct slice name, struct queue **out, struct error *err)
{
	static const struct args none;
	const struct terms_spec spec = {
		.kind = CONFIG_QUEUE, .name = name, .args = &none, .user = user
	};
	struct definition *made;

	if (subject_check(subject, USER_CONFIGURE, SUBJECT_QUEUE, name, err) < 0 ||
	    declare_check_room(v->broker, err) < 0 ||
	    declare_one(v, &spec, &made, NULL, err) < 0)
		return err->code;
	/* Its messages wait until Redis has it. */
	definition_send(made, NULL);
	*out = queue_of(made);
	return TIDE_OK;
}

int declare_ask(struct vhost *v, const struct terms_spec *spec, struct terms *out,
		struct error *err)
{
	struct args args = { 0 };
	struct terms_spec rest;
	struct definition *d;
	bool is_update;
	int rc = read_declaration(v, spec, &d, &rest, &args, &is_update, err);

	if (rc == TIDE_OK)
		rc = d ? merge_options(d, &rest, out, err)
		       : terms_read(v, &rest, out, err);
	args_deinit(&args);
	return rc;
}
