/* LIST: pages of what there is, in an order.
 *
 * A list is made in three steps: all things are met and the first of them are kept, these
 * are sorted, and those of the page are written. Each goes on in the next turn when a
 * slice of this one is used up. */
#include <string.h>

#include "base/mem.h"
#include "ranking.h"
#include "broker/broker.h"
#include "session_private.h"
#include "base/container.h"
#include "broker/group.h"
#include "broker/lock.h"
#include "broker/unusable.h"
#include "broker/queue_figures.h"
#include "list_walk.h"

#define LOCK_HOLDERS_SHOWN 100

/* A vhost, and what all its queues have together. */
struct list_vhost_sum {
	const struct vhost *vhost;
	uint64_t ready, delayed, unacked, buried;
};

/* A key to sort a list by, beside its figures: a number, or else a text. */
struct list_key {
	const char *name; /* NULL: behind the last */
	double (*number)(const void *item);
	struct slice (*text)(const void *item, struct buf *scratch);
	bool is_falling; /* the largest come first, unless somebody wants it otherwise */
};

/* The order of a list: one of the two. */
struct list_order {
	const struct list_key *key;
	const struct figure *figure;
};

enum list_place_of { LIST_OF_VHOST, LIST_OF_SERVICE, LIST_OF_BROKER };

struct list_kind {
	enum list_place_of place;
	const struct list_table *outer, *inner;
	const struct list_key *keys;        /* the first is the default */
	const struct figure_table *figures; /* further keys; NULL: none */
	/* Settles ties. `scratch` is empty, and may be used for what is returned. */
	struct slice (*name)(const void *item, struct buf *scratch);
	bool (*is_shown)(struct session *s, const void *item); /* NULL: all are */
	/* One of its texts has this part. */
	bool (*has)(const void *item, const char *part);
	void (*write)(struct session *s, const void *item, struct json *j);
	/* A thing that is found by its name in the outer table is written when it is
	 * known that it is on the page. Others are written when they are met. */
	bool is_found;
	/* The members by which a list may be narrowed; NULL: not by this. */
	struct slice (*members[LIST_MEMBERS])(const void *item, struct buf *scratch);
};

/* The object that LIST shows of a thing. */

static void write_args(struct json *j, const struct args *args)
{
	for (size_t i = 0; i < args->count; i++)
		json_member_text(j, args->items[i].name, args->items[i].value);
}

static void write_exchange(struct session *s, const void *item, struct json *j)
{
	const struct exchange *x = item;

	json_object_begin(j);
	json_member_text(j, "name", x->name);
	session_write_exchange_kind(x, j);
	figure_write(&queue_figures_exchange, FIGURE_LIST, x, 0, j);
	session_write_exchange_options(x, j);
	json_object_end(j);
}

/* Add the options that a user chose, and may give again; and those that policies make
 * of them. */
static void add_options(struct json *j, const struct queue *q)
{
	config_write("options", &q->config, j);
	if (!q->policy)
		return;
	config_write("declared", terms_own(&q->terms), j);
	json_member_text(j, "policy", q->policy);
}

/* Figures that were not read are unknown. */
static void add_figures(struct json *j, const struct queue *q)
{
	const char *unusable = q->definition.unusable;

	if (unusable)
		json_member_text(j, "unusable", unusable);
	figure_write(q->topic ? &queue_figures_topic : &queue_figures_all,
		     FIGURE_LIST | (unusable ? FIGURE_OF_UNUSABLE : 0), q,
		     q->vhost->broker->now_ms, j);
}

static void write_queue(struct session *s, const void *item, struct json *j)
{
	const struct queue *q = item;

	json_object_begin(j);
	json_member_text(j, "name", q->name);
	add_figures(j, q);
	json_member_bool(j, "durable", queue_is_durable(q));
	session_write_pause(q, j);
	add_options(j, q);
	json_object_end(j);
}

static void write_topic(struct session *s, const void *item, struct json *j)
{
	const struct queue *q = item;

	json_object_begin(j);
	json_member_text(j, "name", q->name);
	add_figures(j, q);
	json_member_bool(j, "durable", queue_is_durable(q));
	add_options(j, q);
	json_object_end(j);
}

static void write_group(struct session *s, const void *item, struct json *j)
{
	session_group_write(item, j);
}

static const char *binding_kind(const struct binding *b)
{
	return definition_kind(b->queue ? b->queue->definition.table
					: b->exchange->definition.table);
}

