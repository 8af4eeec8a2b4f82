/* Messages that wait: PEEK shows them in their order; FIND, GET id=, REMOVE, RESCHEDULE
 * and KICK id= name them by their ids, in any state; REMOVE, RESCHEDULE, KICK and PURGE
 * change those that match.
 *
 * Nobody knows which shard has an id: all shards of the queue are asked. */
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/container.h"
#include "base/mem.h"
#include "broker/delivery.h"
#include "broker/pause.h"
#include "broker/queue_scan.h"
#include "broker/settle.h"
#include "broker/unusable.h"
#include "session_private.h"
#include "shard/shard.h"
#include "store/store.h"

#define PEEK_BYTES_MAX ((size_t)8 << 20) /* of messages; one is shown in any case */

/* Members of a message in documents. */

static const char *const state_names[] = {
	[ENTRY_READY] = "ready",   [ENTRY_DELAYED] = "delayed",
	[ENTRY_BURIED] = "buried", [ENTRY_UNACKED] = "unacked",
	[ENTRY_MOVING] = "moving", [ENTRY_GONE] = "gone",
};

void session_peek_write_payload(struct json *j, const struct msg *m)
{
	struct slice payload = { m->payload, m->payload_len };
	char *text;

	json_member_int(j, "size", (int64_t)m->payload_len);
	if (slice_is_utf8(payload)) {
		json_member_string(j, "payload", payload);
		return;
	}
	text = mem_alloc(base64_encoded_max(payload.len));
	payload.len = base64_encode(payload, BASE64_STANDARD, text);
	payload.data = text;
	json_member_string(j, "payload_base64", payload);
	mem_free(text);
}

static void write_number(struct json *j, const char *name, struct slice text)
{
	uint64_t n;

	if (slice_to_uint(text, INT64_MAX, &n))
		json_member_int(j, name, (int64_t)n);
}

#define DEATH(name) msg_header(m, SLICE(MSG_DEATH_PREFIX name))

static void write_death(struct json *j, const struct msg *m)
{
	struct slice text = msg_header(m, MSG_REASON_TEXT);

	if (text.data)
		json_member_string(j, "reason_text", text);
	if (!DEATH("queue").data)
		return;
	json_member_object(j, "death");
	json_member_string(j, "queue", DEATH("queue"));
	json_member_string(j, "reason", DEATH("reason"));
	write_number(j, "time", DEATH("time"));
	write_number(j, "attempts", DEATH("attempts"));
	write_number(j, "total", DEATH("total"));
	json_object_end(j);
}

void session_peek_write_address(struct json *j, const struct msg *m)
{
	json_member_string(j, "exchange", msg_exchange_word(m));
	json_member_string(j, "key", m->key);
	json_member_int(j, "priority", m->priority);
}

static void begin_message(struct json *j, const struct store_row *row,
			  enum entry_state state, unsigned shard)
{
	json_object_begin(j);
	json_member_hex(j, "id", row->id);
	json_member_text(j, "state", state_names[state]);
	json_member_int(j, "shard", shard);
	session_peek_write_address(j, row->msg);
}

void session_peek_end(struct json *j, const struct msg *m, const struct entry *held)
{
	write_death(j, m);
	if (held)
		channel_write_holder(held, j);
	msg_write_headers(m, j);
	session_peek_write_payload(j, m);
	json_object_end(j);
}

/* Messages by their ids. */

struct by_id;

typedef bool (*use_fn)(struct by_id *job, struct entry *e, enum entry_state state);

/* The question to one shard. */
struct by_id_part {
	struct shard_ask ask;
	struct by_id *job;
};

struct by_id {
	struct reply *reply;
	struct waiter *waiter; /* told when Redis has what was changed */
	use_fn use;
	int64_t due_ms;          /* RESCHEDULE: when; -1: when each is due */
	int priority;            /* likewise; -1: that of each */
	bool is_auto_ack;        /* GET */
	uint32_t ack_timeout_ms; /* likewise */
	bool is_answered;        /* the reply has left */
	uint64_t count;          /* of those that were found, as the reply says it */
	uint64_t id;             /* of FIND and GET */
	struct error err;        /* why there is nothing else to answer */
	unsigned left; /* shards that are still asked, and one while they are begun */
	void (*end)(struct by_id *job);
	void (*on_acked)(void *ctx, uint64_t count, const struct error *err);
	void (*on_tried)(void *ctx, bool is_answered);
	void *ctx;     /* of them, and of PEEK */
	double score;  /* PEEK: the place of the message */
	uint64_t *ids; /* for each shard */
	struct by_id_part parts[];
};

