/* store_definition.c: the tables of definitions, and documents. */
#include <string.h>

#include "base/mem.h"
#include "resp.h"
#include "store_private.h"

static bool table_is_hash(enum store_table table)
{
	return table != STORE_VHOSTS && table != STORE_BINDINGS;
}

static void add_table_key(struct buf *out, enum store_table table, struct slice vhost)
{
	struct buf key = { 0 };

	layout_table_key(&key, table, vhost);
	resp_bulk(out, buf_slice(&key));
	buf_deinit(&key);
}

/* Of a topic's partitions; or LAYOUT_ALL_TOPICS. */
static void add_topic_key(struct buf *out, struct slice vhost, struct slice topic)
{
	struct buf key = { 0 };

	layout_topic_key(&key, vhost, topic);
	resp_bulk(out, buf_slice(&key));
	buf_deinit(&key);
}

/* The caller appends `words` words. */
static struct buf *add_command(struct store_call *call, const char *verb,
			       enum store_table table, struct slice vhost, size_t words)
{
	struct buf *out = store_call_add_words(call, 2 + words);

	resp_text(out, verb);
	add_table_key(out, table, vhost);
	return out;
}

void store_definition_set(struct store *s, enum store_table table, struct slice vhost,
			  struct slice name, struct slice value, store_done_fn on_done,
			  void *ctx)
{
	struct store_call *call = store_done_call_create(s, NULL, on_done, ctx);
	bool is_hash = table_is_hash(table);
	struct buf *out =
		add_command(call, is_hash ? "HSET" : "SADD", table, vhost, 1 + is_hash);

	resp_bulk(out, name);
	if (is_hash)
		resp_bulk(out, value);
	store_call_send(call, 0);
}

void store_definition_remove(struct store *s, enum store_table table, struct slice vhost,
			     struct slice name, store_done_fn on_done, void *ctx)
{
	struct store_call *call = store_done_call_create(s, NULL, on_done, ctx);
	const char *verb = table_is_hash(table) ? "HDEL" : "SREM";

	resp_bulk(add_command(call, verb, table, vhost, 1), name);
	store_call_send(call, 0);
}

/* Of a topic the options are what counts; the sets of names and of partitions are for
 * people. */
void store_definition_set_topic(struct store *s, const struct store_queue *topic,
				struct slice value, store_done_fn on_done, void *ctx)
{
	struct store_call *call = store_done_call_create(s, NULL, on_done, ctx);
	struct buf *out;

	store_call_add(call, "MULTI");
	out = add_command(call, "HSET", STORE_TOPICS, topic->vhost, 2);
	resp_bulk(out, topic->name);
	resp_bulk(out, value);
	resp_text(store_call_add_words(call, 3), "SADD");
	add_topic_key(out, topic->vhost, LAYOUT_ALL_TOPICS);
	resp_bulk(out, topic->name);
	/* An older topic may have had more keys. */
	resp_text(store_call_add_words(call, 2), "UNLINK");
	add_topic_key(out, topic->vhost, topic->name);
	resp_text(store_call_add_words(call, 2 + (size_t)topic->shards), "SADD");
	add_topic_key(out, topic->vhost, topic->name);
	for (unsigned i = 0; i < topic->shards; i++)
		resp_number(out, i);
	store_call_add(call, "EXEC");
	store_call_send(call, 0);
}

/* But for the days of a partition, which the script finds in its state. */
static void add_part_keys(struct buf *out, const struct store_queue *queue, unsigned part,
			  bool is_topic)
{
	struct buf prefix = { 0 };

	layout_shard_prefix(&prefix, queue->vhost, queue->name, part);
	if (is_topic) {
		layout_resp_partition_key(out, buf_slice(&prefix), LAYOUT_STATE);
		layout_resp_partition_key(out, buf_slice(&prefix), LAYOUT_GROUPS);
		layout_resp_key(out, buf_slice(&prefix), LAYOUT_DEDUPE);
	}
	for (int key = 0; !is_topic && key < LAYOUT_KEY_COUNT; key++)
		layout_resp_key(out, buf_slice(&prefix), (enum layout_key)key);
	buf_deinit(&prefix);
}

void store_definition_erase(struct store *s, enum store_table table,
			    const struct store_queue *queue, store_done_fn on_done,
			    void *ctx)
{
	bool is_topic = table == STORE_TOPICS;
	size_t keys = is_topic ? 4 + 3 * (size_t)queue->shards
			       : 2 + (size_t)queue->shards * LAYOUT_KEY_COUNT;
	struct store_call *call = store_done_call_create(s, NULL, on_done, ctx);
	struct buf *out = store_call_add_script(
		call, is_topic ? script_erase_topic : script_erase_queue, keys, 1);

	add_table_key(out, table, queue->vhost);
	add_table_key(out, STORE_PAUSES, queue->vhost);
	if (is_topic) {
		add_topic_key(out, queue->vhost, LAYOUT_ALL_TOPICS);
		add_topic_key(out, queue->vhost, queue->name);
	}
	for (unsigned i = 0; i < queue->shards; i++)
		add_part_keys(out, queue, i, is_topic);
	resp_bulk(out, queue->name);
	store_call_send(call, REDIS_REPLY_INTEGER);
}

/* ---- load */

/* Users and vhosts are read first, then, for each, its other tables with a request each.
 * A definition is told once, whatever the connection does in between. */

