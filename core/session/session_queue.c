/* Queues, as a session may use them: KICK, PURGE, PAUSE and RESUME, REDRIVE. */
#include "base/container.h"
#include "base/mem.h"
#include "broker/declare.h"
#include "broker/pause.h"
#include "broker/redrive.h"
#include "broker/topic.h"
#include "broker/unusable.h"
#include "rules/api/match_script.h"
#include "session_private.h"
#include "broker/group.h"
#include "broker/group_pause.h"
#include "broker/queue_figures.h"

int session_queue_any(struct session *s, enum user_action action, struct slice name,
		      struct queue **out, struct error *err)
{
	struct queue *q;

	if (session_access_check_queue(s, action, name, err) < 0)
		return err->code;
	q = queue_find(s->vhost, name);
	if (!q)
		return session_missing(s, SUBJECT_QUEUE, name, err);
	if (q->owner && q->owner != &s->exclusive)
		return error_set(err, TIDE_EDENIED,
				 "queue '%s' belongs to another connection", q->name);
	*out = q;
	return TIDE_OK;
}

int session_queue_make(struct session *s, struct slice name, struct error *err)
{
	struct queue *q;

	if (!vhost_makes(s->vhost, name) || queue_find(s->vhost, name))
		return TIDE_OK;
	if (session_access_check(s, USER_READ, SUBJECT_QUEUE, name, err) < 0)
		return err->code;
	return declare_on_demand(s->vhost, &s->subject,
				 slice_from(s->user ? s->user : ""), name, &q, err);
}

int session_queue_find(struct session *s, enum user_action action, struct slice name,
		       struct queue **out, struct error *err)
{
	int rc = session_queue_any(s, action, name, out, err);

	if (rc < 0 || !(*out)->topic)
		return rc;
	return error_set(err, TIDE_EDENIED, "'%s' is a topic: this request takes a queue",
			 (*out)->name);
}

int session_queue_find_topic(struct session *s, enum user_action action,
			     struct slice name, struct queue **out, struct error *err)
{
	if (session_access_check_queue(s, action, name, err) < 0)
		return err->code;
	*out = queue_find(s->vhost, name);
	if (!*out)
		return session_missing(s, SUBJECT_TOPIC, name, err);
	if ((*out)->topic)
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED, "'%s' is a queue: this request takes a topic",
			 (*out)->name);
}

int session_queue_usable(struct session *s, enum user_action action, struct slice name,
			 struct queue **out, struct error *err)
{
	int rc = session_queue_find(s, action, name, out, err);

	return rc == TIDE_OK ? unusable_check(&(*out)->definition, err) : rc;
}

int session_queue_check_get(const struct queue *q, struct error *err)
{
	if (!q->config.is_single_active)
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED,
			 "queue '%s' is single-active: only SUB takes its messages",
			 q->name);
}

int session_match_init(struct broker *b, struct msg_match *match, struct slice option,
		       struct error *err)
{
	struct slice expression = slice_skip(option, strlen(MATCH_SCRIPT_PREFIX));

	return slice_has_prefix(option, MATCH_SCRIPT_PREFIX)
		       ? match_script_create(&b->match_scripts, expression, match, err)
		       : msg_match_init(match, option, err);
}

static int check_quiet(const struct queue *q, struct error *err)
{
	for (unsigned i = 0; i < q->shard_count; i++)
		if (q->shards[i]->is_held_back || q->shards[i]->kick)
			return error_set(err, TIDE_EBUSY,
					 "queue '%s' is being purged or kicked already",
					 q->name);
	return TIDE_OK;
}

static int purge_queue(struct queue *q, struct reply *r, struct error *err)
{
	uint64_t count = 0;

	if (check_quiet(q, err) < 0)
		return err->code;
	for (unsigned i = 0; i < q->shard_count; i++)
		count += shard_purge(q->shards[i], &r->waiter);
	reply_count(r, count);
	return TIDE_OK;
}

int session_queue_kick(struct queue *q, const struct kick_spec *spec, struct reply *r,
		       struct error *err)
{
	uint64_t n;

	if (spec->id && spec->max)
		return error_set(err, TIDE_ESYNTAX,
				 "KICK takes a number or id=, not both");
	if (spec->id && (spec->select.match.data || spec->select.is_dry))
		return error_set(err, TIDE_ESYNTAX,
				 "KICK takes id=, or match= and dry, not both");
	if (spec->id)
		return session_by_id_kick(q, spec, r);
	if (spec->select.match.data || spec->select.is_dry)
		return session_kick_match(q, spec, r, err);
	if (check_quiet(q, err) < 0)
		return err->code;
	n = shard_kick(q->shards, q->shard_count, spec->max, &r->waiter);
	q->counters.kicks += n;
	reply_count(r, n);
	return TIDE_OK;
}

