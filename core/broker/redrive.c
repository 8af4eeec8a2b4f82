#include "redrive.h"

#include <float.h>
#include <inttypes.h>
#include <limits.h>

#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "death.h"
#include "move.h"
#include "queue.h"
#include "shard/shard.h"

#define ROUND_MOVES 256 /* copies under way */

#define DEATH_HEADER(name) msg_header(m, SLICE(MSG_DEATH_PREFIX name))

static void end(struct redrive *r)
{
	struct queue *q = queue_by_serial(r->broker, r->serial);

	if (q && r->left > 0)
		log_warn("redrive of queue '%s': %" PRIu64
			 " messages stay where they are; of the last one: %s",
			 q->name, r->left, r->why.text);
	if (r->err.code < 0 && r->moved > 0)
		error_set(&r->err, r->err.code,
			  "%s; %" PRIu64 " messages were sent back before", r->err.text,
			  r->moved);
	msg_match_deinit(&r->match);
	subject_deinit(&r->subject);
	if (!r->broker->is_closing)
		vhost_leave(r->vhost);
	r->on_end(r);
}

/* The message is at fault, and others may go: unlike a store that refuses all. */
static bool is_of_message(int code)
{
	return code == TIDE_EUNROUTABLE || code == TIDE_ENOTFOUND ||
	       code == TIDE_EREJECTED || code == TIDE_ERULE || code == TIDE_ETOOLARGE ||
	       code == TIDE_EDENIED || code == TIDE_EEXISTS;
}

static void stay(struct redrive *r, int code, const char *text)
{
	r->left++;
	error_set(&r->why, code, "%s", text);
}

static void on_refused(void *ctx, int status, const char *text)
{
	struct redrive *r = ctx;

	if (is_of_message(status))
		stay(r, status, text);
	else if (r->err.code == TIDE_OK)
		error_set(&r->err, status, "%s", text);
}

static void on_moved(void *ctx, struct entry *e, int status)
{
	struct redrive *r = ctx;

	r->open--;
	if (status == TIDE_OK)
		r->moved++;
	if (e && status == TIDE_OK)
		shard_remove(e, &r->waiter);
	else if (e)
		shard_return(e, 0);
	waiter_done(&r->waiter, TIDE_OK, NULL);
}

static const struct move_ops move_ops = { on_refused, on_moved };

/* Where a message goes. */
struct target {
	struct slice exchange, key; /* of the copy */
	struct queue *queue;        /* that alone gets it; NULL: it is published */
};

static int refuse_target(const struct redrive *r, struct slice queue, struct error *err)
{
	return queue.data && !r->is_routed
		       ? error_set(err, TIDE_ENOTFOUND,
				   "queue '%" SLICE_FMT
				   "', where it died, is gone: use routed or to=",
				   SLICE_ARG(queue))
		       : error_set(err, TIDE_ENOTFOUND,
				   "no headers " MSG_DEATH_PREFIX
				   "* say where it died, and there is no to=");
}

static int find_target(const struct redrive *r, const struct msg *m, struct target *t,
		       struct error *err)
{
	struct slice exchange = DEATH_HEADER("exchange"), key = DEATH_HEADER("key"),
		     queue = DEATH_HEADER("queue");

	*t = (struct target){ r->exchange     ? slice_from(r->exchange)
			      : exchange.data ? exchange
					      : m->exchange,
			      r->key     ? slice_from(r->key)
			      : key.data ? key
					 : m->key,
			      NULL };
	if (slice_is(t->exchange, "-"))
		t->exchange.len = 0;
	if (r->exchange || (r->is_routed && exchange.data && key.data))
		return TIDE_OK;
	if (!r->is_routed && queue.data)
		t->queue = queue_find(r->vhost, queue);
	return t->queue ? TIDE_OK : refuse_target(r, queue, err);
}

/* A queue that remembers publish ids with their messages gets that of this one: it is
 * taken there, and free here, as of then. In a window a second publish of it would have
 * been seen already. */
static struct slice publish_id(const struct entry *e, const struct target *t)
{
	struct queue *from = entry_queue(e);
	const struct queue *to = t->queue;
	struct slice id = queue_publish_id(from, e->msg);

	if (!to && t->exchange.len == 0)
		to = queue_find(from->vhost, t->key);
	if (!to || !queue_keeps_ids(to))
		return (struct slice){ 0 };
	return id.len ? id : msg_header(e->msg, DEATH_PUBLISH_ID);
}

static struct msg *make_copy(const struct entry *e, uint64_t id, const struct target *t)
{
	struct msg like = *e->msg;
	struct slice own = publish_id(e, t);

	like.id = id;
	/* For all others the copy is no second publish. */
	like.dedupe_id = own.data;
	like.dedupe_len = own.len <= MSG_DEDUPE_ID_MAX ? (uint8_t)own.len : 0;
	like.user_len = 0;
	like.pool = NULL;
	like.due_unix_ms = like.expires_unix_ms = 0;
	like.exchange = t->exchange;
	like.key = t->key;
	return msg_create(&like);
}

/* False: the message has been left as it is. */
static bool send_back(struct redrive *r, struct entry *e)
{
	uint64_t id = broker_next_id(r->broker);
	struct target target;
	struct msg *copy;
	struct error err;
	int rc = find_target(r, e->msg, &target, &err);

	if (rc < 0) {
		stay(r, rc, err.text);
		return false;
	}
	if (!id) {
		if (id_lease_check(r->broker, &r->err) == TIDE_OK)
			error_set(&r->err, TIDE_ESTORE, "there are no ids");
		return false;
	}
	copy = make_copy(e, id, &target);
	if (!copy) {
		error_set(&r->err, TIDE_ELIMIT, "out of memory");
		return false;
	}
	r->started++;
	r->open++;
	waiter_add(&r->waiter);
	(void)move_start(e, copy, &(struct move_target){ &r->subject, target.queue },
			 &move_ops, r);
	msg_unref(copy);
	return true;
}

