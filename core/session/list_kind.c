#include "list_kind.h"

#include <string.h>

#include "base/container.h"
#include "broker/group.h"
#include "broker/lock.h"
#include "broker/unusable.h"
#include "exchange_document.h"
#include "queue_document.h"
#include "session_private.h"

/* What LIST shows of a thing: an object. */

static void write_args(struct json *j, const struct args *args)
{
	for (size_t i = 0; i < args->count; i++)
		json_member_text(j, args->items[i].name, args->items[i].value);
}

static void list_write_exchange(struct session *s, const void *item, struct json *j)
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

static void list_write_queue(struct session *s, const void *item, struct json *j)
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

static void list_write_topic(struct session *s, const void *item, struct json *j)
{
	const struct queue *q = item;

	json_object_begin(j);
	json_member_text(j, "name", q->name);
	add_figures(j, q);
	json_member_bool(j, "durable", queue_is_durable(q));
	add_options(j, q);
	json_object_end(j);
}

static void list_write_group(struct session *s, const void *item, struct json *j)
{
	session_group_write(item, j);
}

static const char *binding_kind(const struct binding *b)
{
	return definition_kind(b->queue ? b->queue->definition.table
					: b->exchange->definition.table);
}

static void list_write_binding(struct session *s, const void *item, struct json *j)
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

static void list_write_consumer(struct session *s, const void *item, struct json *j)
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

static struct session_peer peer_of(const struct session *s)
{
	struct session_peer peer;

	s->ops->facts(s->ctx, &peer);
	return peer;
}

static void list_write_connection(struct session *self, const void *item, struct json *j)
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

static void list_write_lock(struct session *s, const void *item, struct json *j)
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

static void list_write_vhost(struct session *s, const void *item, struct json *j)
{
	const struct list_vhost_sum *sum = item;
	struct error ignored;

	json_object_begin(j);
	json_member_text(j, "name", sum->vhost->name);
	if (session_access_check_monitor(s, "LIST", &ignored) == TIDE_OK)
		add_vhost_figures(j, sum);
	json_object_end(j);
}

static bool has(const char *text, const char *part)
{
	return text && strcasestr(text, part) != NULL;
}

#define HAS(function, type, member)                              \
	static bool function(const void *item, const char *part) \
	{                                                        \
		return has(((const type *)item)->member, part);  \
	}
#define NUMBER(function, type, member)                       \
	static double function(const void *item)             \
	{                                                    \
		return (double)((const type *)item)->member; \
	}
#define PEER(function, member)                       \
	static double function(const void *item)     \
	{                                            \
		return (double)peer_of(item).member; \
	}

/* Exchanges. */

static struct slice exchange_name(const void *item, struct buf *scratch)
{
	const struct exchange *x = item;

	return (struct slice){ x->name, x->name_len };
}

HAS(exchange_has, struct exchange, name)
static const struct list_key exchange_keys[] = {
	{ "name", NULL, exchange_name, false },
	{ .name = NULL },
};

/* Queues and topics. */

static struct slice queue_name(const void *item, struct buf *scratch)
{
	return queue_slice(item);
}

HAS(queue_has, struct queue, name)
static const struct list_key queue_keys[] = {
	{ "name", NULL, queue_name, false },
	{ .name = NULL },
};

static bool is_queue(struct session *s, const void *item)
{
	return !((const struct queue *)item)->topic;
}

static bool is_topic(struct session *s, const void *item)
{
	return ((const struct queue *)item)->topic != NULL;
}

/* Groups. */

/* Who may read a topic sees how far its groups are. */
static bool may_see_group(struct session *s, const void *item)
{
	const struct topic_group *g = item;
	struct error ignored;

	return session_access_check_monitor(s, "LIST", &ignored) == TIDE_OK ||
	       session_access_check(s, USER_READ, SUBJECT_TOPIC,
				    queue_slice(g->topic->queue), &ignored) == TIDE_OK;
}

/* With its own name behind it. */
static struct slice group_topic(const void *item, struct buf *scratch)
{
	const struct topic_group *g = item;

	buf_append_slice(scratch, queue_slice(g->topic->queue));
	buf_append_char(scratch, '\0'); /* no name has one */
	buf_append(scratch, g->name, g->name_len);
	return buf_slice(scratch);
}

