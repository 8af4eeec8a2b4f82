/* store_log.c: the requests that write and read the log of a partition. */
#include "store_log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/duration.h"
#include "host/log.h"
#include "store_private.h"

/* Begin a command on a day; the caller appends `words` words. */
static struct buf *add_day_command(struct store_call *call, const char *verb,
				   uint32_t day, size_t words)
{
	struct buf *out = store_call_add_words(call, verb, 1 + words);

	layout_resp_day(out, shard_prefix(call->shard), day);
	return out;
}

/* The same on the state or the groups. */
static struct buf *add_key_command(struct store_call *call, const char *verb,
				   enum layout_partition_key key, size_t words)
{
	struct buf *out = store_call_add_words(call, verb, 1 + words);

	layout_resp_partition_key(out, shard_prefix(call->shard), key);
	return out;
}

/* The same as a word in a format, of prefix and day. */
#define DAY_KEY "%slog:%08u"

/* ---- append */

struct append_call {
	struct store_call call;
	bool has_exec;
	unsigned part_count;
	uv_buf_t parts[]; /* the batches are written from where they lie */
};

static void on_append_reply(struct store_call *call, const redisReply *reply,
			    bool is_last)
{
	const struct append_call *a = container_of(call, struct append_call, call);
	bool is_unsure;

	if (!is_last)
		return;
	if (reply && a->has_exec)
		store_call_check_exec(call, reply);
	/* The last command was carried out although one before it was refused, by a
	 * Redis that had no memory in between, say. */
	is_unsure = call->request.was_lost || call->err.code == TIDE_ESHUTDOWN ||
		    (reply && call->err.code < 0);
	CALL_TELL(call, store_log_done_fn, is_unsure);
}

/* "<base> <position> <time of the first record>" */
static void add_new_day(struct buf *out, const struct store_log_append *append)
{
	char day[16], value[3 * (DECIMAL_MAX + 1)];

	snprintf(day, sizeof(day), "%0*u", LAYOUT_DAY_LEN, append->day);
	snprintf(value, sizeof(value), "%llu %llu %lld",
		 (unsigned long long)append->batches[0].base,
		 (unsigned long long)append->position, (long long)append->first_ms);
	resp_text(out, day);
	resp_text(out, value);
}

/* A word with what encloses it, cut off the front. */
static struct slice cut_word(struct slice *words)
{
	struct slice rest = slice_skip(*words, 1), len = slice_cut(&rest, '\r');
	struct slice word = *words;
	uint64_t n = 0;

	if (slice_to_uint(len, words->len, &n) && n + 3 <= rest.len)
		word.len = (size_t)(rest.data - word.data) + 1 + (size_t)n + 2;
	*words = slice_skip(*words, word.len);
	return word;
}

static void add_seen_truncation(struct store_call *call,
				const struct store_log_append *append)
{
	struct slice prefix = shard_prefix(call->shard), words = append->unsure_seen;
	size_t keys = 1 + (size_t)append->truncate_count;
	struct buf *out = store_call_add_script(call, script_log_truncate, keys,
						1 + append->unsure_seen_count);

	layout_resp_key(out, prefix, LAYOUT_DEDUPE);
	for (unsigned i = 0; i < append->truncate_count; i++)
		layout_resp_day(out, prefix, append->truncate_days[i]);
	resp_number(out, append->batches[0].base);
	for (unsigned i = 0; i < append->unsure_seen_count; i++) {
		cut_word(&words); /* the score */
		buf_append_slice(out, cut_word(&words));
	}
}

/* Outside of the MULTI, so that it passes while memory is out. */
static void add_truncations(struct store_call *call,
			    const struct store_log_append *append)
{
	if (append->unsure_seen_count > 0) {
		add_seen_truncation(call, append);
		return;
	}
	for (unsigned i = 0; i < append->truncate_count; i++) {
		struct buf *out = add_day_command(call, "ZREMRANGEBYSCORE",
						  append->truncate_days[i], 2);

		resp_score(out, (double)append->batches[0].base);
		resp_text(out, "+inf");
	}
}

