#include "store_private.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "resp.h"

#define FREE_BATCHES_MAX 8
#define CONNECT_TIMEOUT_MS 5000
#define COMMAND_TIMEOUT_MS 10000
#define COUNT_MAX 4096

void *store_call_create(struct store *s, size_t size)
{
	struct store_call *call = mem_zalloc(size);

	call->store = s;
	buf_init(&call->bytes);
	return call;
}

void store_call_send(struct store_call *call, unsigned replies, redis_reply_fn on_reply)
{
	struct slice bytes = buf_slice(&call->bytes);

	call->part = uv_buf_init((char *)(uintptr_t)bytes.data, (unsigned)bytes.len);
	call->request.parts = &call->part;
	call->request.part_count = 1;
	call->request.replies = replies;
	call->request.on_reply = on_reply;
	redis_conn_send(call->store->conn, &call->request);
}

void store_call_destroy(struct store_call *call)
{
	buf_deinit(&call->bytes);
	mem_free(call);
}

int store_reply_status(const redisReply *reply, const char **text)
{
	if (!reply) {
		*text = error_text(TIDE_ESHUTDOWN);
		return TIDE_ESHUTDOWN;
	}
	if (reply->type == REDIS_REPLY_ERROR) {
		*text = reply->str;
		return TIDE_ESTORE;
	}
	*text = NULL;
	return TIDE_OK;
}

unsigned store_clamp_count(unsigned count)
{
	return count < 1 ? 1 : count > COUNT_MAX ? COUNT_MAX : count;
}

int64_t store_last_index(int64_t start, unsigned count)
{
	int64_t last = start + (int64_t)count - 1;

	return start < 0 && last >= 0 ? -1 : last;
}

struct store_done_call *store_done_call_create(struct store *s, store_done_fn on_done,
					       void *ctx)
{
	struct store_done_call *d = store_call_create(s, sizeof(*d));

	d->on_done = on_done;
	d->ctx = ctx;
	return d;
}

static void note_reply(struct store_done_call *d, const redisReply *reply)
{
	const char *text;
	int rc = store_reply_status(reply, &text);

	if (rc == TIDE_OK || d->status < 0)
		return;
	d->status = rc;
	d->text = mem_strdup(text);
}

static void forget_replies(struct store_done_call *d)
{
	mem_free(d->text);
	d->text = NULL;
	d->status = TIDE_OK;
}

static void on_done_reply(struct redis_request *request, const redisReply *reply)
{
	struct store_done_call *d =
		container_of(request, struct store_done_call, call.request);

	if (reply && request->answered == 1)
		forget_replies(d); /* the first, perhaps for the second time */
	note_reply(d, reply);
	if (reply && request->answered < request->replies)
		return;
	if (d->on_done)
		d->on_done(d->ctx, d->status, d->text);
	mem_free(d->text);
	store_call_destroy(&d->call);
}

void store_done_call_send(struct store_done_call *d, unsigned replies)
{
	store_call_send(&d->call, replies, on_done_reply);
}

struct batch *store_batch_begin(struct store *s, const struct store_shard *shard)
{
	struct batch *b = s->free_batches;

	if (b) {
		s->free_batches = b->next_free;
		s->free_batch_count--;
	} else {
		b = batch_create();
		b->store = s;
	}
	batch_reset(b, shard_prefix(shard));
	return b;
}

static void give_back_batch(struct batch *b)
{
	struct store *s = b->store;

	if (s->free_batch_count >= FREE_BATCHES_MAX) {
		batch_destroy(b);
		return;
	}
	batch_reset(b, (struct slice){ "", 0 });
	b->next_free = s->free_batches;
	s->free_batches = b;
	s->free_batch_count++;
}

static void on_batch_reply(struct redis_request *request, const redisReply *reply)
{
	struct batch *b = container_of(request, struct batch, request);
	struct batch_result closing = { TIDE_ESHUTDOWN, TIDE_ESHUTDOWN,
					error_text(TIDE_ESHUTDOWN) };

	if (reply)
		batch_reply(b, reply);
	if (reply && request->answered < request->replies)
		return;
	if (b->on_done)
		b->on_done(b->ctx, reply ? batch_end(b) : &closing);
	give_back_batch(b);
}

