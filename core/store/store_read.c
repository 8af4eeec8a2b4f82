/* store_read.c: the requests that read a shard. */
#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "host/log.h"
#include "codec.h"
#include "resp.h"
#include "store_private.h"
#include "store_tries.h"

/* KEYS: the set, msg, tries. Locals: the rows, max_bytes (0: no bodies).
 *
 * Returns { members and scores, bodies, tries }: the first a flat list, the others
 * lists of lists, chunk by chunk, with nil where there is none. There are fewer bodies
 * than members when max_bytes is reached.
 *
 * Redis must never build a reply above max_bytes, however large the bodies are. One
 * body comes in any case: a large one would stop a reader for ever. The script reads a
 * few bodies at a time, as many as may fit by the largest of those before. Where large
 * ones follow many small ones it reads 16 at most, and drops those beyond max_bytes.
 * (To ask for the length of each first costs half as much as all the rest.) unpack has
 * a limit of some thousand values, hence the chunks of tries.
 *
 * Scripts are sent with EVAL each time: a kilobyte beside hundreds of rows, and there is
 * no NOSCRIPT to answer by asking again out of order. Redis compiles a text once. */
#define SCRIPT_BODIES                                                                  \
	"local ids, bodies, tries = {}, {}, {}\n"                                      \
	"for i = 1, #rows, 2 do ids[(i + 1) / 2] = rows[i] end\n"                      \
	"local total, count, step = 0, #ids, 1\n"                                      \
	"if left == 0 then total = count end\n"                                        \
	"while total < count and left > 0 do\n"                                        \
	"  local last, largest = math.min(total + step, count), 1\n"                   \
	"  local chunk = redis.call('HMGET', KEYS[2], unpack(ids, total + 1, last))\n" \
	"  for i = 1, last - total do\n"                                               \
	"    local size = chunk[i] and #chunk[i] or 0\n"                               \
	"    left = left - size\n"                                                     \
	"    if left < 1 and total + i > 1 then\n"                                     \
	"      for j = last - total, i, -1 do chunk[j] = nil end\n"                    \
	"      last = total + i - 1\n"                                                 \
	"      break\n"                                                                \
	"    end\n"                                                                    \
	"    if size > largest then largest = size end\n"                              \
	"  end\n"                                                                      \
	"  bodies[#bodies + 1] = chunk\n"                                              \
	"  total = last\n"                                                             \
	"  step = math.min(2 * step, 16, math.max(1, math.floor(left / largest)))\n"   \
	"end\n"                                                                        \
	"if redis.call('EXISTS', KEYS[3]) == 1 then\n"                                 \
	"  for from = 1, total, 1000 do\n"                                             \
	"    local last = math.min(from + 999, total)\n"                               \
	"    tries[#tries + 1] =\n"                                                    \
	"      redis.call('HMGET', KEYS[3], unpack(ids, from, last))\n"                \
	"  end\n"                                                                      \
	"end\n"                                                                        \
	"return { rows, bodies, tries }\n"

/* Locals: first index, last index, max_bytes. */
#define SCRIPT_ROWS                                                \
	"local rows = redis.call('ZRANGE', KEYS[1], first, last, " \
	"'WITHSCORES')\n" SCRIPT_BODIES

/* ARGV: first index, last index, max_bytes. */
static const struct slice script_read = SLICE(
	"local first, last, left = ARGV[1], ARGV[2], tonumber(ARGV[3])\n" SCRIPT_ROWS);

/* ARGV: score and id of the place to begin at, count, max_bytes. Members of one score are
 * in the order of their ids: the place is found by halving. */
static const struct slice script_read_from =
	SLICE("local first = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. ARGV[1])\n"
	      "local behind = first + redis.call('ZCOUNT', KEYS[1], ARGV[1], ARGV[1])\n"
	      "while first < behind do\n"
	      "  local middle = math.floor((first + behind) / 2)\n"
	      "  if redis.call('ZRANGE', KEYS[1], middle, middle)[1] < ARGV[2] then\n"
	      "    first = middle + 1\n"
	      "  else\n"
	      "    behind = middle\n"
	      "  end\n"
	      "end\n"
	      "local last, left = first + ARGV[3] - 1, tonumber(ARGV[4])\n" SCRIPT_ROWS);

