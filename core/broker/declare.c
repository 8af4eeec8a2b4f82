#include "declare.h"

#include <stdio.h>

#include "exchange_update.h"
#include "removal.h"
#include "unusable.h"
#include "update.h"

static int check_kind(const struct queue *q, bool is_topic, struct error *err)
{
	if (!q || q->config.is_topic == is_topic)
		return TIDE_OK;
	return error_set(err, TIDE_EEXISTS,
			 "there is a %s '%s': queues and topics of a vhost share their "
			 "names",
			 definition_kind(q->definition.table), q->name);
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
static int check_same(int rc, const struct definition *d, bool is_its_turn,
		      struct error *err)
{
	bool may_change = definition_is_changing(d) || (d->line && !is_its_turn);

	return rc == TIDE_EMISMATCH && may_change ? check_turn(d, is_its_turn, err) : rc;
}

/* Nobody makes one by a wrong name. */
static int check_exists(const void *thing, const struct vhost *v, const char *kind,
			struct slice name, struct error *err)
{
	if (thing)
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND,
			 "there is no %s '%" SLICE_FMT
			 "' to update in vhost '%s'; DECLARE without update makes one",
			 kind, SLICE_ARG(name), v->name);
}

/* What one that exists would have with other options: these, over those that it has. */
static int merge(const struct queue *q, const struct args *given,
		 const struct queue_terms_spec *what, struct queue_terms *out,
		 struct error *err)
{
	struct queue_declare_spec spec = { .is_topic = q->config.is_topic };
	struct queue_config next;
	struct args args;
	bool ignored;
	int rc = check_updatable(&q->definition, err);

	if (rc == TIDE_OK)
		rc = queue_config_merge(queue_own(q), given, &args, err);
	if (rc < 0)
		return rc;
	spec.args = &args;
	rc = queue_parse(&next, &spec, err);
	args_deinit(&args);
	if (rc == TIDE_OK && !spec.is_topic)
		rc = queue_config_take_reshard(&next, &ignored, err);
	return rc == TIDE_OK ? queue_terms_make(q->vhost, what, &next, out, err) : rc;
}

static int change(struct queue *q, const struct queue_declare_spec *spec,
		  struct waiter *waiter, struct error *err)
{
	const struct queue_terms_spec what = { queue_slice(q), spec->user, NULL };
	struct queue_terms terms;
	int rc = check_turn(&q->definition, spec->is_its_turn, err);

	if (rc == TIDE_OK)
		rc = merge(q, spec->args, &what, &terms, err);
	if (rc < 0)
		return rc;
	queue_use(q);
	return update_queue(q, &terms, waiter, err);
}

/* With `reshard`: another number of shards, and nothing else. */
static int reshard(struct queue *q, struct queue_config *wanted,
		   const struct queue_declare_spec *spec, struct waiter *waiter,
		   struct error *err)
{
	char shards[16];
	struct args given = { 0 };
	struct queue_declare_spec other = *spec;
	int rc = check_turn(&q->definition, spec->is_its_turn, err);

	snprintf(shards, sizeof(shards), "%u", wanted->shards);
	wanted->shards = queue_own(q)->shards;
	other.args = &given;
	if (rc == TIDE_OK)
		rc = queue_check_same(q, wanted, err);
	if (rc == TIDE_OK)
		rc = args_add(&given, SLICE("shards"), slice_from(shards));
	if (rc == TIDE_OK)
		rc = change(q, &other, waiter, err);
	args_deinit(&given);
	return rc;
}

static int create(struct vhost *v, const struct queue_declare_spec *spec,
		  struct queue_config *own_take, struct queue **out, struct error *err)
{
	const struct queue_terms_spec what = { spec->name, spec->user, NULL };
	struct queue_terms terms;
	int rc = queue_terms_make(v, &what, own_take, &terms, err);

	return rc == TIDE_OK ? queue_create(v, spec, &terms, out, err) : rc;
}

/* @param spec  without the option `update` */
static int declare(struct vhost *v, const struct queue_declare_spec *spec,
		   struct queue **out, struct waiter *waiter, struct error *err)
{
	struct queue *q = queue_find(v, spec->name);
	struct queue_config config;
	bool may_reshard = false;
	int rc = queue_parse(&config, spec, err);

	if (rc < 0)
		return rc;
	if (!spec->is_topic)
		rc = queue_config_take_reshard(&config, &may_reshard, err);
	if (rc == TIDE_OK && !q)
		rc = removal_check(v->broker, vhost_slice(v), spec->name, err);
	if (rc == TIDE_OK && !q)
		return create(v, spec, &config, out, err);
	if (rc == TIDE_OK)
		rc = may_reshard ? reshard(q, &config, spec, waiter, err)
				 : check_same(queue_check_same(q, &config, err),
					      &q->definition, spec->is_its_turn, err);
	*out = q;
	queue_config_deinit(&config);
	return rc;
}

int declare_queue(struct vhost *v, const struct queue_declare_spec *spec,
		  struct queue **out, struct waiter *waiter, struct error *err)
{
	struct queue *q = queue_find(v, spec->name);
	struct queue_declare_spec rest = *spec;
	struct args args;
	bool is_update;
	int rc = check_kind(q, spec->is_topic, err);

