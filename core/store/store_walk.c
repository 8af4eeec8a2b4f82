#include "store_walk.h"

#include <stdlib.h>

#include "base/mem.h"
#include "store_private.h"

/* The hashes come first. */
_Static_assert(LAYOUT_MSG == 0 && LAYOUT_TRIES == 1 && LAYOUT_DEDUPE == 3,
	       "walk_shard.lua counts on this order");
static uint64_t read_number(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_STRING ? strtoull(reply->str, NULL, 10) : 0;
}

static void on_keys_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	size_t count = reply && reply->elements ? (reply->elements - 1) / 3 : 0;
	struct store_walk_key *keys = mem_zalloc((count + 1) * sizeof(*keys));

	for (size_t i = 0; i < count; i++) {
		redisReply **at = reply->element + 1 + 3 * i;

		keys[i].name = store_reply_slice(at[0]);
		keys[i].type = store_reply_slice(at[1]);
		keys[i].has_ttl = at[2]->integer >= 0;
	}
	CALL_TELL(call, store_walk_keys_fn,
		  reply && reply->elements ? read_number(reply->element[0]) : 0, keys,
		  count);
	mem_free(keys);
}

unsigned store_walk_master(const struct store *s, unsigned from)
{
	return redis_lanes_first_slot(s->lanes, from);
}

void store_walk_keys(struct store *s, const struct store_walk_place *from, unsigned count,
		     store_walk_keys_fn on_keys, void *ctx)
{
	struct store_call *call =
		store_call_begin(s, NULL, on_keys_reply, (store_tell_fn)on_keys, ctx);
	struct buf *out = store_call_add_script(call, script_walk_keys, 0, 2);

	call->request.slot = from->slot;
	resp_number(out, from->cursor);
	resp_number(out, count);
	store_call_send(call, REDIS_REPLY_ARRAY);
}

/* The replies of all that reads rows are lists: where the members, the values and the
 * bits are in it. */
struct rows_call {
	struct store_call call;
	void (*read)(const redisReply *reply, struct store_walk_row *rows, size_t count);
	size_t (*count)(const redisReply *reply);
};

static void on_rows_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct rows_call *r = container_of(call, struct rows_call, call);
	size_t count = reply ? r->count(reply) : 0;
	struct store_walk_row *rows = mem_zalloc((count + 1) * sizeof(*rows));
	uint64_t next = reply ? read_number(reply->element[0]) : 0;

	if (reply)
		r->read(reply, rows, count);
	CALL_TELL(call, store_walk_rows_fn, next, rows, count);
	mem_free(rows);
}

static struct rows_call *rows_call_create(struct store *s, store_walk_rows_fn on_rows,
					  void *ctx)
{
	struct rows_call *r = store_call_create(s, NULL, sizeof(*r), on_rows_reply, ctx);

	CALL_TELLS(&r->call, on_rows);
	return r;
}

static size_t count_members(const redisReply *reply)
{
	return reply->elements == 2 ? reply->element[1]->elements : 0;
}

static size_t count_pairs(const redisReply *reply)
{
	return count_members(reply) / 2;
}

static void read_members(const redisReply *reply, struct store_walk_row *rows,
			 size_t count)
{
	for (size_t i = 0; i < count; i++)
		rows[i].member = store_reply_slice(reply->element[1]->element[i]);
}

static void read_pairs(const redisReply *reply, struct store_walk_row *rows, size_t count)
{
	redisReply **at = reply->element[1]->element;

	for (size_t i = 0; i < count; i++, at += 2) {
		rows[i].member = store_reply_slice(at[0]);
		rows[i].value = store_reply_slice(at[1]);
	}
}

static const char *scan_verb(const char *type)
{
	return type[0] == 'h' ? "HSCAN" : type[0] == 'z' ? "ZSCAN" : "SSCAN";
}

void store_walk_page(struct store *s, const struct store_walk_page *page,
		     store_walk_rows_fn on_rows, void *ctx)
{
	struct rows_call *r = rows_call_create(s, on_rows, ctx);
	struct buf *out = store_call_add_words(&r->call, scan_verb(page->type), 4);
	bool is_set = page->type[0] == 's';

	r->call.request.slot = layout_slot(page->key);
	r->count = is_set ? count_members : count_pairs;
	r->read = is_set ? read_members : read_pairs;
	resp_bulk(out, page->key);
	resp_number(out, page->cursor);
	resp_text(out, "COUNT");
	resp_number(out, page->count);
	store_call_send(&r->call, REDIS_REPLY_ARRAY);
}

static size_t count_found(const redisReply *reply)
{
	return reply->elements == 4 ? reply->element[3]->elements : 0;
}

static void read_found(const redisReply *reply, struct store_walk_row *rows, size_t count)
{
	const redisReply *members = reply->element[1], *values = reply->element[2];

	for (size_t i = 0; i < count; i++) {
		rows[i].member = store_reply_slice(members->element[i]);
		rows[i].found = (unsigned)reply->element[3]->element[i]->integer;
		if (i < values->elements)
			rows[i].value = store_reply_slice(values->element[i]);
	}
}

/* The caller appends `words` words. */
static struct rows_call *shard_call_create(struct store *s,
					   const struct layout_name *name, size_t words,
					   store_walk_rows_fn on_rows, void *ctx)
{
	struct rows_call *r = rows_call_create(s, on_rows, ctx);
	struct buf *out = store_call_add_script(&r->call, script_walk_shard,
						LAYOUT_KEY_COUNT, words);
	struct buf prefix = { 0 };

	r->count = count_found;
	r->read = read_found;
	layout_shard_prefix(&prefix, name->vhost, name->queue, name->shard);
	r->call.request.slot = layout_slot(buf_slice(&prefix));
	for (int key = 0; key < LAYOUT_KEY_COUNT; key++)
		layout_resp_key(out, buf_slice(&prefix), (enum layout_key)key);
	buf_deinit(&prefix);
	return r;
}

