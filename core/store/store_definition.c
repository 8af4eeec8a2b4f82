/* store_definition.c: the tables of definitions, and documents. */
#include <string.h>

#include "base/mem.h"
#include "host/log.h"
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
	struct buf *out = store_call_add_words(call, verb, 1 + words);

	add_table_key(out, table, vhost);
	return out;
}

static bool is_shared(const struct store *s, enum store_table table)
{
	return table == STORE_USERS && store_cells(s) > 1;
}

/* Owners of other cells read it anew when they see another number. */
static void begin_shared(struct store_call *call)
{
	store_call_add(call, "MULTI");
}

static void end_shared(struct store_call *call, const char *what)
{
	store_call_add(call, "HINCRBY " LAYOUT_CLUSTER_KEY " %s 1", what);
	store_call_add(call, "EXEC");
}

void store_definition_set(struct store *s, enum store_table table, struct slice vhost,
			  struct slice name, struct slice value, store_done_fn on_done,
			  void *ctx)
{
	struct store_call *call = store_done_call_create(s, NULL, on_done, ctx);
	bool is_hash = table_is_hash(table);
	struct buf *out;

	if (is_shared(s, table))
		begin_shared(call);
	out = add_command(call, is_hash ? "HSET" : "SADD", table, vhost, 1 + is_hash);
	resp_bulk(out, name);
	if (is_hash)
		resp_bulk(out, value);
	if (is_shared(s, table))
		end_shared(call, "users");
	store_call_send(call, 0);
}

void store_definition_remove(struct store *s, enum store_table table, struct slice vhost,
			     struct slice name, store_done_fn on_done, void *ctx)
{
	struct store_call *call = store_done_call_create(s, NULL, on_done, ctx);
	const char *verb = table_is_hash(table) ? "HDEL" : "SREM";

	if (is_shared(s, table))
		begin_shared(call);
	resp_bulk(add_command(call, verb, table, vhost, 1), name);
	if (is_shared(s, table))
		end_shared(call, "users");
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
	store_call_add_words(call, "SADD", 2);
	add_topic_key(out, topic->vhost, LAYOUT_ALL_TOPICS);
	resp_bulk(out, topic->name);
	/* An older topic may have had more keys. */
	store_call_add_words(call, "UNLINK", 1);
	add_topic_key(out, topic->vhost, topic->name);
	store_call_add_words(call, "SADD", 1 + (size_t)topic->shards);
	add_topic_key(out, topic->vhost, topic->name);
	for (unsigned i = 0; i < topic->shards; i++)
		resp_number(out, i);
	store_call_add(call, "EXEC");
	store_call_send(call, 0);
}

static void on_place_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	if (reply && reply->type == REDIS_REPLY_ARRAY)
		store_call_check_exec(call, reply);
	if (!is_last)
		return;
	redis_cells_placed(&call->store->lanes->self.cells);
	CALL_TELL(call, store_done_fn);
}

void store_vhost_place(struct store *s, struct slice vhost, unsigned cell,
		       store_done_fn on_done, void *ctx)
{
	struct store_call *call;
	struct buf *out;

	redis_cells_place(&s->lanes->self.cells, vhost, cell);
	call = store_call_begin(s, NULL, on_place_reply, (store_tell_fn)on_done, ctx);
	call->request.is_write = true;
	store_call_add(call, "MULTI");
	store_call_add(call, "HSET " LAYOUT_CLUSTER_KEY " cell:%b %u", vhost.data,
		       vhost.len, cell);
	out = add_command(call, "SADD", STORE_VHOSTS, SLICE(""), 1);
	resp_bulk(out, vhost);
	store_call_add(call, "EXEC");
	store_call_send(call, 0);
}

/* ---- erasing */

static const char *const tombstone_kinds[STORE_TABLE_COUNT] = {
	[STORE_QUEUES] = "queue ",
	[STORE_TOPICS] = "topic ",
};

static void add_document_key(struct buf *out, const char *name)
{
	resp_pair(out, SLICE(LAYOUT_META), slice_from(name));
}

static struct buf *add_document_command(struct store_call *call, const char *verb,
					const char *name, size_t words)
{
	struct buf *out = store_call_add_words(call, verb, 1 + words);

	add_document_key(out, name);
	return out;
}

/* "queue <vhost>/<queue>" */
static void add_tombstone(struct buf *out, enum store_table table,
			  const struct store_queue *queue)
{
	struct buf text = { 0 };

	buf_append_text(&text, tombstone_kinds[table]);
	buf_append_slice(&text, queue->vhost);
	buf_append_char(&text, '/');
	buf_append_slice(&text, queue->name);
	resp_bulk(out, buf_slice(&text));
	buf_deinit(&text);
}

/* The slices point into `text`. */
static bool read_tombstone(struct slice text, struct slice count, enum store_table *table,
			   struct store_queue *queue)
{
	uint64_t shards;