/* ARGV: max_bytes, ids. */
static const struct slice script_read_ids =
	SLICE("local rows, left = {}, tonumber(ARGV[1])\n"
	      "for i = 2, #ARGV do\n"
	      "  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])\n"
	      "  if score then\n"
	      "    rows[#rows + 1] = ARGV[i]\n"
	      "    rows[#rows + 1] = score\n"
	      "  end\n"
	      "end\n" SCRIPT_BODIES);

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

/* For a script; 0 means no bodies at all to it. */
static unsigned long long byte_budget(size_t max_bytes)
{
	return max_bytes < INT32_MAX ? max_bytes + 1 : INT32_MAX;
}

void store_read(struct store *s, struct store_shard *shard, enum store_set set,
		int64_t start, unsigned count, size_t max_bytes, bool ids_only,
		store_rows_fn on_rows, void *ctx)
{
	struct read_call *r = read_call_create(s, shard, set, on_rows, ctx);

	r->ids_only = ids_only;
	store_call_add(&r->call, "EVAL %b 3 %s%s %s%s %s%s %lld %lld %llu",
		       script_read.data, script_read.len,
		       STORE_KEY(shard, layout_set_key(set)),
		       STORE_KEY(shard, LAYOUT_MSG), STORE_KEY(shard, LAYOUT_TRIES),
		       (long long)start, store_last_index(start, count),
		       ids_only ? 0 : byte_budget(max_bytes));
	store_call_send(&r->call, REDIS_REPLY_ARRAY);
}

void store_read_from(struct store *s, struct store_shard *shard,
		     const struct store_from *from, store_rows_fn on_rows, void *ctx)
{
	struct read_call *r = read_call_create(s, shard, from->set, on_rows, ctx);
	char score[32];

	snprintf(score, sizeof(score), "%.17g", from->score);
	store_call_add(&r->call, "EVAL %b 3 %s%s %s%s %s%s %s %016llx %u %llu",
		       script_read_from.data, script_read_from.len,
		       STORE_KEY(shard, layout_set_key(from->set)),
		       STORE_KEY(shard, LAYOUT_MSG), STORE_KEY(shard, LAYOUT_TRIES),
		       score, (unsigned long long)from->id,
		       store_clamp_count(from->count), byte_budget(from->max_bytes));
	store_call_send(&r->call, REDIS_REPLY_ARRAY);
}

void store_read_ids(struct store *s, struct store_shard *shard,
		    const struct store_ids *ids, store_rows_fn on_rows, void *ctx)
{
	struct read_call *r = read_call_create(s, shard, ids->set, on_rows, ctx);
	unsigned count = store_clamp_count(ids->count);
	struct buf *out = store_call_add_words(&r->call, 7 + (size_t)count);
	struct slice prefix = shard_prefix(shard);
	char text[32];

	resp_text(out, "EVAL");
	resp_bulk(out, script_read_ids);
	resp_text(out, "3");
	layout_resp_key(out, prefix, layout_set_key(ids->set));
	layout_resp_key(out, prefix, LAYOUT_MSG);
	layout_resp_key(out, prefix, LAYOUT_TRIES);
	snprintf(text, sizeof(text), "%llu", byte_budget(ids->max_bytes));
	resp_text(out, text);
	for (unsigned i = 0; i < count; i++) {
		char id[ID_HEX_LEN];

		id_format(ids->ids[i], id);
		resp_bulk(out, (struct slice){ id, sizeof(id) });
	}
	store_call_send(&r->call, REDIS_REPLY_ARRAY);
}

/* KEYS: expiry, msg, tries, ready, delayed, buried, unack. ARGV: now, the lowest and the
 * highest score of this request, indexes in ready, delayed and buried, count, max_bytes,
 * offset, whether it is a look alone, then the ids, if it is by ids.
 *
 * Returns { members and scores, bodies, tries, offset, next }. A message that is taken is
 * in the unack set by a score that tells where it was; so a request that is sent twice
 * finds it again. It enters that set before it leaves the other: a Redis without memory
 * refuses the first, and the script ends there. What is buried, or gone, leaves the index
 * of what expires. */