void store_walk_shard(struct store *s, const struct store_walk_page *page,
		      const struct layout_name *name, unsigned wanted,
		      store_walk_rows_fn on_rows, void *ctx)
{
	struct rows_call *r = shard_call_create(s, name, 5, on_rows, ctx);
	struct buf *out = &r->call.bytes;

	resp_number(out, wanted);
	resp_text(out, scan_verb(page->type));
	resp_number(out, 1 + (unsigned)name->key);
	resp_number(out, page->cursor);
	resp_number(out, page->count);
	store_call_send(&r->call, REDIS_REPLY_ARRAY);
}

void store_walk_members(struct store *s, const struct layout_name *name, unsigned wanted,
			const struct slice *members, size_t count,
			store_walk_rows_fn on_rows, void *ctx)
{
	struct rows_call *r = shard_call_create(s, name, 2 + count, on_rows, ctx);
	struct buf *out = &r->call.bytes;

	resp_number(out, wanted);
	resp_text(out, "");
	for (size_t i = 0; i < count; i++)
		resp_bulk(out, members[i]);
	store_call_send(&r->call, REDIS_REPLY_ARRAY);
}

/* Questions whose keys lie in several slots: each slot is asked by itself. */
struct walk_asking {
	store_walk_rows_fn on_rows;
	void *ctx;
	struct store_walk_row *rows; /* their values are copies */
	size_t count;
	unsigned left; /* slots that have not answered */
	struct error err;
};

struct ask_call {
	struct store_call call;
	struct walk_asking *asking;
	size_t count;
	size_t *rows; /* of its questions */
};

static void walk_asking_end(struct walk_asking *a)
{
	a->on_rows(a->ctx, a->err.code, a->err.code < 0 ? a->err.text : NULL, 0, a->rows,
		   a->err.code < 0 ? 0 : a->count);
	for (size_t i = 0; i < a->count; i++)
		mem_free((char *)(uintptr_t)a->rows[i].value.data);
	mem_free(a->rows);
	mem_free(a);
}

static void on_ask_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct ask_call *ask = container_of(call, struct ask_call, call);
	struct walk_asking *a = ask->asking;

	if (call->err.code < 0)
		a->err = call->err;
	for (size_t i = 0; reply && i < ask->count && i < reply->elements; i++) {
		struct slice value = store_reply_slice(reply->element[i]);

		if (reply->element[i]->type == REDIS_REPLY_STRING)
			a->rows[ask->rows[i]].value =
				(struct slice){ mem_strndup(value.data, value.len),
						value.len };
	}
	mem_free(ask->rows);
	if (--a->left == 0)
		walk_asking_end(a);
}

/* Ask those of the slot of the first that was not asked yet. */
static void ask_slot(struct store *s, struct walk_asking *a,
		     const struct store_walk_question *questions, bool *is_asked,
		     size_t first)
{
	struct ask_call *ask = store_call_create(s, NULL, sizeof(*ask), on_ask_reply, a);
	unsigned slot = layout_slot(questions[first].key);
	struct buf *out;

	ask->asking = a;
	ask->call.request.slot = slot;
	ask->rows = mem_alloc(a->count * sizeof(*ask->rows));
	for (size_t i = first; i < a->count; i++) {
		if (is_asked[i] || layout_slot(questions[i].key) != slot)
			continue;
		is_asked[i] = true;
		ask->rows[ask->count++] = i;
	}
	out = store_call_add_script(&ask->call, script_walk_ask, ask->count,
				    2 * ask->count);
	for (size_t i = 0; i < ask->count; i++)
		resp_bulk(out, questions[ask->rows[i]].key);
	for (size_t i = 0; i < ask->count; i++) {
		resp_text(out, questions[ask->rows[i]].verb);
		resp_bulk(out, questions[ask->rows[i]].member);
	}
	store_call_send(&ask->call, REDIS_REPLY_ARRAY);
}

void store_walk_ask(struct store *s, const struct store_walk_question *questions,
		    size_t count, store_walk_rows_fn on_rows, void *ctx)
{
	struct walk_asking *a = mem_zalloc(sizeof(*a));
	bool *is_asked = mem_zalloc(count * sizeof(*is_asked));

	a->on_rows = on_rows;
	a->ctx = ctx;
	a->rows = mem_zalloc(count * sizeof(*a->rows));
	a->count = count;
	a->left = 1;
	for (size_t i = 0; i < count; i++) {
		if (is_asked[i])
			continue;
		a->left++;
		ask_slot(s, a, questions, is_asked, i);
	}
	mem_free(is_asked);
	if (--a->left == 0)
		walk_asking_end(a); /* the store is being closed */
}

static void add_edit(struct store_call *call, const struct store_walk_edit *edit)
{
	bool has_score = strcmp(edit->verb, "ZADD") == 0;
	struct buf *out = store_call_add_words(call, edit->verb, 2 + has_score);

	resp_bulk(out, edit->key);
	if (has_score)
		resp_score(out, edit->score);
	resp_bulk(out, edit->member);
}

void store_walk_edit(struct store *s, const struct store_walk_edit *edits, size_t count,
		     store_done_fn on_done, void *ctx)
{
	struct store_call *call = store_done_call_create(s, NULL, on_done, ctx);

	call->request.slot = layout_slot(edits[0].key);
	for (size_t i = 0; i < count; i++)
		add_edit(call, &edits[i]);
	store_call_send(call, 0);
}