	*table = slice_has_prefix(text, tombstone_kinds[STORE_TOPICS]) ? STORE_TOPICS
								       : STORE_QUEUES;
	if (!slice_has_prefix(text, tombstone_kinds[*table]) ||
	    !slice_to_uint(count, UINT16_MAX, &shards))
		return false;
	text = slice_skip(text, strlen(tombstone_kinds[*table]));
	size_t vhost_len = slice_has_prefix(text, "//") ? 1 : slice_find(text, '/');
	*queue = (struct store_queue){ { text.data, vhost_len },
				       slice_skip(text, vhost_len + 1),
				       (unsigned)shards };
	return vhost_len > 0 && vhost_len + 1 < text.len;
}

void store_erase_begin(struct store *s, enum store_table table,
		       const struct store_queue *queue, store_done_fn on_done, void *ctx)
{
	bool is_topic = table == STORE_TOPICS;
	struct store_call *call = store_done_call_create(s, NULL, on_done, ctx);
	struct buf *out =
		store_call_add_script(call, script_erase_begin, is_topic ? 5 : 3, 3);

	add_document_key(out, LAYOUT_ERASING_NAME);
	add_table_key(out, table, queue->vhost);
	add_table_key(out, STORE_PAUSES, queue->vhost);
	if (is_topic) {
		add_topic_key(out, queue->vhost, LAYOUT_ALL_TOPICS);
		add_topic_key(out, queue->vhost, queue->name);
	}
	resp_bulk(out, queue->name);
	add_tombstone(out, table, queue);
	resp_number(out, queue->shards);
	store_call_send(call, REDIS_REPLY_INTEGER);
}

/* The shards of one queue that are being erased. */
struct erase {
	struct store_call *last; /* takes the tombstone out, behind all of them */
	unsigned left;
	struct error err;
};

struct erase_call {
	struct store_call call;
	struct erase *erase;
};

static void end_erase(struct erase *e)
{
	if (e->err.code < 0)
		store_call_drop(e->last, &e->err);
	else
		store_call_send(e->last, REDIS_REPLY_INTEGER);
	mem_free(e);
}

static void on_shard_erased(struct store_call *call, const redisReply *reply,
			    bool is_last)
{
	struct erase *e = container_of(call, struct erase_call, call)->erase;

	if (!reply && e->err.code == TIDE_OK)
		e->err = call->err;
	if (--e->left == 0)
		end_erase(e);
}

/* Of a partition all but the days, which the script finds in its state. */
static void add_erase(struct store_call *call, struct slice prefix, bool is_topic)
{
	struct buf *out;

	if (is_topic) {
		out = store_call_add_script(call, script_erase_partition, 3, 0);
		layout_resp_partition_key(out, prefix, LAYOUT_STATE);
		layout_resp_partition_key(out, prefix, LAYOUT_GROUPS);
		layout_resp_key(out, prefix, LAYOUT_DEDUPE);
		return;
	}
	out = store_call_add_words(call, "UNLINK", LAYOUT_KEY_COUNT);
	for (int key = 0; key < LAYOUT_KEY_COUNT; key++)
		layout_resp_key(out, prefix, (enum layout_key)key);
}

static void erase_shard(struct store *s, struct erase *e, bool is_topic,
			struct store_shard *shard)
{
	struct erase_call *c =
		store_call_create(s, shard, sizeof(*c), on_shard_erased, NULL);

	c->erase = e;
	c->call.request.is_write = true;
	add_erase(&c->call, shard_prefix(shard), is_topic);
	store_call_send(&c->call, REDIS_REPLY_INTEGER);
}

void store_erase_finish(struct store *s, enum store_table table,
			const struct store_queue *queue, store_done_fn on_done, void *ctx)
{
	struct erase *e = mem_zalloc(sizeof(*e));

	e->last = store_done_call_create(s, NULL, on_done, ctx);
	add_tombstone(add_document_command(e->last, "HDEL", LAYOUT_ERASING_NAME, 1),
		      table, queue);
	e->left = queue->shards;
	for (unsigned i = 0; i < queue->shards; i++) {
		struct store_shard *shard =
			store_shard_create(queue->vhost, queue->name, i);

		erase_shard(s, e, table == STORE_TOPICS, shard);
		store_shard_destroy(shard);
	}
	if (queue->shards == 0)
		end_erase(e);
}

/* ---- load */

/* Transactions and tombstones are finished first. Then users and vhosts are read, then,
 * for each, its other tables with a request each. A definition is told once, whatever the
 * connection does in between. */

struct load {
	store_definition_fn on_definition;
	store_done_fn on_end;
	void *ctx;
	struct store *store;
	bool is_shallow; /* vhosts alone */
	unsigned left;   /* requests without their reply */
	struct error err;
};