static const struct slice script_take = SLICE(
	"local by_id, is_look = #ARGV > 10, ARGV[10] == '1'\n"
	"local taken = by_id and 0 or redis.call('ZCOUNT', KEYS[7], ARGV[2], ARGV[3])\n"
	"local limit, left = tonumber(ARGV[7]), tonumber(ARGV[8])\n"
	"local offset = tonumber(ARGV[9])\n"
	"local base = -4503599627370496\n"
	"local rows = {}\n"
	"local sets = { { KEYS[4], tonumber(ARGV[4]), ARGV[3] },\n"
	"               { KEYS[5], tonumber(ARGV[5]), ARGV[2] },\n"
	"               by_id and { KEYS[6], tonumber(ARGV[6]) } or nil }\n"
	"local function score_of(kind, set, id)\n"
	"  if not by_id then return set[3] end\n"
	"  local at = kind > 1 and tonumber(redis.call('ZSCORE', set[1], id)) or 0\n"
	"  return string.format('%.0f', base - 4 * at - kind)\n"
	"end\n"
	"local function take(id)\n"
	"  for kind, set in ipairs(sets) do\n"
	"    local at = redis.call('ZRANK', set[1], id)\n"
	"    if at and at < set[2] then return end\n"
	"    if at then\n"
	"      local score = score_of(kind, set, id)\n"
	"      if not is_look then\n"
	"        redis.call('ZADD', KEYS[7], score, id)\n"
	"        redis.call('ZREM', set[1], id)\n"
	"      end\n"
	"      return score\n"
	"    end\n"
	"  end\n"
	"  local score = redis.call('ZSCORE', KEYS[7], id)\n"
	"  if by_id then return score and tonumber(score) <= base and score end\n"
	"  if not score then\n"
	"    offset = offset - redis.call('ZREM', KEYS[1], id)\n"
	"  end\n"
	"end\n"
	"local is_end, wanted = false, {}\n"
	"if by_id then\n"
	"  for i = 11, #ARGV do wanted[i - 10] = ARGV[i] end\n"
	"elseif taken == 0 then\n"
	"  wanted = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT',\n"
	"                      ARGV[9], 1000)\n"
	"end\n"
	"local n = 0\n"
	"while n < #wanted and taken < limit and left > 0 do\n"
	"  n = n + 1\n"
	"  local score = take(wanted[n])\n"
	"  if score then\n"
	"    taken = taken + 1\n"
	"    left = left - redis.call('HSTRLEN', KEYS[2], wanted[n])\n"
	"    rows[#rows + 1] = wanted[n]\n"
	"    rows[#rows + 1] = score\n"
	"  end\n"
	"end\n"
	"if by_id then\n"
	"  offset = n\n"
	"elseif #wanted > 0 or taken == 0 then\n"
	"  offset = offset + n\n"
	"  is_end = n == #wanted and n < 1000\n"
	"end\n"
	"if not by_id then\n"
	"  rows = redis.call('ZRANGEBYSCORE', KEYS[7], ARGV[2], ARGV[3], 'WITHSCORES')\n"
	"end\n"
	"local ids, bodies, tries = {}, {}, {}\n"
	"for i = 1, #rows, 2 do ids[(i + 1) / 2] = rows[i] end\n"
	"if #ids > 0 then\n"
	"  bodies[1] = redis.call('HMGET', KEYS[2], unpack(ids))\n"
	"  tries[1] = redis.call('HMGET', KEYS[3], unpack(ids))\n"
	"end\n"
	"local next = {}\n"
	"if is_end then\n"
	"  next = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf',\n"
	"                    'WITHSCORES', 'LIMIT', 0, 1)\n"
	"end\n"
	"return { rows, bodies, tries, is_end and -1 or offset, next[2] or '0' }\n");

#define TAKEN_BY_ID (INT64_C(1) << 52) /* minus what is in the script as `base` */

enum store_set store_read_taken_from(double score, int64_t *at_ms)
{
	/* By the kinds of the script, less one. */
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
	struct buf *out =
		store_call_add_words(&c->read.call, 3 + KEYS + WORDS + take->id_count);
	char text[32];

	c->on_taken = on_taken;
	c->read.set = STORE_UNACK;
	resp_text(out, "EVAL");
	resp_bulk(out, script_take);
	resp_text(out, "7");
	for (int i = 0; i < KEYS; i++)
		layout_resp_key(out, shard_prefix(shard), keys[i]);
	for (int i = 0; i < WORDS; i++) {
		snprintf(text, sizeof(text), "%lld", (long long)words[i]);
		resp_text(out, text);
	}
	for (unsigned i = 0; i < take->id_count; i++) {
		id_format(take->ids[i], text);
		resp_bulk(out, (struct slice){ text, ID_HEX_LEN });
	}
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
