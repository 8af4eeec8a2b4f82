#include "declare.h"

#include <stdio.h>

#include "base/container.h"
#include "removal.h"
#include "rules/engine/index.h"
#include "unusable.h"
#include "update.h"

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

static struct queue *queue_of(struct definition *d)
{
	return definition_is_queue(d->table) ? container_of(d, struct queue, definition)
					     : NULL;
}

static struct exchange *exchange_of(struct definition *d)
{
	return container_of(d, struct exchange, definition);
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

/* Nobody makes one by a wrong name. */
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

/* What is given is named before what is left out. */
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

/* It exists already: is it what is wanted? */
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

/* What one that exists would have with other options: these, over those that it has. */
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
	return update_begin(d, &terms, waiter, err);
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

int declare_one(struct vhost *v, const struct terms_spec *spec, struct definition **out,
		struct waiter *waiter, struct error *err)
{
	struct definition *d = find_definition(v, spec);
	struct terms_spec rest = *spec;
	struct args args;
	bool is_update = false;
	int rc = check_kind(d, spec, err);

	if (rc == TIDE_OK)
		rc = take_update(spec->args, &args, &is_update, err);
	if (rc < 0)
		return rc;
	*out = d;
	rest.args = &args;
	if (is_update)
		rc = check_exists(d, v, spec, err);
	if (rc == TIDE_OK)
		rc = is_update ? change(d, &rest, waiter, err)
			       : declare(v, &rest, out, waiter, err);
	args_deinit(&args);
	return rc;
}

int declare_ask(struct vhost *v, const struct terms_spec *spec, struct terms *out,
		struct error *err)
{
	struct definition *d = find_definition(v, spec);
	struct terms_spec rest = *spec;
	struct args args;
	bool is_update = false;
	int rc = check_kind(d, spec, err);

	if (rc == TIDE_OK)
		rc = take_update(spec->args, &args, &is_update, err);
	if (rc < 0)
		return rc;
	rest.args = &args;
	if (is_update)
		rc = check_exists(d, v, spec, err);
	if (rc == TIDE_OK)
		rc = d ? merge_options(d, &rest, out, err)
		       : terms_read(v, &rest, out, err);
	args_deinit(&args);
	return rc;
}