static void write_binding(struct session *s, const void *item, struct json *j)
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

/* Empty: it reads without one, or from a queue. */
static struct slice consumer_group(const void *item, struct buf *scratch)
{
	const struct consumer *c = item;
	const struct topic_group *g = c->member   ? c->member->group
				      : c->getter ? c->getter->group
						  : NULL;

	return g && g->name ? (struct slice){ g->name, g->name_len } : SLICE("");
}

static void write_consumer(struct session *s, const void *item, struct json *j)
{
	const struct consumer *c = item;
	const struct queue *q = c->queue;
	const struct channel *ch =
		c->getter ? fetch_of(c->getter)->channel : subscription_of(c)->channel;
	const struct session *owner = ch->session;
	struct session_peer peer = session_beside_peer(owner);
	char partitions[MEMBER_PARTITIONS_MAX];
	struct slice group = consumer_group(c, NULL);

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
	if (c->is_exclusive)
		json_member_bool(j, "exclusive", true);
	json_member_int(j, "prefetch", c->prefetch);
	if (c->ack_timeout_ms)
		json_member_int(j, "ack_timeout", c->ack_timeout_ms);
	json_member_int(j, "channel_prefetch", ch->credit.limit);
	json_member_int(j, "rank", c->rank);
	json_member_int(j, "notify_lease_ms", c->lease.notify_ms);
	if (group.len > 0)
		json_member_string(j, "group", group);
	if (c->member) {
		member_format(c->member, partitions);
		json_member_text(j, "partitions", partitions);
		json_member_int(j, "lag", (int64_t)member_lag(c->member));
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

static void write_connection(struct session *self, const void *item, struct json *j)
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

static void write_hold(const struct lock_hold *h, struct json *j)
{
	const struct broker *b = h->lock->vhost->broker;

	json_member_int(j, "token", (int64_t)h->token);
	if (h->holder) {
		const struct channel *ch = container_of(h->holder, struct channel, locks);

		json_member_int(j, "connection", (int64_t)ch->session->number);
		json_member_int(j, "channel", ch->number);
	} else {
		json_member_int(j, "lapses", b->now_ms + (h->timer.key - b->mono_ms));
	}
	json_member_int(j, "ttl_ms", h->ttl_ms);
	json_member_int(j, "since", h->since_ms);
}

/* Of a lock that is shared: all are counted, and the oldest are listed. */
static void write_holders(const struct lock *l, struct json *j)
{
	unsigned left = LOCK_HOLDERS_SHOWN;

	json_member_int(j, "since", l->holds->since_ms);
	json_member_int(j, "shared", HASH_COUNT(l->holds));
	json_member_array(j, "holders");
	for (struct lock_hold *h = l->holds; h && left > 0; h = h->hh.next, left--) {
		json_object_begin(j);
		write_hold(h, j);
		json_object_end(j);
	}
	json_array_end(j);
}

static void write_lock(struct session *s, const void *item, struct json *j)
{
	const struct lock *l = item;

	json_object_begin(j);
	json_member_text(j, "name", l->name);
	if (l->is_shared)
		write_holders(l, j);
	else
		write_hold(l->holds, j);
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

static void write_vhost(struct session *s, const void *item, struct json *j)
{
	const struct list_vhost_sum *sum = item;
	struct error ignored;

	json_object_begin(j);
	json_member_text(j, "name", sum->vhost->name);
	json_member_bool(j, "on_demand", sum->vhost->is_on_demand);
	if (session_access_check_monitor(s, "LIST", &ignored) == TIDE_OK)
		add_vhost_figures(j, sum);
	json_object_end(j);
}

static void write_member(struct session *s, const void *item, struct json *j)
{
	const struct net_member *m = item;

	json_object_begin(j);
	json_key(j, "node");
	if (m->is_vacant)
		json_nil(j);
	else
		json_uint(j, m->node);
	json_member_text(j, "at", m->at);
	json_member_text(j, "state",
			 m->is_vacant  ? "none"
			 : m->is_front ? "front"
				       : "owner");
	json_key(j, "cell");
	if (m->is_front)
		json_nil(j);
	else
		json_uint(j, m->cell);
	json_member_text(j, "version", m->release);
	json_member_int(j, "clients", (int64_t)m->clients);
	json_member_int(j, "since", m->since_unix_ms);
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

/* A user that may read a topic sees how far its groups are. */
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

static double consumer_lag(const void *item)
{
	const struct consumer *c = item;

	return c->member ? (double)member_lag(c->member) : 0;
}

static const struct list_key consumer_keys[] = {
	{ "queue", NULL, consumer_queue, false },
	{ "unacked", consumer_unacked, NULL, true },
	{ "delivered", consumer_delivered, NULL, true },
	{ "lag", consumer_lag, NULL, true },
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

/* Brokers. */

static struct slice member_at(const void *item, struct buf *scratch)
{
	return slice_from(((const struct net_member *)item)->at);
}

HAS(member_has, struct net_member, at)
NUMBER(member_node, struct net_member, node)
NUMBER(member_clients, struct net_member, clients)
NUMBER(member_since, struct net_member, since_unix_ms)

static const struct list_key member_keys[] = {
	{ "node", member_node, NULL, false },
	{ "at", NULL, member_at, false },
	{ "clients", member_clients, NULL, true },
	{ "since", member_since, NULL, false },
	{ .name = NULL },
};

/* Locks. */

static struct slice lock_name(const void *item, struct buf *scratch)
{
	const struct lock *l = item;

	return (struct slice){ l->name, l->name_len };
}

HAS(lock_has, struct lock, name)
NUMBER(lock_since, struct lock, holds->since_ms)
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
	const struct vhost *v = ((const struct list_vhost_sum *)item)->vhost;
	struct error ignored;

	/* The default one is always there, and of one cell. */
	return !v->is_deleted && session_access_may_enter(s, vhost_slice(v)) &&
	       session_check_cell(s, vhost_slice(v), &ignored) == TIDE_OK;
}

static const struct list_key vhost_keys[] = {
	{ "name", NULL, vhost_name, false },
	{ .name = NULL },
};

static const struct list_kind kinds[] = {
	[LIST_EXCHANGES] = { LIST_OF_VHOST, &list_walk_exchanges, NULL, exchange_keys,
			     &queue_figures_exchange, exchange_name, NULL, exchange_has,
			     write_exchange, true },
	[LIST_QUEUES] = { LIST_OF_VHOST, &list_walk_queues, NULL, queue_keys,
			  &queue_figures_all, queue_name, is_queue, queue_has,
			  write_queue, true },
	[LIST_TOPICS] = { LIST_OF_VHOST, &list_walk_queues, NULL, queue_keys,
			  &queue_figures_topic, queue_name, is_topic, queue_has,
			  write_topic, true },
	[LIST_GROUPS] = { LIST_OF_VHOST, &list_walk_queues, &list_walk_groups, group_keys,
			  &queue_figures_group, group_topic, may_see_group, group_has,
			  write_group, false },
	[LIST_BINDINGS] = { LIST_OF_VHOST, &list_walk_exchanges, &list_walk_bindings,
			    binding_keys, NULL, binding_source, NULL, binding_has,
			    write_binding, false,
			    .members = { [LIST_BY_EXCHANGE] = binding_source,
					 [LIST_BY_DESTINATION] = binding_destination,
					 [LIST_BY_TO] = binding_to } },
	[LIST_CONSUMERS] = { LIST_OF_VHOST, &list_walk_queues, &list_walk_consumers,
			     consumer_keys, NULL, consumer_queue, NULL, consumer_has,
			     write_consumer, false,
			     .members = { [LIST_BY_QUEUE] = consumer_queue,
					  [LIST_BY_GROUP] = consumer_group } },
	[LIST_CONNECTIONS] = { LIST_OF_SERVICE, &list_walk_sessions, NULL,
			       connection_keys, NULL, connection_name, NULL,
			       connection_has, write_connection, false },
	[LIST_LOCKS] = { LIST_OF_VHOST, &list_walk_locks, NULL, lock_keys, NULL,
			 lock_name, NULL, lock_has, write_lock, true },
	[LIST_VHOSTS] = { LIST_OF_BROKER, &list_walk_vhosts, &list_walk_queues,
			  vhost_keys, NULL, vhost_name, may_enter, vhost_has, write_vhost,
			  false },
	[LIST_BROKERS] = { LIST_OF_SERVICE, &list_walk_members, NULL, member_keys, NULL,
			   member_at, NULL, member_has, write_member, false },
};

/* False: the list has no such key. */
static bool find_key(const struct list_kind *kind, struct slice name,
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

/* TIDE_ESYNTAX: which keys there are. */
static int refuse_key(const struct list_kind *kind, struct slice key, struct error *err)
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

/* A turn has time for this twice, before and after it waits for sockets. */
#define SLICE_US 2000
#define STEPS 16 /* from one look at the clock to the next */

struct list_job {
	struct job job;
	struct reply *reply;
	struct broker *broker;
	struct vhost *vhost; /* a reference */
	const struct list_kind *kind;
	struct list_order order;
	char *part;               /* of a name; NULL: all are wanted */
	char *only[LIST_MEMBERS]; /* as in list_spec; owned */
	size_t written;           /* rows before this one are, or lie before the page */
	size_t counted;           /* of the document, as memory */
	uint64_t total;
	struct list_walk walk;
	struct list_vhost_sum sum; /* of the vhost that is being looked at */
	struct ranking ranking;
	struct json json;
	struct buf name, text;
	bool is_met, is_sorted;
};

static struct session *session_of(const struct list_job *l)
{
	return l->reply->channel->session;
}

/* One more thing that may be of the page. */
static void offer(struct list_job *l, const void *item)
{
	const struct list_kind *kind = l->kind;
	struct json j = { .out = &l->text };
	struct slice name, text = { NULL, 0 };
	const struct list_key *key = l->order.key;
	double figure = !key          ? figure_rank(l->order.figure, item)
			: key->number ? key->number(item)
				      : 0;

	l->total++;
	buf_clear(&l->name);
	name = (key && key->text ? key->text : kind->name)(item, &l->name);
	if (!ranking_wants(&l->ranking, figure, name)) {
		ranking_pass(&l->ranking);
		return;
	}
	if (!kind->is_found) {
		buf_clear(&l->text);
		kind->write(session_of(l), item, &j);
		text = buf_slice(&l->text);
	}
	ranking_add(&l->ranking, figure, name, text);
}

static bool is_chosen(struct list_job *l, const void *item)
{
	for (int i = 0; i < LIST_MEMBERS; i++) {
		if (!l->only[i])
			continue;
		buf_clear(&l->name);
		if (!slice_is(l->kind->members[i](item, &l->name), l->only[i]))
			return false;
	}
	return true;
}

static void meet(struct list_job *l, const void *item)
{
	const struct list_kind *kind = l->kind;

	if ((!kind->is_shown || kind->is_shown(session_of(l), item)) &&
	    is_chosen(l, item) && (!l->part || kind->has(item, l->part)))
		offer(l, item);
}

static void add_to_sum(struct list_vhost_sum *sum, const struct queue *q)
{
	sum->ready += queue_count(q, ENTRY_READY);
	sum->delayed += queue_count(q, ENTRY_DELAYED);
	sum->unacked += queue_count(q, ENTRY_UNACKED);
	sum->buried += queue_count(q, ENTRY_BURIED);
}

/* Of a vhost all queues are met before it is. */
static void meet_of_vhost(struct list_job *l, enum list_step step, const void *item)
{
	if (step == LIST_STEP_ITEM) {
		add_to_sum(&l->sum, item);
		return;
	}
	l->sum.vhost = item;
	meet(l, &l->sum);
	l->sum = (struct list_vhost_sum){ 0 };
}

static bool meet_next(struct list_job *l)
{
	void *item;
	enum list_step step = list_walk_next(&l->walk, &item);

	if (step == LIST_STEP_END)
		return false;
	if (l->kind->place == LIST_OF_BROKER)
		meet_of_vhost(l, step, item);
	else if (step == LIST_STEP_ITEM)
		meet(l, item);
	return true;
}

static bool write_next(struct list_job *l)
{
	const struct ranking_row *row = &l->ranking.rows[l->written];
	const struct list_kind *kind = l->kind;
	struct slice name;
	void *item;

	if (l->written >= l->ranking.count)
		return false;
	l->written++;
	if (!kind->is_found) {
		json_written(&l->json, (struct slice){ row->text, row->text_len });
		return true;
	}
	name = (struct slice){ row->name, row->name_len };
	item = kind->outer->find(l->walk.container, name);
	/* The thing may be gone, and something else may have its name. */
	if (item && (!kind->is_shown || kind->is_shown(session_of(l), item)))
		kind->write(session_of(l), item, &l->json);
	return true;
}

/* False: there is nothing left to do. */
static bool step(struct list_job *l)
{
	if (!l->is_met)
		l->is_met = !meet_next(l);
	else if (!l->is_sorted)
		l->is_sorted = !ranking_sort(&l->ranking);
	else
		return write_next(l);
	return true;
}

/* False: there is more to do. */
static bool go_on(struct list_job *l)
{
	struct pace slice;
	unsigned every = l->kind->inner ? 1 : STEPS;

	pace_begin(&slice);
	while (step(l))
		if (++slice.steps % every == 0 && pace_taken_us(&slice) > SLICE_US)
			return false;
	return true;
}

static void end(struct list_job *l)
{
	session_answer_written(l->reply, l->counted);
	list_walk_deinit(&l->walk);
	ranking_deinit(&l->ranking);
	buf_deinit(&l->name);
	buf_deinit(&l->text);
	vhost_unref(l->vhost);
	mem_free(l->part);
	for (int i = 0; i < LIST_MEMBERS; i++)
		mem_free(l->only[i]);
	mem_free(l);
}

static void finish(struct list_job *l)
{
	struct reply *r = l->reply;

	json_array_end(&l->json);
	r->count = l->total;
	end(l);
	reply_data(r);
}

static void refuse(struct list_job *l, const struct error *err)
{
	struct reply *r = l->reply;

	end(l);
	reply_error(r, err);
}

static void run(struct job *job)
{
	struct list_job *l = (struct list_job *)job;
	struct session *s = l->reply->channel ? session_of(l) : NULL;
	struct error err;

	session_answer_write(l->reply, &l->counted);
	if (session_answer_check(l->reply, l->counted, &err) < 0) {
		refuse(l, &err);
	} else if (s && !go_on(l)) {
		list_walk_keep(&l->walk);
		job_add(l->broker, &l->job);
		return;
	} else {
		/* Without a session nobody sees the answer. */
		finish(l);
	}
	if (s)
		s->ops->on_progress(s->ctx);
}

static void *container_of_kind(struct session *s, enum list_place_of place)
{
	return place == LIST_OF_VHOST    ? (void *)s->vhost
	       : place == LIST_OF_BROKER ? (void *)s->broker
					 : (void *)s->service;
}

static bool is_falling(const struct list_order *order, enum list_direction direction)
{
	return direction == LIST_AS_USUAL ? !order->key || order->key->is_falling
					  : direction == LIST_DESCENDING;
}

static struct list_job *create(struct session *s, const struct list_spec *spec,
			       const struct list_order *order, struct reply *r)
{
	const struct list_kind *kind = &kinds[spec->what];
	struct list_job *l = mem_zalloc(sizeof(*l));
	size_t max = spec->max ? (size_t)(spec->offset + spec->max) : SIZE_MAX;

	l->job.run = run;
	l->reply = r;
	l->broker = s->broker;
	l->vhost = vhost_ref(s->vhost);
	l->kind = kind;
	l->order = *order;
	if (spec->match.data)
		l->part = mem_strndup(spec->match.data, spec->match.len);
	l->written = (size_t)spec->offset;
	list_walk_init(&l->walk, container_of_kind(s, kind->place), kind->outer,
		       kind->inner);
	for (int i = 0; i < LIST_MEMBERS; i++)
		if (spec->only[i].data)
			l->only[i] = mem_strndup(spec->only[i].data, spec->only[i].len);
	/* The others are in the outer thing of that name alone. */
	if (spec->only[LIST_BY_EXCHANGE].data)
		list_walk_choose(&l->walk, spec->only[LIST_BY_EXCHANGE]);
	else if (spec->only[LIST_BY_QUEUE].data)
		list_walk_choose(&l->walk, spec->only[LIST_BY_QUEUE]);
	ranking_init(&l->ranking, max, order->key && order->key->text,
		     is_falling(order, spec->direction));
	return l;
}

int session_list(struct session *s, const struct list_spec *spec, struct reply *r,
		 struct error *err)
{
	const struct list_kind *kind = &kinds[spec->what];
	struct list_order order;
	struct list_job *l;

	if (!find_key(kind, spec->sort, &order))
		return refuse_key(kind, spec->sort, err);
	l = create(s, spec, &order, r);
	reply_json(r, &l->json);
	json_array_begin(&l->json);
	if (go_on(l)) {
		finish(l);
	} else {
		list_walk_keep(&l->walk);
		job_add(s->broker, &l->job);
	}
	return TIDE_OK;
}
