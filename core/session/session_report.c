/* LIST and STATS: documents about what there is. */
#include <math.h>

#include "base/container.h"
#include "base/json.h"
#include "shard/dedupe.h"
#include "session_leases.h"
#include "service_users.h"
#include "service_pressure.h"
#include "session_figures.h"
#include "session_private.h"
#include "broker/pause.h"
#include "log/compact.h"
#include "broker/queue_limit.h"
#include "broker/retention.h"
#include "broker/member.h"
#include "broker/unusable.h"
#include "rules/engine/index.h"
#include "rules/engine/engine_status.h"

static void write_args(struct json *j, const struct args *args)
{
	for (size_t i = 0; i < args->count; i++)
		json_member_text(j, args->items[i].name, args->items[i].value);
}

static void add_exchange_options(struct json *j, const struct exchange *x)
{
	json_member_object(j, "options");
	if (x->alternate)
		json_member_text(j, "alternate", x->alternate);
	if (x->is_internal)
		json_member_text(j, "internal", "1");
	write_args(j, &x->args);
	json_object_end(j);
}

static int by_exchange_name(const struct exchange *a, const struct exchange *b)
{
	return strcmp(a->name, b->name);
}

static int by_queue_name(const struct queue *a, const struct queue *b)
{
	return strcmp(a->name, b->name);
}

static void list_exchanges(struct session *s, struct json *j)
{
	struct exchange *x, *next;

	HASH_SRT(hh, s->vhost->exchanges, by_exchange_name);
	HASH_ITER (hh, s->vhost->exchanges, x, next) {
		json_object_begin(j);
		json_member_text(j, "name", x->name);
		json_member_text(j, "type", x->type);
		json_member_bool(j, "durable", x->is_durable);
		json_member_bool(j, "auto_delete", x->is_auto_delete);
		json_member_int(j, "bindings", x->binding_count);
		json_member_int(j, "published", (int64_t)x->published);
		json_member_int(j, "unroutable", (int64_t)x->unroutable.count);
		if (x->definition.unusable)
			json_member_text(j, "unusable", x->definition.unusable);
		else
			json_member_text(j, "script",
					 index_script(x->indexes[RULESET_ACTIVE]));
		add_exchange_options(j, x);
		json_object_end(j);
	}
}

static void add_states(struct json *j, const struct queue *q)
{
	json_member_int(j, "ready", (int64_t)queue_count(q, ENTRY_READY));
	json_member_int(j, "delayed", (int64_t)queue_count(q, ENTRY_DELAYED));
	json_member_int(j, "unacked", (int64_t)queue_count(q, ENTRY_UNACKED));
	json_member_int(j, "buried", (int64_t)queue_count(q, ENTRY_BURIED));
}

/* `paused` says which directions are; the others when that ends, if it ends by itself. */
static void add_pause(struct json *j, const struct queue *q)
{
	static const char *const words[] = { "no", "in", "out", "both" };
	static const char *const ends[QUEUE_DIRECTIONS] = { "paused_in_until",
							    "paused_out_until" };
	unsigned which = 0;

	for (int i = 0; i < QUEUE_DIRECTIONS; i++)
		which |= (unsigned)pause_is_on(q, (enum queue_direction)i) << i;
	json_member_text(j, "paused", words[which]);
	for (int i = 0; i < QUEUE_DIRECTIONS; i++)
		if (which & (1u << i) && q->paused_ms[i] != PAUSE_FOREVER)
			json_member_int(j, ends[i], q->paused_ms[i]);
}

/* Those that somebody chose, and may give again. */
static void add_options(struct json *j, const struct queue *q)
{
	const struct args *all = &q->config.canonical;

	json_member_object(j, "options");
	for (size_t i = 0; i < all->count; i++)
		if (!queue_config_is_default(&all->items[i]) &&
		    strcmp(all->items[i].name, "reshard") != 0)
			json_member_text(j, all->items[i].name, all->items[i].value);
	json_object_end(j);
}

static void list_queues(struct session *s, struct json *j)
{
	struct queue *q, *next;

	HASH_SRT(hh, s->vhost->queues, by_queue_name);
	HASH_ITER (hh, s->vhost->queues, q, next) {
		if (q->topic)
			continue;
		json_object_begin(j);
		json_member_text(j, "name", q->name);
		/* What has not been read is not known to be none. */
		if (q->definition.unusable)
			json_member_text(j, "unusable", q->definition.unusable);
		else
			add_states(j, q);
		json_member_int(j, "consumers", q->consumer_count);
		json_member_bool(j, "durable", queue_is_durable(q));
		add_pause(j, q);
		add_options(j, q);
		json_object_end(j);
	}
}