void store_batch_commit_take(struct batch *b, batch_done_fn on_done, void *ctx)
{
	static char ping[] = "*1\r\n$4\r\nPING\r\n";

	b->on_done = on_done;
	b->ctx = ctx;
	batch_seal(b);
	if (b->request.replies == 0) {
		/* Its completion has its place among the others all the same. */
		b->parts[0] = uv_buf_init(ping, sizeof(ping) - 1);
		b->request.part_count = 1;
		b->request.replies = 1;
	} else {
		b->store->transactions++;
	}
	b->request.on_reply = on_batch_reply;
	redis_conn_send(b->store->conn, &b->request);
}

struct store_shard *store_shard_create(struct store *s, struct slice vhost,
				       struct slice queue, unsigned index)
{
	struct buf prefix;

	buf_init(&prefix);
	layout_shard_prefix(&prefix, vhost, queue, index);
	struct slice text = buf_slice(&prefix);
	struct store_shard *shard = mem_alloc(sizeof(*shard) + text.len);
	shard->prefix_len = text.len;
	memcpy(shard->prefix, text.data, text.len);
	buf_deinit(&prefix);
	return shard;
}

void store_shard_destroy(struct store_shard *shard)
{
	mem_free(shard);
}

void store_shard_erase(struct store *s, const struct store_shard *shard,
		       store_done_fn on_done, void *ctx)
{
	struct store_done_call *d = store_done_call_create(s, on_done, ctx);
	struct buf *out = &d->call.bytes;

	resp_array(out, 1 + LAYOUT_KEY_COUNT);
	resp_text(out, "UNLINK");
	for (int key = 0; key < LAYOUT_KEY_COUNT; key++)
		layout_resp_key(out, shard_prefix(shard), (enum layout_key)key);
	store_done_call_send(d, 1);
}

static void tell_state(void *ctx, enum store_state state, const char *why)
{
	struct store *s = ctx;

	if (s->is_closing)
		return;
	s->state = state;
	if (state == STORE_UP && s->child)
		redis_child_set_answered(s->child, redis_conn_hello(s->conn)->process_id);
	s->hooks.on_state(s->hooks.ctx, state, why);
}

static int before_connect(void *ctx, struct error *err)
{
	struct store *s = ctx;

	/* A Redis that dies while the broker stops is not started again. */
	if (!s->child || s->is_closing)
		return TIDE_OK;
	return redis_child_ensure(s->child, err);
}

static void on_none_timer(uv_timer_t *timer)
{
	tell_state(timer->data, STORE_UP, "messages are kept in memory alone");
}

static void open_none(struct store *s)
{
	snprintf(s->address, sizeof(s->address), "memory");
	uv_timer_init(s->loop, &s->none_timer);
	s->none_timer.data = s;
	uv_timer_start(&s->none_timer, on_none_timer, 0, 0);
}

static void open_conn(struct store *s)
{
	struct redis_conn_config config = {
		.url = &s->url,
		.address = s->address,
		.set_fsync = s->child ? redis_child_fsync(s->child) : NULL,
		.connect_timeout_ms = s->config.connect_timeout_ms,
		.command_timeout_ms = s->config.command_timeout_ms,
		.is_patient = s->child != NULL,
	};
	struct redis_conn_hooks hooks = {
		.ctx = s,
		.before_connect = before_connect,
		.on_state = tell_state,
	};

	s->conn = redis_conn_create(s->loop, &config, &hooks);
}

static int open_embedded(struct store *s, struct error *err)
{
	const char *data_dir = s->config.data_dir;

	if (!data_dir || !*data_dir)
		return error_set(err, TIDE_ESYNTAX, "--store embedded needs --data DIR");
	int rc = redis_child_create(&s->child, data_dir, s->config.fsync, err);
	if (rc < 0)
		return rc;
	s->url.at.path = mem_strdup(redis_child_socket(s->child));
	snprintf(s->address, sizeof(s->address), "unix:%s/redis.sock", data_dir);
	return TIDE_OK;
}

static void name_address(struct store *s)
{
	char address[URL_ADDRESS_MAX];

	url_address(&s->url.at, address);
	snprintf(s->address, sizeof(s->address), "%s%.250s",
		 s->url.at.path ? "unix:" : "", address);
}

