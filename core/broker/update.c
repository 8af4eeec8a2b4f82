#include "update.h"

#include "base/mem.h"
#include "host/log.h"
#include "queue.h"
#include "retention.h"
#include "unusable.h"

/* The new strategies are the queue's: it may go before Redis has answered. */
struct update {
	struct broker *broker;
	uint64_t serial; /* of the queue */
	struct queue_terms next;
	uint64_t epoch; /* of the policies that were asked */
	bool is_declared_anew, is_sharded_anew, is_mixing, is_ranked_anew;
	bool is_revived;       /* it could not be used */
	bool is_idle;          /* the queue does what it did */
	struct waiter *waiter; /* NULL: Redis is not told */
};

/* ---- what changes ------------------------------------------------------------------ */

static bool has_other_script(const struct queue *q, const struct queue_config *next,
			     enum script_kind kind)
{
	const struct queue_config *has = &q->config;
	struct option_difference d;

	if (!has->scripts[kind])
		return false;
	return strcmp(has->scripts[kind], next->scripts[kind]) != 0 ||
	       strategy_differs(q->vhost->broker->engine, kind, has->scripts[kind],
				&has->script_args[kind], &next->script_args[kind], &d);
}

/* Some options can change while nothing depends on them. */
static int check_state(const struct queue *q, const struct queue_config *next,
		       struct error *err)
{
	const struct queue_config *has = &q->config;

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

static int check(const struct queue *q, const struct update *u, struct error *err)
{
	const char *kind = definition_kind(q->definition.table);
	struct error why;
	int rc = queue_config_check_change(&q->config, &u->next.config,
					   u->is_sharded_anew, &why);

	if (rc < 0)
		return error_set(err, rc,
				 "%s '%s' cannot change so: %s; declare a %s of another "
				 "name",
				 kind, q->name, why.text, kind);
	rc = check_state(q, &u->next.config, &why);
	return rc < 0 ? error_set(err, rc, "%s '%s' cannot change so: %s", kind, q->name,
				  why.text)
		      : TIDE_OK;
}

static void drop_strategies(struct queue *q)
{
	for (int kind = 0; kind <= SCRIPT_RETRY; kind++) {
		strategy_destroy(q->next_strategies[kind]);
		q->next_strategies[kind] = NULL;
	}
}

static int create_strategies(struct queue *q, const struct update *u, struct error *err)
{
	int rc = TIDE_OK;

	for (int kind = SCRIPT_SHARDING; kind <= SCRIPT_RETRY && rc == TIDE_OK; kind++)
		if (u->next.config.scripts[kind] &&
		    (u->is_revived ||
		     has_other_script(q, &u->next.config, (enum script_kind)kind)))
			rc = queue_create_strategy(q, &u->next.config,
						   (enum script_kind)kind,
						   &q->next_strategies[kind], err);
	if (rc == TIDE_OK)
		return TIDE_OK;
	drop_strategies(q);
	return queue_terms_blame(u->next.policy, err);
}

/* ---- doing it ---------------------------------------------------------------------- */

static void swap_strategies(struct queue *q)
{
	bool has_other = false;

	for (int kind = 0; kind <= SCRIPT_RETRY; kind++) {
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
	const struct queue_config *c = &q->config;

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
	if (queue_config_shards(c) > had)
		queue_widen(q, had);
}

static void change_clocks(struct queue *q, const struct queue_config *former)
{
	if (q->config.rate_ns != former->rate_ns)
		q->next_delivery_ns = 0;
	queue_guard(q);
	queue_use(q);
	/* It is asked, and then knows when to be asked again. */
	if (q->config.expires_ms)
		heap_set(&q->vhost->broker->wakes, &q->wake, q->vhost->broker->mono_ms);
}

/* Those who have messages for a time of the queue's. */
static void tell_consumers(const struct queue *q, const struct queue_config *former)
{
	struct consumer *c;

	if (q->config.ack_timeout_ms == former->ack_timeout_ms &&
	    q->config.ack_timeout_max_ms == former->ack_timeout_max_ms)
		return;
	TAILQ_FOREACH (c, &q->consumers, queue_link)
		if (!c->getter)
			c->ops->on_updated(c);
}

static void tell_log(const struct queue *q, const struct queue_config *former)
{
	struct buf text = { 0 };

	for (size_t i = 0; i < q->config.canonical.count; i++) {
		const struct arg *a = &q->config.canonical.items[i];
		const char *had = args_get(&former->canonical, a->name);

		if (strcmp(a->name, "reshard") != 0 &&
		    (!had || strcmp(had, a->value) != 0))
			buf_printf(&text, " %s=%s", a->name, a->value);
	}
	if (q->policy)
		buf_printf(&text, " (with %s)", q->policy);
	log_info("%s '%s' of vhost '%s' has other options:%s",
		 definition_kind(q->definition.table), q->name, q->vhost->name,
		 buf_cstr(&text));
	buf_deinit(&text);
}

/* It does something else now. */
static void adapt(struct queue *q, const struct update *u,
		  const struct queue_config *former)
{
	swap_strategies(q);
	change_shards(q, u, queue_config_shards(former));
	change_clocks(q, former);
	if (q->topic)
		retention_renew(q->topic);
	definition_follow(&q->definition);
	/* Remembered routes say which shard. */
	q->vhost->broker->route_version++;
	queue_activate(q);
	tell_consumers(q, former);
	tell_log(q, former);
}

/* It is attached, and its messages are read, as if this were the start. */
static void prepare(struct queue *q, const struct update *u,
		    const struct queue_config *former)
{
	if (u->is_mixing)
		queue_renew_shards(q);
	change_clocks(q, former);
	tell_log(q, former);
}

static void apply(struct queue *q, struct update *u)
{
	struct queue_terms former = queue_swap_terms(q, &u->next);

	if (u->is_revived)
		prepare(q, u, &former.config);
	else if (!u->is_idle)
		adapt(q, u, &former.config);
	queue_terms_deinit(&former);
}

static void on_answer(void *ctx, int status, const char *text)
{
	struct update *u = ctx;
	struct queue *q = queue_by_serial(u->broker, u->serial);

	if (q) {
		q->next_terms = NULL;
		if (status == TIDE_OK)
			apply(q, u);
		drop_strategies(q);
		/* There are other policies now. */
		if (u->epoch != engine_epoch(u->broker->engine))
			update_renew(q);
		unusable_retry(&q->definition, u->waiter);
		definition_settled(&q->definition);
	}
	if (u->waiter)
		waiter_done(u->waiter, status, text);
	queue_terms_deinit(&u->next);
	mem_free(u);
}

/* ---- asking for it ----------------------------------------------------------------- */

static void set_shards(struct queue_config *c, unsigned had)
{
	c->reshard = had;
	queue_config_reshard(c, c->shards);
}

static void plan(const struct queue *q, struct update *u)
{
	unsigned had = queue_config_shards(&q->config);
	struct queue_config *next = &u->next.config;

	u->is_sharded_anew = next->shards != q->config.shards ||
			     has_other_script(q, next, SCRIPT_SHARDING);
	u->is_ranked_anew = has_other_script(q, next, SCRIPT_PRIORITY);
	if (q->topic)
		return;
	u->is_mixing = u->is_sharded_anew && (had > 1 || next->shards > 1);
	/* A start finds them mixed by that. */
	if (q->config.reshard || u->is_mixing) {
		set_shards(next, had);
		if (u->next.own)
			set_shards(u->next.own, had);
	}
}

static bool does_same(const struct queue *q, const struct queue_config *next)
{
	for (int kind = 0; kind <= SCRIPT_RETRY; kind++)
		if (has_other_script(q, next, (enum script_kind)kind))
			return false;
	return queue_config_is_same(&q->config, next, NULL);
}

static bool is_same_text(const struct queue_config *a, const struct queue_config *b)
{
	struct buf x = { 0 }, y = { 0 };
	bool is_same;

	args_format(&a->canonical, &x);
	args_format(&b->canonical, &y);
	is_same = strcmp(buf_cstr(&x), buf_cstr(&y)) == 0;
	buf_deinit(&x);
	buf_deinit(&y);
	return is_same;
}

static void tell_redis(struct queue *q, struct update *u, struct waiter *waiter)
{
	struct buf text = { 0 };

	u->waiter = waiter;
	waiter_add(waiter);
	q->next_terms = &u->next;
	args_format(&queue_terms_own(&u->next)->canonical, &text);
	definition_write(&q->definition, buf_slice(&text), on_answer, u);
	buf_deinit(&text);
}

int update_queue(struct queue *q, struct queue_terms *next_take, struct waiter *waiter,
		 struct error *err)
{
	struct update *u = mem_zalloc(sizeof(*u));
	int rc = TIDE_OK;

	u->broker = q->vhost->broker;
	u->serial = q->serial;
	u->epoch = engine_epoch(u->broker->engine);
	u->next = *next_take;
	u->is_revived = q->definition.unusable != NULL;
	plan(q, u);
	u->is_idle = !u->is_revived && does_same(q, &u->next.config);
	u->is_declared_anew =
		u->is_revived ||
		(waiter && !is_same_text(queue_own(q), queue_terms_own(&u->next)));
	if (!u->is_idle || u->is_declared_anew)
		rc = check(q, u, err);
	if (rc == TIDE_OK && !u->is_idle)
		rc = create_strategies(q, u, err);
	if (rc < 0) {
		queue_terms_deinit(&u->next);
		mem_free(u);
	} else if (u->is_declared_anew && queue_is_durable(q)) {
		tell_redis(q, u, waiter);
	} else {
		on_answer(u, TIDE_OK, NULL);
	}
	return rc;
}

/* ---- policies ---------------------------------------------------------------------- */

/* What it was declared with, with the policies of now. */
static int make_terms(const struct queue *q, const struct policy_watch *w,
		      struct queue_terms *out, struct error *err)
{
	const struct queue_config *has = queue_own(q);
	const struct queue_terms_spec what = { .name = queue_slice(q), .watch = w };
	const struct args none = { 0 };
	struct queue_config own;
	struct args args;
	int rc = queue_config_merge(has, &none, &args, err);

	if (rc < 0)
		return rc;
	rc = has->is_topic ? queue_config_parse_topic(&own, &args, err)
			   : queue_config_parse(&own, &args, err);
	args_deinit(&args);
	if (rc < 0)
		return rc;
	if (has->reshard)
		set_shards(&own, has->reshard);
	return queue_terms_make(q->vhost, &what, &own, out, err);
}

void update_ask(const struct queue *q, const struct policy_watch *w)
{
	struct queue_terms terms;
	struct error ignored;

	if (make_terms(q, w, &terms, &ignored) == TIDE_OK)
		queue_terms_deinit(&terms);
}

static void tell_refusal(const struct queue *q, const struct error *why)
{
	log_warn("%s '%s' of vhost '%s' keeps its options, whatever its policies say: %s",
		 definition_kind(q->definition.table), q->name, q->vhost->name,
		 why->text);
}

void update_renew(struct queue *q)
{
	struct queue_terms terms;
	struct error why;
	int rc = TIDE_OK;

	/* It is asked again when Redis has answered. */
	if (q->next_terms || q->definition.is_unreadable || q->definition.is_recovering)
		return;
	if (q->definition.unusable) {
		update_restored(q);
		return;
	}
	rc = make_terms(q, NULL, &terms, &why);
	if (rc == TIDE_OK)
		rc = update_queue(q, &terms, NULL, &why);
	if (rc < 0)
		tell_refusal(q, &why);
}

void update_restored(struct queue *q)
{
	struct queue_terms terms, former;
	struct error why;

	if (make_terms(q, NULL, &terms, &why) < 0) {
		tell_refusal(q, &why);
		return;
	}
	former = queue_swap_terms(q, &terms);
	queue_terms_deinit(&former);
	change_clocks(q, &q->config);
}
