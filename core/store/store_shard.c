/* store_shard.c: the requests that read a shard, take from it and remove. */
#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/duration.h"
#include "host/log.h"
#include "codec.h"
#include "store_private.h"

static const char *const reasons[STORE_REASONS] = { "nack", "timeout", "gone",
						    "rejected" };

const char *store_tries_reason(unsigned i)
{
	return reasons[i];
}

size_t store_tries_format(const struct store_tries *tries, char out[STORE_TRIES_TEXT_MAX])
{
	int len = snprintf(out, STORE_TRIES_TEXT_MAX, "%u %u %.31s", tries->deliveries,
			   tries->failures, tries->reason ? tries->reason : "");

	for (unsigned i = 0; i < STORE_REASONS; i++)
		if (tries->failed[i])
			len += snprintf(out + len, STORE_TRIES_TEXT_MAX - (size_t)len,
					" %s=%u", reasons[i], tries->failed[i]);
	return (size_t)len;
}

static void parse_count(struct slice word, struct store_row *row)
{
	struct slice count = word, name = slice_cut(&count, '=');
	uint64_t n;

	for (unsigned i = 0; i < STORE_REASONS; i++)
		if (slice_is(name, reasons[i]) && slice_to_uint(count, UINT16_MAX, &n))
			row->failed[i] = (uint16_t)n;
}

/* Into the row: what cannot be read counts as nothing. */
static void parse_tries(const char *text, struct store_row *row)
{
	struct slice rest, word;
	char *end;

	row->deliveries = (uint32_t)strtoul(text, &end, 10);
	row->failures = (uint32_t)strtoul(end, &end, 10);
	while (*end == ' ')
		end++;
	rest = slice_from(end);
	word = slice_cut(&rest, ' ');
	snprintf(row->reason, sizeof(row->reason), "%" SLICE_FMT, SLICE_ARG(word));
	while (rest.len > 0)
		parse_count(slice_cut(&rest, ' '), row);
}

struct read_call {
	struct store_call call;
	enum store_set set;
	bool ids_only;
};

/* A place in a list of lists. */
struct element_cursor {
	const redisReply *lists;
	size_t list;
	size_t at;
};

/* The next element, or NULL after the last. */
static const redisReply *next_element(struct element_cursor *c)
{
	for (; c->list < c->lists->elements; c->list++, c->at = 0) {
		const redisReply *list = c->lists->element[c->list];

		if (list->type == REDIS_REPLY_ARRAY && c->at < list->elements)
			return list->element[c->at++];
	}
	return NULL;
}

static void read_tries(struct store_row *row, const redisReply *tries)
{
	if (tries && tries->type == REDIS_REPLY_STRING)
		parse_tries(tries->str, row);
}

static int read_body(const struct read_call *r, struct store_row *row,
		     const redisReply *body)
{
	struct msg known = { .id = row->id, .pool = r->call.store->config.msgs };
	struct error err;
	int rc;

	if (!body || body->type != REDIS_REPLY_STRING)
		return TIDE_OK;
	rc = codec_decode(store_reply_slice(body), &known, &row->msg, &row->rank, &err);
	if (rc == TIDE_OK)
		row->expires_unix_ms = row->msg->expires_unix_ms;
	if (rc != TIDE_ESTORE)
		return rc;
	row->rank = 0;
	row->is_corrupt = true;
	log_error("store: message %016llx in %smsg: %s", (unsigned long long)row->id,
		  r->call.shard->prefix, err.text);
	return TIDE_OK;
}

#define EXACT_INTEGER_MAX (UINT64_C(1) << 53)

/* Most are whole numbers, which strtod takes its time for. */
static double read_score(const redisReply *score)
{
	uint64_t n;

	if (slice_to_uint(store_reply_slice(score), EXACT_INTEGER_MAX, &n))
		return (double)n;
	return strtod(score->str, NULL);
}

