/* store_transaction.c: batches that are carried out together, or not at all.
 *
 * In one slot they are one MULTI ... EXEC. A Redis Cluster has none over several slots.
 * There a transaction is first written whole to {tide}:commits, by one command: when
 * Redis has that, the transaction has happened. Then each slot gets its part, as a
 * MULTI ... EXEC of its own, again and again until Redis takes it. At last the record is
 * removed. A start carries out the records that a crash has left. Batches name what they
 * set and remove, so a part can be carried out twice.
 *
 * From the commit until the record is removed, a slot of the transaction is given no
 * other request: those wait here, in order. So each sees what the transaction has done,
 * and what a start repeats overwrites nothing newer. A transaction whose slots another
 * one has waits likewise. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "host/log.h"
#include "host/machine.h"
#include "store_private.h"

#define PAUSE_MS 200 /* between a refusal and the next try */

/* The share of one slot. */
struct transaction_part {
	TAILQ_ENTRY(transaction_part) link; /* of store->parts, from the commit on */
	struct store_transaction *transaction;
	unsigned slot;
	/* Truncations of partitions. They go ahead, for they remove whatever is behind an
	 * offset: a start must not repeat them. */
	struct buf before;
	unsigned before_count;
	struct buf bytes; /* its commands */
	unsigned count;
	struct buf name; /* its field of the record: "<time>-<number> <slot>" */
	uv_buf_t pieces[3];
	bool is_taken;                /* Redis has answered without an error */
	struct redis_requests behind; /* that wait for its end */
};

enum step {
	STEP_WAIT, /* for other transactions of its slots */
	STEP_TRUNCATE,
	STEP_RECORD,
	STEP_APPLY,
	STEP_FORGET,
};

struct store_transaction {
	struct store_call call; /* of one slot: the request. Else it is told the end */
	struct transaction_part **parts; /* in a cluster, or of records */
	size_t part_count, part_cap;
	enum step step;
	uint64_t number;      /* of those of this process */
	unsigned left;        /* answers, and one while the step is begun */
	struct error trouble; /* of this step */
	bool was_lost;        /* the record may have been written before it was refused */
	struct error refusal; /* why it does not take place */
	bool is_told;         /* the log has it that it is refused */
	uv_timer_t *timer;    /* NULL: it had no pause yet */
};

/* A request of a transaction, which its slots do not wait for. */
struct step_call {
	struct store_call call;
	struct store_transaction *transaction;
	struct transaction_part *part; /* NULL: of the record */
};

static void begin_step(struct store_transaction *t, enum step step);

/* Slots. */

void store_send(struct store *s, struct redis_request *r)
{
	struct transaction_part *p;

	TAILQ_FOREACH_REVERSE(p, &s->parts, transaction_parts, link)
	{
		if (p->slot != r->slot)
			continue;
		TAILQ_INSERT_TAIL(&p->behind, r, entry);
		return;
	}
	redis_lanes_send(s->lanes, r);
}

static bool is_first_of_slot(const struct transaction_part *part)
{
	const struct transaction_part *p;

	TAILQ_FOREACH (p, &part->transaction->call.store->parts, link)
		if (p->slot == part->slot)
			break;
	return p == part;
}

static bool has_its_slots(const struct store_transaction *t)
{
	for (size_t i = 0; i < t->part_count; i++)
		if (!is_first_of_slot(t->parts[i]))
			return false;
	return true;
}

static struct store_transaction *find_ready(const struct store *s)
{
	const struct transaction_part *p;

	TAILQ_FOREACH (p, &s->parts, link)
		if (p->transaction->step == STEP_WAIT && has_its_slots(p->transaction))
			return p->transaction;
	return NULL;
}

static void begin_ready(struct store *s)
{
	struct store_transaction *t;

	while ((t = find_ready(s)) != NULL)
		begin_step(t, STEP_TRUNCATE);
}

