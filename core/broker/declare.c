#include "declare.h"

#include <stdio.h>

#include "removal.h"
#include "rules/engine/policy.h"
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

/* What one that exists would have with other options: these, over those that it has. */
static int merge(const struct queue *q, const struct args *given,
		 const struct queue_terms_spec *what, struct queue_terms *out,
		 struct error *err)
{
	struct queue_declare_spec spec = { .is_topic = q->config.is_topic };
	struct queue_config next;
	struct args args;
	bool ignored;
	int rc = unusable_check(&q->definition, err);

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

static int change(struct queue *q, const struct args *given, struct slice user,
		  struct waiter *waiter, struct error *err)
{
	const struct queue_terms_spec what = { queue_slice(q), user, NULL };
	struct queue_terms terms;
	int rc = merge(q, given, &what, &terms, err);

	if (rc < 0)
		return rc;
	queue_use(q);
	return update_queue(q, &terms, waiter, err);
}

/* With `reshard`: another number of shards, and nothing else. */
static int reshard(struct queue *q, struct queue_config *wanted, struct slice user,
		   struct waiter *waiter, struct error *err)
{
	char shards[16];
	struct args given = { 0 };
	int rc;

	snprintf(shards, sizeof(shards), "%u", wanted->shards);
	wanted->shards = queue_own(q)->shards;
	rc = queue_check_same(q, wanted, err);
	if (rc == TIDE_OK)
		rc = args_add(&given, SLICE("shards"), slice_from(shards));
	if (rc == TIDE_OK)
		rc = change(q, &given, user, waiter, err);
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
		rc = may_reshard ? reshard(q, &config, spec->user, waiter, err)
				 : queue_check_same(q, &config, err);
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
	if (q && is_update) {
		*out = q;
		rc = change(q, &args, spec->user, waiter, err);
	} else {
		rc = declare(v, &rest, out, waiter, err);
	}
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
	bool ignored;
	int rc = check_kind(q, spec->is_topic, err);

	if (rc == TIDE_OK)
		rc = definition_take_update(spec->args, &args, &ignored, err);
	if (rc < 0)
		return rc;
	rest.args = &args;
	if (q) {
		rc = merge(q, &args, &what, out, err);
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

/* Policies may refuse an exchange. */
static int ask(const struct vhost *v, const struct exchange_declare_spec *spec,
	       const struct args *args, const struct policy_watch *w, struct error *err)
{
	char type[NAME_LEN_MAX + 1];
	struct policy_call c = { .kind = "exchange",
				 .type = type,
				 .vhost = vhost_slice(v),
				 .name = spec->name,
				 .user = spec->user,
				 .watch = w };
	int rc;

	snprintf(type, sizeof(type), "%" SLICE_FMT, SLICE_ARG(spec->type));
	args_copy(&c.options, args);
	rc = policy_ask(v->broker->engine, &c, err);
	if (rc == TIDE_OK && c.files[0])
		rc = error_set(err, TIDE_ERULE,
			       "%s: exchange '%" SLICE_FMT "': a policy can refuse an "
			       "exchange, but not change its options",
			       c.files, SLICE_ARG(c.name));
	args_deinit(&c.options);
	return rc;
}

int declare_ask_exchange(const struct vhost *v, const struct exchange_declare_spec *spec,
			 const struct policy_watch *w, struct error *err)
{
	struct args args;
	bool ignored;
	int rc = definition_take_update(spec->args, &args, &ignored, err);

	if (rc < 0)
		return rc;
	rc = ask(v, spec, &args, w, err);
	args_deinit(&args);
	return rc;
}

int declare_exchange(struct vhost *v, const struct exchange_declare_spec *spec,
		     struct exchange **out, struct waiter *waiter, struct error *err)
{
	struct exchange *x = exchange_find(v, spec->name);
	struct args args;
	bool is_update;
	int rc = definition_take_update(spec->args, &args, &is_update, err);

	if (rc < 0)
		return rc;
	*out = x;
	if (!x)
		rc = ask(v, spec, &args, NULL, err);
	if (rc == TIDE_OK)
		rc = x && is_update ? exchange_change(x, spec->type, &args, waiter, err)
				    : exchange_declare(v, spec->name, spec->type, &args,
						       out, err);
	args_deinit(&args);
	return rc;
}