static struct slice group_name(const void *item, struct buf *scratch)
{
	const struct topic_group *g = item;

	return (struct slice){ g->name, g->name_len };
}

static bool group_has(const void *item, const char *part)
{
	const struct topic_group *g = item;

	return has(g->name, part) || has(g->topic->queue->name, part);
}

static const struct list_key group_keys[] = {
	{ "topic", NULL, group_topic, false },
	{ "name", NULL, group_name, false },
	{ .name = NULL },
};

/* Bindings. */

static struct slice binding_source(const void *item, struct buf *scratch)
{
	return exchange_name(((const struct binding *)item)->source, scratch);
}

static struct slice binding_destination(const void *item, struct buf *scratch)
{
	return binding_dest(item);
}

static struct slice binding_to(const void *item, struct buf *scratch)
{
	const struct binding *b = item;

	return slice_from(b->exchange ? "exchange" : b->queue->topic ? "topic" : "queue");
}

static bool binding_has(const void *item, const char *part)
{
	const struct binding *b = item;

	return has(b->source->name, part) || has(b->pattern, part) ||
	       has(binding_dest(b).data, part);
}

static const struct list_key binding_keys[] = {
	{ "exchange", NULL, binding_source, false },
	{ "destination", NULL, binding_destination, false },
	{ .name = NULL },
};

/* Consumers. */

static struct slice consumer_queue(const void *item, struct buf *scratch)
{
	return queue_slice(((const struct consumer *)item)->queue);
}

static bool consumer_has(const void *item, const char *part)
{
	const struct consumer *c = item;

	return has(c->queue->name, part) ||
	       (!c->getter && has(subscription_of((struct consumer *)c)->sid, part));
}

NUMBER(consumer_unacked, struct consumer, lease.count)
NUMBER(consumer_delivered, struct consumer, delivered)

static const struct list_key consumer_keys[] = {
	{ "queue", NULL, consumer_queue, false },
	{ "unacked", consumer_unacked, NULL, true },
	{ "delivered", consumer_delivered, NULL, true },
	{ .name = NULL },
};

/* Connections. */

static struct slice connection_name(const void *item, struct buf *scratch)
{
	const struct session *s = item;

	return slice_from(s->name ? s->name : "");
}

static struct slice connection_user(const void *item, struct buf *scratch)
{
	const struct session *s = item;

	return slice_from(s->user ? s->user : "");
}

static bool connection_has(const void *item, const char *part)
{
	const struct session *s = item;

	return has(s->name, part) || has(s->user, part) || has(peer_of(s).address, part);
}

NUMBER(connection_number, struct session, number)
NUMBER(connection_channels, struct session, channel_count)
NUMBER(connection_pending, struct session, pending)
PEER(connection_bytes_in, bytes_in)
PEER(connection_bytes_out, bytes_out)
PEER(connection_output, output)

static const struct list_key connection_keys[] = {
	{ "connection", connection_number, NULL, false },
	{ "name", NULL, connection_name, false },
	{ "user", NULL, connection_user, false },
	{ "channels", connection_channels, NULL, true },
	{ "pending", connection_pending, NULL, true },
	{ "bytes_in", connection_bytes_in, NULL, true },
	{ "bytes_out", connection_bytes_out, NULL, true },
	{ "output", connection_output, NULL, true },
	{ .name = NULL },
};

/* Locks. */

static struct slice lock_name(const void *item, struct buf *scratch)
{
	const struct lock *l = item;

	return (struct slice){ l->name, l->name_len };
}

HAS(lock_has, struct lock, name)
NUMBER(lock_since, struct lock, since_ms)
NUMBER(lock_waiting, struct lock, wait_count)

static const struct list_key lock_keys[] = {
	{ "name", NULL, lock_name, false },
	{ "since", lock_since, NULL, false },
	{ "waiting", lock_waiting, NULL, true },
	{ .name = NULL },
};

/* Vhosts: the items are sums. */

static struct slice vhost_name(const void *item, struct buf *scratch)
{
	return vhost_slice(((const struct list_vhost_sum *)item)->vhost);
}

HAS(vhost_has, struct list_vhost_sum, vhost->name)

static bool may_enter(struct session *s, const void *item)
{
	return session_access_may_enter(
		s, vhost_slice(((const struct list_vhost_sum *)item)->vhost));
}