/* Requests that came for the slot meanwhile go on. The connections of a store that is
 * being closed may be gone. */
static void leave_slot(struct transaction_part *p)
{
	struct store *s = p->transaction->call.store;
	struct redis_request *r;

	TAILQ_REMOVE(&s->parts, p, link);
	while ((r = TAILQ_FIRST(&p->behind)) != NULL) {
		TAILQ_REMOVE(&p->behind, r, entry);
		if (s->is_closing)
			r->on_reply(r, NULL);
		else
			redis_lanes_send(s->lanes, r);
	}
}

/* Parts. */

static struct transaction_part *add_part(struct store_transaction *t, unsigned slot)
{
	struct transaction_part *p = mem_zalloc(sizeof(*p));

	p->transaction = t;
	p->slot = slot;
	TAILQ_INIT(&p->behind);
	MEM_GROW(t->parts, t->part_count, t->part_cap, 4);
	t->parts[t->part_count++] = p;
	return p;
}

static struct transaction_part *part_of(struct store_transaction *t, unsigned slot)
{
	for (size_t i = 0; i < t->part_count; i++)
		if (t->parts[i]->slot == slot)
			return t->parts[i];
	return add_part(t, slot);
}

static void free_parts(struct store_transaction *t)
{
	for (size_t i = 0; i < t->part_count; i++) {
		buf_deinit(&t->parts[i]->before);
		buf_deinit(&t->parts[i]->bytes);
		buf_deinit(&t->parts[i]->name);
		mem_free(t->parts[i]);
	}
	mem_free(t->parts);
}

struct store_call *store_transaction_call(struct store_transaction *t)
{
	return &t->call;
}

void store_transaction_cut(struct store_transaction *t, unsigned slot, bool is_before)
{
	struct buf *bytes = &t->call.bytes;
	struct transaction_part *p;

	if (!t->call.store->lanes->is_cluster || buf_len(bytes) == 0)
		return;
	p = part_of(t, slot);
	buf_append_slice(is_before ? &p->before : &p->bytes, buf_slice(bytes));
	*(is_before ? &p->before_count : &p->count) += t->call.request.replies;
	buf_clear(bytes);
	t->call.request.replies = 0;
}

/* The end. */

static void on_timer_closed(uv_handle_t *handle)
{
	mem_free(handle);
}

static void end_transaction(struct store_transaction *t, const struct error *err)
{
	struct store *s = t->call.store;

	if (t->timer)
		uv_close((uv_handle_t *)t->timer, on_timer_closed);
	for (size_t i = 0; i < t->part_count; i++)
		leave_slot(t->parts[i]);
	free_parts(t);
	store_call_drop(&t->call, err);
	begin_ready(s);
}

static void on_pause_over(uv_timer_t *timer)
{
	struct store_transaction *t = timer->data;

	begin_step(t, t->step);
}

static void pause_step(struct store_transaction *t, uint64_t pause_ms)
{
	if (!t->timer) {
		t->timer = mem_alloc(sizeof(*t->timer));
		uv_timer_init(t->call.store->loop, t->timer);
		t->timer->data = t;
	}
	uv_timer_start(t->timer, on_pause_over, pause_ms, 0);
}

void store_transactions_hurry(struct store *s)
{
	struct transaction_part *p;

	TAILQ_FOREACH (p, &s->parts, link)
		if (p->transaction->timer &&
		    uv_is_active((uv_handle_t *)p->transaction->timer))
			pause_step(p->transaction, 0);
}

/* Steps. */

static void tell_refused(struct store_transaction *t)
{
	if (t->is_told || t->refusal.code < 0)
		return;
	t->is_told = true;
	log_error("store: a COMMIT over several slots has happened, and Redis refuses a "
		  "part of it: %s; it is sent again until Redis takes it, and the queues "
		  "of the COMMIT wait",
		  t->trouble.text);
}