struct load {
	store_definition_fn on_definition;
	store_done_fn on_end;
	void *ctx;
	unsigned left; /* requests without their reply */
	struct error err;
};

struct load_call {
	struct store_call call;
	struct load *load;
	enum store_table table;
	size_t vhost_len;
	char vhost[];
};

static void tell_definitions(const struct load_call *l, const redisReply *reply)
{
	bool is_hash = table_is_hash(l->table);
	size_t step = 1 + is_hash;

	for (size_t i = 0; i + step <= reply->elements; i += step) {
		struct store_definition d = {
			.table = l->table,
			.vhost = { l->vhost, l->vhost_len },
			.name = store_reply_slice(reply->element[i]),
			.value = is_hash ? store_reply_slice(reply->element[i + 1])
					 : SLICE(""),
		};

		l->load->on_definition(l->load->ctx, &d);
	}
}

static void send_load(struct store *s, struct load *load, enum store_table table,
		      struct slice vhost);

/* Ask for the tables of a vhost. */
static void send_tables(struct store *s, struct load *load, struct slice vhost)
{
	for (int table = 0; table < STORE_TABLE_COUNT; table++)
		if (layout_table_has_vhost((enum store_table)table))
			send_load(s, load, (enum store_table)table, vhost);
}

static void on_load_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct load_call *l = container_of(call, struct load_call, call);
	struct load *load = l->load;

	if (reply)
		tell_definitions(l, reply);
	else if (load->err.code == TIDE_OK)
		load->err = call->err;
	for (size_t i = 0; reply && l->table == STORE_VHOSTS && i < reply->elements; i++)
		send_tables(call->store, load, store_reply_slice(reply->element[i]));
	if (--load->left > 0)
		return;
	load->on_end(load->ctx, load->err.code,
		     load->err.code < 0 ? load->err.text : NULL);
	mem_free(load);
}

static void send_load(struct store *s, struct load *load, enum store_table table,
		      struct slice vhost)
{
	struct load_call *l =
		store_call_create(s, NULL, sizeof(*l) + vhost.len, on_load_reply, NULL);

	l->load = load;
	l->table = table;
	l->vhost_len = vhost.len;
	memcpy(l->vhost, vhost.data, vhost.len);
	load->left++;
	add_command(&l->call, table_is_hash(table) ? "HGETALL" : "SMEMBERS", table, vhost,
		    0);
	store_call_send(&l->call, REDIS_REPLY_ARRAY);
}

void store_definition_load(struct store *s, store_definition_fn on_definition,
			   store_done_fn on_end, void *ctx)
{
	struct load *load = mem_zalloc(sizeof(*load));

	load->on_definition = on_definition;
	load->on_end = on_end;
	load->ctx = ctx;
	send_load(s, load, STORE_USERS, SLICE(""));
	send_load(s, load, STORE_VHOSTS, SLICE(""));
}

/* ---- documents: small hashes of what the broker keeps of itself, what scripts keep,
 * what schedules have done */

/* The caller appends `words` words. */
static struct buf *add_document_command(struct store_call *call, const char *verb,
					const char *name, size_t words)
{
	struct buf *out = store_call_add_words(call, 2 + words);

	resp_text(out, verb);
	resp_pair(out, SLICE(LAYOUT_META), slice_from(name));
	return out;
}

void store_document_change(struct store *s, const char *name,
			   const struct store_field *changes, size_t count,
			   store_done_fn on_done, void *ctx)
{
	struct store_call *call = store_done_call_create(s, NULL, on_done, ctx);
	struct buf *out;
	size_t removed = 0;

	for (size_t i = 0; i < count; i++)
		removed += changes[i].value.data == NULL;
	if (removed > 0)
		out = add_document_command(call, "HDEL", name, removed);
	for (size_t i = 0; removed > 0 && i < count; i++)
		if (!changes[i].value.data)
			resp_bulk(out, changes[i].name);
	if (removed < count)
		out = add_document_command(call, "HSET", name, 2 * (count - removed));
	for (size_t i = 0; removed < count && i < count; i++) {
		if (!changes[i].value.data)
			continue;
		resp_bulk(out, changes[i].name);
		resp_bulk(out, changes[i].value);
	}
	store_call_send(call, 0);
}

void store_document_remove(struct store *s, const char *name, store_done_fn on_done,
			   void *ctx)
{
	struct store_call *call = store_done_call_create(s, NULL, on_done, ctx);

	add_document_command(call, "UNLINK", name, 0);
	store_call_send(call, 0);
}

static void on_document_reply(struct store_call *call, const redisReply *reply,
			      bool is_last)
{
	size_t count = reply ? reply->elements / 2 : 0;
	struct store_field *fields = mem_alloc((count + 1) * sizeof(*fields));

	for (size_t i = 0; i < count; i++)
		fields[i] = (struct store_field){
			.name = store_reply_slice(reply->element[2 * i]),
			.value = store_reply_slice(reply->element[2 * i + 1])
		};
	CALL_TELL(call, store_fields_fn, fields, count);
	mem_free(fields);
}

void store_document_read(struct store *s, const char *name, store_fields_fn on_fields,
			 void *ctx)
{
	struct store_call *call = store_call_begin(s, NULL, on_document_reply,
						   (store_tell_fn)on_fields, ctx);

	add_document_command(call, "HGETALL", name, 0);
	store_call_send(call, REDIS_REPLY_ARRAY);
}
