#include "declare.h"

#include <stdio.h>

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

/* Give one that exists other options: these, over those that it has. */
static int change(struct queue *q, const struct args *given, struct waiter *waiter,
		  struct error *err)
{
	struct queue_declare_spec spec = { .is_topic = q->config.is_topic };
	struct queue_config next;
	struct args args;
	bool ignored;
	int rc = unusable_check(&q->definition, err);

	if (rc == TIDE_OK)
		rc = queue_config_merge(&q->config, given, &args, err);
	if (rc < 0)
		return rc;
	spec.args = &args;
	rc = queue_parse(&next, &spec, err);
	args_deinit(&args);
	if (rc == TIDE_OK && !spec.is_topic)
		rc = queue_config_take_reshard(&next, &ignored, err);
	if (rc < 0)
		return rc;
	queue_use(q);
	return update_queue(q, &next, waiter, err);
}

/* With `reshard`: another number of shards, and nothing else. */
static int reshard(struct queue *q, struct queue_config *wanted, struct waiter *waiter,
		   struct error *err)
{
	char shards[16];
	struct args given = { 0 };
	int rc;

	snprintf(shards, sizeof(shards), "%u", wanted->shards);
	wanted->shards = q->config.shards;
	rc = queue_check_same(q, wanted, err);
	if (rc == TIDE_OK)
		rc = args_add(&given, SLICE("shards"), slice_from(shards));
	if (rc == TIDE_OK)
		rc = change(q, &given, waiter, err);
	args_deinit(&given);
	return rc;
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
		return queue_create(v, spec, &config, out, err);
	if (rc == TIDE_OK)
		rc = may_reshard ? reshard(q, &config, waiter, err)
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
		rc = change(q, &args, waiter, err);
	} else {
		rc = declare(v, &rest, out, waiter, err);
	}
	args_deinit(&args);
	return rc;
}