/* What all partitions have together. */
static void add_sum(struct json *j, const struct topic *t)
{
	const struct topic_sum sum = topic_sum(t);

	json_member_int(j, "messages", (int64_t)(sum.end - sum.start));
	json_member_int(j, "bytes", (int64_t)sum.bytes);
	json_member_int(j, "appended", (int64_t)sum.end);
}

static void list_topics(struct session *s, struct json *j)
{
	struct queue *q, *next;

	HASH_SRT(hh, s->vhost->queues, by_queue_name);
	HASH_ITER (hh, s->vhost->queues, q, next) {
		if (!q->topic)
			continue;
		json_object_begin(j);
		json_member_text(j, "name", q->name);
		json_member_int(j, "partitions", q->config.shards);
		if (q->definition.unusable)
			json_member_text(j, "unusable", q->definition.unusable);
		else
			add_sum(j, q->topic);
		json_member_int(j, "consumers", q->consumer_count);
		json_member_bool(j, "durable", queue_is_durable(q));
		add_options(j, q);
		json_object_end(j);
	}
}

/* Who may read a topic sees how far its groups are. */
static bool may_see_groups(struct session *s, const struct queue *q)
{
	struct error ignored;

	return session_access_check_tag(s, USER_MONITOR, "LIST", &ignored) == TIDE_OK ||
	       session_access_check(s, USER_READ, SUBJECT_TOPIC, queue_slice(q),
				    &ignored) == TIDE_OK;
}

static void list_groups(struct session *s, struct json *j)
{
	struct queue *q, *next;

	HASH_SRT(hh, s->vhost->queues, by_queue_name);
	HASH_ITER (hh, s->vhost->queues, q, next)
		if (q->topic && may_see_groups(s, q))
			session_group_write_all(q->topic, j);
}

static const char *binding_kind(const struct binding *b)
{
	return definition_kind(b->queue ? b->queue->definition.table
					: b->exchange->definition.table);
}

static void list_bindings(struct session *s, struct json *j)
{
	struct exchange *x, *next;

	HASH_SRT(hh, s->vhost->exchanges, by_exchange_name);
	HASH_ITER (hh, s->vhost->exchanges, x, next) {
		for (uint32_t i = 0; i < x->number_count; i++) {
			const struct binding *b = x->bindings[i];

			if (!b || b->is_released)
				continue;
			json_object_begin(j);
			json_member_text(j, "exchange", x->name);
			json_member_text(j, "to", binding_kind(b));
			json_member_string(j, "destination", binding_dest(b));
			json_member_text(j, "pattern", b->pattern);
			json_member_object(j, "options");
			write_args(j, &b->args);
			json_object_end(j);
			unusable_write_binding(b, j);
			json_object_end(j);
		}
	}
}

static void add_consumer(struct json *j, const struct queue *q, const struct consumer *c)
{
	const struct channel *ch =
		c->getter ? fetch_of(c->getter)->channel : subscription_of(c)->channel;
	char partitions[MEMBER_PARTITIONS_MAX];
	const struct topic_group *group;

	json_object_begin(j);
	json_member_text(j, "queue", q->name);
	json_member_text(j, "sid", c->getter ? "-" : subscription_of(c)->sid);
	json_member_text(j, "kind", c->getter ? "get" : "subscription");
	json_member_int(j, "connection", (int64_t)ch->session->number);
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
	json_member_int(j, "notify_lease_ms",
			c->getter ? 0 : subscription_of(c)->notify_ms);
	group = c->member ? c->member->group : c->getter ? c->getter->group : NULL;
	if (group && group->name)
		json_member_text(j, "group", group->name);
	if (c->member) {
		member_format(c->member, partitions);
		json_member_text(j, "partitions", partitions);
	}
	json_member_int(j, "unacked", c->unacked);
	json_member_int(j, "delivered", (int64_t)c->delivered);
	json_object_end(j);
}

static void list_consumers(struct session *s, struct json *j)
{
	struct queue *q, *next;
	struct consumer *c;

	HASH_SRT(hh, s->vhost->queues, by_queue_name);
	HASH_ITER (hh, s->vhost->queues, q, next) {
		TAILQ_FOREACH (c, &q->consumers, queue_link)
			add_consumer(j, q, c);
	}
}