struct load_call {
	struct store_call call;
	struct load *load;
	enum store_table table;
	size_t vhost_len;
	char vhost[];
};

/* Each owner reads the vhosts of its own cell. */
static bool is_elsewhere(const struct load_call *l, const redisReply *name)
{
	return (l->table == STORE_VHOSTS || l->table == STORE_VHOST_OPTIONS) &&
	       !store_has_vhost(l->load->store, store_reply_slice(name));
}

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

		if (is_elsewhere(l, reply->element[i]))
			continue;
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

static void end_load(struct load *load)
{
	load->on_end(load->ctx, load->err.code,
		     load->err.code < 0 ? load->err.text : NULL);
	mem_free(load);
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
		if (!load->is_shallow && !is_elsewhere(l, reply->element[i]))
			send_tables(call->store, load,
				    store_reply_slice(reply->element[i]));
	if (--load->left == 0)
		end_load(load);
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

/* ---- the layout */

static void on_old_vhosts(struct store_call *call, const redisReply *reply, bool is_last)
{
	if (reply && reply->integer > 0)
		store_call_fail(call, TIDE_ESTORE, LAYOUT_OLD_TEXT);
	CALL_TELL(call, store_done_fn);
}

void store_layout_check(struct store *s, store_done_fn on_done, void *ctx)
{
	struct store_call *call =
		store_call_begin(s, NULL, on_old_vhosts, (store_tell_fn)on_done, ctx);

	call->request.slot = layout_slot(SLICE(LAYOUT_OLD_VHOSTS_KEY));
	store_call_add(call, "EXISTS " LAYOUT_OLD_VHOSTS_KEY);
	store_call_send(call, 0);
}

/* ---- what is left of a DELETE */

static void end_tombstones(struct load *load)
{
	if (--load->left > 0)
		return;
	if (load->err.code < 0) {
		end_load(load);
		return;
	}
	send_load(load->store, load, STORE_USERS, SLICE(""));
	send_load(load->store, load, STORE_VHOSTS, SLICE(""));
	send_load(load->store, load, STORE_VHOST_OPTIONS, SLICE(""));
}

static void on_finished(void *ctx, int status, const char *text)
{
	struct load *load = ctx;

	if (status < 0 && load->err.code == TIDE_OK)
		error_set(&load->err, status, "%s", text ? text : error_text(status));
	end_tombstones(load);
}

static void finish(struct load *load, struct slice tombstone, struct slice count)
{
	struct store_queue queue;
	enum store_table table;

	if (!read_tombstone(tombstone, count, &table, &queue)) {
		log_error("store: '%" SLICE_FMT "' in " LAYOUT_META LAYOUT_ERASING_NAME
			  " cannot be read, and is left as it is",
			  SLICE_ARG(tombstone));
		return;
	}
	if (!store_has_vhost(load->store, queue.vhost))
		return;
	load->left++;
	log_info("store: finishing the deletion of %" SLICE_FMT, SLICE_ARG(tombstone));
	store_erase_finish(load->store, table, &queue, on_finished, load);
}

static void on_tombstones(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct load *load = call->ctx;

	if (!reply)
		load->err = call->err;
	for (size_t i = 0; reply && i + 1 < reply->elements; i += 2)
		finish(load, store_reply_slice(reply->element[i]),
		       store_reply_slice(reply->element[i + 1]));
	end_tombstones(load);
}

static void on_transactions_finished(void *ctx, int status, const char *text)
{
	struct load *load = ctx;
	struct store_call *call;

	if (status < 0) {
		on_finished(load, status, text);
		return;
	}
	call = store_call_begin(load->store, NULL, on_tombstones, NULL, load);
	add_document_command(call, "HGETALL", LAYOUT_ERASING_NAME, 0);
	store_call_send(call, REDIS_REPLY_ARRAY);
}

void store_definition_load(struct store *s, store_definition_fn on_definition,
			   store_done_fn on_end, void *ctx)
{
	struct load *load = mem_zalloc(sizeof(*load));

	load->on_definition = on_definition;
	load->on_end = on_end;
	load->ctx = ctx;
	load->store = s;
	load->left = 2;
	store_layout_check(s, on_finished, load);
	/* Transactions may write to a queue that is being erased. */
	store_transactions_finish(s, on_transactions_finished, load);
}

void store_vhosts_read(struct store *s, store_definition_fn on_vhost,
		       store_done_fn on_end, void *ctx)
{
	struct load *load = mem_zalloc(sizeof(*load));

	load->on_definition = on_vhost;
	load->on_end = on_end;
	load->ctx = ctx;
	load->store = s;
	load->is_shallow = true;
	send_load(s, load, STORE_VHOSTS, SLICE(""));
}

/* ---- documents: small hashes of what the broker keeps of itself, what scripts keep,
 * what schedules have done */

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
