/* SUB and GET of topics: who reads what from where on. */
#include "broker/group_deal.h"
#include "broker/group_seek.h"
#include "broker/member.h"
#include "broker/unusable.h"
#include "session_private.h"

static int check_partition(const struct queue *q, int64_t partition, struct error *err)
{
	if (partition < (int64_t)q->config.shards)
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND,
			 "topic '%s' has no partition %lld: it has %u, from 0 on",
			 q->name, (long long)partition, q->config.shards);
}

static int check_topic(const struct queue *q, const struct subscribe_spec *spec,
		       struct error *err)
{
	if (spec->priority)
		return error_set(err, TIDE_ESYNTAX,
				 "priority= is for queues: the members of a group share "
				 "the partitions of topic '%s'",
				 q->name);
	if (spec->notify_lease_ms)
		return error_set(err, TIDE_ESYNTAX,
				 "notify-lease= is for queues, and '%s' is a topic",
				 q->name);
	if (spec->group.data && spec->partition >= 0)
		return error_set(err, TIDE_ESYNTAX,
				 "partition= is for those who read without a group: a "
				 "group shares all partitions");
	if (!spec->group.data && spec->from.kind == POSITION_COMMITTED)
		return error_set(err, TIDE_ESYNTAX,
				 "from=committed needs a group: who reads without one "
				 "commits nothing");
	return check_partition(q, spec->partition, err);
}

int session_topic_check(const struct queue *q, const struct subscribe_spec *spec,
			struct error *err)
{
	if (q->topic)
		return check_topic(q, spec, err);
	if (!spec->group.data && spec->from.kind == POSITION_NONE && spec->partition < 0)
		return TIDE_OK;
	return error_set(
		err, TIDE_ESYNTAX,
		"group=, from= and partition= are for topics, and '%s' is a queue",
		q->name);
}

/* The partitions in which the group has not begun yet. */
static void find_new(const struct topic_group *g, bool is_new[QUEUE_SHARDS_MAX])
{
	for (unsigned i = 0; i < group_width(g); i++)
		is_new[i] = !group_claim(g, i) && group_committed(g, i) == GROUP_UNKNOWN;
}

/* It begins there in those. */
static void begin(struct topic_group *g, const bool is_new[QUEUE_SHARDS_MAX],
		  const struct position *from)
{
	for (unsigned i = 0; i < group_width(g); i++)
		if (is_new[i] && group_claim(g, i))
			group_seek(group_claim(g, i), from, NULL);
}

void session_topic_join(struct subscription *sub, const struct subscribe_spec *spec)
{
	struct topic *t = sub->consumer.queue->topic;
	struct topic_group *g = spec->group.data
					? group_open(t, spec->group)
					: group_create_reader(t, spec->partition);
	struct position from = spec->from;
	bool is_new[QUEUE_SHARDS_MAX];

	if (from.kind == POSITION_NONE && !g->name)
		from.kind = POSITION_LAST;
	find_new(g, is_new);
	member_create(g, &sub->consumer);
	begin(g, is_new, &from);
}

static int check_get(const struct queue *q, const struct get_spec *spec,
		     struct error *err)
{
	bool is_read = spec->partition >= 0 && spec->from.kind != POSITION_NONE &&
		       spec->from.kind != POSITION_COMMITTED;
	bool is_neither = spec->partition < 0 && spec->from.kind == POSITION_NONE;

	if (unusable_check(&q->definition, err) < 0)
		return err->code;
	if (spec->queue_count > 1 || spec->id || spec->match.data)
		return error_set(err, TIDE_ESYNTAX,
				 "GET of topic '%s' names nothing else, and takes no id= "
				 "and no match=",
				 q->name);
	if (spec->group.data ? !is_neither : !is_read)
		return error_set(err, TIDE_ESYNTAX,
				 "GET of topic '%s' takes group=, or else partition= and "
				 "offset=",
				 q->name);
	return check_partition(q, spec->partition, err);
}

int session_topic_get(struct channel *ch, struct queue *q, const struct get_spec *spec,
		      struct reply *r, struct error *err)
{
	struct broker *b = ch->session->broker;
	int64_t wait_ms = spec->wait_ms ? spec->wait_ms : GETTER_READ_MS;
	bool is_new[QUEUE_SHARDS_MAX];
	struct topic_group *g;
	struct consumer *c;
	struct fetch *f;

	if (check_get(q, spec, err) < 0)
		return err->code;
	f = fetch_create(ch, 1, r);
	f->getter.max = spec->max;
	c = &f->consumers[0];
	c->queue = q;
	c->is_auto_ack = spec->is_auto_ack || !spec->group.data;
	c->ack_timeout_ms = spec->ack_timeout_ms;
	getter_add(&f->getter, b->mono_ms + (b->is_draining ? 0 : wait_ms));
	g = spec->group.data ? group_open(q->topic, spec->group)
			     : group_create_reader(q->topic, spec->partition);
	find_new(g, is_new);
	member_create_pull(g, c, spec->wait_ms == 0);
	begin(g, is_new, &spec->from);
	/* Now, as for queues: the next request may be to ACK. */
	if (group_deal(q))
		queue_activate(q);
	return TIDE_OK;
}