static void end_step(struct store_transaction *t)
{
	bool has_failed = t->trouble.code < 0;

	if (t->trouble.code == TIDE_ESHUTDOWN ||
	    (has_failed && t->step <= STEP_RECORD && !t->was_lost)) {
		end_transaction(t, &t->trouble);
	} else if (has_failed && t->step == STEP_RECORD) {
		/* The record may be there all the same. */
		t->refusal = t->trouble;
		begin_step(t, STEP_FORGET);
	} else if (has_failed) {
		tell_refused(t);
		pause_step(t, PAUSE_MS);
	} else if (t->step == STEP_FORGET) {
		end_transaction(t, &t->refusal);
	} else {
		begin_step(t, (enum step)(t->step + 1));
	}
}

static void on_step_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	const struct step_call *c = container_of(call, struct step_call, call);
	struct store_transaction *t = c->transaction;

	if (!is_last)
		return;
	if (t->step == STEP_APPLY) {
		if (reply)
			store_call_check_exec(call, reply);
		c->part->is_taken = call->err.code == TIDE_OK;
	}
	if (t->trouble.code == TIDE_OK)
		t->trouble = call->err;
	t->was_lost = t->step == STEP_RECORD && call->request.was_lost;
	if (--t->left == 0)
		end_step(t);
}

static struct store_call *create_step_call(struct store_transaction *t,
					   struct transaction_part *part)
{
	struct step_call *c =
		store_call_create(t->call.store, NULL, sizeof(*c), on_step_reply, NULL);

	c->transaction = t;
	c->part = part;
	c->call.is_ahead = c->call.request.is_write = true;
	if (part)
		c->call.request.slot = part->slot;
	t->left++;
	return &c->call;
}

/* Redis would end the connection, again and again. */
static bool is_too_large(const struct store_transaction *t)
{
	for (size_t i = 0; i < t->part_count; i++)
		if (buf_len(&t->parts[i]->bytes) > store_body_max(t->call.store))
			return true;
	return false;
}

static void name_record(struct store_transaction *t)
{
	int64_t now_ms = machine_clock_ms(CLOCK_REALTIME);
	char name[3 * (DECIMAL_MAX + 1)];

	for (size_t i = 0; i < t->part_count; i++) {
		snprintf(name, sizeof(name), "%" PRId64 "-%" PRIu64 " %u", now_ms,
			 t->number, t->parts[i]->slot);
		buf_append_text(&t->parts[i]->name, name);
	}
}

static void write_record(struct store_transaction *t)
{
	struct store_call *call;
	struct buf *out;

	name_record(t);
	if (is_too_large(t)) {
		error_set(&t->trouble, TIDE_ESTORE,
			  "what the COMMIT writes to one slot is larger than a word of "
			  "Redis (proto-max-bulk-len)");
		return;
	}
	call = create_step_call(t, NULL);
	out = store_call_add_words(call, "HSET", 1 + 2 * t->part_count);
	resp_text(out, LAYOUT_META LAYOUT_COMMITS_NAME);
	for (size_t i = 0; i < t->part_count; i++) {
		resp_bulk(out, buf_slice(&t->parts[i]->name));
		resp_bulk(out, buf_slice(&t->parts[i]->bytes));
	}
	store_call_send(call, REDIS_REPLY_INTEGER);
}

static void remove_record(struct store_transaction *t)
{
	struct store_call *call = create_step_call(t, NULL);
	struct buf *out = store_call_add_words(call, "HDEL", 1 + t->part_count);

	resp_text(out, LAYOUT_META LAYOUT_COMMITS_NAME);
	for (size_t i = 0; i < t->part_count; i++)
		resp_bulk(out, buf_slice(&t->parts[i]->name));
	store_call_send(call, REDIS_REPLY_INTEGER);
}