static void add_state(struct store_call *call, const struct store_log_append *append)
{
	size_t words = 2 * (size_t)append->is_new_day + 2 * (append->largest > 0);
	struct buf *out;

	if (words == 0)
		return;
	out = add_key_command(call, "HSET", LAYOUT_STATE, words);
	if (append->is_new_day)
		add_new_day(out, append);
	if (append->largest > 0) {
		resp_text(out, "largest");
		resp_number(out, append->largest);
	}
}

static void add_seen(struct store_call *call, const struct store_log_append *append)
{
	size_t words = 1 + 2 * (size_t)append->seen_count;
	struct buf *out = store_call_add_words(call, "ZADD", words);

	layout_resp_key(out, shard_prefix(call->shard), LAYOUT_DEDUPE);
	buf_append_slice(out, append->seen);
}

/* All that stands before the batches. */
static void add_append_head(struct append_call *a, const struct store_log_append *append)
{
	struct store_call *call = &a->call;

	add_truncations(call, append);
	a->has_exec = append->is_new_day || append->largest > 0 || append->seen_count > 0;
	if (a->has_exec) {
		store_call_add(call, "MULTI");
		add_state(call, append);
	}
	if (append->seen_count > 0)
		add_seen(call, append);
	add_day_command(call, "ZADD", append->day, 2 * (size_t)append->count);
}

static void add_part(struct append_call *a, struct slice bytes)
{
	a->parts[a->part_count++] = redis_request_part(bytes);
}

static void add_batches(struct append_call *a, const struct store_log_append *append)
{
	static const char exec[] = "*1\r\n$4\r\nEXEC\r\n";
	struct buf *out = &a->call.bytes;
	size_t each = RESP_SCORE_MAX + RESP_BULK_HEAD_MAX + 2, from = 0;

	/* All room at once: what the parts point at must not move. */
	buf_reserve(out, append->count * each + sizeof(exec));
	for (unsigned i = 0; i < append->count; i++) {
		const struct store_log_batch *b = &append->batches[i];
		char *to = buf_reserve(out, each), *start = to;

		to = resp_put_bulk_head(resp_put_score(to, (double)b->base),
					b->bytes.len);
		buf_grow(out, (size_t)(to - start));
		add_part(a, slice_skip(buf_slice(out), from));
		add_part(a, b->bytes);
		from = buf_len(out);
		buf_append(out, "\r\n", 2);
	}
	if (a->has_exec) {
		buf_append(out, exec, sizeof(exec) - 1);
		a->call.request.replies++;
	}
	add_part(a, slice_skip(buf_slice(out), from));
}

void store_log_append(struct store *s, struct store_shard *partition,
		      const struct store_log_append *append, store_log_done_fn on_done,
		      void *ctx)
{
	size_t parts = 2 * (size_t)append->count + 1;
	struct append_call *a =
		store_call_create(s, partition, sizeof(*a) + parts * sizeof(a->parts[0]),
				  on_append_reply, ctx);

	assert(append->count > 0 && append->count <= STORE_LOG_BATCHES_MAX);
	a->call.request.is_write = true;
	CALL_TELLS(&a->call, on_done);
	add_append_head(a, append);
	add_batches(a, append);
	s->transactions++;
	store_call_send_parts(&a->call, 0, a->parts, a->part_count);
}

/* A copy of each batch. */
static void add_rows(struct store_call *call, uint32_t day,
		     const struct store_log_batch *rows, size_t count)
{
	struct buf *out = add_day_command(call, "ZADD", day, 2 * count);

	for (size_t i = 0; i < count; i++) {
		resp_score(out, (double)rows[i].base);
		resp_bulk(out, rows[i].bytes);
	}
}