/* One member with its score; false when it is not one of ours. */
static bool read_member(const struct read_call *r, struct store_row *row,
			const redisReply *member, const redisReply *score)
{
	if (member->type != REDIS_REPLY_STRING || score->type != REDIS_REPLY_STRING)
		return false;
	row->score = read_score(score);
	if (id_parse(store_reply_slice(member), &row->id) == TIDE_OK)
		return true;
	log_error("store: %s%s has a member that is not an id: %.40s",
		  STORE_KEY(r->call.shard, layout_set_key(r->set)), member->str);
	return false;
}

static int read_rows(const struct read_call *r, const redisReply *reply,
		     struct store_row *rows, size_t *count)
{
	const redisReply *members = reply->element[0];
	struct element_cursor bodies = { .lists = reply->element[1] };
	struct element_cursor tries = { .lists = reply->element[2] };
	int rc;

	for (size_t i = 0; i + 1 < members->elements; i += 2) {
		const redisReply *body = next_element(&bodies);
		const redisReply *tried = next_element(&tries);
		struct store_row *row = &rows[*count];

		if (!body && !r->ids_only)
			break;
		*row = (struct store_row){ .id = 0 };
		if (!read_member(r, row, members->element[i], members->element[i + 1]))
			continue;
		rc = read_body(r, row, body);
		if (rc < 0)
			return rc;
		read_tries(row, tried);
		++*count;
	}
	return TIDE_OK;
}

static bool is_rows_reply(const redisReply *reply)
{
	return reply->elements >= 3 && reply->element[0]->type == REDIS_REPLY_ARRAY &&
	       reply->element[1]->type == REDIS_REPLY_ARRAY &&
	       reply->element[2]->type == REDIS_REPLY_ARRAY;
}

/* The rows, of which `count` hold a message; the call notes what is wrong. */
static struct store_row *take_rows(struct read_call *r, const redisReply *reply,
				   size_t *count)
{
	struct store_row *rows;
	int rc;

	if (!reply || !is_rows_reply(reply)) {
		store_call_fail(&r->call, TIDE_ESTORE, "an unexpected reply from Redis");
		return NULL;
	}
	rows = mem_alloc((reply->element[0]->elements / 2 + 1) * sizeof(*rows));
	rc = read_rows(r, reply, rows, count);
	if (rc < 0)
		store_call_fail(&r->call, rc, "out of memory for what was read");
	return rows;
}

static void free_rows(struct store_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		msg_unref(rows[i].msg);
	mem_free(rows);
}

static void on_read_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct read_call *r = container_of(call, struct read_call, call);
	size_t count = 0;
	struct store_row *rows = take_rows(r, reply, &count);
	bool is_good = call->err.code == TIDE_OK;

	CALL_TELL(call, store_rows_fn, is_good ? rows : NULL, is_good ? count : 0);
	free_rows(rows, count);
}

static void add_id(struct buf *out, uint64_t id)
{
	char text[ID_HEX_LEN];

	id_format(id, text);
	resp_bulk(out, (struct slice){ text, sizeof(text) });
}

/* In one of the ways of read.lua. */
void store_read(struct store *s, struct store_shard *shard, const struct store_read *read,
		store_rows_fn on_rows, void *ctx)
{
	struct read_call *r = store_call_create(s, shard, sizeof(*r), on_read_reply, ctx);
	unsigned count = store_clamp_count(read->count);
	size_t bytes = read->max_bytes < INT32_MAX ? read->max_bytes + 1 : INT32_MAX;
	struct buf *out = store_call_add_script(
		&r->call, script_read, 3, 2 + (read->ids ? count : 2u + read->has_place));

	CALL_TELLS(&r->call, on_rows);
	r->set = read->set;
	r->ids_only = read->ids_only;
	layout_resp_key(out, shard_prefix(shard), layout_set_key(read->set));
	layout_resp_key(out, shard_prefix(shard), LAYOUT_MSG);
	layout_resp_key(out, shard_prefix(shard), LAYOUT_TRIES);
	resp_number(out, read->ids_only ? 0 : bytes);
	resp_text(out, read->ids ? "ids" : read->has_place ? "from" : "range");
	for (unsigned i = 0; read->ids && i < count; i++)
		add_id(out, read->ids[i]);
	if (read->has_place) {
		resp_score(out, read->score);
		add_id(out, read->id);
		resp_number(out, count);
	} else if (!read->ids) {
		resp_score(out, (double)read->start);
		resp_score(out, (double)store_last_index(read->start, count));
	}
	store_call_send(&r->call, REDIS_REPLY_ARRAY);
}

