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

/* A PEEK that has to ask Redis for what is beyond the windows. */
struct peek {
	struct reply *reply;
	struct json json; /* into the reply */
	enum entry_state state;
	struct shard **shards; /* each with a reference */
	unsigned shard_count;
	unsigned next;
	unsigned left;
	size_t bytes_left;
	struct place edge; /* of the shard, when its memory was looked at */
};

static void peek_next(struct peek *p);

/* A message in a state, which it leaves at the time that `row` has as its score. */
static void show(struct peek *p, const struct shard *sh, enum entry_state state,
		 const struct store_row *row)
{
	struct json *j = &p->json;
	const struct msg *m = row->msg;

	json_object_begin(j);
	json_member_hex(j, "id", row->id);
	json_member_text(j, "state", state_names[state]);
	json_member_int(j, "shard", sh->index);
	json_member_string(j, "exchange", msg_exchange_word(m));
	json_member_string(j, "key", m->key);
	json_member_int(j, "priority", m->priority);
	json_member_int(j, "ts", m->ts_unix_ms);
	if (row->score != 0)
		json_member_int(j, "due", (int64_t)row->score);
	if (m->expires_unix_ms)
		json_member_int(j, "expires", m->expires_unix_ms);
	json_member_number(j, "rank", row->rank);
	json_member_int(j, "attempts", row->attempts);
	json_member_int(j, "failures", row->failures);
	if (row->reason[0])
		json_member_text(j, "reason", row->reason);
	msg_write_headers(m, j);
	add_payload(j, m);
	json_object_end(j);
	p->left = m->bytes < p->bytes_left ? p->left - 1 : 0;
	p->bytes_left -= p->left ? m->bytes : 0;
}

static void show_entry(struct peek *p, const struct entry *e)
{
	struct store_row row = { .id = e->id,
				 .score = (double)e->at_unix_ms,
				 .rank = e->rank,
				 .msg = e->msg,
				 .attempts = e->attempts,
				 .failures = e->failures };

	if (e->reason)
		snprintf(row.reason, sizeof(row.reason), "%s", e->reason);
	show(p, e->shard, e->state, &row);
}

static void peek_end(struct peek *p)
{
	json_array_end(&p->json);
	for (unsigned i = 0; i < p->shard_count; i++)
		shard_unref(p->shards[i]);
	reply_data(p->reply);
	mem_free(p->shards);
	mem_free(p);
}

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	struct peek *p = ctx;
	struct shard *sh = p->shards[p->next];

	/* What cannot be read is left out: a look is better than none. */
	for (size_t i = 0; status == TIDE_OK && !sh->is_closed && i < count && p->left;
	     i++) {
		struct store_row *row = &rows[i];

		if (!row->msg ||
		    place_is_before((struct place){ row->score, row->id }, p->edge))
			continue;
		if (p->state == ENTRY_READY)
			row->score = 0; /* it is the rank */
		show(p, sh, p->state, row);
	}
	p->next++;
	peek_next(p);
}

static void peek_window(struct peek *p, const struct window *w)
{
	for (struct entry *e = window_first(w); e && p->left; e = window_next(w, e))
		show_entry(p, e);
}

static void peek_memory(struct peek *p, const struct shard *sh)
{
	const struct entry *e;

	if (p->state != ENTRY_UNACKED) {
		peek_window(p, &sh->stages[p->state].window);
		return;
	}
	peek_window(p, &sh->held);
	TAILQ_FOREACH (e, &sh->young, link) {
		if (!p->left)
			return;
		show_entry(p, e);
	}
}

/* Whether Redis is being asked for what the shard has beyond its window. */
static bool peek_store(struct peek *p, struct shard *sh)
{
	const struct stage *st;

	if (p->state == ENTRY_UNACKED || !sh->keys || !p->left)
		return false;
	st = &sh->stages[p->state];
	if (!st->beyond)
		return false;
	p->edge = st->edge;
	store_read(sh->env->store, sh->keys, st->set, (int64_t)st->indexed, p->left,
		   p->bytes_left, false, on_rows, p);
	return true;
}

/* Memory and Redis are asked in the same turn: a window that is refilled between
 * the two would hide what it takes in from both. */
static void peek_next(struct peek *p)
{
	for (; p->next < p->shard_count && p->left; p->next++) {
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
	p->left = spec->max;
	p->bytes_left = PEEK_BYTES_MAX;
	reply_json(r, &p->json);
	json_array_begin(&p->json);
	p->shards = mem_alloc(q->config.shards * sizeof(struct shard *));
	for (unsigned i = 0; i < q->config.shards; i++)
		p->shards[p->shard_count++] = shard_ref(q->shards[i]);
	peek_next(p);
	return TIDE_OK;
}
