#include "list_write.h"

#include "base/container.h"
#include "broker/queue_figures.h"
#include "broker/lock.h"
#include "broker/member.h"
#include "broker/unusable.h"
#include "exchange_document.h"
#include "queue_document.h"
#include "session_private.h"

static void write_args(struct json *j, const struct args *args)
{
	for (size_t i = 0; i < args->count; i++)
		json_member_text(j, args->items[i].name, args->items[i].value);
}

void list_write_exchange(struct session *s, const void *item, struct json *j)
{
	const struct exchange *x = item;

	json_object_begin(j);
	json_member_text(j, "name", x->name);
	exchange_document_kind(x, j);
	figure_write(&queue_figures_exchange, FIGURE_LIST, x, 0, j);
	exchange_document_options(x, j);
	json_object_end(j);
}

/* Those that somebody chose, and may give again; and what policies make of them. */
static void add_options(struct json *j, const struct queue *q)
{
	config_write("options", &q->config, j);
	if (!q->policy)
		return;
	config_write("declared", terms_own(&q->terms), j);
	json_member_text(j, "policy", q->policy);
}

/* What has not been read is not known to be none. */
static void add_figures(struct json *j, const struct queue *q)
{
	const char *unusable = q->definition.unusable;

	if (unusable)
		json_member_text(j, "unusable", unusable);
	figure_write(q->topic ? &queue_figures_topic : &queue_figures_all,
		     FIGURE_LIST | (unusable ? FIGURE_OF_UNUSABLE : 0), q,
		     q->vhost->broker->now_ms, j);
}

void list_write_queue(struct session *s, const void *item, struct json *j)
{
	const struct queue *q = item;

	json_object_begin(j);
	json_member_text(j, "name", q->name);
	add_figures(j, q);
	json_member_bool(j, "durable", queue_is_durable(q));
	queue_document_pause(q, j);
	add_options(j, q);
	json_object_end(j);
}

void list_write_topic(struct session *s, const void *item, struct json *j)
{
	const struct queue *q = item;

	json_object_begin(j);
	json_member_text(j, "name", q->name);
	add_figures(j, q);
	json_member_bool(j, "durable", queue_is_durable(q));
	add_options(j, q);
	json_object_end(j);
}

void list_write_group(struct session *s, const void *item, struct json *j)
{
	session_group_write(item, j);
}

static const char *binding_kind(const struct binding *b)
{
	return definition_kind(b->queue ? b->queue->definition.table
					: b->exchange->definition.table);
}

void list_write_binding(struct session *s, const void *item, struct json *j)
{
	const struct binding *b = item;

	json_object_begin(j);
	json_member_text(j, "exchange", b->source->name);
	json_member_text(j, "to", binding_kind(b));
	json_member_string(j, "destination", binding_dest(b));
	json_member_text(j, "pattern", b->pattern);
	json_member_object(j, "options");
	write_args(j, &b->args);
	json_object_end(j);
	unusable_write_binding(b, j);
	json_object_end(j);
}

void list_write_consumer(struct session *s, const void *item, struct json *j)
{
	const struct consumer *c = item;
	const struct queue *q = c->queue;
	const struct channel *ch =
		c->getter ? fetch_of(c->getter)->channel : subscription_of(c)->channel;
	const struct session *owner = ch->session;
	struct session_peer peer = session_beside_peer(owner);
	char partitions[MEMBER_PARTITIONS_MAX];
	const struct topic_group *group;

	json_object_begin(j);
	json_member_text(j, "queue", q->name);
	json_member_text(j, "sid", c->getter ? "-" : subscription_of(c)->sid);
	json_member_text(j, "kind", c->getter ? "get" : "subscription");
	json_member_int(j, "connection", (int64_t)owner->number);
	json_member_text(j, "name", owner->name ? owner->name : "");
	json_member_text(j, "user", owner->user ? owner->user : "");
	json_member_text(j, "peer", peer.address ? peer.address : "");
	json_member_int(j, "channel", ch->number);
	json_member_text(j, "ack", c->is_auto_ack ? "auto" : "manual");
	json_member_int(j, "priority", c->priority);
	if (q->config.is_single_active)
		json_member_bool(j, "active", c->is_active);
	json_member_int(j, "prefetch", c->prefetch);
	if (c->ack_timeout_ms)
		json_member_int(j, "ack_timeout", c->ack_timeout_ms);
	json_member_int(j, "channel_prefetch", ch->credit.limit);
	json_member_int(j, "rank", c->rank);
	json_member_int(j, "notify_lease_ms", c->lease.notify_ms);
	group = c->member ? c->member->group : c->getter ? c->getter->group : NULL;
	if (group && group->name)
		json_member_text(j, "group", group->name);
	if (c->member) {
		member_format(c->member, partitions);
		json_member_text(j, "partitions", partitions);
	}
	json_member_int(j, "unacked", c->lease.count);
	json_member_int(j, "delivered", (int64_t)c->delivered);
	json_object_end(j);
}

void list_write_connection(struct session *self, const void *item, struct json *j)
{
	const struct session *s = item;

	json_object_begin(j);
	json_member_int(j, "connection", (int64_t)s->number);
	json_member_text(j, "name", s->name ? s->name : "");
	json_member_text(j, "user", s->user ? s->user : "");
	json_member_text(j, "vhost", s->vhost->name);
	json_member_int(j, "channels", s->channel_count + 1);
	json_member_int(j, "pending", s->pending);
	s->ops->describe(s->ctx, j);
	allowance_write(s->of_user, j);
	allowance_write(s->of_address, j);
	json_object_end(j);
}

void list_write_lock(struct session *s, const void *item, struct json *j)
{
	const struct broker *b = s->broker;
	const struct lock *l = item;

	json_object_begin(j);
	json_member_text(j, "name", l->name);
	json_member_int(j, "token", (int64_t)l->token);
	if (l->holder) {
		const struct channel *ch = container_of(l->holder, struct channel, locks);

		json_member_int(j, "connection", (int64_t)ch->session->number);
		json_member_int(j, "channel", ch->number);
	} else {
		json_member_int(j, "lapses", b->now_ms + (l->timer.key - b->mono_ms));
	}
	json_member_int(j, "ttl_ms", l->ttl_ms);
	json_member_int(j, "since", l->since_ms);
	json_member_int(j, "waiting", l->wait_count);
	json_object_end(j);
}

static void add_vhost_figures(struct json *j, const struct list_vhost_sum *sum)
{
	const struct vhost *v = sum->vhost;

	json_member_int(j, "exchanges", HASH_COUNT(v->exchanges));
	json_member_int(j, "queues", HASH_COUNT(v->queues) - v->topic_count);
	json_member_int(j, "topics", v->topic_count);
	json_member_int(j, "connections", v->sessions);
	json_member_int(j, "ready", (int64_t)sum->ready);
	json_member_int(j, "delayed", (int64_t)sum->delayed);
	json_member_int(j, "unacked", (int64_t)sum->unacked);
	json_member_int(j, "buried", (int64_t)sum->buried);
}

void list_write_vhost(struct session *s, const void *item, struct json *j)
{
	const struct list_vhost_sum *sum = item;
	struct error ignored;

	json_object_begin(j);
	json_member_text(j, "name", sum->vhost->name);
	if (session_access_check_monitor(s, "LIST", &ignored) == TIDE_OK)
		add_vhost_figures(j, sum);
	json_object_end(j);
}