static bool on_entry(struct shard_ask *ask, struct entry *e, enum entry_state state)
{
	struct by_id *job = container_of(ask, struct by_id_part, ask)->job;

	return job->use(job, e, state);
}

static void job_done(struct by_id *job)
{
	if (--job->left > 0)
		return;
	job->end(job);
	mem_free(job->ids);
	mem_free(job);
}

static void on_end(struct shard_ask *ask, int status, const char *text)
{
	struct by_id *job = container_of(ask, struct by_id_part, ask)->job;

	if (status < 0 && job->err.code == TIDE_OK)
		error_set(&job->err, status, "%s", text ? text : error_text(status));
	job_done(job);
}

static void answer_count(struct by_id *job)
{
	if (job->err.code < 0)
		reply_error(job->reply, &job->err);
	else
		reply_count(job->reply, job->count);
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Gives how many different ones there are, which are first then. */
static unsigned sort_ids(uint64_t *ids, unsigned count)
{
	unsigned kept = 0;

	qsort(ids, count, sizeof(*ids), compare_ids);
	for (unsigned i = 0; i < count; i++)
		if (kept == 0 || ids[kept - 1] != ids[i])
			ids[kept++] = ids[i];
	return kept;
}

/* Ask all shards of the queue. The job is gone when all have answered: perhaps at once.
 */
static void job_begin(const struct queue *q, const struct by_id *like,
		      const struct by_id_spec *spec,
		      void (*on_row)(struct shard_ask *ask, const struct store_row *row,
				     enum entry_state state))
{
	unsigned shards = q->shard_count, count = spec->ids.count;
	struct by_id *job = mem_zalloc(sizeof(*job) + shards * sizeof(struct by_id_part));
	uint64_t *ids = mem_alloc(((size_t)shards + 1) * count * sizeof(*ids));

	*job = *like;
	job->ids = ids;
	job->left = shards + 1;
	memcpy(ids, spec->ids.items, count * sizeof(*ids));
	count = sort_ids(ids, count);
	for (unsigned i = 0; i < shards; i++) {
		struct by_id_part *part = &job->parts[i];
		uint64_t *own = ids + (size_t)(i + 1) * count;

		memcpy(own, ids, count * sizeof(*ids));
		*part = (struct by_id_part){ .job = job };
		part->ask = (struct shard_ask){ .shard = q->shards[i],
						.ids = own,
						.count = count,
						.on_entry = on_entry,
						.on_row = on_row,
						.on_end = on_end };
	}
	/* A call may delete the queue, or give it another shard. */
	for (unsigned i = 0; i < shards; i++)
		shard_ref(job->parts[i].ask.shard);
	for (unsigned i = 0; i < shards; i++) {
		struct shard *sh = job->parts[i].ask.shard;

		if (sh->is_closed)
			job_done(job);
		else
			shard_take_ask(&job->parts[i].ask);
		shard_unref(sh);
	}
	job_done(job);
}

/* FIND */

static void write_failures(struct json *j, const struct store_row *row)
{
	json_member_int(j, "failures", row->failures);
	json_member_object(j, "failed");
	for (unsigned i = 0; i < STORE_REASONS; i++)
		if (row->failed[i])
			json_member_int(j, store_tries_reason(i), row->failed[i]);
	json_object_end(j);
	if (row->reason[0])
		json_member_text(j, "reason", row->reason);
}

/* The time by which it is in its state. */
static void write_at(struct json *j, enum entry_state state, double at_ms)
{
	static const char *const names[] = {
		[ENTRY_DELAYED] = "due",
		[ENTRY_BURIED] = "buried",
		[ENTRY_UNACKED] = "held",
	};

	if (state < sizeof(names) / sizeof(names[0]) && names[state])
		json_member_int(j, names[state], (int64_t)at_ms);
}

/* @param e  the entry, if it is in memory */
static void write_found(struct by_id *job, const struct shard *sh,
			const struct store_row *row, enum entry_state state,
			const struct entry *e)
{
	const struct msg *m = row->msg;
	struct json json;

	if (job->count++ > 0)
		return;
	reply_json(job->reply, &json);
	begin_message(&json, row, state, sh->index);
	json_member_number(&json, "rank", row->rank);
	json_member_int(&json, "ts", m->ts_unix_ms);
	write_at(&json, state, row->score);
	if (row->expires_unix_ms)
		json_member_int(&json, "expires", row->expires_unix_ms);
	json_member_int(&json, "deliveries", row->deliveries);
	write_failures(&json, row);
	session_peek_end(&json, m, e);
}

static bool find_entry(struct by_id *job, struct entry *e, enum entry_state state)
{
	struct store_row row = { .id = e->id,
				 .score = (double)e->at_unix_ms,
				 .rank = e->rank,
				 .expires_unix_ms = e->expires_unix_ms,
				 .msg = e->msg,
				 .deliveries = e->deliveries,
				 .failures = e->failures };

	memcpy(row.failed, e->failed, sizeof(row.failed));
	if (e->reason)
		snprintf(row.reason, sizeof(row.reason), "%s", e->reason);
	write_found(job, e->shard, &row, state, e);
	return false;
}

static void find_row(struct shard_ask *ask, const struct store_row *row,
		     enum entry_state state)
{
	write_found(container_of(ask, struct by_id_part, ask)->job, ask->shard, row,
		    state, NULL);
}

static void set_missing(struct by_id *job)
{
	if (job->err.code == TIDE_OK)
		error_set(&job->err, TIDE_ENOTFOUND,
			  "the queue has no message %016" PRIx64, job->id);
}

static void find_end(struct by_id *job)
{
	if (job->count > 0) {
		reply_data(job->reply);
		return;
	}
	set_missing(job);
	reply_error(job->reply, &job->err);
}

int session_by_id_find(struct queue *q, const struct kick_spec *what, struct reply *r)
{
	const struct by_id_spec spec = { .ids = { &what->id, 1 } };
	const struct by_id job = {
		.reply = r, .use = find_entry, .end = find_end, .id = what->id
	};

	job_begin(q, &job, &spec, find_row);
	return TIDE_OK;
}

/* GET id= */

static bool has_expired(const struct entry *e)
{
	return e->expires_unix_ms && e->expires_unix_ms <= e->shard->env->now_ms;
}

static bool get_entry(struct by_id *job, struct entry *e, enum entry_state state)
{
	struct channel *ch;
	struct fetch *f;

	if (job->is_answered)
		return false;
	if (state >= SHARD_STAGES) {
		error_set(&job->err, TIDE_EBUSY, "message %016" PRIx64 " is %s", e->id,
			  state == ENTRY_UNACKED ? "held already; FIND says by whom"
						 : "being dead-lettered");
		return false;
	}
	/* Has the asker gone? */
	ch = job->reply->channel;
	if (!ch || ch->is_closing || ch->session->broker->is_draining)
		return false;
	if (has_expired(e) && state != ENTRY_BURIED) {
		settle_entry(e, FATE_EXPIRED, 0);
		return true;
	}
	/* Redis may have been asked meanwhile, and the user's rights have changed. */
	if (session_access_check_queue(ch->session, USER_READ,
				       queue_slice(entry_queue(e)), &job->err) < 0)
		return false;
	f = fetch_create(ch, 1, job->reply);
	f->getter.max = 1;
	f->consumers[0].is_auto_ack = job->is_auto_ack;
	f->consumers[0].ack_timeout_ms = job->ack_timeout_ms;
	if (delivery_take(entry_queue(e), &f->getter, e, &job->err) < 0) {
		fetch_drop(f);
		return false;
	}
	job->is_answered = true;
	return true;
}

static void get_end(struct by_id *job)
{
	if (job->is_answered)
		return;
	set_missing(job);
	reply_error(job->reply, &job->err);
}

static void try_end(struct by_id *job)
{
	job->on_tried(job->ctx, job->is_answered);
}

void session_by_id_try(struct queue *q, const struct by_id_try *what)
{
	const struct by_id_spec spec = { .ids = { &what->id, 1 } };
	const struct by_id job = { .reply = what->reply,
				   .use = get_entry,
				   .end = try_end,
				   .id = what->id,
				   .is_auto_ack = what->is_auto_ack,
				   .ack_timeout_ms = what->ack_timeout_ms,
				   .on_tried = what->on_tried,
				   .ctx = what->ctx };

	job_begin(q, &job, &spec, NULL);
}

int session_by_id_get(struct channel *ch, const struct get_spec *get, struct reply *r,
		      struct error *err)
{
	const struct by_id_spec spec = { .ids = { get->id, 1 } };
	const struct by_id job = { .reply = r,
				   .use = get_entry,
				   .end = get_end,
				   .id = *get->id,
				   .is_auto_ack = get->is_auto_ack,
				   .ack_timeout_ms = get->ack_timeout_ms };
	struct queue *q;

	if (session_queue_usable(ch->session, USER_READ, get->queues[0], &q, err) < 0 ||
	    session_queue_check_get(q, err) < 0)
		return err->code;
	if (pause_is_on(q, QUEUE_OUT))
		return error_set(err, TIDE_EBUSY, "queue '%s' is paused", q->name);
	queue_use(q);
	job_begin(q, &job, &spec, NULL);
	return TIDE_OK;
}

/* REMOVE, RESCHEDULE, KICK id= */

static void begin_count(struct queue *q, const struct by_id_spec *spec,
			const struct by_id *like, struct reply *r)
{
	struct by_id job = *like;

	job.reply = r;
	job.waiter = &r->waiter;
	job.end = answer_count;
	job_begin(q, &job, spec, NULL);
}

/* The holder finds that its lease is lost, and has its credit back. */
static bool remove_entry(struct by_id *job, struct entry *e, enum entry_state state)
{
	if (state == ENTRY_MOVING)
		return false;
	job->count++;
	settle_remove(e, FATE_REMOVED, job->waiter);
	return true;
}

static bool purge_entry(struct by_id *job, struct entry *e, enum entry_state state)
{
	return state < SHARD_STAGES && remove_entry(job, e, state);
}

static bool ack_entry(struct by_id *job, struct entry *e, enum entry_state state)
{
	struct channel *ch = job->reply->channel;
	uint64_t tag = 0;

	if (state == ENTRY_MOVING)
		return false;
	if (state == ENTRY_UNACKED) {
		if (!ch || ch->session->is_beside || e->lease->holder != &ch->holder)
			return false;
		tag = e->tag;
		lease_progress(e->lease, tag);
	}
	job->count++;
	settle_remove(e, FATE_ACKED, job->waiter);
	if (tag)
		lapsed_add_done(&ch->lapsed, tag);
	return true;
}

static void ack_end(struct by_id *job)
{
	job->on_acked(job->ctx, job->count, &job->err);
}

void session_by_id_ack(struct queue *q, const struct by_id_ack *what)
{
	const struct by_id_spec spec = { .ids = { what->ids, what->count } };
	const struct by_id job = { .reply = what->reply,
				   .waiter = &what->reply->waiter,
				   .use = ack_entry,
				   .end = ack_end,
				   .on_acked = what->on_acked,
				   .ctx = what->ctx };

	job_begin(q, &job, &spec, NULL);
}

static bool reschedule_entry(struct by_id *job, struct entry *e, enum entry_state state)
{
	int64_t now_ms = e->shard->env->now_ms, at_ms = e->at_unix_ms;
	bool has_priority;

	if (state >= SHARD_STAGES)
		return false;
	job->count++;
	has_priority = job->priority >= 0 && e->msg->priority != job->priority;
	if (!has_priority &&
	    (job->due_ms < 0 || (state == ENTRY_READY && job->due_ms <= now_ms)))
		return false; /* as it is to be */
	if (has_priority) {
		if (e->state < SHARD_STAGES)
			shard_set_moving(e);
		settle_set_priority(e, (uint8_t)job->priority);
	}
	if (state == ENTRY_BURIED && job->due_ms >= 0)
		shard_forget_failures(e);
	if (job->due_ms >= 0)
		shard_return(e, job->due_ms);
	else if (state == ENTRY_BURIED)
		shard_move(e, state, at_ms);
	else
		shard_return(e, state == ENTRY_DELAYED ? at_ms : 0);
	shard_wait_stored(e, job->waiter);
	return true;
}

static bool kick_entry(struct by_id *job, struct entry *e, enum entry_state state)
{
	if (state != ENTRY_BURIED && state != ENTRY_DELAYED)
		return false;
	job->count++;
	entry_queue(e)->counters.kicks++;
	shard_forget_failures(e);
	shard_move(e, ENTRY_READY, 0);
	shard_wait_stored(e, job->waiter);
	return true;
}

int session_by_id_kick(struct queue *q, const struct kick_spec *what, struct reply *r)
{
	const struct by_id_spec spec = { .ids = { &what->id, 1 } };
	const struct by_id job = { .use = kick_entry };

	begin_count(q, &spec, &job, r);
	return TIDE_OK;
}

/* REMOVE, RESCHEDULE, KICK and PURGE of those that match.
 *
 * The states are searched one after the other, in rounds. The messages that a round has
 * found are then changed by their ids, and the next one begins when Redis has that. */

#define SWEEP_ROUND 256 /* messages of one */

struct sweep {
	struct queue_scan scan;
	struct job job;
	struct waiter waiter; /* of a round */
	struct msg_match match;
	struct by_id change;
	struct broker *broker;
	struct vhost *vhost;
	uint64_t serial;                /* of the queue */
	const enum entry_state *states; /* that are left; ENTRY_GONE: behind the last */
	struct place next;              /* where the search goes on */
	uint64_t newest_id;             /* when it began, which was then: */
	int64_t began_ms;
	uint64_t max, count;
	bool is_dry;
	struct error err;
	unsigned found; /* of the round */
	uint64_t ids[SWEEP_ROUND];
};

/* In the order in which a message goes through them: one that moves on by itself is met
 * later, and none that the sweep has moved is met again. */
static const enum entry_state sweep_all[] = { ENTRY_DELAYED, ENTRY_READY, ENTRY_UNACKED,
					      ENTRY_BURIED, ENTRY_GONE };
static const enum entry_state sweep_waiting[] = { ENTRY_DELAYED, ENTRY_READY,
						  ENTRY_BURIED, ENTRY_GONE };
static const enum entry_state sweep_buried[] = { ENTRY_BURIED, ENTRY_GONE };
static const enum entry_state sweep_delayed[] = { ENTRY_DELAYED, ENTRY_GONE };

/* Would a RESCHEDULE change it? */
static bool is_to_move(const struct sweep *s, const struct store_row *row)
{
	int64_t due_ms = s->change.due_ms;

	if (s->change.priority >= 0 && row->msg->priority != s->change.priority)
		return true;
	if (*s->states == ENTRY_READY)
		return due_ms > s->began_ms;
	return due_ms >= 0 &&
	       (*s->states == ENTRY_BURIED || row->score != (double)due_ms);
}

static bool on_sweep_match(struct queue_scan *scan, struct shard *sh,
			   const struct shard_row *row)
{
	struct sweep *s = container_of(scan, struct sweep, scan);
	bool is_removal = s->change.use == remove_entry || s->change.use == purge_entry;
	bool is_meant = s->change.use != reschedule_entry || is_to_move(s, &row->row);

	/* One that is buried again was kicked before. */
	if (*s->states == ENTRY_BURIED && !is_removal)
		is_meant &= row->row.score <= (double)s->began_ms;
	if (!is_meant || row->row.id > s->newest_id)
		return true;
	if (s->is_dry)
		return ++s->count < s->max;
	s->ids[s->found++] = row->row.id;
	return s->found < SWEEP_ROUND && s->count + s->found < s->max;
}

static void on_sweep_found(struct queue_scan *scan)
{
	struct sweep *s = container_of(scan, struct sweep, scan);
	const struct queue *q = queue_by_serial(s->broker, s->serial);
	const struct by_id_spec spec = { .ids = { s->ids, s->found } };

	if (scan->err.code < 0)
		s->err = scan->err;
	s->next = scan->next;
	if (scan->is_whole) {
		s->states++;
		s->next = (struct place){ -DBL_MAX, 0 };
	}
	queue_scan_deinit(scan);
	if (q && s->err.code == TIDE_OK && s->found > 0)
		job_begin(q, &s->change, &spec, NULL);
	else
		waiter_done(&s->waiter, TIDE_OK, NULL);
}

static const struct queue_scan_ops sweep_ops = { on_sweep_match, on_sweep_found };

static void end_change(struct by_id *job)
{
	struct sweep *s = job->ctx;

	s->count += job->count;
	if (job->err.code < 0)
		s->err = job->err;
	waiter_done(&s->waiter, TIDE_OK, NULL);
}

/* The next round comes in another turn. */
static void on_swept(struct waiter *w)
{
	struct sweep *s = container_of(w, struct sweep, waiter);

	if (w->status < 0 && s->err.code == TIDE_OK)
		error_set(&s->err, w->status, "%s",
			  w->text ? w->text : error_text(w->status));
	job_add(s->broker, &s->job);
}

static void end_sweep(struct sweep *s)
{
	if (s->err.code < 0 && s->count > 0 && !s->is_dry)
		error_set(&s->err, s->err.code,
			  "%s; %" PRIu64 " messages were changed before", s->err.text,
			  s->count);
	if (s->err.code < 0)
		reply_error(s->change.reply, &s->err);
	else
		reply_count(s->change.reply, s->count);
	msg_match_deinit(&s->match);
	if (!s->broker->is_closing)
		vhost_leave(s->vhost);
	mem_free(s);
}

static void on_sweep_job(struct job *job)
{
	struct sweep *s = container_of(job, struct sweep, job);
	const struct queue *q = queue_by_serial(s->broker, s->serial);

	if (s->err.code == TIDE_OK && !q)
		error_set(&s->err, TIDE_ENOTFOUND, "the queue was deleted");
	if (s->err.code == TIDE_OK && s->broker->is_draining)
		error_set(&s->err, TIDE_ESHUTDOWN, "the broker is stopping");
	if (s->err.code < 0 || *s->states == ENTRY_GONE || s->count >= s->max) {
		end_sweep(s);
		return;
	}
	waiter_init(&s->waiter, on_swept);
	s->found = 0;
	s->scan = (struct queue_scan){ .ops = &sweep_ops, .match = &s->match };
	queue_scan_init(&s->scan, q, *s->states, UINT_MAX);
	queue_scan_begin(&s->scan, s->next);
}

/* @param max  of the messages; 0: all */
static int sweep_begin(struct queue *q, const struct select_spec *select, uint64_t max,
		       const enum entry_state *states, const struct by_id *change,
		       struct error *err)
{
	struct broker *b = q->vhost->broker;
	uint64_t newest_id = broker_next_id(b);
	struct msg_match match;
	struct sweep *s;

	if (b->is_draining)
		return error_set(err, TIDE_ESHUTDOWN, "the broker is stopping");
	if (session_match_init(b, &match, select->match, err) < 0)
		return err->code;
	s = mem_zalloc(sizeof(*s));
	s->job.run = on_sweep_job;
	s->match = match;
	s->broker = b;
	s->vhost = q->vhost;
	s->serial = q->serial;
	s->states = states;
	s->next = (struct place){ -DBL_MAX, 0 };
	s->newest_id = newest_id;
	s->began_ms = b->now_ms;
	s->max = max ? max : UINT64_MAX;
	s->is_dry = select->is_dry;
	s->change = *change;
	s->change.waiter = &s->waiter;
	s->change.end = end_change;
	s->change.ctx = s;
	if (!newest_id && id_lease_check(b, &s->err) == TIDE_OK)
		error_set(&s->err, TIDE_ESTORE, "there are no ids");
	vhost_enter(s->vhost);
	job_add(b, &s->job);
	return TIDE_OK;
}

/* Ids or a match: one of both. */
static int check_ids(const struct by_id_spec *spec, const char *verb, struct error *err)
{
	const struct select_spec *select = &spec->select;

	if (spec->ids.count == 0 && !select->match.data)
		return error_set(
			err, TIDE_ESYNTAX,
			"%s needs ids of messages, 16 hex digits each, or match=", verb);
	if (spec->ids.count > 0 && (select->match.data || select->is_dry))
		return error_set(err, TIDE_ESYNTAX,
				 "%s takes ids, or match= and perhaps dry, not both",
				 verb);
	return TIDE_OK;
}

int session_by_id_remove(struct queue *q, const struct by_id_spec *spec, struct reply *r,
			 struct error *err)
{
	const struct by_id job = { .reply = r, .use = remove_entry };

	if (check_ids(spec, "REMOVE", err) < 0)
		return err->code;
	if (spec->select.match.data)
		return sweep_begin(q, &spec->select, 0, sweep_all, &job, err);
	begin_count(q, spec, &job, r);
	return TIDE_OK;
}

int session_by_id_reschedule(struct queue *q, const struct by_id_spec *spec,
			     struct reply *r, struct error *err)
{
	struct by_id job = { .reply = r, .use = reschedule_entry, .due_ms = -1 };

	if (check_ids(spec, "RESCHEDULE", err) < 0)
		return err->code;
	if (spec->delay_ms < 0 && spec->priority < 0)
		return error_set(err, TIDE_ESYNTAX,
				 "RESCHEDULE needs delay=, a duration from 0s to 3660d, "
				 "or pri=, a number from 0 to 255");
	if (spec->delay_ms >= 0)
		job.due_ms = q->vhost->broker->now_ms + spec->delay_ms;
	job.priority = (int)spec->priority;
	if (spec->select.match.data)
		return sweep_begin(q, &spec->select, 0, sweep_waiting, &job, err);
	begin_count(q, spec, &job, r);
	return TIDE_OK;
}

int session_kick_match(struct queue *q, const struct kick_spec *spec, struct reply *r,
		       struct error *err)
{
	const struct by_id job = { .reply = r, .use = kick_entry };
	/* A dry run without a match: as shard_kick chooses. */
	bool is_early = spec->max && !spec->select.match.data &&
			queue_count(q, ENTRY_BURIED) == 0;

	return sweep_begin(q, &spec->select, spec->max,
			   is_early ? sweep_delayed : sweep_buried, &job, err);
}

int session_purge_match(struct queue *q, const struct select_spec *select,
			struct reply *r, struct error *err)
{
	const struct by_id job = { .reply = r, .use = purge_entry };

	return sweep_begin(q, select, 0, sweep_waiting, &job, err);
}

/* PEEK. */

struct peek {
	struct queue_scan scan;
	struct msg_match match;
	struct reply *reply;
	struct json json;
	enum entry_state state;
	unsigned left;     /* messages to be shown */
	size_t bytes_left; /* nothing more is shown when they are used up */
	size_t counted;    /* of the document, as memory */
};

static void show_entry(struct json *j, enum entry_state state, unsigned shard,
		       const struct shard_row *shown)
{
	const struct store_row *row = &shown->row;
	const struct msg *m = row->msg;

	begin_message(j, row, state, shard);
	json_member_int(j, "ts", m->ts_unix_ms);
	if (state != ENTRY_READY)
		json_member_int(j, "due", (int64_t)row->score);
	if (row->expires_unix_ms)
		json_member_int(j, "expires", row->expires_unix_ms);
	json_member_number(j, "rank", row->rank);
	json_member_int(j, "deliveries", row->deliveries);
	json_member_int(j, "failures", row->failures);
	if (row->reason[0])
		json_member_text(j, "reason", row->reason);
	session_peek_end(j, m, state == ENTRY_UNACKED ? shown->entry : NULL);
}

static bool on_match(struct queue_scan *scan, struct shard *sh,
		     const struct shard_row *row)
{
	struct peek *p = container_of(scan, struct peek, scan);
	size_t bytes = row->row.msg->bytes;

	show_entry(&p->json, p->state, sh->index, row);
	p->bytes_left -= bytes < p->bytes_left ? bytes : p->bytes_left;
	session_answer_write(p->reply, &p->counted);
	return --p->left > 0 && p->bytes_left > 0 && !session_answer_is_enough(p->reply);
}

/* `next` is behind the last message that was looked at, and names that one. */
static void show_next(struct json *j, struct place next)
{
	char text[64];

	snprintf(text, sizeof(text), "%016" PRIx64 "@%.17g", next.id - 1, next.score);
	json_member_text(j, "next", text);
}

static void on_scanned(struct queue_scan *scan)
{
	struct peek *p = container_of(scan, struct peek, scan);

	json_array_end(&p->json);
	json_member_int(&p->json, "searched", (int64_t)scan->searched);
	if (!scan->is_whole)
		show_next(&p->json, scan->next);
	json_object_end(&p->json);
	session_answer_written(p->reply, p->counted);
	if (scan->err.code < 0)
		reply_error(p->reply, &scan->err);
	else
		reply_data_bounded(p->reply);
	queue_scan_deinit(scan);
	msg_match_deinit(&p->match);
	mem_free(p);
}

static const struct queue_scan_ops peek_ops = { on_match, on_scanned };

static bool read_score(struct slice text, double *out)
{
	char digits[40], *end;

	if (text.len == 0 || text.len >= sizeof(digits))
		return false;
	memcpy(digits, text.data, text.len);
	digits[text.len] = '\0';
	*out = strtod(digits, &end);
	return *end == '\0' && isfinite(*out);
}

/* Is the queue's order of ready messages that of their ids? */
static bool has_one_rank(const struct queue *q)
{
	return strcmp(q->config.scripts[SCRIPT_PRIORITY], "fifo") == 0;
}

/* "<id>@<score>", or "<id>". */
static int read_after(struct slice after, struct place *place, bool *has_score,
		      struct error *err)
{
	struct slice score = after, id = slice_cut(&score, '@');

	*has_score = id.len < after.len;
	if (id_parse(id, &place->id) == TIDE_OK && place->id < UINT64_MAX &&
	    (!*has_score || read_score(score, &place->score)))
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "after=%.*s: expected the `next` of an answer, or an id",
			 SLICE_HEAD(after, 64));
}