static const struct list_key vhost_keys[] = {
	{ "name", NULL, vhost_name, false },
	{ .name = NULL },
};

static const struct list_kind kinds[] = {
	[LIST_EXCHANGES] = { LIST_OF_VHOST, &list_walk_exchanges, NULL, exchange_keys,
			     &queue_figures_exchange, exchange_name, NULL, exchange_has,
			     list_write_exchange, true },
	[LIST_QUEUES] = { LIST_OF_VHOST, &list_walk_queues, NULL, queue_keys,
			  &queue_figures_all, queue_name, is_queue, queue_has,
			  list_write_queue, true },
	[LIST_TOPICS] = { LIST_OF_VHOST, &list_walk_queues, NULL, queue_keys,
			  &queue_figures_topic, queue_name, is_topic, queue_has,
			  list_write_topic, true },
	[LIST_GROUPS] = { LIST_OF_VHOST, &list_walk_queues, &list_walk_groups, group_keys,
			  &queue_figures_group, group_topic, may_see_group, group_has,
			  list_write_group, false },
	[LIST_BINDINGS] = { LIST_OF_VHOST, &list_walk_exchanges, &list_walk_bindings,
			    binding_keys, NULL, binding_source, NULL, binding_has,
			    list_write_binding, false,
			    .members = { [LIST_BY_EXCHANGE] = binding_source,
					 [LIST_BY_DESTINATION] = binding_destination,
					 [LIST_BY_TO] = binding_to } },
	[LIST_CONSUMERS] = { LIST_OF_VHOST, &list_walk_queues, &list_walk_consumers,
			     consumer_keys, NULL, consumer_queue, NULL, consumer_has,
			     list_write_consumer, false,
			     .members = { [LIST_BY_QUEUE] = consumer_queue } },
	[LIST_CONNECTIONS] = { LIST_OF_SERVICE, &list_walk_sessions, NULL,
			       connection_keys, NULL, connection_name, NULL,
			       connection_has, list_write_connection, false },
	[LIST_LOCKS] = { LIST_OF_VHOST, &list_walk_locks, NULL, lock_keys, NULL,
			 lock_name, NULL, lock_has, list_write_lock, true },
	[LIST_VHOSTS] = { LIST_OF_BROKER, &list_walk_vhosts, &list_walk_queues,
			  vhost_keys, NULL, vhost_name, may_enter, vhost_has,
			  list_write_vhost, false },
};

const struct list_kind *list_kind_of(enum list_what what)
{
	return what >= LIST_HISTORY ? NULL : &kinds[what];
}

bool list_kind_key(const struct list_kind *kind, struct slice name,
		   struct list_order *out)
{
	const struct figure_table *t = kind->figures;

	*out = (struct list_order){ NULL };
	for (const struct list_key *key = kind->keys; key->name && !out->key; key++)
		if (!name.data || slice_is(name, key->name))
			out->key = key;
	for (unsigned i = 0; !out->key && t && i < t->count; i++)
		if (t->rows[i].sort && slice_is(name, t->rows[i].sort))
			out->figure = &t->rows[i];
	return out->key || out->figure;
}

int list_kind_refuse(const struct list_kind *kind, struct slice key, struct error *err)
{
	const struct figure_table *t = kind->figures;
	const char *last = NULL;
	struct buf names = { 0 };
	int rc;

	for (const struct list_key *k = kind->keys; k->name; k++) {
		if (last)
			buf_printf(&names, "%s, ", last);
		last = k->name;
	}
	for (unsigned i = 0; t && i < t->count; i++) {
		if (!t->rows[i].sort)
			continue;
		buf_printf(&names, "%s, ", last);
		last = t->rows[i].sort;
	}
	/* "a, b, " */
	if (buf_len(&names))
		rc = error_set(err, TIDE_ESYNTAX, "sort=%.*s: expected %.*s or %s",
			       SLICE_HEAD(key, 64), (int)buf_len(&names) - 2,
			       buf_cstr(&names), last);
	else
		rc = error_set(err, TIDE_ESYNTAX, "sort=%.*s: expected %s",
			       SLICE_HEAD(key, 64), last);
	buf_deinit(&names);
	return rc;
}
