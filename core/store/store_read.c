/* store_read.c: the requests that read a shard. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "host/log.h"
#include "codec.h"
#include "resp.h"
#include "redis_script.h"
#include "store_private.h"

struct read_call {
	struct store_call call;
	store_rows_fn on_rows;
	void *ctx;
	enum store_set set;
	bool ids_only;
	size_t prefix_len;
	char prefix[]; /* of the shard's keys, for the log */
};

/* The element of a list of lists, or NULL; `*chunk` and `*within` are where. */
static const redisReply *next_element(const redisReply *lists, size_t *chunk,
				      size_t *within)
{
	while (*chunk < lists->elements) {
		const redisReply *list = lists->element[*chunk];

		if (list->type == REDIS_REPLY_ARRAY && *within < list->elements)
			return list->element[(*within)++];
		(*chunk)++;
		*within = 0;
	}
	return NULL;
}

static size_t count_elements(const redisReply *lists)
{
	size_t count = 0;

	for (size_t i = 0; i < lists->elements; i++)
		if (lists->element[i]->type == REDIS_REPLY_ARRAY)
			count += lists->element[i]->elements;
	return count;
}

/* "attempts failures reason" */
static void read_tries(struct store_row *row, const redisReply *tries)
{
	char *end;

	if (!tries || tries->type != REDIS_REPLY_STRING)
		return;
	row->attempts = (uint32_t)strtoul(tries->str, &end, 10);
	row->failures = (uint32_t)strtoul(end, &end, 10);
	while (*end == ' ')
		end++;
	size_t len = strnlen(end, sizeof(row->reason) - 1);
	memcpy(row->reason, end, len);
	row->reason[len] = '\0';
}

static int read_body(const struct read_call *r, struct store_row *row,
		     const redisReply *body)
{
	struct msg_spec known = { .id = row->id, .pool = r->call.store->config.msgs };
	struct error err;

	if (!body || body->type != REDIS_REPLY_STRING)
		return TIDE_OK;
	int rc = codec_decode(store_reply_slice(body), &known, &row->msg, &row->rank,
			      &err);
	if (rc != TIDE_ESTORE)
		return rc;
	row->rank = 0;
	row->is_corrupt = true;
	log_error("store: message %016llx in %.*smsg: %s", (unsigned long long)row->id,
		  (int)r->prefix_len, r->prefix, err.text);
	return TIDE_OK;
}

struct row_list {
	struct store_row *rows;
	size_t count;
};

#define EXACT_INTEGER_MAX (UINT64_C(1) << 53)

/* Most are whole numbers, which strtod takes its time for. */
static double read_score(const redisReply *score)
{
	uint64_t n;

	if (slice_to_uint(store_reply_slice(score), EXACT_INTEGER_MAX, &n))
		return (double)n;
	return strtod(score->str, NULL);
}

/* One member with its score; TIDE_EMPTY when no broker wrote it. */
static int read_member(const struct read_call *r, struct store_row *row,
		       const redisReply *member, const redisReply *score)
{
	if (member->type != REDIS_REPLY_STRING || score->type != REDIS_REPLY_STRING)
		return TIDE_EMPTY;
	row->score = read_score(score);
	if (id_parse(store_reply_slice(member), &row->id) == TIDE_OK)
		return TIDE_OK;
	log_error("store: %.*s%s has a member that is no id: %.40s", (int)r->prefix_len,
		  r->prefix, layout_key_suffix(layout_set_key(r->set)), member->str);
	return TIDE_EMPTY;
}

static int read_rows(const struct read_call *r, const redisReply *reply,
		     struct row_list *out)
{
	const redisReply *members = reply->element[0];
	const redisReply *bodies = reply->element[1];
	const redisReply *tries = reply->element[2];
	size_t body_chunk = 0, body_at = 0, tries_chunk = 0, tries_at = 0;
	size_t total = members->elements / 2;

	if (!r->ids_only)
		total = count_elements(bodies) < total ? count_elements(bodies) : total;
	out->rows = mem_alloc((total ? total : 1) * sizeof(*out->rows));
	for (size_t i = 0; i < total; i++) {
		const redisReply *body = next_element(bodies, &body_chunk, &body_at);
		const redisReply *tried = next_element(tries, &tries_chunk, &tries_at);
		struct store_row *row = &out->rows[out->count];

		*row = (struct store_row){ .id = 0 };
		if (read_member(r, row, members->element[2 * i],
				members->element[2 * i + 1]) < 0)
			continue;
		int rc = read_body(r, row, body);
		if (rc < 0)
			return rc;
		read_tries(row, tried);
		out->count++;
	}
	return TIDE_OK;
}

static bool is_rows_reply(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
	       reply->element[0]->type == REDIS_REPLY_ARRAY &&
	       reply->element[1]->type == REDIS_REPLY_ARRAY &&
	       reply->element[2]->type == REDIS_REPLY_ARRAY;
}

static void on_read_reply(struct redis_request *request, const redisReply *reply)
{
	struct read_call *r = container_of(request, struct read_call, call.request);
	struct row_list list = { NULL, 0 };
	const char *text;
	int rc = store_reply_status(reply, &text);

	if (rc == TIDE_OK && !is_rows_reply(reply)) {
		rc = TIDE_ESTORE;
		text = "an unexpected reply to a read";
	} else if (rc == TIDE_OK) {
		rc = read_rows(r, reply, &list);
		text = rc < 0 ? "no memory for what was read" : NULL;
	}
	r->on_rows(r->ctx, rc, text, rc < 0 ? NULL : list.rows, rc < 0 ? 0 : list.count);
	for (size_t i = 0; i < list.count; i++)
		msg_unref(list.rows[i].msg);
	mem_free(list.rows);
	store_call_destroy(&r->call);
}