/* The place of an id alone. */

static void note_place(struct by_id *job, enum entry_state state, double score)
{
	const struct peek *p = job->ctx;

	if (state != p->state)
		return;
	job->count++;
	job->score = score;
}

static bool place_entry(struct by_id *job, struct entry *e, enum entry_state state)
{
	note_place(job, state, state == ENTRY_READY ? e->rank : (double)e->at_unix_ms);
	return false;
}

static void place_row(struct shard_ask *ask, const struct store_row *row,
		      enum entry_state state)
{
	note_place(container_of(ask, struct by_id_part, ask)->job, state,
		   state == ENTRY_READY ? row->rank : row->score);
}

static void place_end(struct by_id *job)
{
	struct peek *p = job->ctx;

	if (job->err.code < 0)
		p->scan.err = job->err;
	else if (job->count == 0)
		error_set(&p->scan.err, TIDE_ENOTFOUND,
			  "after=%016" PRIx64 ": no such message is %s any more; go on "
			  "with the `next` of the answer before",
			  job->id, state_names[p->state]);
	queue_scan_begin(&p->scan, (struct place){ job->score, job->id + 1 });
}

static void look_up(struct peek *p, struct queue *q, uint64_t id)
{
	const struct by_id_spec spec = { .ids = { &id, 1 } };
	const struct by_id job = {
		.use = place_entry, .end = place_end, .ctx = p, .id = id
	};

	job_begin(q, &job, &spec, place_row);
}

