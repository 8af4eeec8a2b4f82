/* PEEK: messages are looked at, and nothing changes. */
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "broker/queue_scan.h"
#include "broker/topic.h"
#include "broker/unusable.h"
#include "log/cursor.h"
#include "session_private.h"
#include "shard/shard.h"

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

static void write_number(struct json *j, const char *name, struct slice text)
{
	uint64_t n;

	if (slice_to_uint(text, INT64_MAX, &n))
		json_member_int(j, name, (int64_t)n);
}

#define DEATH(name) msg_header(m, SLICE(MSG_DEATH_PREFIX name))

void session_peek_write_death(struct json *j, const struct msg *m)
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
	json_member_int(j, "deliveries", row->deliveries);
	json_member_int(j, "failures", row->failures);
	if (row->reason[0])
		json_member_text(j, "reason", row->reason);
	session_peek_write_death(j, m);
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

static void on_end(struct queue_scan *scan)
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

/* ---- the place of an id alone ---------------------------------------------------- */

struct peek_lookup;

struct peek_part {
	struct shard_ask ask; /* of a shard */
	struct peek_lookup *lookup;
	uint64_t id;
};

struct peek_lookup {
	struct waiter waiter;
	struct peek *peek;
	struct place place;
	bool is_found;
	struct peek_part parts[];
};

static void found(struct shard_ask *ask, enum entry_state state, double score)
{
	struct peek_lookup *l = container_of(ask, struct peek_part, ask)->lookup;

	if (state != l->peek->state)
		return;
	l->is_found = true;
	l->place.score = score;
}

static bool on_entry(struct shard_ask *ask, struct entry *e, enum entry_state state)
{
	found(ask, state, state == ENTRY_READY ? e->rank : (double)e->at_unix_ms);
	return false;
}

static void on_row(struct shard_ask *ask, const struct store_row *row,
		   enum entry_state state)
{
	found(ask, state, state == ENTRY_READY ? row->rank : row->score);
}

static void on_asked(struct shard_ask *ask, int status, const char *text)
{
	struct peek_part *part = container_of(ask, struct peek_part, ask);
	struct peek_lookup *l = part->lookup;

	shard_unref(ask->shard);
	waiter_done(&l->waiter, status, text);
}

static void on_looked_up(struct waiter *w)
{
	struct peek_lookup *l = container_of(w, struct peek_lookup, waiter);
	struct peek *p = l->peek;

	if (w->status < 0)
		error_set(&p->scan.err, w->status, "%s",
			  w->text ? w->text : error_text(w->status));
	else if (!l->is_found)
		error_set(&p->scan.err, TIDE_ENOTFOUND,
			  "after=%016" PRIx64 ": no such message is %s any more; go on "
			  "with the `next` of the answer before",
			  l->place.id, state_names[p->state]);
	l->place.id++;
	queue_scan_begin(&p->scan, l->place);
	mem_free(l);
}

static void look_up(struct peek *p, const struct queue *q, uint64_t id)
{
	unsigned shards = q->shard_count;
	struct peek_lookup *l =
		mem_zalloc(sizeof(*l) + shards * sizeof(struct peek_part));

	waiter_init(&l->waiter, on_looked_up);
	l->peek = p;
	l->place.id = id;
	for (unsigned i = 0; i < shards; i++) {
		struct peek_part *part = &l->parts[i];

		waiter_add(&l->waiter);
		part->lookup = l;
		part->id = id;
		part->ask = (struct shard_ask){ .shard = shard_ref(q->shards[i]),
						.ids = &part->id,
						.count = 1,
						.on_entry = on_entry,
						.on_row = on_row,
						.on_end = on_asked };
	}
	/* The last look may be over within its call. */
	for (unsigned i = 0; i < shards; i++)
		shard_take_ask(&l->parts[i].ask);
	waiter_done(&l->waiter, TIDE_OK, NULL);
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
	p->scan.ops = &ops;
	p->scan.match = &p->match;
	return p;
}

/* The queue, or the topic. */
static int find(struct session *s, const struct peek_spec *spec, struct queue **out,
		struct error *err)
{
	int rc = session_queue_any(s, USER_READ, spec->queue, out, err);

	if (rc == TIDE_OK)
		rc = unusable_check(&(*out)->definition, err);
	if (rc == TIDE_OK && !(*out)->topic &&
	    (spec->partition >= 0 || spec->from.kind != POSITION_NONE))
		rc = error_set(err, TIDE_ESYNTAX,
			       "'%s' is a queue: partition= and offset= are for topics",
			       (*out)->name);
	return rc;
}

/* ---- of a topic ---- */

/* Of what is looked at by one request. */
#define SEARCH_MAX 10000
#define SEARCH_BYTES_MAX                                               \
	((size_t)8 << 20) /* of payloads; one is looked at in any case \
			   */

struct peek_topic {
	struct reply *reply;
	struct json json;
	struct msg_match match;
	struct partition *partition; /* until there is a cursor */
	struct cursor *cursor;
	uint64_t searched;
	size_t bytes;   /* looked at */
	size_t counted; /* of the document, as memory */
	unsigned left;
};

