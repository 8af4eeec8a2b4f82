/* store_definition.c: the tables of definitions. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "resp.h"
#include "store_private.h"

static bool table_is_hash(enum store_table table)
{
	return table == STORE_EXCHANGES || table == STORE_QUEUES;
}

static void write_table_key(struct buf *out, enum store_table table, struct slice vhost)
{
	struct buf key;

	buf_init(&key);
	layout_table_key(&key, table, vhost);
	resp_bulk(out, buf_slice(&key));
	buf_deinit(&key);
}

void store_definition_set(struct store *s, enum store_table table, struct slice vhost,
			  struct slice name, struct slice value, store_done_fn on_done,
			  void *ctx)
{
	struct store_done_call *d = store_done_call_create(s, on_done, ctx);
	struct buf *out = &d->call.bytes;

	resp_array(out, table_is_hash(table) ? 4 : 3);
	resp_text(out, table_is_hash(table) ? "HSET" : "SADD");
	write_table_key(out, table, vhost);
	resp_bulk(out, name);
	if (table_is_hash(table))
		resp_bulk(out, value);
	store_done_call_send(d, 1);
}

void store_definition_remove(struct store *s, enum store_table table, struct slice vhost,
			     struct slice name, store_done_fn on_done, void *ctx)
{
	struct store_done_call *d = store_done_call_create(s, on_done, ctx);
	struct buf *out = &d->call.bytes;

	resp_array(out, 3);
	resp_text(out, table_is_hash(table) ? "HDEL" : "SREM");
	write_table_key(out, table, vhost);
	resp_bulk(out, name);
	store_done_call_send(d, 1);
}

/* First the vhosts; then, for each, a request a table, so that a definition is
 * told once whatever the connection does in between. */

struct load {
	store_definition_fn on_definition;
	store_done_fn on_end;
	void *ctx;
	unsigned left; /* requests without their reply */
	int status;
	char text[256];
};

struct load_call {
	struct store_call call;
	struct load *load;
	enum store_table table;
	size_t vhost_len;
	char vhost[];
};

static void send_load(struct store *s, struct load *load, enum store_table table,
		      struct slice vhost);

static void fail_load(struct load *load, int status, const char *text)
{
	if (load->status < 0)
		return;
	load->status = status;
	snprintf(load->text, sizeof(load->text), "%s", text);
}

static void tell_definitions(const struct load_call *l, const redisReply *reply)
{
	size_t step = table_is_hash(l->table) ? 2 : 1;

	for (size_t i = 0; i + step <= reply->elements; i += step) {
		struct store_definition d = {
			.table = l->table,
			.vhost = { l->vhost, l->vhost_len },
			.name = store_reply_slice(reply->element[i]),
			.value = step == 2 ? store_reply_slice(reply->element[i + 1])
					   : (struct slice){ "", 0 },
		};

		l->load->on_definition(l->load->ctx, &d);
	}
}

static void send_vhosts(const struct load_call *l, const redisReply *reply)
{
	for (size_t i = 0; i < reply->elements; i++)
		for (int table = STORE_EXCHANGES; table < STORE_TABLE_COUNT; table++)
			send_load(l->call.store, l->load, (enum store_table)table,
				  store_reply_slice(reply->element[i]));
}

static void on_load_reply(struct redis_request *request, const redisReply *reply)
{
	struct load_call *l = container_of(request, struct load_call, call.request);
	struct load *load = l->load;
	const char *text;
	int rc = store_reply_status(reply, &text);

	if (rc < 0) {
		fail_load(load, rc, text);
	} else if (reply->type != REDIS_REPLY_ARRAY) {
		fail_load(load, TIDE_ESTORE, "an unexpected reply to a load");
	} else {
		tell_definitions(l, reply);
		if (l->table == STORE_VHOSTS)
			send_vhosts(l, reply);
	}
	store_call_destroy(&l->call);
	if (--load->left > 0)
		return;
	load->on_end(load->ctx, load->status, load->status < 0 ? load->text : NULL);
	mem_free(load);
}

static void send_load(struct store *s, struct load *load, enum store_table table,
		      struct slice vhost)
{
	struct load_call *l = store_call_create(s, sizeof(*l) + vhost.len);

	l->load = load;
	l->table = table;
	l->vhost_len = vhost.len;
	memcpy(l->vhost, vhost.data, vhost.len);
	load->left++;
	resp_array(&l->call.bytes, 2);
	resp_text(&l->call.bytes, table_is_hash(table) ? "HGETALL" : "SMEMBERS");
	write_table_key(&l->call.bytes, table, vhost);
	store_call_send(&l->call, 1, on_load_reply);
}

void store_definition_load(struct store *s, store_definition_fn on_definition,
			   store_done_fn on_end, void *ctx)
{
	struct load *load = mem_zalloc(sizeof(*load));

	load->on_definition = on_definition;
	load->on_end = on_end;
	load->ctx = ctx;
	send_load(s, load, STORE_VHOSTS, (struct slice){ "", 0 });
}