static void send_parts(struct store_transaction *t)
{
	for (size_t i = 0; i < t->part_count; i++) {
		struct transaction_part *p = t->parts[i];
		struct store_call *call;

		if (p->is_taken)
			continue;
		call = create_step_call(t, p);
		call->request.replies = p->count + 2;
		p->pieces[0] = redis_request_part(SLICE("*1\r\n$5\r\nMULTI\r\n"));
		p->pieces[1] = redis_request_part(buf_slice(&p->bytes));
		p->pieces[2] = redis_request_part(SLICE("*1\r\n$4\r\nEXEC\r\n"));
		store_call_send_parts(call, 0, p->pieces, 3);
	}
}

static void send_truncations(struct store_transaction *t)
{
	for (size_t i = 0; i < t->part_count; i++) {
		struct transaction_part *p = t->parts[i];
		struct store_call *call;

		if (p->before_count == 0)
			continue;
		call = create_step_call(t, p);
		call->request.replies = p->before_count;
		p->pieces[0] = redis_request_part(buf_slice(&p->before));
		store_call_send_parts(call, 0, p->pieces, 1);
	}
}

static void begin_step(struct store_transaction *t, enum step step)
{
	static const struct error shutdown = { .code = TIDE_ESHUTDOWN,
					       .text = "the broker is shutting down" };

	t->step = step;
	t->trouble.code = TIDE_OK;
	if (t->call.store->is_closing) {
		end_transaction(t, &shutdown);
		return;
	}
	t->left = 1;
	if (step == STEP_TRUNCATE)
		send_truncations(t);
	else if (step == STEP_RECORD)
		write_record(t);
	else if (step == STEP_APPLY)
		send_parts(t);
	else
		remove_record(t);
	if (--t->left == 0)
		end_step(t);
}

/* The store's doors. */

static void on_exec_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct batch_result result;

	if (!is_last)
		return;
	if (reply)
		store_call_check_exec(call, reply);
	result = (struct batch_result){
		.removed = call->err.code,
		.written = call->err.code,
		.text = store_call_text(call),
		.is_unsure = call->request.was_lost || call->err.code == TIDE_ESHUTDOWN,
	};
	CALL_TELLER(call, batch_done_fn)(call->ctx, &result);
}

struct store_transaction *store_transaction_begin(struct store *s)
{
	struct store_transaction *t =
		store_call_create(s, NULL, sizeof(*t), on_exec_reply, NULL);

	t->call.request.is_write = true;
	if (!s->lanes->is_cluster)
		store_call_add(&t->call, "MULTI");
	return t;
}

void store_transaction_add_take(struct store_transaction *t, struct batch *b)
{
	unsigned slot = b->request.slot;

	t->call.request.replies += batch_append(b, &t->call.bytes);
	store_batch_give_back(b);
	store_transaction_cut(t, slot, false);
}

bool store_transaction_is_split(const struct store_transaction *t)
{
	return t->part_count > 1;
}

/* All is of one slot. */
static void gather(struct store_transaction *t)
{
	struct transaction_part *p = t->parts[0];

	store_call_add(&t->call, "MULTI");
	buf_append_slice(&t->call.bytes, buf_slice(&p->before));
	buf_append_slice(&t->call.bytes, buf_slice(&p->bytes));
	t->call.request.replies += p->before_count + p->count;
	t->call.request.slot = p->slot;
	free_parts(t);
}

static void enter_slots(struct store_transaction *t)
{
	for (size_t i = 0; i < t->part_count; i++)
		TAILQ_INSERT_TAIL(&t->call.store->parts, t->parts[i], link);
}

void store_transaction_commit_take(struct store_transaction *t, batch_done_fn on_done,
				   void *ctx)
{
	CALL_TELLS(&t->call, on_done);
	t->call.ctx = ctx;
	t->call.store->transactions++;
	if (store_transaction_is_split(t)) {
		t->number = store_number(t->call.store, t->call.store->transactions);
		enter_slots(t);
		begin_ready(t->call.store);
		return;
	}
	if (t->part_count == 1)
		gather(t);
	else if (t->call.request.replies == 0)
		store_call_add(&t->call, "MULTI");
	store_call_add(&t->call, "EXEC");
	store_call_send(&t->call, 0);
}