void store_log_join(struct store_transaction *t, struct store_shard *partition,
		    const struct store_log_append *append)
{
	struct store_call *call = store_transaction_call(t);

	call->shard = partition;
	add_truncations(call, append);
	store_transaction_cut(t, call->shard->slot, true);
	add_state(call, append);
	if (append->seen_count > 0)
		add_seen(call, append);
	add_rows(call, append->day, append->batches, append->count);
	store_transaction_cut(t, call->shard->slot, false);
	call->shard = NULL;
}

/* ---- replace, trim, commit */

void store_log_replace(struct store *s, struct store_shard *partition,
		       const struct store_log_replace *replace, store_done_fn on_done,
		       void *ctx)
{
	struct store_call *call = store_done_call_create(s, partition, on_done, ctx);
	struct buf *out;

	if (replace->count > 0)
		store_call_add(call, "MULTI");
	out = add_day_command(call, "ZREMRANGEBYSCORE", replace->day, 2);
	resp_score(out, (double)replace->from);
	resp_score(out, (double)replace->to);
	if (replace->count > 0) {
		add_rows(call, replace->day, replace->batches, replace->count);
		store_call_add(call, "EXEC");
		s->transactions++;
	}
	store_call_send(call, 0);
}

void store_log_trim(struct store *s, struct store_shard *partition,
		    const struct store_log_trim *trim, store_purged_fn on_trimmed,
		    void *ctx)
{
	struct store_call *call = store_count_call_create(s, partition, on_trimmed, ctx);
	struct slice prefix = shard_prefix(partition);
	struct buf *out =
		store_call_add_script(call, script_log_trim, 2 + (size_t)trim->day_count,
				      1 + (size_t)trim->day_count);
	char day[16];

	layout_resp_partition_key(out, prefix, LAYOUT_STATE);
	layout_resp_day(out, prefix, trim->day);
	for (unsigned i = 0; i < trim->day_count; i++)
		layout_resp_day(out, prefix, trim->days[i]);
	resp_number(out, trim->start);
	for (unsigned i = 0; i < trim->day_count; i++) {
		snprintf(day, sizeof(day), "%0*u", LAYOUT_DAY_LEN, trim->days[i]);
		resp_text(out, day);
	}
	store_call_send(call, REDIS_REPLY_INTEGER);
}

void store_log_commit(struct store *s, struct store_shard *partition,
		      const struct store_log_commit *commit, store_done_fn on_done,
		      void *ctx)
{
	struct store_call *call = store_done_call_create(s, partition, on_done, ctx);
	struct buf *out =
		add_key_command(call, commit->is_removal ? "HDEL" : "HSET", LAYOUT_GROUPS,
				commit->is_removal ? commit->count : 2 * commit->count);

	for (size_t i = 0; i < commit->count; i++) {
		resp_bulk(out, commit->groups[i].name);
		if (!commit->is_removal)
			resp_number(out, commit->groups[i].committed);
	}
	store_call_send(call, REDIS_REPLY_INTEGER);
}

/* ---- read */

struct log_read_call {
	struct store_call call;
	/* Of two replies the first, with a copy of its bytes. */
	struct store_log_batch front;
	char *front_bytes; /* NULL: it had no row */
};

/* The batch of a member and its score; false: it was logged. */
static bool read_row(const struct store_call *call, const redisReply *reply, size_t i,
		     struct store_log_batch *out)
{
	struct slice score = store_reply_slice(reply->element[i + 1]);

	out->bytes = store_reply_slice(reply->element[i]);
	if (slice_to_uint(score, POSITION_OFFSET_MAX, &out->base))
		return true;
	log_error("store: %slog:... has a score that is no offset: %" SLICE_FMT,
		  call->shard->prefix, SLICE_HEAD(score, 40));
	return false;
}

static void keep_front(struct log_read_call *r, const redisReply *reply)
{
	mem_free(r->front_bytes); /* of a connection that was lost */
	r->front_bytes = NULL;
	if (!reply || reply->elements < 2 || !read_row(&r->call, reply, 0, &r->front))
		return;
	r->front_bytes = mem_alloc(r->front.bytes.len + 1);
	memcpy(r->front_bytes, r->front.bytes.data, r->front.bytes.len);
	r->front.bytes.data = r->front_bytes;
}