	if (rc == TIDE_OK)
		rc = definition_take_update(spec->args, &args, &is_update, err);
	if (rc < 0)
		return rc;
	rest.args = &args;
	if (!is_update)
		rc = declare(v, &rest, out, waiter, err);
	else if (check_exists(q, v, spec->is_topic ? "topic" : "queue", spec->name, err) <
		 0)
		rc = err->code;
	else
		rc = change(*out = q, &rest, waiter, err);
	args_deinit(&args);
	return rc;
}

int declare_ask_queue(struct vhost *v, const struct queue_declare_spec *spec,
		      const struct policy_watch *w, struct queue_terms *out,
		      struct error *err)
{
	const struct queue_terms_spec what = { spec->name, spec->user, w };
	const struct queue *q = queue_find(v, spec->name);
	struct queue_declare_spec rest = *spec;
	struct queue_config config;
	struct args args;
	bool is_update, ignored;
	int rc = check_kind(q, spec->is_topic, err);

	if (rc == TIDE_OK)
		rc = definition_take_update(spec->args, &args, &is_update, err);
	if (rc < 0)
		return rc;
	rest.args = &args;
	if (q) {
		rc = merge(q, &args, &what, out, err);
	} else if (is_update) {
		rc = check_exists(q, v, spec->is_topic ? "topic" : "queue", spec->name,
				  err);
	} else {
		rc = queue_parse(&config, &rest, err);
		if (rc == TIDE_OK && !spec->is_topic)
			rc = queue_config_take_reshard(&config, &ignored, err);
		if (rc == TIDE_OK)
			rc = queue_terms_make(v, &what, &config, out, err);
	}
	args_deinit(&args);
	return rc;
}

/* What an exchange that exists would have with other options: these, over those that it
 * has. */
static int merge_exchange(const struct exchange *x,
			  const struct exchange_terms_spec *what,
			  const struct args *given, struct exchange_terms *out,
			  struct error *err)
{
	struct exchange_config next;
	struct error why;
	int rc = check_updatable(&x->definition, err);

	if (rc < 0)
		return rc;
	if (exchange_check_type(x, what->type, &why) < 0)
		return error_set(
			err, why.code,
			"%s; declare an exchange of another name, and bind to it",
			why.text);
	rc = exchange_config_merge(exchange_own(x), given, &next, err);
	return rc == TIDE_OK ? exchange_terms_make(x->vhost, what, &next, out, err) : rc;
}

static int change_exchange(struct exchange *x, const struct exchange_terms_spec *what,
			   const struct args *given, struct waiter *waiter,
			   struct error *err)
{
	struct exchange_terms terms;
	int rc = merge_exchange(x, what, given, &terms, err);

	return rc == TIDE_OK ? exchange_update_terms(x, &terms, waiter, err) : rc;
}

/* What one that does not exist would have. */
static int make_exchange(const struct vhost *v, const struct exchange_terms_spec *what,
			 const struct args *args, struct exchange_terms *out,
			 struct error *err)
{
	struct exchange_config own;
	int rc = exchange_config_parse(&own, args, err);

	return rc == TIDE_OK ? exchange_terms_make(v, what, &own, out, err) : rc;
}

static int create_exchange(struct vhost *v, const struct exchange_terms_spec *what,
			   const struct args *args, struct exchange **out,
			   struct error *err)
{
	struct exchange_terms terms;
	int rc = make_exchange(v, what, args, &terms, err);

	return rc == TIDE_OK ? exchange_create(v, what, &terms, out, err) : rc;
}

int declare_ask_exchange(struct vhost *v, const struct exchange_declare_spec *spec,
			 const struct policy_watch *w, struct exchange_terms *out,
			 struct error *err)
{
	const struct exchange_terms_spec what = { spec->name, spec->type, spec->user, w };
	const struct exchange *x = exchange_find(v, spec->name);
	struct args args;
	bool is_update;
	int rc = definition_take_update(spec->args, &args, &is_update, err);

	if (rc < 0)
		return rc;
	if (is_update)
		rc = check_exists(x, v, "exchange", spec->name, err);
	if (rc == TIDE_OK)
		rc = x ? merge_exchange(x, &what, &args, out, err)
		       : make_exchange(v, &what, &args, out, err);
	args_deinit(&args);
	return rc;
}

int declare_exchange(struct vhost *v, const struct exchange_declare_spec *spec,
		     struct exchange **out, struct waiter *waiter, struct error *err)
{
	const struct exchange_terms_spec what = { spec->name, spec->type, spec->user,
						  NULL };
	struct exchange *x = exchange_find(v, spec->name);
	struct args args;
	bool is_update;
	int rc = definition_take_update(spec->args, &args, &is_update, err);

	if (rc < 0)
		return rc;
	*out = x;
	if (is_update)
		rc = check_exists(x, v, "exchange", spec->name, err);
	if (rc == TIDE_OK && is_update)
		rc = check_turn(&x->definition, spec->is_its_turn, err);
	if (rc == TIDE_OK && is_update)
		rc = change_exchange(x, &what, &args, waiter, err);
	else if (rc == TIDE_OK && !x)
		rc = create_exchange(v, &what, &args, out, err);
	else if (rc == TIDE_OK)
		rc = check_same(exchange_check_same(x, spec->type, &args, err),
				&x->definition, spec->is_its_turn, err);
	args_deinit(&args);
	return rc;
}