static void store_free(struct store *s)
{
	struct batch *b;

	while ((b = s->free_batches)) {
		s->free_batches = b->next_free;
		batch_destroy(b);
	}
	redis_url_deinit(&s->url);
	mem_free(s);
}

static int open_kind(struct store *s, struct error *err)
{
	int rc = redis_url_parse(s->config.url, &s->url, err);

	if (rc < 0)
		return rc;
	if (s->url.kind == REDIS_URL_NONE) {
		open_none(s);
		return TIDE_OK;
	}
	if (s->url.kind == REDIS_URL_EMBEDDED) {
		rc = open_embedded(s, err);
		if (rc < 0)
			return rc;
	} else {
		name_address(s);
	}
	open_conn(s);
	return TIDE_OK;
}

int store_open(struct store **out, uv_loop_t *loop, const struct store_config *config,
	       const struct store_hooks *hooks, struct error *err)
{
	struct store *s = mem_zalloc(sizeof(*s));

	s->loop = loop;
	s->config = *config;
	s->hooks = *hooks;
	s->state = STORE_STARTING;
	if (s->config.connect_timeout_ms <= 0)
		s->config.connect_timeout_ms = CONNECT_TIMEOUT_MS;
	if (s->config.command_timeout_ms <= 0)
		s->config.command_timeout_ms = COMMAND_TIMEOUT_MS;
	int rc = open_kind(s, err);
	if (rc < 0) {
		store_free(s);
		return rc;
	}
	s->config.url = s->config.data_dir = NULL;
	*out = s;
	return TIDE_OK;
}

static void end(void *ctx)
{
	struct store *s = ctx;
	void (*on_closed)(void *ctx) = s->on_closed;
	void *closed_ctx = s->closed_ctx;

	store_free(s);
	on_closed(closed_ctx);
}

static void on_none_closed(uv_handle_t *handle)
{
	end(handle->data);
}

static void on_conn_closed(void *ctx)
{
	struct store *s = ctx;

	s->conn = NULL;
	if (!s->child) {
		end(s);
		return;
	}
	redis_child_stop(s->child, s->loop, end, s);
	if (s->is_hurried)
		redis_child_hurry(s->child);
}

void store_close(struct store *s, int64_t grace_ms, void (*on_closed)(void *ctx),
		 void *ctx)
{
	s->is_closing = true;
	s->on_closed = on_closed;
	s->closed_ctx = ctx;
	if (s->conn)
		redis_conn_close(s->conn, grace_ms, on_conn_closed, s);
	else
		uv_close((uv_handle_t *)&s->none_timer, on_none_closed);
}

void store_hurry(struct store *s)
{
	s->is_hurried = true;
	if (s->conn)
		redis_conn_hurry(s->conn);
	else if (s->child)
		redis_child_hurry(s->child);
}

bool store_is_durable(const struct store *s)
{
	return s->url.kind != REDIS_URL_NONE;
}

size_t store_body_max(const struct store *s)
{
	return s->conn ? redis_conn_hello(s->conn)->word_max : SIZE_MAX;
}

enum store_state store_state(const struct store *s)
{
	return s->state;
}

void store_stats(const struct store *s, struct store_stats *out)
{
	static const char *const kinds[] = {
		[REDIS_URL_NONE] = "none",
		[REDIS_URL_EMBEDDED] = "embedded",
		[REDIS_URL_TCP] = "redis",
		[REDIS_URL_UNIX] = "redis",
	};

	*out = (struct store_stats){ .kind = kinds[s->url.kind] };
	snprintf(out->address, sizeof(out->address), "%s", s->address);
	out->transactions = s->transactions;
	if (!s->conn)
		return;
	const struct redis_conn_stats *stats = redis_conn_stats(s->conn);
	snprintf(out->version, sizeof(out->version), "%s",
		 redis_conn_hello(s->conn)->version);
	out->requests = stats->requests;
	out->reconnects = stats->reconnects;
	out->bytes_sent = stats->bytes_sent;
	out->pending_requests = stats->pending_requests;
	out->pending_bytes = stats->pending_bytes;
}