#define TAKEN_BY_ID (INT64_C(1) << 52) /* minus what take.lua has as `base` */

enum store_set store_read_taken_from(double score, int64_t *at_ms)
{
	/* By the kinds of take.lua, less one. */
	static const enum store_set sets[] = { STORE_READY, STORE_DELAYED, STORE_BURIED };
	int64_t code;

	if (!(score < -(double)TAKEN_BY_ID && score > -2 * (double)TAKEN_BY_ID))
		return STORE_UNACK;
	code = (int64_t)-score - TAKEN_BY_ID;
	*at_ms = code / 4;
	return code % 4 == 0 ? STORE_UNACK : sets[code % 4 - 1];
}

enum store_set store_read_expired_from(double score)
{
	return (int64_t)score % 2 ? STORE_DELAYED : STORE_READY;
}

/* The rows come from the unack set. */
static void on_take_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct read_call *r = container_of(call, struct read_call, call);
	struct store_taken out = { 0 };
	bool is_whole = reply && reply->elements == 5 &&
			reply->element[3]->type == REDIS_REPLY_INTEGER &&
			reply->element[4]->type == REDIS_REPLY_STRING;

	out.rows = take_rows(r, is_whole ? reply : NULL, &out.count);
	if (out.rows) {
		out.offset = reply->element[3]->integer;
		out.next_ms = (int64_t)read_score(reply->element[4]);
	}
	CALL_TELL(call, store_taken_fn, &out);
	free_rows(out.rows, out.count);
}

void store_read_take(struct store *s, struct store_shard *shard,
		     const struct store_take *take, store_taken_fn on_taken, void *ctx)
{
	static const enum layout_key keys[] = {
		LAYOUT_EXPIRY,
		LAYOUT_MSG,
		LAYOUT_TRIES,
		(enum layout_key)(LAYOUT_SETS + STORE_READY),
		(enum layout_key)(LAYOUT_SETS + STORE_DELAYED),
		(enum layout_key)(LAYOUT_SETS + STORE_BURIED),
		(enum layout_key)(LAYOUT_SETS + STORE_UNACK),
	};
	const int64_t words[] = {
		take->now_ms,
		-2 * take->number - 1,
		-2 * take->number,
		take->starts[STORE_READY],
		take->starts[STORE_DELAYED],
		take->starts[STORE_BURIED],
		(int64_t)take->count,
		take->max_bytes < INT32_MAX ? (int64_t)take->max_bytes : INT32_MAX,
		take->offset,
		take->is_look,
	};
	enum {
		KEYS = sizeof(keys) / sizeof(*keys),
		WORDS = sizeof(words) / sizeof(*words)
	};
	struct read_call *r = store_call_create(s, shard, sizeof(*r), on_take_reply, ctx);
	struct buf *out = store_call_add_script(&r->call, script_take, KEYS,
						WORDS + take->id_count);

	CALL_TELLS(&r->call, on_taken);
	r->set = STORE_UNACK;
	r->call.request.is_write = !take->is_look;
	for (int i = 0; i < KEYS; i++)
		layout_resp_key(out, shard_prefix(shard), keys[i]);
	for (int i = 0; i < WORDS; i++)
		resp_score(out, (double)words[i]);
	for (unsigned i = 0; i < take->id_count; i++)
		add_id(out, take->ids[i]);
	store_call_send(&r->call, REDIS_REPLY_ARRAY);
}

struct counts_call {
	struct store_call call;
	struct store_counts counts;
};

static void on_counts_reply(struct store_call *call, const redisReply *reply,
			    bool is_last)
{
	struct counts_call *c = container_of(call, struct counts_call, call);
	unsigned answered = call->request.answered;

	if (reply && answered == 1)
		c->counts.bodies = (uint64_t)reply->integer;
	else if (reply && answered == 2)
		c->counts.tries = (uint64_t)reply->integer;
	else if (reply)
		c->counts.sets[answered - 3] = (uint64_t)reply->integer;
	if (is_last)
		CALL_TELL(call, store_counts_fn, call->err.code < 0 ? NULL : &c->counts);
}