/* PURGE. */

int session_purge(struct queue *q, const struct purge_spec *spec, struct reply *r,
		  struct error *err)
{
	if (!q->topic && (spec->before.kind != POSITION_NONE || spec->partition >= 0))
		return error_set(
			err, TIDE_ESYNTAX,
			"before= and partition= are for topics, and '%s' is a queue",
			q->name);
	if (q->topic && (spec->select.match.data || spec->select.is_dry))
		return error_set(err, TIDE_ESYNTAX,
				 "match= and dry are for queues, and '%s' is a topic",
				 q->name);
	if (spec->select.match.data || spec->select.is_dry)
		return session_purge_match(q, &spec->select, r, err);
	if (!q->topic)
		return purge_queue(q, r, err);
	if (spec->before.kind == POSITION_COMMITTED)
		return error_set(err, TIDE_ESYNTAX,
				 "before=committed: PURGE knows no group; expected "
				 "first, last, an offset, a time or a duration");
	if (session_topic_check_partition(q, spec->partition, err) < 0)
		return err->code;
	r->kind = REPLY_COUNT;
	topic_purge(q->topic, &spec->before, spec->partition, &r->waiter, &r->count);
	reply_when_done(r);
	return TIDE_OK;
}

/* PAUSE, RESUME. */

static int64_t pause_end(const struct queue *q, bool is_resume, int64_t for_ms)
{
	if (is_resume)
		return 0;
	return for_ms ? q->vhost->broker->now_ms + for_ms : PAUSE_FOREVER;
}

int session_pause(struct queue *q, const struct pause_spec *spec, struct reply *r)
{
	pause_set(q,
		  (unsigned)(spec->which != PAUSE_OUT) << QUEUE_IN |
			  (unsigned)(spec->which != PAUSE_IN) << QUEUE_OUT,
		  pause_end(q, spec->is_resume, spec->for_ms), &r->waiter);
	reply_ok(r);
	return TIDE_OK;
}

/* REDRIVE. */

struct redriving {
	struct redrive redrive;
	struct reply *reply;
};

static void on_redriven(struct redrive *redrive)
{
	struct redriving *job = container_of(redrive, struct redriving, redrive);

	if (redrive->err.code < 0)
		reply_error(job->reply, &redrive->err);
	else
		reply_counts(job->reply, redrive->moved, redrive->left);
	mem_free(redrive->exchange);
	mem_free(redrive->key);
	mem_free(job);
}

static int read_target(struct session *s, struct slice to, struct redrive *out,
		       struct error *err)
{
	struct slice exchange, key;

	if (!to.data)
		return TIDE_OK;
	if (!config_read_target(to, &exchange, &key))
		return error_set(err, TIDE_ESYNTAX,
				 "to=%.*s: expected <exchange>/<key>, with - for the "
				 "default exchange, which needs a key (a queue's name); "
				 "without a key the message keeps its own",
				 SLICE_HEAD(to, 64));
	if (session_access_check_write(s, exchange, key, err) < 0)
		return err->code;
	if (exchange.len && !exchange_find(s->vhost, exchange))
		return session_missing(s, SUBJECT_EXCHANGE, exchange, err);
	out->exchange = mem_strndup(exchange.data, exchange.len);
	out->key = key.len ? mem_strndup(key.data, key.len) : NULL;
	return TIDE_OK;
}

int session_redrive_start(struct session *s, struct queue *q,
			  const struct redrive_spec *spec, struct reply *r,
			  struct error *err)
{
	struct redriving *job;
	int rc;

	if (s->broker->is_draining)
		return error_set(err, TIDE_ESHUTDOWN, "the broker is stopping");
	if (spec->is_routed && spec->to.data)
		return error_set(err, TIDE_ESYNTAX,
				 "routed goes by the exchange where they came from, and "
				 "to= elsewhere: give one of them");
	job = mem_zalloc(sizeof(*job));
	job->reply = r;
	job->redrive.max = spec->max;
	job->redrive.is_routed = spec->is_routed;
	job->redrive.on_end = on_redriven;
	subject_copy(&job->redrive.subject, &s->subject);
	rc = session_match_init(s->broker, &job->redrive.match, spec->match, err);
	if (rc == TIDE_OK)
		rc = read_target(s, spec->to, &job->redrive, err);
	if (rc == TIDE_OK) {
		redrive_start(&job->redrive, q);
		return TIDE_OK;
	}
	msg_match_deinit(&job->redrive.match);
	subject_deinit(&job->redrive.subject);
	mem_free(job);
	return rc;
}

