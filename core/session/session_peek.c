/* PEEK: a look at what waits in a queue. */
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "broker/queue_scan.h"
#include "session_private.h"

#define PEEK_BYTES_MAX ((size_t)8 << 20) /* of messages; one is shown in any case */

static const char *const state_names[] = {
	[ENTRY_READY] = "ready",   [ENTRY_DELAYED] = "delayed",
	[ENTRY_BURIED] = "buried", [ENTRY_UNACKED] = "unacked",
	[ENTRY_MOVING] = "moving", [ENTRY_GONE] = "gone",
};

const char *session_peek_state_name(enum entry_state state)
{
	return state_names[state];
}

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

void session_peek_write_payload(struct json *j, const struct msg *m)
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

struct peek {
	struct queue_scan scan;
	struct msg_match match;
	struct reply *reply;
	struct json json;
	enum entry_state state;
	unsigned left;     /* messages to be shown */
	size_t bytes_left; /* nothing more is shown when they are used up */
};

static void show(struct json *j, enum entry_state state, unsigned shard,
		 const struct shard_row *shown)
{
	const struct store_row *row = &shown->row;
	const struct msg *m = row->msg;

	json_object_begin(j);
	json_member_hex(j, "id", row->id);
	json_member_text(j, "state", session_peek_state_name(state));
	json_member_int(j, "shard", shard);
	json_member_string(j, "exchange", msg_exchange_word(m));
	json_member_string(j, "key", m->key);
	json_member_int(j, "priority", m->priority);
	json_member_int(j, "ts", m->ts_unix_ms);
	if (state != ENTRY_READY)
		json_member_int(j, "due", (int64_t)row->score);
	if (row->expires_unix_ms)
		json_member_int(j, "expires", row->expires_unix_ms);
	json_member_number(j, "rank", row->rank);
	json_member_int(j, "attempts", row->attempts);
	json_member_int(j, "failures", row->failures);
	if (row->reason[0])
		json_member_text(j, "reason", row->reason);
	if (state == ENTRY_UNACKED)
		channel_write_holder(shown->entry, j);
	msg_write_headers(m, j);
	session_peek_write_payload(j, m);
	json_object_end(j);
}

static bool on_match(struct queue_scan *scan, struct shard *sh,
		     const struct shard_row *row)
{
	struct peek *p = container_of(scan, struct peek, scan);
	size_t bytes = row->row.msg->bytes;

	show(&p->json, p->state, sh->index, row);
	p->bytes_left -= bytes < p->bytes_left ? bytes : p->bytes_left;
	return --p->left > 0 && p->bytes_left > 0;
}

/* `next` is behind the last message that was looked at, and names that one. */
static void show_next(struct json *j, struct place next)
{
	char text[64];

	snprintf(text, sizeof(text), "%016" PRIx64 "@%.17g", next.id - 1, next.score);
	json_member_text(j, "next", text);
}

static void on_end(struct queue_scan *scan)
{
	struct peek *p = container_of(scan, struct peek, scan);

	json_array_end(&p->json);
	json_member_int(&p->json, "searched", (int64_t)scan->searched);
	if (!scan->is_whole)
		show_next(&p->json, scan->next);
	json_object_end(&p->json);
	if (scan->err.code < 0)
		reply_error(p->reply, &scan->err);
	else
		reply_data(p->reply);
	queue_scan_deinit(scan);
	msg_match_deinit(&p->match);
	mem_free(p);
}

static const struct queue_scan_ops ops = { on_match, on_end };

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

/* Whether the queue's order of ready messages is that of their ids. */
static bool has_one_rank(const struct queue *q)
{
	return strcmp(q->config.scripts[SCRIPT_PRIORITY], "fifo") == 0;
}

/* Where to begin: behind "<id>@<score>". */
static int read_after(const struct queue *q, const struct peek_spec *spec,
		      struct place *from, struct error *err)
{
	struct slice score = spec->after, id = slice_cut(&score, '@');

	*from = (struct place){ -DBL_MAX, 0 };
	if (!spec->after.data)
		return TIDE_OK;
	if (id_parse(id, &from->id) < 0 || from->id == UINT64_MAX ||
	    (id.len < spec->after.len && !read_score(score, &from->score)))
		return error_set(err, TIDE_ESYNTAX,
				 "after=%.*s: expected the `next` of an answer, or an id",
				 SLICE_HEAD(spec->after, 64));
	from->id++;
	if (id.len < spec->after.len)
		return TIDE_OK;
	from->score = 0;
	if (spec->state == PEEK_READY && has_one_rank(q))
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "after=%.*s: an id alone is a place only among the ready "
			 "messages of a queue with priority=fifo; give the `next` of the "
			 "answer before",
			 SLICE_HEAD(spec->after, 64));
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
	struct place from;
	struct queue *q;
	struct peek *p;

	if (session_queue_usable(s, spec->queue, &q, err) < 0 ||
	    read_after(q, spec, &from, err) < 0)
		return err->code;
	p = mem_zalloc(sizeof(*p));
	if (msg_match_init(&p->match, spec->match, err) < 0) {
		mem_free(p);
		return err->code;
	}
	p->reply = r;
	p->state = states[spec->state];
	p->left = spec->max;
	p->bytes_left = PEEK_BYTES_MAX;
	reply_json(r, &p->json);
	json_object_begin(&p->json);
	json_member_array(&p->json, "messages");
	p->scan.ops = &ops;
	p->scan.match = &p->match;
	p->scan.next = from;
	queue_scan_init(&p->scan, q, p->state, spec->match.data ? UINT_MAX : spec->max);
	queue_scan_run(&p->scan);
	return TIDE_OK;
}