void store_read_counts(struct store *s, struct store_shard *shard,
		       store_counts_fn on_counts, void *ctx)
{
	struct counts_call *c =
		store_call_create(s, shard, sizeof(*c), on_counts_reply, ctx);

	CALL_TELLS(&c->call, on_counts);
	store_call_add(&c->call, "HLEN %s%s", STORE_KEY(shard, LAYOUT_MSG));
	store_call_add(&c->call, "HLEN %s%s", STORE_KEY(shard, LAYOUT_TRIES));
	for (int set = 0; set < STORE_SET_COUNT; set++)
		store_call_add(&c->call, "ZCARD %s%s",
			       STORE_KEY(shard, layout_set_key((enum store_set)set)));
	store_call_send(&c->call, REDIS_REPLY_INTEGER);
}

struct has_call {
	struct store_call call;
	bool found[];
};

static void on_has_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct has_call *h = container_of(call, struct has_call, call);
	bool is_shutdown = call->err.code == TIDE_ESHUTDOWN;

	/* An error: the key is not a hash, and the message is not in it. */
	if (!is_shutdown)
		h->found[call->request.answered - 1] = reply && reply->integer == 1;
	if (is_last)
		CALL_TELLER(call, store_has_fn)
	(call->ctx, is_shutdown ? TIDE_ESHUTDOWN : TIDE_OK, h->found,
	 call->request.replies);
}

void store_read_has(struct store *s, struct store_shard *shard, const uint64_t *ids,
		    unsigned count, store_has_fn on_has, void *ctx)
{
	struct has_call *h = store_call_create(
		s, shard, sizeof(*h) + count * sizeof(bool), on_has_reply, ctx);

	CALL_TELLS(&h->call, on_has);
	for (unsigned i = 0; i < count; i++)
		store_call_add(&h->call, "HEXISTS %s%s %016llx",
			       STORE_KEY(shard, LAYOUT_MSG), (unsigned long long)ids[i]);
	store_call_send(&h->call, 0);
}

static struct store_size read_size(const redisReply *value)
{
	struct store_size size = { UINT64_MAX, 0 };
	char *end;

	if (value->type != REDIS_REPLY_STRING)
		return size;
	size.messages = strtoull(value->str, &end, 10);
	size.bytes = strtoull(end, NULL, 10);
	return size;
}

static void on_size_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct store_size sizes[2];
	unsigned count = 0;

	for (size_t i = 0; reply && i < reply->elements && i < 2; i++)
		sizes[count++] = read_size(reply->element[i]);
	CALL_TELL(call, store_size_fn, sizes, count);
}

void store_size_read(struct store *s, struct store_shard *shard, store_size_fn on_size,
		     void *ctx)
{
	struct store_call *call =
		store_call_begin(s, shard, on_size_reply, (store_tell_fn)on_size, ctx);

	store_call_add(call, "HMGET %s%s before after", STORE_KEY(shard, LAYOUT_SIZE));
	store_call_send(call, REDIS_REPLY_ARRAY);
}

/* A hash is scanned page by page with a script, which answers with the cursor to go on
 * from ("0": it is over) and with what it has found. */
struct hash_scan {
	struct slice script;
	const char *page; /* how many at a time */
	enum layout_key keys[1 + STORE_SET_COUNT];
	unsigned key_count;
	/* A store_tried_fn: what is found are ids; or a store_purged_fn: their number. */
	store_tell_fn tell;
	uint64_t *ids;
	size_t count, cap;
};

struct scan_call {
	struct store_call call;
	struct hash_scan scan;
};

static void send_scan(struct store *s, struct store_shard *shard, struct slice cursor,
		      const struct hash_scan *scan, void *ctx);

