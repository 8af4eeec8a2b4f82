/* Groups of topics: SEEK, DELETE group, and what LIST and STATS show of them. */
#include "broker/queue_figures.h"
#include "broker/group_lag.h"
#include "broker/group_seek.h"
#include "broker/unusable.h"
#include "session_private.h"

static int find_group(struct session *s, enum user_action action,
		      const struct group_spec *spec, struct topic_group **out,
		      struct error *err)
{
	struct queue *q;

	if (session_queue_find_topic(s, action, spec->topic, &q, err) < 0 ||
	    unusable_check(&q->definition, err) < 0)
		return err->code;
	*out = group_find(q->topic, spec->group);
	if (*out)
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND, "topic '%s' has no group '%" SLICE_FMT "'",
			 q->name, SLICE_ARG(spec->group));
}

int session_group_seek(struct session *s, const struct group_spec *spec, struct reply *r,
		       struct error *err)
{
	struct topic_group *g;

	if (spec->to.kind == POSITION_COMMITTED)
		return error_set(err, TIDE_ESYNTAX,
				 "SEEK moves what is committed: expected first, last, an "
				 "offset or a time");
	if (find_group(s, USER_READ, spec, &g, err) < 0 ||
	    session_topic_check_partition(g->topic->queue, spec->partition, err) < 0)
		return err->code;
	for (unsigned i = 0; i < group_width(g); i++)
		if (spec->partition < 0 || spec->partition == i)
			group_seek(group_open_claim(g, i), &spec->to, &r->waiter);
	reply_ok(r);
	return TIDE_OK;
}

int session_group_delete(struct session *s, const struct group_spec *spec,
			 struct reply *r, struct error *err)
{
	struct topic_group *g;

	if (find_group(s, USER_CONFIGURE, spec, &g, err) < 0)
		return err->code;
	if (g->member_count > 0)
		return error_set(err, TIDE_EEXISTS,
				 "group '%s' is in use: it has %u members", g->name,
				 g->member_count);
	if (g->pull_count > 0)
		return error_set(err, TIDE_EEXISTS,
				 "group '%s' is in use: %u GETs wait for it", g->name,
				 g->pull_count);
	group_erase(g, &r->waiter);
	reply_ok(r);
	return TIDE_OK;
}

static void write_partition(const struct topic_group *g, unsigned index, struct json *j)
{
	const struct group_claim *gc = group_claim(g, index);
	const struct partition *p = g->topic->partitions[index];
	uint64_t committed = group_committed(g, index);

	json_object_begin(j);
	json_member_int(j, "partition", index);
	if (committed != GROUP_UNKNOWN)
		json_member_int(j, "committed", (int64_t)committed);
	json_member_int(j, "end", p ? (int64_t)partition_readable(p) : 0);
	json_member_int(j, "lag", (int64_t)group_lag_in(g, index));
	json_member_int(j, "held", gc ? (int64_t)gc->claim.held : 0);
	json_member_int(j, "returned", gc ? (int64_t)gc->claim.returned : 0);
	json_member_int(j, "ahead",
			gc ? (int64_t)(gc->claim.reached - gc->claim.committed) : 0);
	if (gc && gc->is_far_ahead)
		json_member_bool(j, "stopped", true);
	json_object_end(j);
}

void session_group_write(const struct topic_group *g, struct json *j)
{
	json_object_begin(j);
	json_member_text(j, "topic", g->topic->queue->name);
	json_member_text(j, "group", g->name);
	figure_write(&queue_figures_group, FIGURE_BOTH, g, group_broker(g)->now_ms, j);
	json_member_array(j, "partitions");
	for (unsigned i = 0; i < group_width(g); i++)
		write_partition(g, i, j);
	json_array_end(j);
	json_object_end(j);
}

static int by_name(const struct topic_group *a, const struct topic_group *b)
{
	return strcmp(a->name, b->name);
}

void session_group_write_all(struct topic *t, struct json *j)
{
	struct topic_group *g, *next;

	if (!t->groups)
		return;
	HASH_SRT(hh, t->groups->by_name, by_name);
	HASH_ITER (hh, t->groups->by_name, g, next)
		session_group_write(g, j);
}