static void show_record(struct json *j, unsigned partition, const struct record *record)
{
	const struct msg *m = &record->msg;

	json_object_begin(j);
	json_member_hex(j, "id", m->id);
	json_member_int(j, "partition", partition);
	json_member_int(j, "offset", (int64_t)record->offset);
	json_member_string(j, "exchange", msg_exchange_word(m));
	json_member_string(j, "key", m->key);
	json_member_int(j, "priority", m->priority);
	json_member_int(j, "ts", m->ts_unix_ms);
	session_peek_write_death(j, m);
	msg_write_headers(m, j);
	session_peek_write_payload(j, m);
	json_object_end(j);
}

static void end(struct peek_topic *p, int status, const char *text)
{
	struct error err;

	session_answer_written(p->reply, p->counted);
	if (status < 0) {
		error_set(&err, status, "%s", text ? text : error_text(status));
		reply_error(p->reply, &err);
	} else {
		reply_data_bounded(p->reply);
	}
	cursor_destroy(p->cursor);
	msg_match_deinit(&p->match);
	mem_free(p);
}

static void finish(struct peek_topic *p, bool has_more)
{
	char next[32];

	json_array_end(&p->json);
	json_member_int(&p->json, "searched", (int64_t)p->searched);
	if (has_more) {
		snprintf(next, sizeof(next), "%" PRIu64, cursor_offset(p->cursor));
		json_member_text(&p->json, "next", next);
	}
	json_object_end(&p->json);
	end(p, TIDE_OK, NULL);
}

/* Whether it may look at one more. */
static bool is_full(const struct peek_topic *p)
{
	return p->left == 0 || p->searched >= SEARCH_MAX || p->bytes >= SEARCH_BYTES_MAX;
}

static void go_on(void *ctx)
{
	struct peek_topic *p = ctx;
	unsigned index = partition_index(p->partition);
	struct record_batch *batch;
	struct record record;
	int rc = TIDE_OK;

	while (!is_full(p)) {
		rc = cursor_next(p->cursor, &record, &batch);
		if (rc < 0)
			break;
		p->searched++;
		p->bytes += record.msg.payload_len;
		if (!msg_match_has(&p->match, &record.msg))
			continue;
		show_record(&p->json, index, &record);
		p->left--;
		session_answer_write(p->reply, &p->counted);
		if (session_answer_is_enough(p->reply))
			p->left = 0;
	}
	if (rc == TIDE_ESTORE)
		end(p, rc, "the partition cannot be read now; the broker's log says why");
	else if (rc != TIDE_AGAIN)
		finish(p, rc == TIDE_OK && !cursor_is_at_end(p->cursor));
}

static void begin_at(struct peek_topic *p, uint64_t offset)
{
	p->cursor = cursor_create_for(p->partition, offset, go_on, p);
	go_on(p);
}

static void on_found(void *ctx, int status, const char *text, uint64_t offset)
{
	struct peek_topic *p = ctx;

	if (status < 0)
		end(p, status, text);
	else
		begin_at(p, offset);
}

static void begin(struct peek_topic *p, const struct position *from, int64_t now_ms)
{
	switch (from->kind) {
	case POSITION_NONE:
	case POSITION_COMMITTED:
	case POSITION_FIRST:
		begin_at(p, partition_start(p->partition));
		return;
	case POSITION_LAST:
		begin_at(p, partition_readable(p->partition));
		return;
	case POSITION_OFFSET:
		begin_at(p, from->offset);
		return;
	case POSITION_TIME:
	case POSITION_AGO:
		partition_find_time(p->partition, position_time(from, now_ms), on_found,
				    p);
		return;
	}
}

static int check(const struct queue *q, const struct peek_spec *spec, struct error *err)
{
	unsigned count = q->config.shards;

	if (spec->state != PEEK_ANY || spec->after.data)
		return error_set(err, TIDE_ESYNTAX,
				 "'%s' is a topic: PEEK takes partition= and offset= for "
				 "it, and no state= and after=",
				 q->name);
	if (spec->from.kind == POSITION_COMMITTED)
		return error_set(err, TIDE_ESYNTAX,
				 "PEEK reads for no group: expected offset=first, last, "
				 "an offset or a time");
	if (spec->partition < 0 && count > 1)
		return error_set(err, TIDE_ESYNTAX,
				 "PEEK of a topic needs partition=: '%s' has 0-%u",
				 q->name, count - 1);
	return session_topic_check_partition(q, spec->partition, err);
}

static int peek_topic(struct queue *q, const struct peek_spec *spec, struct reply *r,
		      struct error *err)
{
	unsigned index = spec->partition < 0 ? 0 : (unsigned)spec->partition;
	struct msg_match match;
	struct peek_topic *p;

	if (check(q, spec, err) < 0 || msg_match_init(&match, spec->match, err) < 0)
		return err->code;
	p = mem_zalloc(sizeof(*p));
	p->reply = r;
	p->match = match;
	p->left = spec->max;
	p->partition = topic_partition(q->topic, index);
	reply_json(r, &p->json);
	json_object_begin(&p->json);
	json_member_array(&p->json, "messages");
	begin(p, &spec->from, q->vhost->broker->now_ms);
	return TIDE_OK;
}

int session_peek(struct session *s, const struct peek_spec *spec, struct reply *r,
		 struct error *err)
{
	struct place after = { -DBL_MAX, 0 };
	bool has_score = true;
	struct msg_match match;
	struct queue *q;
	struct peek *p;

	if (find(s, spec, &q, err) < 0)
		return err->code;
	if (q->topic)
		return peek_topic(q, spec, r, err);
	if ((spec->after.data && read_after(spec->after, &after, &has_score, err) < 0) ||
	    msg_match_init(&match, spec->match, err) < 0)
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