static void gather_ids(struct hash_scan *s, const redisReply *ids)
{
	for (size_t i = 0; i < ids->elements; i++) {
		MEM_GROW(s->ids, s->count, s->cap, 64);
		if (id_parse(store_reply_slice(ids->element[i]), &s->ids[s->count]) ==
		    TIDE_OK)
			s->count++;
	}
}

/* A scan may name a field more than once. */
static void sort_unique(struct hash_scan *s)
{
	size_t kept = 0;

	if (s->count > 0)
		qsort(s->ids, s->count, sizeof(*s->ids), id_compare);
	for (size_t i = 0; i < s->count; i++)
		if (kept == 0 || s->ids[kept - 1] != s->ids[i])
			s->ids[kept++] = s->ids[i];
	s->count = kept;
}

static void on_scan_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct hash_scan *s = &container_of(call, struct scan_call, call)->scan;
	bool has_ids = s->script.data == script_tried.data;
	struct slice cursor = SLICE("0");

	if (reply && reply->elements == 2) {
		cursor = store_reply_slice(reply->element[0]);
		if (reply->element[1]->type == REDIS_REPLY_ARRAY)
			gather_ids(s, reply->element[1]);
		else
			s->count += (size_t)reply->element[1]->integer;
	}
	if (!slice_is(cursor, "0") && cursor.len) {
		send_scan(call->store, call->shard, cursor, s, call->ctx);
		return;
	}
	if (has_ids) {
		sort_unique(s);
		CALL_TELL(call, store_tried_fn, s->ids, s->count);
	} else {
		CALL_TELL(call, store_purged_fn, s->count);
	}
	mem_free(s->ids);
}

static void send_scan(struct store *s, struct store_shard *shard, struct slice cursor,
		      const struct hash_scan *scan, void *ctx)
{
	struct scan_call *c = store_call_create(s, shard, sizeof(*c), on_scan_reply, ctx);
	struct buf *out =
		store_call_add_script(&c->call, scan->script, scan->key_count, 2);

	c->scan = *scan;
	c->call.tell = scan->tell;
	for (unsigned i = 0; i < scan->key_count; i++)
		layout_resp_key(out, shard_prefix(shard), scan->keys[i]);
	resp_bulk(out, cursor);
	resp_text(out, scan->page);
	store_call_send(&c->call, REDIS_REPLY_ARRAY);
}

void store_tried_read(struct store *s, struct store_shard *shard, enum store_set set,
		      store_tried_fn on_ids, void *ctx)
{
	const struct hash_scan scan = {
		.script = script_tried,
		.page = "1000",
		.keys = { LAYOUT_TRIES, layout_set_key(set) },
		.key_count = 2,
		.tell = (store_tell_fn)on_ids,
	};

	send_scan(s, shard, SLICE("0"), &scan, ctx);
}

void store_lost_return(struct store *s, struct store_shard *shard,
		       store_purged_fn on_returned, void *ctx)
{
	struct hash_scan scan = {
		.script = script_return_lost,
		.page = "64",
		.keys = { LAYOUT_MSG },
		.key_count = 1 + STORE_SET_COUNT,
		.tell = (store_tell_fn)on_returned,
	};

	for (int set = 0; set < STORE_SET_COUNT; set++)
		scan.keys[1 + set] = layout_set_key((enum store_set)set);
	send_scan(s, shard, SLICE("0"), &scan, ctx);
}

void store_tries_trim(struct store *s, struct store_shard *shard,
		      store_purged_fn on_trimmed, void *ctx)
{
	const struct hash_scan scan = {
		.script = script_tries_trim,
		.page = "1000",
		.keys = { LAYOUT_TRIES, LAYOUT_MSG },
		.key_count = 2,
		.tell = (store_tell_fn)on_trimmed,
	};

	send_scan(s, shard, SLICE("0"), &scan, ctx);
}

/* A purge has two steps, ids first. In one step, a request that is sent again after a
 * reconnect would remove as many again. */
struct purge_call {
	struct store_call call;
	enum store_set set;
	bool wants_ids;
};

static bool is_removed_reply(const redisReply *reply)
{
	return reply && reply->elements == 2 &&
	       reply->element[0]->type == REDIS_REPLY_INTEGER &&
	       reply->element[1]->type == REDIS_REPLY_ARRAY;
}