static void list_connections(struct session *self, struct json *j)
{
	struct session *s;

	TAILQ_FOREACH (s, &self->service->sessions, link) {
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
}

static int by_lock_name(const struct lock *a, const struct lock *b)
{
	return strcmp(a->name, b->name);
}

static void list_locks(struct session *s, struct json *j)
{
	const struct broker *b = s->broker;
	struct lock *l, *next;

	HASH_SRT(hh, s->vhost->locks, by_lock_name);
	HASH_ITER (hh, s->vhost->locks, l, next) {
		json_object_begin(j);
		json_member_text(j, "name", l->name);
		json_member_int(j, "token", (int64_t)l->token);
		if (l->holder) {
			const struct channel *ch =
				container_of(l->holder, struct channel, locks);

			json_member_int(j, "connection", (int64_t)ch->session->number);
			json_member_int(j, "channel", ch->number);
		} else {
			json_member_int(j, "lapses",
					b->now_ms + (l->timer.key - b->mono_ms));
		}
		json_member_int(j, "ttl_ms", l->ttl_ms);
		json_member_int(j, "since", l->since_ms);
		json_member_int(j, "waiting", l->wait_count);
		json_object_end(j);
	}
}

int session_report_list(struct session *s, enum list_what what, struct reply *r,
			struct error *err)
{
	static void (*const lists[])(struct session *, struct json *) = {
		[LIST_EXCHANGES] = list_exchanges,     [LIST_QUEUES] = list_queues,
		[LIST_TOPICS] = list_topics,           [LIST_GROUPS] = list_groups,
		[LIST_BINDINGS] = list_bindings,       [LIST_CONSUMERS] = list_consumers,
		[LIST_CONNECTIONS] = list_connections, [LIST_LOCKS] = list_locks,
	};
	struct json j;

	if (what != LIST_GROUPS &&
	    session_access_check_tag(s, USER_MONITOR, "LIST", err) < 0)
		return err->code;
	reply_json(r, &j);
	if (what == LIST_RULES) {
		engine_status(s->broker->engine, &j);
	} else {
		json_array_begin(&j);
		lists[what](s, &j);
		json_array_end(&j);
	}
	reply_data(r);
	return TIDE_OK;
}

static struct order_stats order_sum(const struct queue *q)
{
	struct order_stats sum = { 0 };

	for (unsigned i = 0; i < q->shard_count; i++)
		if (q->shards[i]->order)
			order_add_stats(q->shards[i]->order, &sum);
	return sum;
}

/* Of a queue with groups. */
static void add_order(struct json *j, const struct queue *q)
{
	struct order_stats sum = order_sum(q);

	if (q->config.order_by == ORDER_NONE)
		return;
	json_member_object(j, "order");
	json_member_int(j, "groups", (int64_t)sum.groups);
	json_member_int(j, "groups_blocked", (int64_t)sum.groups_blocked);
	json_member_int(j, "parked", (int64_t)sum.parked);
	json_member_int(j, "parked_in_redis", (int64_t)sum.parked_in_redis);
	json_member_bool(j, "stopped", sum.is_stopped);
	json_object_end(j);
}

static void add_rates(struct json *j, const struct rate *in, const struct rate *out)
{
	const struct {
		const char *name;
		const struct rate *rate;
		unsigned seconds;
	} rates[] = {
		{ "in_1s", in, 1 },   { "in_10s", in, 10 },   { "in_60s", in, 60 },
		{ "out_1s", out, 1 }, { "out_10s", out, 10 }, { "out_60s", out, 60 }
	};

	json_member_object(j, "rates");
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		json_member_number(
			j, rates[i].name,
			round(10 * rate_over(rates[i].rate, rates[i].seconds)) / 10);
	json_object_end(j);
}

typedef int64_t age_fn(const struct shard *sh);

/* How long the oldest has been there; no member if there is none. */
static void add_age(struct json *j, const char *name, const struct queue *q, age_fn *age)
{
	int64_t oldest = 0;

	for (unsigned i = 0; i < q->shard_count; i++) {
		int64_t since = age(q->shards[i]);

		if (since && (!oldest || since < oldest))
			oldest = since;
	}
	if (oldest)
		json_member_int(j, name, q->vhost->broker->now_ms - oldest);
}

/* Of each shard, in the order of their numbers; one that was never used has nothing. */
static void add_per_shard(struct json *j, const struct queue *q)
{
	static const struct {
		const char *name;
		enum entry_state state;
	} states[] = { { "ready", ENTRY_READY },
		       { "delayed", ENTRY_DELAYED },
		       { "unacked", ENTRY_UNACKED },
		       { "buried", ENTRY_BURIED } };

	json_member_array(j, "per_shard");
	for (unsigned i = 0; i < queue_config_shards(&q->config); i++) {
		const struct shard *sh = q->by_index[i];

		json_object_begin(j);
		json_member_int(j, "shard", i);
		for (size_t k = 0; k < sizeof(states) / sizeof(states[0]); k++)
			json_member_int(j, states[k].name,
					sh ? (int64_t)shard_count(sh, states[k].state)
					   : 0);
		json_object_end(j);
	}
	json_array_end(j);
}

static void queue_stats(struct queue *q, struct json *j)
{
	const struct queue_counters *n = &q->counters;
	struct order_stats order = order_sum(q);
	size_t in_memory = order.parked - order.parked_in_redis;

	for (unsigned i = 0; i < q->shard_count; i++)
		for (int k = 0; k < SHARD_STAGES; k++)
			in_memory += q->shards[i]->stages[k].window.count;
	json_member_text(j, "queue", q->name);
	add_states(j, q);
	json_member_int(j, "in_memory", (int64_t)in_memory);
	json_member_int(j, "shards", q->config.shards);
	json_member_int(j, "mixed_shards", queue_count_mixed(q));
	json_member_int(j, "consumers", q->consumer_count);
	json_member_int(j, "published", (int64_t)n->published);
	json_member_int(j, "duplicates", (int64_t)n->duplicates);
	json_member_int(j, "unranked", (int64_t)n->unranked);
	json_member_int(j, "dedupe_ids", (int64_t)publish_ids_count(q->ids));
	json_member_int(j, "delivered", (int64_t)n->delivered);
	json_member_int(j, "redelivered", (int64_t)n->redelivered);
	json_member_int(j, "acked", (int64_t)n->acked);
	json_member_int(j, "nacked", (int64_t)n->nacked);
	json_member_int(j, "timed_out", (int64_t)n->timed_out);
	json_member_int(j, "paced", (int64_t)n->paced);
	json_member_int(j, "expired", (int64_t)n->expired);
	json_member_int(j, "removed", (int64_t)n->removed);
	json_member_int(j, "death_limited", (int64_t)n->death_limited);
	json_member_int(j, "dead_lettered", (int64_t)n->dead_lettered);
	add_age(j, "oldest_ready_ms", q, shard_age_ready);
	add_age(j, "oldest_lease_ms", q, shard_age_lease);
	queue_begin_second(q);
	add_rates(j, &q->rates->in, &q->rates->out);
	json_member_int(j, "refused", (int64_t)n->refused);
	json_member_int(j, "overflowed", (int64_t)n->overflowed);
	if (q->config.max_bytes)
		json_member_int(j, "waiting_bytes",
				(int64_t)queue_limit_waiting(q).bytes);
	add_pause(j, q);
	session_leases_write(q, j);
	add_per_shard(j, q);
	add_order(j, q);
}

/* What keep-unread holds. */
static void add_hold(struct json *j, const struct topic *t, unsigned index)
{
	const struct retention_hold *hold = retention_hold(t, index);

	if (!hold)
		return;
	json_member_int(j, "held_back", (int64_t)hold->messages);
	json_member_string(j, "held_by", hold->group);
	json_member_int(j, "held_since", hold->since_ms);
}

/* Of each partition, in the order of their numbers; one that was never used has nothing.
 */
static void add_partitions(struct json *j, const struct topic *t)
{
	json_member_array(j, "per_partition");
	for (unsigned i = 0; i < t->queue->config.shards; i++) {
		const struct partition *p = t->partitions[i];

		json_object_begin(j);
		json_member_int(j, "partition", i);
		json_member_int(j, "start", p ? (int64_t)partition_start(p) : 0);
		json_member_int(j, "end", p ? (int64_t)partition_end(p) : 0);
		json_member_int(j, "bytes", p ? (int64_t)partition_bytes(p) : 0);
		if (p && partition_last_ms(p))
			json_member_int(j, "last", partition_last_ms(p));
		if (t->queue->config.compacts)
			json_member_int(j, "compacted", p ? (int64_t)compact_end(p) : 0);
		add_hold(j, t, i);
		json_object_end(j);
	}
	json_array_end(j);
}

static void topic_stats(struct queue *q, struct json *j)
{
	json_member_text(j, "topic", q->name);
	json_member_int(j, "partitions", q->config.shards);
	add_sum(j, q->topic);
	json_member_int(j, "consumers", q->consumer_count);
	json_member_int(j, "published", (int64_t)q->counters.published);
	json_member_int(j, "duplicates", (int64_t)q->counters.duplicates);
	json_member_int(j, "dedupe_ids", (int64_t)publish_ids_count(q->ids));
	queue_begin_second(q);
	add_rates(j, &q->rates->in, &q->rates->out);
	json_member_int(j, "delivered", (int64_t)q->counters.delivered);
	json_member_int(j, "acked", (int64_t)q->counters.acked);
	json_member_int(j, "nacked", (int64_t)q->counters.nacked);
	json_member_int(j, "timed_out", (int64_t)q->counters.timed_out);
	json_member_int(j, "paced", (int64_t)q->counters.paced);
	json_member_int(j, "dead_lettered", (int64_t)q->counters.dead_lettered);
	json_member_int(j, "readers", session_group_count_readers(q->topic));
	json_member_array(j, "groups");
	session_group_write_all(q->topic, j);
	json_array_end(j);
	add_partitions(j, q->topic);
}

static void store_members(const struct service *service, struct json *j)
{
	const struct broker *b = service->broker;
	static const char *const states[] = { "starting", "up", "down", "failed" };
	const struct journal_stats *n = journal_stats(b->journal);
	struct store_stats st;

	store_stats(b->store, &st);
	json_member_object(j, "store");
	json_member_text(j, "kind", st.kind);
	json_member_text(j, "address", st.address);
	json_member_text(j, "version", st.version);
	json_member_text(j, "state", states[store_state(b->store)]);
	json_member_int(j, "requests", (int64_t)st.requests);
	json_member_int(j, "transactions", (int64_t)st.transactions);
	json_member_int(j, "reconnects", (int64_t)st.reconnects);
	json_member_int(j, "bytes_sent", (int64_t)st.bytes_sent);
	json_member_int(j, "pending_requests", (int64_t)st.pending_requests);
	json_member_int(j, "flushes", (int64_t)n->flushes);
	json_member_int(j, "inserted", (int64_t)n->inserted);
	json_member_int(j, "removed", (int64_t)n->removed);
	json_member_int(j, "elided", (int64_t)n->elided);
	json_member_int(j, "refused", (int64_t)n->refused);
	json_member_int(j, "unstored_bytes", (int64_t)b->env.unstored_bytes);
	json_member_text(j, "last_error", n->last_error);
	session_figures_write_store(service, j);
	json_object_end(j);
}

static void transaction_members(const struct transactions *t, struct json *j)
{
	json_member_object(j, "transactions");
	json_member_int(j, "open", t->open);
	json_member_int(j, "bytes", (int64_t)t->bytes);
	json_member_int(j, "committed", (int64_t)t->committed);
	json_member_int(j, "failed", (int64_t)t->failed);
	json_member_int(j, "rolled_back", (int64_t)t->rolled_back);
	json_object_end(j);
}

static void partition_members(const struct partition_env *env, struct json *j)
{
	json_member_object(j, "logs");
	json_member_int(j, "appended", (int64_t)env->stats.appended);
	json_member_int(j, "batches", (int64_t)env->stats.batches);
	json_member_int(j, "refused", (int64_t)env->stats.refused);
	json_member_int(j, "merged", (int64_t)env->stats.merged);
	json_member_int(j, "compacted", (int64_t)env->stats.compacted);
	json_member_int(j, "read_batches", (int64_t)env->stats.read_batches);
	json_member_int(j, "unstored_bytes", (int64_t)env->unstored_bytes);
	json_member_int(j, "tail_bytes", (int64_t)env->tail_bytes);
	json_member_int(j, "memory_bytes", (int64_t)env->memory_bytes);
	json_object_end(j);
}

static void broker_stats(const struct service *service, struct json *j)
{
	const struct broker *b = service->broker;
	const struct broker_counters *n = &b->counters;
	const struct vhost *v;
	uint64_t queues = 0, topics = 0, exchanges = 0, connections = 0;
	const struct session *s;

	for (v = b->vhosts; v; v = v->hh.next) {
		queues += HASH_COUNT(v->queues) - v->topic_count;
		topics += v->topic_count;
		exchanges += HASH_COUNT(v->exchanges);
	}
	TAILQ_FOREACH (s, &service->sessions, link)
		connections++;
	json_member_text(j, "version", TIDE_VERSION);
	json_member_int(j, "node", b->config.node);
	json_member_int(j, "uptime_ms", b->now_ms - b->started_unix_ms);
	json_member_int(j, "connections", (int64_t)connections);
	json_member_int(j, "vhosts", HASH_COUNT(b->vhosts));
	json_member_int(j, "exchanges", (int64_t)exchanges);
	json_member_int(j, "queues", (int64_t)queues);
	json_member_int(j, "topics", (int64_t)topics);
	json_member_int(j, "unusable", b->unusable);
	json_member_int(j, "published", (int64_t)n->published);
	json_member_int(j, "routed", (int64_t)n->routed);
	json_member_int(j, "unroutable", (int64_t)n->unroutable);
	json_member_int(j, "duplicates", (int64_t)n->duplicates);
	json_member_int(j, "dedupe_bytes", (int64_t)dedupe_bytes(b->dedupe));
	json_member_int(j, "delivered", (int64_t)n->delivered);
	json_member_int(j, "acked", (int64_t)n->acked);
	json_member_int(j, "failed", (int64_t)n->failed);
	json_member_int(j, "paced", (int64_t)n->paced);
	json_member_int(j, "dead_lettered", (int64_t)n->dead_lettered);
	json_member_int(j, "death_limited", (int64_t)n->death_limited);
	json_member_int(j, "memory_bytes", (int64_t)service_pressure_memory(service));
	json_member_int(j, "routes_bytes", (int64_t)b->route_bytes);
	json_member_bool(j, "blocked", service->is_blocked);
	json_member_bool(j, "draining", b->refuses_publishes);
	json_member_int(j, "rules_generation", (int64_t)engine_epoch(b->engine));
	transaction_members(&service->transactions, j);
	add_rates(j, &b->in, &b->out);
	service_users_write_stats(service, j);
	json_member_object(j, "counters");
	engine_status_counters(b->engine, j);
	json_object_end(j);
	partition_members(&b->partitions, j);
	session_figures_write(service, j);
	store_members(service, j);
}

static int exchange_stats(struct session *s, struct slice name, struct reply *r,
			  struct error *err)
{
	const struct exchange *x;
	struct json j;
	int rc = name.len
			 ? session_access_check(s, USER_READ, SUBJECT_EXCHANGE, name, err)
			 : session_access_check_tag(s, USER_MONITOR,
						    "STATS of the default exchange", err);

	if (rc < 0)
		return rc;
	x = name.len ? exchange_find(s->vhost, name) : NULL;
	if (name.len && !x)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no exchange '%" SLICE_FMT "'",
				 SLICE_ARG(name));
	reply_json(r, &j);
	json_object_begin(&j);
	json_member_text(&j, "exchange", x ? x->name : "-");
	if (x) {
		json_member_int(&j, "bindings", x->binding_count);
		json_member_int(&j, "published", (int64_t)x->published);
	}
	unroutable_write(x ? &x->unroutable : &s->vhost->unroutable, &j);
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}

static int find_for_stats(struct session *s, enum stats_kind kind, struct slice name,
			  struct queue **out, struct error *err)
{
	int rc = kind == STATS_TOPIC
			 ? session_queue_find_topic(s, USER_READ, name, out, err)
		 : kind == STATS_QUEUE ? session_queue_find(s, USER_READ, name, out, err)
				       : session_queue_any(s, USER_READ, name, out, err);

	return rc < 0 ? rc : unusable_check(&(*out)->definition, err);
}

int session_report_stats(struct session *s, enum stats_kind kind, struct slice name,
			 struct reply *r, struct error *err)
{
	struct queue *q = NULL;
	struct json j;

	if (kind == STATS_EXCHANGE)
		return exchange_stats(s, name, r, err);
	if (name.len ? find_for_stats(s, kind, name, &q, err) < 0
		     : session_access_check_tag(s, USER_MONITOR, "STATS without a name",
						err) < 0)
		return err->code;
	reply_json(r, &j);
	json_object_begin(&j);
	if (q && q->topic)
		topic_stats(q, &j);
	else if (q)
		queue_stats(q, &j);
	else
		broker_stats(s->service, &j);
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}
