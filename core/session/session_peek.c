/* PEEK: a look at what waits in a queue. */
#include "base/json.h"
#include "base/mem.h"
#include "session_private.h"

#define PEEK_BYTES_MAX \
	((size_t)8 << 20) /* of messages, in memory and in Redis; one at least */

static const char *const state_names[] = {
	[ENTRY_READY] = "ready",   [ENTRY_DELAYED] = "delayed",
	[ENTRY_BURIED] = "buried", [ENTRY_UNACKED] = "unacked",
	[ENTRY_MOVING] = "moving", [ENTRY_GONE] = "gone",
};

static void add_base64(struct buf *out, const char *data, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		size_t n = len - i < 3 ? len - i : 3;
		uint32_t bits = 0;

		for (size_t k = 0; k < 3; k++)
			bits = bits << 8 | (k < n ? (unsigned char)data[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			buf_append_char(out,
					k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=');
	}
}

static void add_payload(struct json *j, const struct msg *m)
{
	struct slice payload = { m->payload, m->payload_len };
	struct buf text = { 0 };

	json_member_int(j, "size", (int64_t)m->payload_len);
	if (slice_is_utf8(payload)) {
		json_member_string(j, "payload", payload);
		return;
	}
	add_base64(&text, m->payload, m->payload_len);
	json_member_string(j, "payload_base64", buf_slice(&text));
	buf_deinit(&text);
}

/* A message that may be shown. */
struct peeked {
	struct store_row row; /* with a reference of the message */
	unsigned shard;       /* its index */
	unsigned
		shard_turn; /* the place of the shard among those that GET asks in turn */
	unsigned turn;      /* how many of its shard come before it */
	const struct entry
		*held; /* of what somebody holds: it is shown in the same turn */
};

/* The first messages of each shard are gathered, from memory and, where that has too
 * few, from Redis. Then they are put in order. */
struct peek {
	struct reply *reply;
	enum entry_state state;
	struct shard **shards; /* each with a reference; in the order of their turns */
	unsigned shard_count;
	unsigned next;
	unsigned max;
	size_t bytes_left; /* nothing more is gathered when they are used up */
	struct place edge; /* of the shard, when its memory was looked at */
	unsigned turn;
	struct peeked *found;
	size_t count, cap;
};

static void peek_next(struct peek *p);

/* A message in a state, which it leaves at the time that `row` has as its score. */
static void show(struct json *j, enum entry_state state, const struct peeked *found)
{
	const struct store_row *row = &found->row;
	const struct msg *m = row->msg;

	json_object_begin(j);
	json_member_hex(j, "id", row->id);
	json_member_text(j, "state", state_names[state]);
	json_member_int(j, "shard", found->shard);
	json_member_string(j, "exchange", msg_exchange_word(m));
	json_member_string(j, "key", m->key);
	json_member_int(j, "priority", m->priority);
	json_member_int(j, "ts", m->ts_unix_ms);
	if (row->score != 0)
		json_member_int(j, "due", (int64_t)row->score);
	if (row->expires_unix_ms)
		json_member_int(j, "expires", row->expires_unix_ms);
	json_member_number(j, "rank", row->rank);
	json_member_int(j, "attempts", row->attempts);
	json_member_int(j, "failures", row->failures);
	if (row->reason[0])
		json_member_text(j, "reason", row->reason);
	if (found->held)
		channel_write_holder(found->held, j);
	msg_write_headers(m, j);
	add_payload(j, m);
	json_object_end(j);
}

static int by_turn(const void *a, const void *b)
{
	const struct peeked *x = a, *y = b;

	if (x->turn != y->turn)
		return x->turn < y->turn ? -1 : 1;
	return (x->shard_turn > y->shard_turn) - (x->shard_turn < y->shard_turn);
}

static int by_time(const void *a, const void *b)
{
	struct place x = place_of_row(&((const struct peeked *)a)->row);
	struct place y = place_of_row(&((const struct peeked *)b)->row);

	return place_is_before(x, y) ? -1 : place_is_before(y, x);
}

static void show_all(struct peek *p)
{
	size_t left = PEEK_BYTES_MAX;
	struct json json;

	if (p->count > 0)
		qsort(p->found, p->count, sizeof(*p->found),
		      p->state == ENTRY_READY ? by_turn : by_time);
	reply_json(p->reply, &json);
	json_array_begin(&json);
	for (size_t i = 0; i < p->count && i < p->max; i++) {
		size_t bytes = p->found[i].row.msg->bytes;

		show(&json, p->state, &p->found[i]);
		if (bytes >= left)
			break;
		left -= bytes;
	}
	json_array_end(&json);
}

static void peek_end(struct peek *p)
{
	show_all(p);
	for (size_t i = 0; i < p->count; i++)
		msg_unref(p->found[i].row.msg);
	for (unsigned i = 0; i < p->shard_count; i++)
		shard_unref(p->shards[i]);
	reply_data(p->reply);
	mem_free(p->found);
	mem_free(p->shards);
	mem_free(p);
}

static bool is_enough(const struct peek *p)
{
	return p->turn >= p->max || p->bytes_left == 0;
}

static void add(struct peek *p, const struct store_row *row)
{
	struct peeked *found;

	if (p->count == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 16;
		p->found = mem_realloc(p->found, p->cap * sizeof(*p->found));
	}
	found = &p->found[p->count++];
	*found = (struct peeked){ .row = *row,
				  .shard = p->shards[p->next]->index,
				  .shard_turn = p->next,
				  .turn = p->turn++ };
	msg_ref(row->msg);
	p->bytes_left -=
		row->msg->bytes < p->bytes_left ? row->msg->bytes : p->bytes_left;
}

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	struct peek *p = ctx;
	struct shard *sh = p->shards[p->next];

	/* What cannot be read is left out: a look is better than none. */
	for (size_t i = 0;
	     status == TIDE_OK && !sh->is_closed && i < count && !is_enough(p); i++) {
		struct store_row *row = &rows[i];

		if (!row->msg || place_is_before(place_of_row(row), p->edge))
			continue;
		if (p->state == ENTRY_READY)
			row->score = 0; /* it is the rank */
		add(p, row);
	}
	p->next++;
	peek_next(p);
}

static void peek_entry(struct peek *p, const struct entry *e)
{
	struct store_row row = { .id = e->id,
				 .score = (double)e->at_unix_ms,
				 .rank = e->rank,
				 .expires_unix_ms = e->expires_unix_ms,
				 .msg = e->msg,
				 .attempts = e->attempts,
				 .failures = e->failures };

	if (e->reason)
		snprintf(row.reason, sizeof(row.reason), "%s", e->reason);
	add(p, &row);
	if (p->state == ENTRY_UNACKED)
		p->found[p->count - 1].held = e;
}

static void peek_window(struct peek *p, const struct window *w)
{
	for (struct entry *e = window_first(w); e && !is_enough(p); e = window_next(w, e))
		peek_entry(p, e);
}

static void peek_memory(struct peek *p, const struct shard *sh)
{
	const struct entry *e;

	p->turn = 0;
	if (p->state != ENTRY_UNACKED) {
		peek_window(p, &sh->stages[p->state].window);
		return;
	}
	peek_window(p, &sh->held);
	p->turn = 0;
	TAILQ_FOREACH (e, &sh->young, link) {
		if (is_enough(p))
			return;
		peek_entry(p, e);
	}
}

/* Whether Redis is being asked for what the shard has beyond its window. */
static bool peek_store(struct peek *p, struct shard *sh)
{
	const struct stage *st;

	if (p->state == ENTRY_UNACKED || !sh->keys || is_enough(p))
		return false;
	st = &sh->stages[p->state];
	if (!st->beyond)
		return false;
	p->edge = st->edge;
	store_read(sh->env->store, sh->keys, st->set, (int64_t)st->indexed,
		   p->max - p->turn, p->bytes_left, false, on_rows, p);
	return true;
}

/* Memory and Redis are asked in the same turn: a window that is refilled between
 * the two would hide what it takes in from both. */
static void peek_next(struct peek *p)
{
	for (; p->next < p->shard_count && p->bytes_left; p->next++) {
		struct shard *sh = p->shards[p->next];

		if (sh->is_closed)
			continue;
		peek_memory(p, sh);
		if (peek_store(p, sh))
			return;
	}
	peek_end(p);
}

int session_peek(struct session *s, const struct peek_spec *spec, struct reply *r,
		 struct error *err)
{
	static const enum entry_state states[] = {
		[PEEK_READY] = ENTRY_READY,
		[PEEK_DELAYED] = ENTRY_DELAYED,
		[PEEK_BURIED] = ENTRY_BURIED,
		[PEEK_UNACKED] = ENTRY_UNACKED,
	};
	struct queue *q;
	struct peek *p;

	if (session_queue_usable(s, spec->queue, &q, err) < 0)
		return err->code;
	p = mem_zalloc(sizeof(*p));
	p->reply = r;
	p->state = states[spec->state];
	p->max = spec->max;
	p->bytes_left = PEEK_BYTES_MAX;
	p->shard_count = q->shard_count;
	p->shards = mem_alloc(p->shard_count * sizeof(struct shard *));
	for (unsigned i = 0; i < p->shard_count; i++)
		p->shards[i] = shard_ref(q->shards[(q->next_shard + i) % p->shard_count]);
	peek_next(p);
	return TIDE_OK;
}