static void on_removed_reply(struct store_call *call, const redisReply *reply,
			     bool is_last)
{
	const redisReply *absent = NULL;
	uint64_t *ids = NULL;
	size_t count = 0;

	if (is_removed_reply(reply)) {
		absent = reply->element[1];
		ids = mem_alloc((absent->elements + 1) * sizeof(*ids));
		for (size_t i = 0; i < absent->elements; i++)
			if (id_parse(store_reply_slice(absent->element[i]),
				     &ids[count]) == TIDE_OK)
				count++;
	} else {
		store_call_fail(call, TIDE_ESTORE, "an unexpected reply from Redis");
	}
	CALL_TELL(call, store_purge_fn, absent ? (uint64_t)reply->element[0]->integer : 0,
		  ids, count);
	mem_free(ids);
}

static void remove_ids(const struct purge_call *p, const redisReply *ids)
{
	struct store_call *next =
		store_call_begin(p->call.store, p->call.shard, on_removed_reply,
				 p->call.tell, p->call.ctx);
	struct buf *out = store_call_add_script(next, script_purge, 4, 1 + ids->elements);
	struct slice prefix = shard_prefix(p->call.shard);

	next->request.is_write = true;
	layout_resp_key(out, prefix, layout_set_key(p->set));
	layout_resp_key(out, prefix, LAYOUT_MSG);
	layout_resp_key(out, prefix, LAYOUT_TRIES);
	layout_resp_key(out, prefix, LAYOUT_EXPIRY);
	resp_text(out, p->wants_ids ? "1" : "0");
	for (size_t i = 0; i < ids->elements; i++)
		resp_bulk(out, store_reply_slice(ids->element[i]));
	store_call_send(next, REDIS_REPLY_ARRAY);
}

static void on_ids_reply(struct store_call *call, const redisReply *ids, bool is_last)
{
	const struct purge_call *p = container_of(call, struct purge_call, call);

	if (ids && ids->elements > 0)
		remove_ids(p, ids);
	else
		CALL_TELL(call, store_purge_fn, 0, NULL, 0);
}

void store_purge(struct store *s, struct store_shard *shard,
		 const struct store_purge *purge, store_purge_fn on_purged, void *ctx)
{
	struct purge_call *p = store_call_create(s, shard, sizeof(*p), on_ids_reply, ctx);

	CALL_TELLS(&p->call, on_purged);
	p->set = purge->set;
	p->wants_ids = purge->wants_ids;
	store_call_add(&p->call, "ZRANGE %s%s %lld %lld",
		       STORE_KEY(shard, layout_set_key(purge->set)),
		       (long long)purge->start,
		       store_last_index(purge->start, purge->count));
	store_call_send(&p->call, REDIS_REPLY_ARRAY);
}

#define COPY_MAX UINT16_MAX

size_t store_dedupe_format_head(const struct store_seen *seen,
				char out[STORE_DEDUPE_HEAD_MAX])
{
	size_t len = ID_HEX_LEN;

	id_format(seen->msg_id, out);
	if (seen->copy > 0)
		len += (size_t)snprintf(out + len, STORE_DEDUPE_HEAD_MAX - len, "+%u",
					seen->copy);
	if (seen->has_offset)
		len += (size_t)snprintf(out + len, STORE_DEDUPE_HEAD_MAX - len, "@%llu",
					(unsigned long long)seen->offset);
	out[len++] = ' ';
	return len;
}

void store_dedupe_add_words(struct buf *out, const struct store_seen *seen)
{
	char head[STORE_DEDUPE_HEAD_MAX];
	size_t len = store_dedupe_format_head(seen, head);

	resp_score(out, (double)seen->until_unix_ms);
	resp_pair(out, (struct slice){ head, len }, seen->publish_id);
}

