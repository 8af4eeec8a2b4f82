/* SUB of topics: who reads what from where on. */
#include "broker/group_seek.h"
#include "broker/member.h"
#include "session_private.h"

int session_topic_check_partition(const struct queue *q, int64_t partition,
				  struct error *err)
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
	if (session_topic_check_partition(q, spec->partition, err) < 0)
		return err->code;
	return spec->group.data ? group_admit(q->topic, spec->group, err) : TIDE_OK;
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
	for (unsigned i = 0; i < group_width(g); i++)
		is_new[i] = !group_claim(g, i) && group_committed(g, i) == GROUP_UNKNOWN;
	member_create(g, &sub->consumer);
	for (unsigned i = 0; i < group_width(g); i++)
		if (is_new[i] && group_claim(g, i))
			group_seek(group_claim(g, i), &from, NULL);
}