static void on_log_rows_reply(struct store_call *call, const redisReply *reply,
			      bool is_last)
{
	struct log_read_call *r = container_of(call, struct log_read_call, call);
	struct store_log_batch *rows;
	size_t count = 0;

	if (!is_last) {
		keep_front(r, reply);
		return;
	}
	rows = mem_alloc((reply ? reply->elements / 2 + 1 : 1) * sizeof(*rows));
	if (r->front_bytes)
		rows[count++] = r->front;
	for (size_t i = 0; reply && i + 1 < reply->elements; i += 2)
		if (read_row(call, reply, i, &rows[count]))
			count++;
	if (call->err.code < 0)
		count = 0;
	CALL_TELL(call, store_log_rows_fn, rows, count);
	mem_free(rows);
	mem_free(r->front_bytes);
}

void store_log_read(struct store *s, struct store_shard *partition, uint32_t day,
		    uint64_t offset, unsigned count, store_log_rows_fn on_rows, void *ctx)
{
	struct log_read_call *r =
		store_call_create(s, partition, sizeof(*r), on_log_rows_reply, ctx);
	unsigned behind = (count < STORE_LOG_READ_MAX ? count : STORE_LOG_READ_MAX) - 1;

	CALL_TELLS(&r->call, on_rows);
	store_call_add(&r->call,
		       "ZREVRANGEBYSCORE " DAY_KEY " %llu -inf WITHSCORES LIMIT 0 1",
		       partition->prefix, day, (unsigned long long)offset);
	if (count > 1)
		store_call_add(
			&r->call,
			"ZRANGEBYSCORE " DAY_KEY " (%llu +inf WITHSCORES LIMIT 0 %u",
			partition->prefix, day, (unsigned long long)offset, behind);
	store_call_send(&r->call, REDIS_REPLY_ARRAY);
}

/* ---- recover: the state and the groups first; then, from the last day back, the last
 * batch, until there is one: a day has none when its first append was refused */

struct log_recovery {
	struct store_log_state state;
	struct store_log_day *days;
	struct store_log_group *groups;
	struct buf names; /* of the groups */
	size_t left;      /* days that may have a batch */
};

struct recover_call {
	struct store_call call;
	struct log_recovery *recovery;
};

static void look_for_last(const struct store_call *before, struct log_recovery *r);

/* Tell the end of a recovery. `last`: its bytes are borrowed. */
static void end_recovery(struct log_recovery *r, const struct store_call *call,
			 const struct store_log_batch *last)
{
	bool is_good = call->err.code == TIDE_OK;

	if (last)
		r->state.last = *last;
	CALL_TELL(call, store_log_state_fn, is_good ? &r->state : NULL);
	mem_free(r->days);
	mem_free(r->groups);
	buf_deinit(&r->names);
	mem_free(r);
}

static bool read_numbers(struct slice text, uint64_t *out, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!slice_to_uint(slice_cut(&text, ' '), UINT64_MAX, &out[i]))
			return false;
	return text.len == 0;
}

static bool read_state_field(struct log_recovery *r, struct slice name,
			     struct slice value)
{
	uint64_t n[3];
	uint32_t day;

	if (slice_is(name, "start"))
		return read_numbers(value, &r->state.start, 1);
	if (slice_is(name, "largest"))
		return read_numbers(value, &r->state.largest, 1);
	if (!layout_read_day(name, &day) || !read_numbers(value, n, 3) ||
	    n[2] > INT64_MAX)
		return false;
	r->days[r->state.day_count++] =
		(struct store_log_day){ day, n[0], n[1], (int64_t)n[2] };
	return true;
}

static void log_field(const struct store_call *call, const char *key, struct slice name)
{
	log_error("store: %s%s has a field that cannot be read: %" SLICE_FMT,
		  call->shard->prefix, key, SLICE_HEAD(name, 40));
}

