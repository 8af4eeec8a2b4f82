/* store_read.c: the requests that read a shard. */
#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "host/log.h"
#include "codec.h"
#include "store_private.h"
#include "store_tries.h"

struct read_call {
	struct store_call call;
	store_rows_fn on_rows;
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
		store_tries_parse(tries->str, row);
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

/* `count` is that of the rows that hold a message, also after a failure. */
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

static void on_read_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct read_call *r = container_of(call, struct read_call, call);
	struct store_row *rows = NULL;
	size_t count = 0;
	int rc;

	if (reply && is_rows_reply(reply)) {
		rows = mem_alloc((reply->element[0]->elements / 2 + 1) * sizeof(*rows));
		rc = read_rows(r, reply, rows, &count);
		if (rc < 0)
			store_call_fail(call, rc, "out of memory for what was read");
	} else {
		store_call_fail(call, TIDE_ESTORE, "an unexpected reply from Redis");
	}
	rc = call->err.code;
	r->on_rows(call->ctx, rc, store_call_text(call), rc < 0 ? NULL : rows,
		   rc < 0 ? 0 : count);
	for (size_t i = 0; i < count; i++)
		msg_unref(rows[i].msg);
	mem_free(rows);
}

static struct read_call *read_call_create(struct store *s, struct store_shard *shard,
					  enum store_set set, store_rows_fn on_rows,
					  void *ctx)
{
	struct read_call *r = store_call_create(s, shard, sizeof(*r), on_read_reply, ctx);

	r->on_rows = on_rows;
	r->set = set;
	return r;
}

/* Begin a read in one of the ways of read.lua; the caller appends `words` words. */
static struct buf *begin_read(struct read_call *r, const char *way, size_t max_bytes,
			      size_t words)
{
	struct slice prefix = shard_prefix(r->call.shard);
	struct buf *out = store_call_add_script(&r->call, script_read, 3, 2 + words);

	layout_resp_key(out, prefix, layout_set_key(r->set));
	layout_resp_key(out, prefix, LAYOUT_MSG);
	layout_resp_key(out, prefix, LAYOUT_TRIES);
	if (r->ids_only)
		resp_number(out, 0);
	else
		resp_number(out, max_bytes < INT32_MAX ? max_bytes + 1 : INT32_MAX);
	resp_text(out, way);
	return out;
}

static void add_id(struct buf *out, uint64_t id)
{
	char text[ID_HEX_LEN];

	id_format(id, text);
	resp_bulk(out, (struct slice){ text, sizeof(text) });
}

void store_read(struct store *s, struct store_shard *shard, enum store_set set,
		int64_t start, unsigned count, size_t max_bytes, bool ids_only,
		store_rows_fn on_rows, void *ctx)
{
	struct read_call *r = read_call_create(s, shard, set, on_rows, ctx);
	struct buf *out;

	r->ids_only = ids_only;
	out = begin_read(r, "range", max_bytes, 2);
	resp_score(out, (double)start);
	resp_score(out, (double)store_last_index(start, count));
	store_call_send(&r->call, REDIS_REPLY_ARRAY);
}

void store_read_from(struct store *s, struct store_shard *shard,
		     const struct store_from *from, store_rows_fn on_rows, void *ctx)
{
	struct read_call *r = read_call_create(s, shard, from->set, on_rows, ctx);
	struct buf *out = begin_read(r, "from", from->max_bytes, 3);

	resp_score(out, from->score);
	add_id(out, from->id);
	resp_number(out, store_clamp_count(from->count));
	store_call_send(&r->call, REDIS_REPLY_ARRAY);
}