/* The message of a row, if it is in memory. */
static struct entry *find_ready(struct shard *sh, const struct store_row *row)
{
	struct entry *e;

	while (!window_seek(&sh->stages[ENTRY_READY].window, place_of_row(row), &e))
		;
	return e && e->id == row->id ? e : NULL;
}

/* ---- messages in Redis alone ---------------------------------------------------- */

/* The messages of one shard that a round is to take into memory. */
struct redrive_ask {
	struct shard_ask ask;
	STAILQ_ENTRY(redrive_ask) link;
	struct redrive *redrive;
	uint64_t ids[ROUND_MOVES];
};

static bool on_taken(struct shard_ask *ask, struct entry *e, enum entry_state state)
{
	struct redrive *r = container_of(ask, struct redrive_ask, ask)->redrive;

	if (state != ENTRY_READY || r->err.code < 0)
		return false;
	return send_back(r, e);
}

static void on_asked(struct shard_ask *ask, int status, const char *text)
{
	struct redrive_ask *a = container_of(ask, struct redrive_ask, ask);
	struct redrive *r = a->redrive;

	shard_unref(ask->shard);
	mem_free(a);
	waiter_done(&r->waiter, status, text);
}

static void ask_for(struct redrive *r, struct shard *sh, uint64_t id)
{
	struct redrive_ask *a;

	STAILQ_FOREACH (a, &r->asks, link)
		if (a->ask.shard == sh)
			break;
	if (!a) {
		a = mem_zalloc(sizeof(*a));
		a->redrive = r;
		a->ask = (struct shard_ask){ .shard = shard_ref(sh),
					     .ids = a->ids,
					     .on_entry = on_taken,
					     .on_end = on_asked };
		STAILQ_INSERT_TAIL(&r->asks, a, link);
	}
	a->ids[a->ask.count++] = id;
	r->asked++;
}

static void begin_asks(struct redrive *r)
{
	struct redrive_ask *a;

	while ((a = STAILQ_FIRST(&r->asks)) != NULL) {
		STAILQ_REMOVE_HEAD(&r->asks, link);
		waiter_add(&r->waiter);
		if (a->ask.shard->is_closed)
			on_asked(&a->ask, TIDE_OK, NULL);
		else
			shard_take_ask(&a->ask);
	}
}

/* ---- a round --------------------------------------------------------------------- */

static bool on_match(struct queue_scan *scan, struct shard *sh,
		     const struct shard_row *row)
{
	struct redrive *r = container_of(scan, struct redrive, scan);
	struct target target;
	struct error err;
	struct entry *e;
	int rc;

	if (row->row.id > r->newest_id)
		return true;
	e = find_ready(sh, &row->row);
	rc = find_target(r, row->row.msg, &target, &err);
	if (rc < 0)
		stay(r, rc, err.text);
	else if (e)
		(void)send_back(r, e);
	else
		ask_for(r, sh, row->row.id);
	return r->err.code == TIDE_OK && r->started + r->asked < ROUND_MOVES &&
	       r->moved + r->open + r->asked < r->max;
}

static void on_searched(struct queue_scan *scan)
{
	struct redrive *r = container_of(scan, struct redrive, scan);

	if (scan->err.code < 0 && r->err.code == TIDE_OK)
		r->err = scan->err;
	r->next = scan->next;
	r->is_whole = scan->is_whole;
	queue_scan_deinit(scan);
	begin_asks(r);
	waiter_done(&r->waiter, TIDE_OK, NULL);
}

static const struct queue_scan_ops scan_ops = { on_match, on_searched };

/* The next round comes in another turn: what waits for it has to be done in this one. */
static void on_round(struct waiter *w)
{
	struct redrive *r = container_of(w, struct redrive, waiter);

	if (w->status < 0 && r->err.code == TIDE_OK)
		error_set(&r->err, w->status, "%s",
			  w->text ? w->text : error_text(w->status));
	job_add(r->broker, &r->job);
}

static void begin_round(struct redrive *r, const struct queue *q)
{
	waiter_init(&r->waiter, on_round);
	r->started = r->asked = 0;
	r->scan = (struct queue_scan){ .ops = &scan_ops, .match = &r->match };
	queue_scan_init(&r->scan, q, ENTRY_READY, UINT_MAX);
	queue_scan_begin(&r->scan, r->next);
}

static void on_job(struct job *job)
{
	struct redrive *r = container_of(job, struct redrive, job);
	const struct queue *q = queue_by_serial(r->broker, r->serial);

	if (r->err.code == TIDE_OK && !q)
		error_set(&r->err, TIDE_ENOTFOUND, "the queue was deleted");
	if (r->err.code == TIDE_OK && r->broker->is_draining)
		error_set(&r->err, TIDE_ESHUTDOWN, "the broker is stopping");
	if (r->err.code < 0 || r->is_whole || r->moved >= r->max)
		end(r);
	else
		begin_round(r, q);
}

void redrive_start(struct redrive *r, struct queue *q)
{
	r->broker = q->vhost->broker;
	r->vhost = q->vhost;
	r->serial = q->serial;
	r->next = (struct place){ -DBL_MAX, 0 };
	r->job.run = on_job;
	STAILQ_INIT(&r->asks);
	r->newest_id = broker_next_id(r->broker);
	vhost_enter(r->vhost);
	if (r->newest_id || id_lease_check(r->broker, &r->err) == TIDE_OK)
		begin_round(r, q);
	else
		end(r);
}