static void write_read(struct buf *out, struct slice prefix, enum store_set set,
		       int64_t start, int64_t last, size_t max_bytes)
{
	resp_array(out, 9);
	resp_text(out, "EVAL");
	resp_bulk(out, redis_script_read);
	resp_text(out, "3");
	layout_resp_key(out, prefix, layout_set_key(set));
	layout_resp_key(out, prefix, LAYOUT_MSG);
	layout_resp_key(out, prefix, LAYOUT_TRIES);
	resp_int(out, start);
	resp_int(out, last);
	resp_int(out, (int64_t)max_bytes);
}

static void send_read(struct store *s, const struct store_shard *shard,
		      const struct read_call *what, int64_t start, unsigned count,
		      size_t max_bytes)
{
	struct slice prefix = shard_prefix(shard);
	struct read_call *r = store_call_create(s, sizeof(*r) + prefix.len);

	r->on_rows = what->on_rows;
	r->ctx = what->ctx;
	r->set = what->set;
	r->ids_only = max_bytes == 0;
	r->prefix_len = prefix.len;
	memcpy(r->prefix, prefix.data, prefix.len);
	write_read(&r->call.bytes, prefix, what->set, start,
		   store_last_index(start, store_clamp_count(count)), max_bytes);
	store_call_send(&r->call, 1, on_read_reply);
}

void store_read(struct store *s, const struct store_shard *shard, enum store_set set,
		int64_t start, unsigned count, size_t max_bytes, bool ids_only,
		store_rows_fn on_rows, void *ctx)
{
	struct read_call what = { .on_rows = on_rows, .ctx = ctx, .set = set };

	/* 0 means no bodies at all to the script. */
	size_t budget = ids_only ? 0 : max_bytes < INT32_MAX ? max_bytes + 1 : INT32_MAX;
	send_read(s, shard, &what, start, count, budget);
}

struct count_call {
	struct store_call call;
	store_counts_fn on_counts;
	void *ctx;
	struct store_counts counts;
	int status;
	char text[256];
};

static void note_count(struct count_call *c, const redisReply *reply)
{
	const char *text;
	unsigned index = c->call.request.answered - 1;
	int rc = store_reply_status(reply, &text);

	if (index == 0)
		c->status = TIDE_OK;
	if (rc == TIDE_OK && reply->type != REDIS_REPLY_INTEGER) {
		rc = TIDE_ESTORE;
		text = "an unexpected reply to a count";
	}
	if (rc < 0 && c->status == TIDE_OK) {
		c->status = rc;
		snprintf(c->text, sizeof(c->text), "%s", text);
	} else if (rc == TIDE_OK && index == 0) {
		c->counts.bodies = (uint64_t)reply->integer;
	} else if (rc == TIDE_OK) {
		c->counts.sets[index - 1] = (uint64_t)reply->integer;
	}
}

static void on_count_reply(struct redis_request *request, const redisReply *reply)
{
	struct count_call *c = container_of(request, struct count_call, call.request);

	if (reply) {
		note_count(c, reply);
		if (request->answered < request->replies)
			return;
		c->on_counts(c->ctx, c->status, c->status < 0 ? c->text : NULL,
			     c->status < 0 ? NULL : &c->counts);
	} else {
		c->on_counts(c->ctx, TIDE_ESHUTDOWN, error_text(TIDE_ESHUTDOWN), NULL);
	}
	store_call_destroy(&c->call);
}

void store_read_counts(struct store *s, const struct store_shard *shard,
		       store_counts_fn on_counts, void *ctx)
{
	struct count_call *c = store_call_create(s, sizeof(*c));
	struct buf *out = &c->call.bytes;

	c->on_counts = on_counts;
	c->ctx = ctx;
	resp_array(out, 2);
	resp_text(out, "HLEN");
	layout_resp_key(out, shard_prefix(shard), LAYOUT_MSG);
	for (int set = 0; set < STORE_SET_COUNT; set++) {
		resp_array(out, 2);
		resp_text(out, "ZCARD");
		layout_resp_key(out, shard_prefix(shard),
				layout_set_key((enum store_set)set));
	}
	store_call_send(&c->call, 1 + STORE_SET_COUNT, on_count_reply);
}

struct has_call {
	struct store_call call;
	store_has_fn on_has;
	void *ctx;
	unsigned count;
	bool found[];
};

static void on_has_reply(struct redis_request *request, const redisReply *reply)
{
	struct has_call *h = container_of(request, struct has_call, call.request);
	const char *ignored;
	int rc = store_reply_status(reply, &ignored);

	/* An error: the key is no hash, so no message is in it. */
	if (reply)
		h->found[request->answered - 1] = rc == TIDE_OK && reply->integer == 1;
	if (reply && request->answered < request->replies)
		return;
	h->on_has(h->ctx, reply ? TIDE_OK : TIDE_ESHUTDOWN, h->found, h->count);
	store_call_destroy(&h->call);
}

void store_read_has(struct store *s, const struct store_shard *shard, const uint64_t *ids,
		    unsigned count, store_has_fn on_has, void *ctx)
{
	struct has_call *h = store_call_create(s, sizeof(*h) + count * sizeof(bool));

	h->on_has = on_has;
	h->ctx = ctx;
	h->count = count;
	for (unsigned i = 0; i < count; i++) {
		resp_array(&h->call.bytes, 3);
		resp_text(&h->call.bytes, "HEXISTS");
		layout_resp_key(&h->call.bytes, shard_prefix(shard), LAYOUT_MSG);
		resp_id(&h->call.bytes, ids[i]);
	}
	store_call_send(&h->call, count, on_has_reply);
}