static struct peek *create(const struct peek_spec *spec, struct reply *r)
{
	static const enum entry_state states[] = {
		[PEEK_ANY] = ENTRY_READY,       [PEEK_READY] = ENTRY_READY,
		[PEEK_DELAYED] = ENTRY_DELAYED, [PEEK_BURIED] = ENTRY_BURIED,
		[PEEK_UNACKED] = ENTRY_UNACKED,
	};
	struct peek *p = mem_zalloc(sizeof(*p));

	p->reply = r;
	p->state = states[spec->state];
	p->left = (unsigned)spec->max;
	p->bytes_left = PEEK_BYTES_MAX;
	p->scan.ops = &peek_ops;
	p->scan.match = &p->match;
	return p;
}

int session_peek(struct queue *q, const struct peek_spec *spec, struct reply *r,
		 struct error *err)
{
	struct place after = { -DBL_MAX, 0 };
	bool has_score = true;
	struct msg_match match;
	struct peek *p;

	if (q->topic)
		return session_peek_topic(q, spec, r, err);
	if (spec->partition >= 0 || spec->from.kind != POSITION_NONE || spec->is_newest)
		return error_set(
			err, TIDE_ESYNTAX,
			"'%s' is a queue: partition=, offset= and newest are for topics",
			q->name);
	if ((spec->after.data && read_after(spec->after, &after, &has_score, err) < 0) ||
	    session_match_init(q->vhost->broker, &match, spec->match, err) < 0)
		return err->code;
	p = create(spec, r);
	p->match = match;
	reply_json(r, &p->json);
	json_object_begin(&p->json);
	json_member_array(&p->json, "messages");
	queue_scan_init(&p->scan, q, p->state,
			spec->match.data ? UINT_MAX : (unsigned)spec->max);
	if (!has_score && p->state == ENTRY_READY && has_one_rank(q)) {
		has_score = true;
		after.score = 0;
	}
	after.id += spec->after.data && has_score;
	if (has_score)
		queue_scan_begin(&p->scan, after);
	else
		look_up(p, q, after.id);
	return TIDE_OK;
}
