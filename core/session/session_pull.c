/* GET of a topic: with a group, or from an offset without one. */
#include "broker/group_deal.h"
#include "broker/pull.h"
#include "broker/unusable.h"
#include "session_private.h"

/* What the GET says that no topic takes. */
static int check_queue_options(const struct queue *topic, const struct get_spec *spec,
			       struct error *err)
{
	if (spec->queue_count == 1 && !spec->id && !spec->match.data)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "GET of topic '%s' names nothing else, and takes no id= and no "
			 "match=",
			 topic->name);
}

/* It is for a group, or a read. */
static int check_form(const struct queue *topic, const struct get_spec *spec,
		      struct error *err)
{
	bool has_partition = spec->partition >= 0,
	     has_offset = spec->offset.kind != POSITION_NONE;

	if (spec->group.data ? !has_partition && !has_offset
			     : has_partition && has_offset)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "GET of topic '%s' takes group=, or else partition= and offset=",
			 topic->name);
}

static int check_read(const struct queue *topic, const struct get_spec *spec,
		      struct error *err)
{
	if (spec->from.kind != POSITION_NONE)
		return error_set(
			err, TIDE_ESYNTAX,
			"from= says where a group begins, and this GET has none: "
			"offset= says where it reads");
	if (spec->offset.kind == POSITION_COMMITTED)
		return error_set(err, TIDE_ESYNTAX,
				 "offset=committed needs a group: who reads without one "
				 "commits nothing");
	return session_topic_check_partition(topic, spec->partition, err);
}

int session_pull_get(struct channel *ch, struct queue *topic, const struct get_spec *spec,
		     struct reply *r, struct error *err)
{
	struct broker *b = ch->session->broker;
	bool has_group = spec->group.data != NULL;
	struct getter *pull;
	struct fetch *f;

	if (unusable_check(&topic->definition, err) < 0 ||
	    check_queue_options(topic, spec, err) < 0 ||
	    check_form(topic, spec, err) < 0 ||
	    (has_group ? group_admit(topic->topic, spec->group, err)
		       : check_read(topic, spec, err)) < 0)
		return err->code;
	f = fetch_create(ch, 1, r);
	f->is_read = !has_group;
	ch->session->reads += f->is_read;
	pull = &f->getter;
	pull->max = spec->max;
	pull->consumers[0].queue = topic;
	pull->consumers[0].is_auto_ack = spec->is_auto_ack || !has_group;
	pull->consumers[0].ack_timeout_ms = spec->ack_timeout_ms;
	getter_add(pull, b->mono_ms + (b->is_draining ? 0 : spec->wait_ms));
	if (has_group)
		pull_join(pull, group_open(topic->topic, spec->group), &spec->from);
	else
		pull_join(pull, group_create_reader(topic->topic, spec->partition),
			  &spec->offset);
	/* Now, as a GET of queues. */
	if (!b->is_draining && group_deal_pull(pull) && spec->wait_ms == 0)
		group_deal_answer(pull);
	return TIDE_OK;
}
