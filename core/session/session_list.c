/* LIST: pages of what there is, in an order.
 *
 * A list is made in three steps: all things are met and the first of them are kept, these
 * are sorted, and those of the page are written. Each goes on in the next turn when a
 * slice of this one is used up. */
#include "base/mem.h"
#include "ranking.h"
#include "broker/broker.h"
#include "list_kind.h"
#include "samples.h"
#include "session_private.h"

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
	/* It may be gone, and something else may have its name. */
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
	const struct list_kind *kind = list_kind_of(spec->what);
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
	const struct list_kind *kind = list_kind_of(spec->what);
	struct list_order order;
	struct list_job *l;
	struct json j;

	if (!kind) {
		reply_json(r, &j);
		samples_write(s->service->samples, spec->max, &j);
		reply_data(r);
		return TIDE_OK;
	}
	if (!list_kind_key(kind, spec->sort, &order))
		return list_kind_refuse(kind, spec->sort, err);
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