static int compare_days(const void *a, const void *b)
{
	const struct store_log_day *x = a, *y = b;

	return (x->day > y->day) - (x->day < y->day);
}

static void read_state(const struct recover_call *c, const redisReply *reply)
{
	struct log_recovery *r = c->recovery;

	r->state = (struct store_log_state){ 0 };
	r->days = mem_realloc(r->days, (reply->elements + 1) * sizeof(*r->days));
	for (size_t i = 0; i + 1 < reply->elements; i += 2) {
		struct slice name = store_reply_slice(reply->element[i]);

		if (!read_state_field(r, name, store_reply_slice(reply->element[i + 1])))
			log_field(&c->call, "log", name);
	}
	r->state.days = r->days;
	r->left = r->state.day_count;
	qsort(r->days, r->left, sizeof(*r->days), compare_days);
}

static void read_groups(const struct recover_call *c, const redisReply *reply)
{
	struct log_recovery *r = c->recovery;
	size_t bytes = 0;

	for (size_t i = 0; i < reply->elements; i += 2)
		bytes += reply->element[i]->len;
	buf_clear(&r->names);
	buf_reserve(&r->names, bytes); /* the groups point into it */
	r->state.group_count = 0;
	r->groups = mem_realloc(r->groups, (reply->elements + 1) * sizeof(*r->groups));
	for (size_t i = 0; i + 1 < reply->elements; i += 2) {
		struct slice name = store_reply_slice(reply->element[i]);
		struct store_log_group *g = &r->groups[r->state.group_count];

		if (!read_numbers(store_reply_slice(reply->element[i + 1]), &g->committed,
				  1)) {
			log_field(&c->call, "groups", name);
			continue;
		}
		g->name = (struct slice){ r->names.data + r->names.end, name.len };
		buf_append_slice(&r->names, name);
		r->state.group_count++;
	}
	r->state.groups = r->groups;
}

static void on_hashes_reply(struct store_call *call, const redisReply *reply,
			    bool is_last)
{
	struct recover_call *c = container_of(call, struct recover_call, call);

	if (reply && !is_last)
		read_state(c, reply);
	else if (reply)
		read_groups(c, reply);
	if (is_last && (call->err.code < 0 || c->recovery->left == 0))
		end_recovery(c->recovery, call, NULL);
	else if (is_last)
		look_for_last(call, c->recovery);
}

static void on_last_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct recover_call *c = container_of(call, struct recover_call, call);
	struct log_recovery *r = c->recovery;
	struct store_log_batch last;
	bool has_row = reply && reply->elements >= 2;

	/* Without it the offsets behind it would be given out again. */
	if (has_row && !read_row(call, reply, 0, &last))
		store_call_fail(call, TIDE_ESTORE, "the last batch has no offset");
	if (reply && !has_row && --r->left > 0)
		look_for_last(call, r);
	else
		end_recovery(r, call, has_row ? &last : NULL);
}

static void look_for_last(const struct store_call *before, struct log_recovery *r)
{
	struct recover_call *c = store_call_create(
		before->store, before->shard, sizeof(*c), on_last_reply, before->ctx);

	c->recovery = r;
	c->call.tell = before->tell;
	store_call_add(&c->call, "ZRANGE " DAY_KEY " -1 -1 WITHSCORES",
		       before->shard->prefix, r->days[r->left - 1].day);
	store_call_send(&c->call, REDIS_REPLY_ARRAY);
}

void store_log_recover(struct store *s, struct store_shard *partition,
		       store_log_state_fn on_state, void *ctx)
{
	struct recover_call *c =
		store_call_create(s, partition, sizeof(*c), on_hashes_reply, ctx);

	c->recovery = mem_zalloc(sizeof(*c->recovery));
	CALL_TELLS(&c->call, on_state);
	add_key_command(&c->call, "HGETALL", LAYOUT_STATE, 0);
	add_key_command(&c->call, "HGETALL", LAYOUT_GROUPS, 0);
	store_call_send(&c->call, REDIS_REPLY_ARRAY);
}