void store_read_ids(struct store *s, struct store_shard *shard,
		    const struct store_ids *ids, store_rows_fn on_rows, void *ctx)
{
	struct read_call *r = read_call_create(s, shard, ids->set, on_rows, ctx);
	unsigned count = store_clamp_count(ids->count);
	struct buf *out = begin_read(r, "ids", ids->max_bytes, count);

	for (unsigned i = 0; i < count; i++)
		add_id(out, ids->ids[i]);
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

struct take_call {
	struct read_call read; /* the rows come from the unack set */
	store_taken_fn on_taken;
};

static void read_taken(struct take_call *c, const redisReply *reply,
		       struct store_taken *out)
{
	int rc;

	out->rows = mem_alloc((reply->element[0]->elements / 2 + 1) * sizeof(*out->rows));
	rc = read_rows(&c->read, reply, out->rows, &out->count);
	if (rc < 0)
		store_call_fail(&c->read.call, rc, "out of memory for what was read");
	out->offset = reply->element[3]->integer;
	out->next_ms = (int64_t)read_score(reply->element[4]);
}

static void on_take_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct take_call *c = container_of(call, struct take_call, read.call);
	struct store_taken out = { 0 };

	if (reply && is_rows_reply(reply) && reply->elements == 5 &&
	    reply->element[3]->type == REDIS_REPLY_INTEGER &&
	    reply->element[4]->type == REDIS_REPLY_STRING)
		read_taken(c, reply, &out);
	else
		store_call_fail(call, TIDE_ESTORE, "an unexpected reply from Redis");
	c->on_taken(call->ctx, call->err.code, store_call_text(call), &out);
	for (size_t i = 0; i < out.count; i++)
		msg_unref(out.rows[i].msg);
	mem_free(out.rows);
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
	struct take_call *c = store_call_create(s, shard, sizeof(*c), on_take_reply, ctx);
	struct buf *out = store_call_add_script(&c->read.call, script_take, KEYS,
						WORDS + take->id_count);

	c->on_taken = on_taken;
	c->read.set = STORE_UNACK;
	for (int i = 0; i < KEYS; i++)
		layout_resp_key(out, shard_prefix(shard), keys[i]);
	for (int i = 0; i < WORDS; i++)
		resp_score(out, (double)words[i]);
	for (unsigned i = 0; i < take->id_count; i++)
		add_id(out, take->ids[i]);
	store_call_send(&c->read.call, REDIS_REPLY_ARRAY);
}

struct counts_call {
	struct store_call call;
	store_counts_fn on_counts;
	struct store_counts counts;
};

static void on_counts_reply(struct store_call *call, const redisReply *reply,
			    bool is_last)
{
	struct counts_call *c = container_of(call, struct counts_call, call);
	unsigned answered = call->request.answered;

	if (reply && answered == 1)
		c->counts.bodies = (uint64_t)reply->integer;
	else if (reply)
		c->counts.sets[answered - 2] = (uint64_t)reply->integer;
	if (is_last)
		c->on_counts(call->ctx, call->err.code, store_call_text(call),
			     call->err.code < 0 ? NULL : &c->counts);
}

void store_read_counts(struct store *s, struct store_shard *shard,
		       store_counts_fn on_counts, void *ctx)
{
	struct counts_call *c =
		store_call_create(s, shard, sizeof(*c), on_counts_reply, ctx);

	c->on_counts = on_counts;
	store_call_add(&c->call, "HLEN %s%s", STORE_KEY(shard, LAYOUT_MSG));
	for (int set = 0; set < STORE_SET_COUNT; set++)
		store_call_add(&c->call, "ZCARD %s%s",
			       STORE_KEY(shard, layout_set_key((enum store_set)set)));
	store_call_send(&c->call, REDIS_REPLY_INTEGER);
}

struct has_call {
	struct store_call call;
	store_has_fn on_has;
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
		h->on_has(call->ctx, is_shutdown ? TIDE_ESHUTDOWN : TIDE_OK, h->found,
			  call->request.replies);
}

void store_read_has(struct store *s, struct store_shard *shard, const uint64_t *ids,
		    unsigned count, store_has_fn on_has, void *ctx)
{
	struct has_call *h = store_call_create(
		s, shard, sizeof(*h) + count * sizeof(bool), on_has_reply, ctx);

	h->on_has = on_has;
	for (unsigned i = 0; i < count; i++)
		store_call_add(&h->call, "HEXISTS %s%s %016llx",
			       STORE_KEY(shard, LAYOUT_MSG), (unsigned long long)ids[i]);
	store_call_send(&h->call, 0);
}