/* Topics, as a session may use them: SUB, GET, and their groups. */

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
	if (spec->is_exclusive)
		return error_set(err, TIDE_ESYNTAX,
				 "exclusive is for queues, and '%s' is a topic", q->name);
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

bool session_topic_is_meant(const struct subscribe_spec *spec)
{
	return spec->group.data || spec->from.kind != POSITION_NONE ||
	       spec->partition >= 0;
}

int session_topic_check(const struct queue *q, const struct subscribe_spec *spec,
			struct error *err)
{
	if (q->topic)
		return check_topic(q, spec, err);
	if (!session_topic_is_meant(spec))
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
	bool is_new = !group_has_begun(g);

	if (from.kind == POSITION_NONE && !g->name)
		from.kind = POSITION_LAST;
	member_create(g, &sub->consumer);
	for (unsigned i = 0; i < group_width(g); i++)
		if (is_new && group_claim(g, i))
			group_seek(group_claim(g, i), &from, NULL);
}

/* GET. */

/* Check the options of the GET that no topic takes. */
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

/* Is the GET for a group, or a read? */
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
		group_pull_join(pull, group_open(topic->topic, spec->group), &spec->from);
	else
		group_pull_join(pull, group_create_reader(topic->topic, spec->partition),
				&spec->offset);
	/* Now, as a GET of queues. */
	if (!b->is_draining && group_deliver_pull(pull) && spec->wait_ms == 0)
		group_deliver_answer(pull);
	return TIDE_OK;
}

/* Groups. */

int session_group_find(const struct queue *topic, struct slice name,
		       struct topic_group **out, struct error *err)
{
	*out = group_find(topic->topic, name);
	if (*out)
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND, "topic '%s' has no group '%" SLICE_FMT "'",
			 topic->name, SLICE_ARG(name));
}

int session_group_seek(struct queue *topic, const struct group_spec *spec,
		       struct reply *r, struct error *err)
{
	struct topic_group *g;

	if (spec->to.kind == POSITION_COMMITTED)
		return error_set(err, TIDE_ESYNTAX,
				 "SEEK moves what is committed: expected first, last, an "
				 "offset or a time");
	if (session_group_find(topic, spec->group, &g, err) < 0 ||
	    session_topic_check_partition(topic, spec->partition, err) < 0)
		return err->code;
	for (unsigned i = 0; i < group_width(g); i++)
		if (spec->partition < 0 || spec->partition == i)
			group_seek(group_open_claim(g, i), &spec->to, &r->waiter);
	reply_ok(r);
	return TIDE_OK;
}

int session_group_pause(struct queue *topic, const struct group_spec *spec,
			struct reply *r, struct error *err)
{
	struct topic_group *g;

	if (session_group_find(topic, spec->group, &g, err) < 0)
		return err->code;
	group_pause_set(g, pause_end(topic, spec->is_resume, spec->for_ms), &r->waiter);
	reply_ok(r);
	return TIDE_OK;
}

int session_group_delete(struct queue *topic, const struct group_spec *spec,
			 struct reply *r, struct error *err)
{
	struct topic_group *g;

	if (session_group_find(topic, spec->group, &g, err) < 0)
		return err->code;
	if (g->member_count > 0)
		return error_set(err, TIDE_EEXISTS,
				 "group '%s' is in use: it has %u members", g->name,
				 g->member_count);
	if (g->pull_count > 0)
		return error_set(err, TIDE_EEXISTS,
				 "group '%s' is in use: %u GETs wait for it", g->name,
				 g->pull_count);
	group_pause_forget(g);
	group_erase(g, &r->waiter);
	reply_ok(r);
	return TIDE_OK;
}

static void write_partition(const struct topic_group *g, unsigned index, struct json *j)
{
	const struct group_claim *gc = group_claim(g, index);
	const struct partition *p = g->topic->partitions[index];
	uint64_t committed = group_committed(g, index);

	const struct subscription *sub =
		gc && gc->owner ? subscription_of(gc->owner->consumer) : NULL;

	json_object_begin(j);
	json_member_int(j, "partition", index);
	if (sub) {
		json_member_int(j, "connection", (int64_t)sub->channel->session->number);
		json_member_int(j, "channel", sub->channel->number);
		json_member_text(j, "sid", sub->sid);
	}
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
	json_member_bool(j, "paused", group_is_paused(g));
	if (group_is_paused(g) && g->paused_ms != PAUSE_FOREVER)
		json_member_int(j, "paused_until", g->paused_ms);
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
