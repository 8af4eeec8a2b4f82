/* FIND, GET id=, REMOVE, RESCHEDULE and KICK id=: messages by their ids, in any state.
 *
 * Nobody knows which shard has an id: all shards of the queue are asked. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/mem.h"
#include "broker/delivery.h"
#include "broker/pause.h"
#include "broker/settle.h"
#include "session_private.h"
#include "shard/shard.h"
#include "store/store.h"

struct by_id;

typedef bool (*use_fn)(struct by_id *job, struct entry *e, enum entry_state state);

/* What is asked of one shard. */
struct by_id_part {
	struct shard_ask ask;
	struct by_id *job;
};

struct by_id {
	struct reply *reply;
	use_fn use;
	int64_t ms;              /* RESCHEDULE: the delay */
	bool is_auto_ack;        /* GET */
	uint32_t ack_timeout_ms; /* likewise */
	bool is_answered;        /* the reply has left */
	uint64_t count;          /* of those that were found, as the reply says it */
	uint64_t id;             /* of FIND and GET */
	struct error err;        /* why there is nothing else to answer */
	unsigned left; /* shards that are still asked, and one while they are begun */
	void (*end)(struct by_id *job);
	void (*on_acked)(void *ctx, uint64_t count, const struct error *err);
	void *ctx;     /* likewise, of a late ACK */
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
	if (!job->is_answered)
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
static void job_begin(struct queue *q, const struct by_id *like,
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

/* ---- FIND ---------------------------------------------------------------------- */

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
	json_object_begin(&json);
	json_member_hex(&json, "id", row->id);
	json_member_text(&json, "state", session_peek_state_name(state));
	json_member_int(&json, "shard", sh->index);
	json_member_string(&json, "exchange", msg_exchange_word(m));
	json_member_string(&json, "key", m->key);
	json_member_int(&json, "priority", m->priority);
	json_member_number(&json, "rank", row->rank);
	json_member_int(&json, "ts", m->ts_unix_ms);
	write_at(&json, state, row->score);
	if (row->expires_unix_ms)
		json_member_int(&json, "expires", row->expires_unix_ms);
	json_member_int(&json, "deliveries", row->deliveries);
	write_failures(&json, row);
	session_peek_write_death(&json, m);
	if (e)
		channel_write_holder(e, &json);
	msg_write_headers(m, &json);
	session_peek_write_payload(&json, m);
	json_object_end(&json);
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

int session_by_id_find(struct session *s, const struct kick_spec *what, struct reply *r,
		       struct error *err)
{
	const struct by_id_spec spec = { what->queue, { &what->id, 1 }, 0 };
	const struct by_id job = {
		.reply = r, .use = find_entry, .end = find_end, .id = what->id
	};
	struct queue *q;

	if (session_queue_usable(s, USER_READ, what->queue, &q, err) < 0)
		return err->code;
	job_begin(q, &job, &spec, find_row);
	return TIDE_OK;
}

/* ---- GET id= ------------------------------------------------------------------- */

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
	/* Nobody waits for it any more? */
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
	set_missing(job);
	reply_error(job->reply, &job->err);
}

int session_by_id_get(struct channel *ch, const struct get_spec *get, struct reply *r,
		      struct error *err)
{
	const struct by_id_spec spec = { get->queues[0], { get->id, 1 }, 0 };
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

/* ---- REMOVE, RESCHEDULE, KICK id= ---------------------------------------------- */

static int begin_count(struct session *s, const struct by_id_spec *spec, use_fn use,
		       struct reply *r, struct error *err)
{
	const struct by_id job = {
		.reply = r, .use = use, .end = answer_count, .ms = spec->delay_ms
	};
	struct queue *q;

	if (session_queue_usable(s, USER_READ, spec->queue, &q, err) < 0)
		return err->code;
	job_begin(q, &job, spec, NULL);
	return TIDE_OK;
}

/* The holder finds that its lease is lost, and has its credit back. */
static bool remove_entry(struct by_id *job, struct entry *e, enum entry_state state)
{
	if (state == ENTRY_MOVING)
		return false;
	job->count++;
	settle_remove(e, FATE_REMOVED, &job->reply->waiter);
	return true;
}

int session_by_id_remove(struct session *s, const struct by_id_spec *spec,
			 struct reply *r, struct error *err)
{
	return begin_count(s, spec, remove_entry, r, err);
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
	settle_remove(e, FATE_ACKED, &job->reply->waiter);
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
				   .use = ack_entry,
				   .end = ack_end,
				   .on_acked = what->on_acked,
				   .ctx = what->ctx };

	job_begin(q, &job, &spec, NULL);
}

static bool reschedule_entry(struct by_id *job, struct entry *e, enum entry_state state)
{
	if (state >= SHARD_STAGES)
		return false;
	job->count++;
	if (state == ENTRY_READY && job->ms == 0)
		return false; /* where it is to be */
	if (state == ENTRY_BURIED)
		shard_forget_failures(e);
	shard_return(e, e->shard->env->now_ms + job->ms);
	shard_wait_stored(e, &job->reply->waiter);
	return true;
}

int session_by_id_reschedule(struct session *s, const struct by_id_spec *spec,
			     struct reply *r, struct error *err)
{
	return begin_count(s, spec, reschedule_entry, r, err);
}

static bool kick_entry(struct by_id *job, struct entry *e, enum entry_state state)
{
	if (state != ENTRY_BURIED && state != ENTRY_DELAYED)
		return false;
	job->count++;
	shard_forget_failures(e);
	shard_move(e, ENTRY_READY, 0);
	shard_wait_stored(e, &job->reply->waiter);
	return true;
}

int session_by_id_kick(struct session *s, const struct kick_spec *what, struct reply *r,
		       struct error *err)
{
	const struct by_id_spec spec = { what->queue, { &what->id, 1 }, 0 };

	return begin_count(s, &spec, kick_entry, r, err);
}
