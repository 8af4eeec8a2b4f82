#include "exchange_update.h"

#include "base/mem.h"
#include "base/waiter.h"
#include "exchange.h"
#include "host/log.h"
#include "rules/engine/index.h"
#include "unusable.h"

/* The exchange may go before Redis has answered. */
struct exchange_update {
	struct broker *broker;
	uint64_t serial;
	char *vhost, *name;
	struct exchange_terms next;
	uint64_t epoch; /* of the policies that were asked */
	bool is_declared_anew;
	bool is_idle; /* the exchange does what it did */
	struct waiter *waiter;
};

static struct exchange *find(const struct exchange_update *u)
{
	struct vhost *v = vhost_find(u->broker, slice_from(u->vhost));
	struct exchange *x = v ? exchange_find(v, slice_from(u->name)) : NULL;

	return x && x->serial == u->serial ? x : NULL;
}

static void free_update(struct exchange_update *u)
{
	exchange_terms_deinit(&u->next);
	mem_free(u->vhost);
	mem_free(u->name);
	mem_free(u);
}

/* ---- doing it ---------------------------------------------------------------------- */

static void tell_log(const struct exchange *x)
{
	const struct exchange_config *c = &x->config;

	log_info("exchange '%s' of vhost '%s' has other options: auto-delete=%d "
		 "internal=%d alternate=%s%s%s%s",
		 x->name, x->vhost->name, c->is_auto_delete, c->is_internal,
		 c->alternate ? c->alternate : "(none)", x->policy ? " (with " : "",
		 x->policy ? x->policy : "", x->policy ? ")" : "");
}

static void apply(struct exchange *x, struct exchange_update *u)
{
	struct exchange_terms former = exchange_swap_terms(x, &u->next);

	exchange_terms_deinit(&former);
	if (u->is_idle)
		return;
	x->vhost->broker->route_version++;
	tell_log(x);
}

static void on_answer(void *ctx, int status, const char *text)
{
	struct exchange_update *u = ctx;
	struct exchange *x = find(u);

	if (x) {
		x->next_terms = NULL;
		if (status == TIDE_OK)
			apply(x, u);
		/* There are other policies now. */
		if (u->epoch != engine_epoch(u->broker->engine))
			exchange_update_renew(x);
		unusable_retry(&x->definition, NULL);
		definition_settled(&x->definition);
	}
	if (u->waiter)
		waiter_done(u->waiter, status, text);
	free_update(u);
}

/* ---- asking for it ----------------------------------------------------------------- */

static int check_options(const struct exchange *x, const struct exchange_config *next,
			 struct error *why)
{
	static const char another[] = "declare an exchange of another name, and "
				      "bind to it";
	struct option_difference d;
	struct error cause;

	if (x->config.is_durable != next->is_durable)
		return error_set(why, TIDE_EMISMATCH,
				 "it keeps durable=%d, because bindings do not move "
				 "between memory and Redis; %s",
				 x->config.is_durable, another);
	if (x->definition.unusable && exchange_try(x, next, &cause) < 0)
		return error_set(why, cause.code, "it %s", cause.text);
	if (!x->definition.unusable &&
	    index_differs(x->indexes[RULESET_ACTIVE], &x->config.args, &next->args, &d))
		return error_set(why, TIDE_EMISMATCH,
				 "it keeps %s=%s, because its bindings are indexed by "
				 "it; %s",
				 d.name, d.has ? d.has : "(none)", another);
	return TIDE_OK;
}

static int check(const struct exchange *x, const struct exchange_config *next,
		 struct error *err)
{
	struct error why;
	int rc = check_options(x, next, &why);

	if (rc < 0)
		return error_set(err, rc, "exchange '%s' cannot change so: %s", x->name,
				 why.text);
	return TIDE_OK;
}

static void tell_redis(struct exchange *x, struct exchange_update *u,
		       struct waiter *waiter)
{
	struct buf text = { 0 };

	u->waiter = waiter;
	waiter_add(waiter);
	x->next_terms = &u->next;
	exchange_format(x, exchange_terms_own(&u->next), &text);
	definition_write(&x->definition, buf_slice(&text), on_answer, u);
	buf_deinit(&text);
}

int exchange_update_terms(struct exchange *x, struct exchange_terms *next_take,
			  struct waiter *waiter, struct error *err)
{
	struct exchange_update *u = mem_zalloc(sizeof(*u));
	bool is_unusable = x->definition.unusable != NULL;
	int rc = TIDE_OK;

	u->broker = x->vhost->broker;
	u->serial = x->serial;
	u->vhost = mem_strdup(x->vhost->name);
	u->name = mem_strdup(x->name);
	u->epoch = engine_epoch(u->broker->engine);
	u->next = *next_take;
	u->is_idle = !is_unusable && exchange_config_is_same(&x->config, &u->next.config);
	u->is_declared_anew =
		waiter &&
		(is_unusable ||
		 !exchange_config_is_same(exchange_own(x), exchange_terms_own(&u->next)));
	rc = check(x, &u->next.config, err);
	if (rc < 0)
		free_update(u);
	else if (u->is_declared_anew && exchange_is_durable(x))
		tell_redis(x, u, waiter);
	else
		on_answer(u, TIDE_OK, NULL);
	return rc;
}

/* ---- policies ---------------------------------------------------------------------- */

/* What it was declared with, with the policies of now. */
static int make_terms(const struct exchange *x, const struct policy_watch *w,
		      struct exchange_terms *out, struct error *err)
{
	const struct exchange_terms_spec what = { .name = exchange_slice(x),
						  .type = slice_from(x->type),
						  .watch = w };
	const struct args none = { 0 };
	struct exchange_config own;
	int rc = exchange_config_merge(exchange_own(x), &none, &own, err);

	return rc == TIDE_OK ? exchange_terms_make(x->vhost, &what, &own, out, err) : rc;
}

void exchange_update_ask(const struct exchange *x, const struct policy_watch *w)
{
	struct exchange_terms terms;
	struct error ignored;

	if (make_terms(x, w, &terms, &ignored) == TIDE_OK)
		exchange_terms_deinit(&terms);
}

static void tell_refusal(const struct exchange *x, const struct error *why)
{
	log_warn("exchange '%s' of vhost '%s' keeps its options, whatever its policies "
		 "say: %s",
		 x->name, x->vhost->name, why->text);
}

void exchange_update_renew(struct exchange *x)
{
	struct exchange_terms terms;
	struct error why;
	int rc;

	/* It is asked again when Redis has answered. */
	if (x->next_terms || x->definition.is_unreadable)
		return;
	if (x->definition.unusable) {
		exchange_update_restored(x);
		return;
	}
	rc = make_terms(x, NULL, &terms, &why);
	if (rc == TIDE_OK)
		rc = exchange_update_terms(x, &terms, NULL, &why);
	if (rc < 0)
		tell_refusal(x, &why);
}

void exchange_update_restored(struct exchange *x)
{
	struct exchange_terms terms, former;
	struct error why;

	if (make_terms(x, NULL, &terms, &why) < 0) {
		tell_refusal(x, &why);
		return;
	}
	former = exchange_swap_terms(x, &terms);
	exchange_terms_deinit(&former);
}