/* "", "+<copy>", "@<offset>" or "+<copy>@<offset>" */
static bool parse_place(struct slice text, struct store_seen *out)
{
	struct slice offset = text, copy = slice_cut(&offset, '@');
	uint64_t n = 0;

	out->has_offset = copy.len < text.len;
	out->offset = 0;
	if (copy.len > 0 &&
	    (copy.data[0] != '+' || !slice_to_uint(slice_skip(copy, 1), COPY_MAX, &n)))
		return false;
	out->copy = (unsigned)n;
	return !out->has_offset ||
	       slice_to_uint(offset, POSITION_OFFSET_MAX, &out->offset);
}

int store_dedupe_parse_member(struct slice member, struct store_seen *out)
{
	const char *space = memchr(member.data, ' ', member.len);
	struct slice head = { member.data,
			      space ? (size_t)(space - member.data) : member.len };

	if (!space || head.len < ID_HEX_LEN ||
	    id_parse((struct slice){ head.data, ID_HEX_LEN }, &out->msg_id) != TIDE_OK)
		return TIDE_ESYNTAX;
	if (!parse_place(slice_skip(head, ID_HEX_LEN), out))
		return TIDE_ESYNTAX;
	out->publish_id = slice_skip(member, head.len + 1);
	if (out->publish_id.len == 0 || out->publish_id.len > MSG_DEDUPE_ID_MAX)
		return TIDE_ESYNTAX;
	return TIDE_OK;
}

static bool read_seen(const redisReply *member, const redisReply *score,
		      struct store_seen *out)
{
	if (member->type != REDIS_REPLY_STRING || score->type != REDIS_REPLY_STRING)
		return false;
	if (store_dedupe_parse_member(store_reply_slice(member), out) < 0) {
		log_error("store: a member of a dedupe set cannot be read: %.60s",
			  member->str);
		return false;
	}
	double until = strtod(score->str, NULL);
	out->until_unix_ms = until > 0 && until < 1e15 ? (int64_t)until : 0;
	return true;
}

static void on_seen_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	size_t total = reply ? reply->elements / 2 : 0, count = 0;
	struct store_seen *rows = mem_alloc((total + 1) * sizeof(*rows));

	for (size_t i = 0; i < total; i++)
		if (read_seen(reply->element[2 * i], reply->element[2 * i + 1],
			      &rows[count]))
			count++;
	CALL_TELL(call, store_seen_fn, rows, count, total);
	mem_free(rows);
}

void store_dedupe_read(struct store *s, struct store_shard *shard, int64_t start,
		       unsigned count, store_seen_fn on_rows, void *ctx)
{
	struct store_call *call =
		store_call_begin(s, shard, on_seen_reply, (store_tell_fn)on_rows, ctx);

	store_call_add(call, "ZRANGE %s%s %lld %lld WITHSCORES",
		       STORE_KEY(shard, LAYOUT_DEDUPE), (long long)start,
		       store_last_index(start, count));
	store_call_send(call, REDIS_REPLY_ARRAY);
}

void store_dedupe_trim(struct store *s, struct store_shard *shard, int64_t until_unix_ms,
		       unsigned count, store_purged_fn on_trimmed, void *ctx)
{
	struct store_call *call = store_count_call_create(s, shard, on_trimmed, ctx);

	store_call_add(call, "EVAL %b 1 %s%s %lld %u", script_dedupe_trim.data,
		       script_dedupe_trim.len, STORE_KEY(shard, LAYOUT_DEDUPE),
		       (long long)until_unix_ms, store_clamp_count(count));
	store_call_send(call, REDIS_REPLY_INTEGER);
}

void store_dedupe_remove(struct store *s, struct store_shard *shard,
			 const struct store_seen *seen, size_t count,
			 store_done_fn on_done, void *ctx)
{
	struct store_call *call = store_done_call_create(s, shard, on_done, ctx);
	struct buf *out = store_call_add_words(call, "ZREM", 1 + count);
	char head[STORE_DEDUPE_HEAD_MAX];

	layout_resp_key(out, shard_prefix(shard), LAYOUT_DEDUPE);
	for (size_t i = 0; i < count; i++) {
		size_t len = store_dedupe_format_head(&seen[i], head);

		resp_pair(out, (struct slice){ head, len }, seen[i].publish_id);
	}
	store_call_send(call, 0);
}