/* Remains of a crash. */

static bool cut_number(struct slice *rest, char mark, uint64_t max, uint64_t *n)
{
	struct slice line;

	if (rest->len == 0 || rest->data[0] != mark)
		return false;
	*rest = slice_skip(*rest, 1);
	line = slice_cut(rest, '\n');
	if (!slice_has_suffix(line, "\r"))
		return false;
	line.len--;
	return slice_to_uint(line, max, n);
}

/* The first word that is the key of a shard or partition tells whose the record is. */
static void note_vhost(struct slice word, struct slice *vhost)
{
	struct layout_name name;

	if (vhost->len > 0 || !slice_has_prefix(word, "tide:{"))
		return;
	layout_read(word, &name);
	if (name.kind == LAYOUT_SHARD || name.kind == LAYOUT_PARTITION)
		*vhost = name.vhost;
}

/* False: it is not whole commands alone. */
static bool read_commands(struct slice bytes, unsigned *count, struct slice *vhost)
{
	uint64_t words, len;

	*vhost = SLICE("");
	for (*count = 0; bytes.len > 0; ++*count) {
		if (!cut_number(&bytes, '*', bytes.len, &words) || words == 0)
			return false;
		while (words-- > 0) {
			if (!cut_number(&bytes, '$', bytes.len, &len) || bytes.len < 2 ||
			    len > bytes.len - 2)
				return false;
			note_vhost((struct slice){ bytes.data, (size_t)len }, vhost);
			bytes = slice_skip(bytes, (size_t)len + 2);
		}
	}
	return *count > 0;
}

/* The slot of "<time>-<number> <slot>". */
static bool read_name(struct slice name, unsigned *slot)
{
	uint64_t n;

	slice_cut(&name, ' ');
	if (!slice_to_uint(name, LAYOUT_SLOTS - 1, &n))
		return false;
	*slot = (unsigned)n;
	return true;
}

static void take_record(struct store_transaction *t, struct slice name,
			struct slice bytes)
{
	struct transaction_part *p;
	struct slice vhost;
	unsigned slot, count;

	if (!read_name(name, &slot) || !read_commands(bytes, &count, &vhost)) {
		log_error("store: '%" SLICE_FMT "' in " LAYOUT_META LAYOUT_COMMITS_NAME
			  " cannot be read, and is left as it is",
			  SLICE_HEAD(name, 80));
		return;
	}
	/* The owner of another cell may be at it. */
	if (!store_has_vhost(t->call.store, vhost))
		return;
	p = add_part(t, slot);
	p->count = count;
	buf_append_slice(&p->bytes, bytes);
	buf_append_slice(&p->name, name);
	log_info("store: finishing a COMMIT, in slot %u", slot);
}

static void on_records(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct store_transaction *t = call->ctx;

	for (size_t i = 0; reply && i + 1 < reply->elements; i += 2)
		take_record(t, store_reply_slice(reply->element[i]),
			    store_reply_slice(reply->element[i + 1]));
	enter_slots(t);
	if (t->part_count > 0)
		begin_step(t, STEP_APPLY);
	else
		end_transaction(t, &call->err);
}

static void on_finished(struct store_call *call, const redisReply *reply, bool is_last)
{
	CALL_TELL(call, store_done_fn);
}

void store_transactions_finish(struct store *s, store_done_fn on_done, void *ctx)
{
	struct store_transaction *t =
		store_call_create(s, NULL, sizeof(*t), on_finished, ctx);
	struct store_call *call = store_call_begin(s, NULL, on_records, NULL, t);

	CALL_TELLS(&t->call, on_done);
	store_call_add(call, "HGETALL " LAYOUT_META LAYOUT_COMMITS_NAME);
	store_call_send(call, REDIS_REPLY_ARRAY);
}
