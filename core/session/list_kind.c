#include "list_kind.h"

#include <math.h>
#include <string.h>

#include "broker/group.h"
#include "broker/lock.h"
#include "broker/queue_fact.h"
#include "list_write.h"
#include "queue_document.h"
#include "session_private.h"

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
#define QUEUE_STATE(function, state)                     \
	static double function(const void *item)         \
	{                                                \
		return (double)queue_count(item, state); \
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
NUMBER(exchange_bindings, struct exchange, binding_count)
NUMBER(exchange_published, struct exchange, published)
NUMBER(exchange_unroutable, struct exchange, unroutable.count)

static const struct list_key exchange_keys[] = {
	{ "name", NULL, exchange_name, false },
	{ "bindings", exchange_bindings, NULL, true },
	{ "published", exchange_published, NULL, true },
	{ "unroutable", exchange_unroutable, NULL, true },
	{ .name = NULL },
};

/* Queues and topics. */

static struct slice queue_name(const void *item, struct buf *scratch)
{
	return queue_slice(item);
}

HAS(queue_has, struct queue, name)
QUEUE_STATE(queue_ready, ENTRY_READY)
QUEUE_STATE(queue_delayed, ENTRY_DELAYED)
QUEUE_STATE(queue_unacked, ENTRY_UNACKED)
QUEUE_STATE(queue_buried, ENTRY_BURIED)

/* A list may take several turns, each with its own time: ages of different moments have
 * no order, the moments when they began have. */
static double queue_age(const void *item)
{
	int64_t since = queue_document_since(item, shard_age_ready);

	return since ? -(double)since : -INFINITY;
}

static double queue_in(const void *item)
{
	return queue_fact_rate_in(item);
}

static double queue_out(const void *item)
{
	return queue_fact_rate_out(item);
}

NUMBER(queue_consumers, struct queue, consumer_count)

static const struct list_key queue_keys[] = {
	{ "name", NULL, queue_name, false },
	{ "ready", queue_ready, NULL, true },
	{ "delayed", queue_delayed, NULL, true },
	{ "unacked", queue_unacked, NULL, true },
	{ "buried", queue_buried, NULL, true },
	{ "age", queue_age, NULL, true },
	{ "in", queue_in, NULL, true },
	{ "out", queue_out, NULL, true },
	{ "consumers", queue_consumers, NULL, true },
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

/* Of one that cannot be used nothing is known. */
static struct topic_sum sum_of(const struct queue *q)
{
	return q->definition.unusable ? (struct topic_sum){ 0 } : topic_sum(q->topic);
}

static double topic_messages(const void *item)
{
	const struct topic_sum sum = sum_of(item);

	return (double)(sum.end - sum.start);
}

static double topic_bytes(const void *item)
{
	return (double)sum_of(item).bytes;
}

NUMBER(topic_partitions, struct queue, config.shards)

static double topic_lag(const void *item)
{
	return (double)session_group_lag_most(((const struct queue *)item)->topic);
}

static const struct list_key topic_keys[] = {
	{ "name", NULL, queue_name, false },
	{ "messages", topic_messages, NULL, true },
	{ "bytes", topic_bytes, NULL, true },
	{ "in", queue_in, NULL, true },
	{ "out", queue_out, NULL, true },
	{ "lag", topic_lag, NULL, true },
	{ "partitions", topic_partitions, NULL, true },
	{ "consumers", queue_consumers, NULL, true },
	{ .name = NULL },
};

/* Groups. */

/* Who may read a topic sees how far its groups are. */
static bool may_see_group(struct session *s, const void *item)
{
	const struct topic_group *g = item;
	struct error ignored;

	return session_access_check_tag(s, USER_MONITOR, "LIST", &ignored) == TIDE_OK ||
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

static double group_lag(const void *item)
{
	return (double)session_group_lag(item);
}

NUMBER(group_members, struct topic_group, member_count)

static const struct list_key group_keys[] = {
	{ "topic", NULL, group_topic, false },
	{ "name", NULL, group_name, false },
	{ "lag", group_lag, NULL, true },
	{ "members", group_members, NULL, true },
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

static struct session_peer peer_of(const struct session *s)
{
	struct session_peer peer;

	s->ops->facts(s->ctx, &peer);
	return peer;
}

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
			     exchange_name, NULL, exchange_has, list_write_exchange,
			     true },
	[LIST_QUEUES] = { LIST_OF_VHOST, &list_walk_queues, NULL, queue_keys, queue_name,
			  is_queue, queue_has, list_write_queue, true },
	[LIST_TOPICS] = { LIST_OF_VHOST, &list_walk_queues, NULL, topic_keys, queue_name,
			  is_topic, queue_has, list_write_topic, true },
	[LIST_GROUPS] = { LIST_OF_VHOST, &list_walk_queues, &list_walk_groups, group_keys,
			  group_topic, may_see_group, group_has, list_write_group,
			  false },
	[LIST_BINDINGS] = { LIST_OF_VHOST, &list_walk_exchanges, &list_walk_bindings,
			    binding_keys, binding_source, NULL, binding_has,
			    list_write_binding, false,
			    .members = { [LIST_BY_EXCHANGE] = binding_source,
					 [LIST_BY_DESTINATION] = binding_destination,
					 [LIST_BY_TO] = binding_to } },
	[LIST_CONSUMERS] = { LIST_OF_VHOST, &list_walk_queues, &list_walk_consumers,
			     consumer_keys, consumer_queue, NULL, consumer_has,
			     list_write_consumer, false,
			     .members = { [LIST_BY_QUEUE] = consumer_queue } },
	[LIST_CONNECTIONS] = { LIST_OF_SERVICE, &list_walk_sessions, NULL,
			       connection_keys, connection_name, NULL, connection_has,
			       list_write_connection, false },
	[LIST_LOCKS] = { LIST_OF_VHOST, &list_walk_locks, NULL, lock_keys, lock_name,
			 NULL, lock_has, list_write_lock, true },
	[LIST_VHOSTS] = { LIST_OF_BROKER, &list_walk_vhosts, &list_walk_queues,
			  vhost_keys, vhost_name, may_enter, vhost_has, list_write_vhost,
			  false },
};

const struct list_kind *list_kind_of(enum list_what what)
{
	return what >= LIST_HISTORY ? NULL : &kinds[what];
}

const struct list_key *list_kind_key(const struct list_kind *kind, struct slice name)
{
	const struct list_key *key = kind->keys;

	if (!name.data)
		return key;
	while (key->name && !slice_is(name, key->name))
		key++;
	return key->name ? key : NULL;
}

int list_kind_refuse(const struct list_kind *kind, struct slice key, struct error *err)
{
	struct buf names = { 0 };
	int rc;

	for (const struct list_key *k = kind->keys; k->name; k++)
		buf_printf(&names, "%s%s",
			   k == kind->keys ? ""
			   : k[1].name     ? ", "
					   : " or ",
			   k->name);
	rc = error_set(err, TIDE_ESYNTAX, "sort=%.*s: expected %s", SLICE_HEAD(key, 64),
		       buf_cstr(&names));
	buf_deinit(&names);
	return rc;
}
