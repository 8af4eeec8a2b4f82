#include "store.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "host/log.h"
#include "store_private.h"

#define FREE_BATCHES_MAX 8
#define COUNT_MAX 4096

void *store_call_create(struct store *s, struct store_shard *shard, size_t size,
			store_reply_fn on_reply, void *ctx)
{
	struct store_call *call = mem_zalloc(size);

	call->store = s;
	call->shard = shard;
	call->request.slot = shard ? shard->slot : LAYOUT_META_SLOT;
	if (shard)
		shard->refs++;
	call->on_reply = on_reply;
	call->ctx = ctx;
	return call;
}

struct store_call *store_call_begin(struct store *s, struct store_shard *shard,
				    store_reply_fn on_reply, store_tell_fn tell,
				    void *ctx)
{
	struct store_call *call =
		store_call_create(s, shard, sizeof(*call), on_reply, ctx);

	call->tell = tell;
	return call;
}

void store_call_add(struct store_call *call, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	resp_command(&call->bytes, format, args);
	va_end(args);
	call->request.replies++;
}

struct buf *store_call_add_words(struct store_call *call, const char *verb, size_t words)
{
	resp_array(&call->bytes, 1 + words);
	resp_text(&call->bytes, verb);
	call->request.replies++;
	return &call->bytes;
}

struct buf *store_call_add_script(struct store_call *call, struct slice script,
				  size_t keys, size_t words)
{
	struct buf *out = store_call_add_words(call, "EVAL", 2 + keys + words);

	resp_bulk(out, script);
	resp_number(out, keys);
	return out;
}

void store_call_fail(struct store_call *call, int code, const char *text)
{
	if (call->err.code == TIDE_OK)
		error_set(&call->err, code, "%s", text);
}

const char *store_call_text(const struct store_call *call)
{
	return call->err.code < 0 ? call->err.text : NULL;
}

static bool check_reply(struct store_call *call, const redisReply *reply)
{
	/* After a reconnect the replies come again from the first. */
	if (!reply || call->request.answered == 1)
		call->err.code = TIDE_OK;
	if (!reply)
		store_call_fail(call, TIDE_ESHUTDOWN, error_text(TIDE_ESHUTDOWN));
	else if (reply->type == REDIS_REPLY_ERROR)
		store_call_fail(call, TIDE_ESTORE, reply->str);
	else if (call->type && reply->type != call->type)
		store_call_fail(call, TIDE_ESTORE, "an unexpected reply from Redis");
	else
		return true;
	return false;
}

static void store_call_free(struct store_call *call)
{
	store_shard_destroy(call->shard);
	buf_deinit(&call->bytes);
	mem_free(call);
}

static void on_call_reply(struct redis_request *request, const redisReply *reply)
{
	struct store_call *call = container_of(request, struct store_call, request);
	bool is_last = !reply || request->answered == request->replies;

	call->on_reply(call, check_reply(call, reply) ? reply : NULL, is_last);
	if (is_last)
		store_call_free(call);
}

void store_call_send_parts(struct store_call *call, int type, const uv_buf_t *parts,
			   unsigned count)
{
	call->type = type;
	call->request.parts = parts;
	call->request.part_count = count;
	call->request.on_reply = on_call_reply;
	if (call->is_ahead)
		redis_lanes_send(call->store->lanes, &call->request);
	else
		store_send(call->store, &call->request);
}

void store_call_send(struct store_call *call, int type)
{
	call->part = redis_request_part(buf_slice(&call->bytes));
	store_call_send_parts(call, type, &call->part, 1);
}

void store_call_drop(struct store_call *call, const struct error *err)
{
	call->err = *err;
	call->on_reply(call, NULL, true);
	store_call_free(call);
}

void store_call_check_exec(struct store_call *call, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ARRAY) {
		store_call_fail(call, TIDE_ESTORE, "EXEC was not answered with an array");
		return;
	}
	for (size_t i = 0; i < reply->elements; i++)
		if (reply->element[i]->type == REDIS_REPLY_ERROR)
			store_call_fail(call, TIDE_ESTORE, reply->element[i]->str);
}

unsigned store_clamp_count(unsigned count)
{
	return count < 1 ? 1 : count > COUNT_MAX ? COUNT_MAX : count;
}

long long store_last_index(int64_t start, unsigned count)
{
	int64_t last = start + (int64_t)store_clamp_count(count) - 1;

	return start < 0 && last >= 0 ? -1 : last;
}

static void on_done_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	if (reply && reply->type == REDIS_REPLY_ARRAY)
		store_call_check_exec(call, reply);
	if (is_last && call->tell)
		CALL_TELL(call, store_done_fn);
}

struct store_call *store_done_call_create(struct store *s, struct store_shard *shard,
					  store_done_fn on_done, void *ctx)
{
	struct store_call *call =
		store_call_begin(s, shard, on_done_reply, (store_tell_fn)on_done, ctx);

	call->request.is_write = true;
	return call;
}

static void on_count_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	CALL_TELL(call, store_purged_fn, reply ? (uint64_t)reply->integer : 0);
}

struct store_call *store_count_call_create(struct store *s, struct store_shard *shard,
					   store_purged_fn on_count, void *ctx)
{
	struct store_call *call =
		store_call_begin(s, shard, on_count_reply, (store_tell_fn)on_count, ctx);

	call->request.is_write = true;
	return call;
}

struct batch *store_batch_begin(struct store *s, struct store_shard *shard)
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
	b->request.slot = shard->slot;
	return b;
}

void store_batch_give_back(struct batch *b)
{
	struct store *s = b->store;

	if (s->free_batch_count >= FREE_BATCHES_MAX) {
		batch_destroy(b);
		return;
	}
	batch_reset(b, SLICE(""));
	b->next_free = s->free_batches;
	s->free_batches = b;
	s->free_batch_count++;
}

static void on_batch_reply(struct redis_request *request, const redisReply *reply)
{
	struct batch *b = container_of(request, struct batch, request);

	if (reply)
		batch_reply(b, reply);
	else
		b->result = (struct batch_result){ TIDE_ESHUTDOWN, TIDE_ESHUTDOWN,
						   error_text(TIDE_ESHUTDOWN), true };
	b->result.is_unsure |= request->was_lost;
	if (reply && request->answered < request->replies)
		return;
	if (b->on_done)
		b->on_done(b->ctx, &b->result);
	store_batch_give_back(b);
}

void store_batch_commit_take(struct batch *b, batch_done_fn on_done, void *ctx)
{
	static char ping[] = "*1\r\n$4\r\nPING\r\n";

	b->on_done = on_done;
	b->ctx = ctx;
	batch_seal(b);
	b->request.is_write = b->request.replies > 0;
	if (!b->request.is_write) {
		/* An empty batch has its place among the others all the same. */
		b->parts[0] = uv_buf_init(ping, sizeof(ping) - 1);
		b->request.part_count = 1;
		b->request.replies = 1;
	} else {
		b->store->transactions++;
	}
	b->request.on_reply = on_batch_reply;
	store_send(b->store, &b->request);
}

struct store_shard *store_shard_create(struct slice vhost, struct slice queue,
				       unsigned index)
{
	struct store_shard *shard;
	struct buf prefix = { 0 };

	layout_shard_prefix(&prefix, vhost, queue, index);
	shard = mem_alloc(sizeof(*shard) + buf_len(&prefix) + 1);
	shard->refs = 1;
	shard->slot = layout_slot(buf_slice(&prefix));
	shard->prefix_len = buf_len(&prefix);
	memcpy(shard->prefix, buf_cstr(&prefix), shard->prefix_len + 1);
	buf_deinit(&prefix);
	return shard;
}

void store_shard_destroy(struct store_shard *shard)
{
	if (shard && --shard->refs == 0)
		mem_free(shard);
}

const char *store_shard_prefix(const struct store_shard *shard)
{
	return shard->prefix;
}

unsigned store_lane(const struct store *s, const struct store_shard *shard)
{
	return redis_lanes_of(s->lanes, shard->slot);
}

unsigned store_lanes(const struct store *s)
{
	return s->lanes ? (unsigned)s->lanes->count : 0;
}

unsigned store_meta_lane(const struct store *s)
{
	return s->lanes ? redis_lanes_meta_index(s->lanes) : 0;
}

bool store_is_held(const struct store *s, const struct store_shard *shard)
{
	return s->lanes->is_cluster && s->lanes->slots.slots[shard->slot].held;
}

bool store_holds_any(const struct store *s)
{
	return s->lanes->is_cluster && !TAILQ_EMPTY(&s->lanes->slots.held);
}

bool store_lane_is_away(const struct store *s, unsigned lane)
{
	const struct redis_conn *c = s->lanes->lanes[lane]->conn;

	return c && (c->state == STORE_DOWN || c->is_held || redis_conn_is_silent(c));
}

/* With braces around more than one statement. */
#define EACH_CONN(s, c)                                                              \
	for (size_t c##_i = 0; (s)->lanes && c##_i < (s)->lanes->count; c##_i++)     \
		for (const struct redis_conn *c = (s)->lanes->lanes[c##_i]->conn; c; \
		     c = NULL)

/* The first connection: that of a single Redis. */
static struct redis_conn *first_conn(const struct store *s)
{
	return s->lanes ? s->lanes->lanes[0]->conn : NULL;
}

static void tell_state(void *ctx, enum store_state state, const char *why)
{
	struct store *s = ctx;

	if (s->is_closing)
		return;
	s->state = state;
	if (state == STORE_UP && s->child)
		redis_child_set_answered(s->child, first_conn(s)->hello.process_id);
	s->hooks.on_state(s->hooks.ctx, state, why);
}

static void tell_gap(void *ctx, unsigned lane)
{
	struct store *s = ctx;

	if (s->hooks.on_gap && !s->is_closing)
		s->hooks.on_gap(s->hooks.ctx, lane);
}

static void tell_heard(void *ctx, uint64_t now_ns)
{
	struct store *s = ctx;

	if (s->hooks.on_heard && !s->is_closing)
		s->hooks.on_heard(s->hooks.ctx, now_ns);
}

/* Other files may lie there by now. What the system trusts is read once: it takes long.
 */
static int read_tls_files(struct store *s, struct error *err)
{
	const struct tls_files files = { s->url.cert, s->url.key, s->url.ca };
	struct tls_context *fresh;
	int rc;

	if (s->tls && !files.ca)
		return TIDE_OK;
	rc = tls_context_create_client(&files, &fresh, err);
	if (rc < 0 && s->tls) {
		log_debug("store: %s; the files read before are used", err->text);
		return TIDE_OK;
	}
	if (rc < 0)
		return rc;
	tls_context_unref(s->tls);
	s->tls = fresh;
	return TIDE_OK;
}

/* A Redis that dies while the broker stops is not started again. */
static int make_ready(struct store *s, struct error *err)
{
	if (s->url.is_tls)
		return read_tls_files(s, err);
	return s->child && !s->is_closing ? redis_child_ensure(s->child, err) : TIDE_OK;
}

static void write_address(struct store *s)
{
	char address[URL_ADDRESS_MAX];

	url_address(&s->url.at, address);
	snprintf(s->address, sizeof(s->address), "%s%.250s",
		 s->url.at.path ? "unix:" : "", address);
}

/* Any node of a cluster tells the others. */
static void try_next_host(struct store *s)
{
	const struct url *host = &s->url.hosts[s->next_host++ % s->url.host_count];

	redis_url_set_host(&s->url, host->host, host->port);
	write_address(s);
}

static void before_connect(void *ctx, struct redis_conn *conn)
{
	struct store *s = ctx;
	struct error err;

	if (s->url.kind == REDIS_URL_TCP && s->url.host_count > 1 &&
	    !s->lanes->is_cluster)
		try_next_host(s);
	if (make_ready(s, &err) < 0)
		redis_conn_cannot_connect(conn, err.text, NULL);
	else if (s->sentinel)
		sentinel_ask(s->sentinel, s->tls);
	else
		redis_conn_connect(conn, s->tls);
}

static void on_master_found(void *ctx, const char *host, unsigned port)
{
	struct store *s = ctx;

	if (!first_conn(s))
		return;
	redis_url_set_host(&s->url, host, port);
	write_address(s);
	redis_conn_connect(first_conn(s), s->tls);
}

static void on_master_failed(void *ctx, const char *why)
{
	struct store *s = ctx;

	if (first_conn(s))
		redis_conn_cannot_connect(
			first_conn(s), why,
			"no Sentinel names a master: see that the Sentinels of --store "
			"run, and monitor the name that it has; the log says more");
}

static void on_master_moved(void *ctx, const char *host, unsigned port)
{
	struct store *s = ctx;
	char why[ERROR_TEXT_MAX];

	snprintf(why, sizeof(why), "the Sentinels name another master, %s port %u", host,
		 port);
	if (first_conn(s))
		redis_conn_leave(first_conn(s), why);
}

static void on_none_timer(uv_timer_t *timer)
{
	tell_state(timer->data, STORE_UP, "messages are kept in memory only");
}

static void open_conn(struct store *s)
{
	struct redis_conn_config config = {
		.url = &s->url,
		.address = s->address,
		.set_fsync = s->child ? redis_child_fsync(s->child) : NULL,
		.connect_timeout_ms = s->config.connect_timeout_ms,
		.command_timeout_ms = s->config.command_timeout_ms,
		.is_patient = s->child || s->sentinel || s->url.host_count > 1,
		.hold = s->config.hold,
		.node = s->config.node,
		.cells = s->config.cells,
		.at = s->config.at,
		.is_sole = s->child != NULL,
		.confirm = &s->confirm,
	};
	struct redis_lanes_hooks hooks = {
		.ctx = s,
		.before_connect = before_connect,
		.on_state = tell_state,
		.on_heard = tell_heard,
		.on_gap = tell_gap,
	};

	s->lanes = redis_lanes_create(s->loop, &config, &s->tls, &hooks);
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

static void store_free(struct store *s)
{
	struct batch *b;

	while ((b = s->free_batches)) {
		s->free_batches = b->next_free;
		batch_destroy(b);
	}
	redis_url_deinit(&s->url);
	tls_context_unref(s->tls);
	mem_free(s);
}

int store_confirm_parse(const char *text, struct store_confirm *out, struct error *err)
{
	const char *number = strchr(text, '=');
	struct slice word = { text, number ? (size_t)(number - text) : strlen(text) };
	uint64_t replicas = 0;

	*out = (struct store_confirm){ .is_synced = slice_is(word, "synced") };
	if (!number && slice_is(word, "master"))
		return TIDE_OK;
	if (number && (out->is_synced || slice_is(word, "replicas")) &&
	    slice_to_uint(slice_from(number + 1), STORE_CONFIRM_REPLICAS_MAX,
			  &replicas) &&
	    replicas > 0) {
		out->replicas = (unsigned)replicas;
		return TIDE_OK;
	}
	return error_set(err, TIDE_ESYNTAX,
			 "--confirm must be master, replicas=N or synced=N with N from 1 "
			 "to %d, not '%s'",
			 STORE_CONFIRM_REPLICAS_MAX, text);
}

static void write_level(struct redis_confirm_level *level)
{
	if (level->is.replicas == 0)
		snprintf(level->text, sizeof(level->text), "master");
	else
		snprintf(level->text, sizeof(level->text), "%s=%u",
			 level->is.is_synced ? "synced" : "replicas", level->is.replicas);
}

void store_confirm_begin(struct store *s)
{
	s->confirm.is_begun = s->confirm.is.replicas > 0;
}

const char *store_confirm_level(const struct store *s)
{
	return store_is_durable(s) ? s->confirm.text : "none";
}

static void open_sentinel(struct store *s)
{
	struct sentinel_hooks hooks = {
		.ctx = s,
		.on_found = on_master_found,
		.on_failed = on_master_failed,
		.on_moved = on_master_moved,
	};

	snprintf(s->address, sizeof(s->address), "%.200s (Sentinel)", s->url.name);
	s->sentinel =
		sentinel_create(s->loop, &s->url, s->config.connect_timeout_ms, &hooks);
}

static int open_kind(struct store *s, struct error *err)
{
	int rc = redis_url_parse(s->config.url, &s->url, err);

	if (rc < 0)
		return rc;
	if (s->url.kind == REDIS_URL_NONE) {
		snprintf(s->address, sizeof(s->address), "memory");
		uv_timer_init(s->loop, &s->none_timer);
		s->none_timer.data = s;
		uv_timer_start(&s->none_timer, on_none_timer, 0, 0);
		return TIDE_OK;
	}
	if (s->url.kind == REDIS_URL_EMBEDDED) {
		rc = open_embedded(s, err);
		if (rc < 0)
			return rc;
	} else if (s->url.kind == REDIS_URL_SENTINEL) {
		open_sentinel(s);
	} else {
		write_address(s);
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
	TAILQ_INIT(&s->parts);
	s->confirm.is = config->confirm;
	write_level(&s->confirm);
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

static void on_lanes_closed(void *ctx)
{
	struct store *s = ctx;

	s->lanes = NULL;
	/* The store is gone with its end. */
	if (s->sentinel) {
		sentinel_close(s->sentinel, end, s);
		return;
	}
	if (!s->child) {
		end(s);
		return;
	}
	redis_child_stop(s->child, s->loop, end, s);
	if (s->is_hurried)
		redis_child_hurry(s->child, 0);
	else if (s->close_by_ms)
		redis_child_hurry(s->child, (int64_t)(s->close_by_ms - uv_now(s->loop)));
}

/* The last request. Without an answer the lease lapses by itself. */
static void release(struct store *s)
{
	struct store_call *call;

	const struct redis_conn *meta = redis_lanes_meta(s->lanes);

	if (!meta || meta->phase != PHASE_UP || s->config.hold == STORE_HOLD_NONE)
		return;
	call = store_done_call_create(s, NULL, NULL, NULL);
	redis_holder_release(&meta->holder, &call->bytes);
	call->request.replies++;
	call->request.is_write = false; /* nobody is told: no replica is waited for */
	store_call_send(call, 0);
}

void store_close(struct store *s, int64_t grace_ms, void (*on_closed)(void *ctx),
		 void *ctx)
{
	s->is_closing = true;
	s->on_closed = on_closed;
	s->closed_ctx = ctx;
	if (grace_ms > 0)
		s->close_by_ms = uv_now(s->loop) + (uint64_t)grace_ms;
	if (s->lanes) {
		release(s);
		store_transactions_hurry(s);
		redis_lanes_close(s->lanes, grace_ms, on_lanes_closed, s);
	} else {
		uv_close((uv_handle_t *)&s->none_timer, on_none_closed);
	}
}

void store_hurry(struct store *s)
{
	s->is_hurried = true;
	if (s->lanes)
		redis_lanes_hurry(s->lanes);
	else if (s->child)
		redis_child_hurry(s->child, 0);
}

bool store_is_durable(const struct store *s)
{
	return s->url.kind != REDIS_URL_NONE;
}

size_t store_body_max(const struct store *s)
{
	size_t max = SIZE_MAX;

	EACH_CONN(s, c)
	if (c->hello.word_max < max)
		max = c->hello.word_max;
	return max;
}

enum store_state store_state(const struct store *s)
{
	return s->state;
}

bool store_has_trouble(const struct store *s, enum store_trouble kind)
{
	EACH_CONN(s, c)
	if (redis_trouble_has(&c->trouble, kind))
		return true;
	return false;
}

const char *store_trouble_text(const struct store *s, enum store_trouble kind)
{
	EACH_CONN(s, c)
	if (redis_trouble_has(&c->trouble, kind))
		return redis_trouble_text(&c->trouble, kind);
	return "";
}

const char *store_unfit(const struct store *s)
{
	EACH_CONN(s, c)
	if (c->state == STORE_DOWN && c->hello.verdict != REDIS_HELLO_OK)
		return c->hello.reason;
	return NULL;
}

int64_t store_tls_until_unix_ms(const struct store *s)
{
	return s->tls ? tls_context_until_unix_ms(s->tls) : 0;
}

const char *store_trouble_now(const struct store *s)
{
	const char *unfit = store_unfit(s);
	int kind = 0;

	if (unfit)
		return unfit;
	while (kind < STORE_TROUBLES && !store_has_trouble(s, (enum store_trouble)kind))
		kind++;
	if (kind == STORE_TROUBLES)
		return "";
	EACH_CONN(s, c)
	if (kind == STORE_TROUBLE_TYPE && c->trouble.key.found[0])
		return c->trouble.key.text;
	return store_trouble_text(s, (enum store_trouble)kind);
}

static const char *const state_names[] = { "starting", "up", "down", "stale", "failed" };

static const char *conn_state_name(const struct redis_conn *c)
{
	if (c->state != STORE_UP)
		return state_names[c->state];
	if (redis_trouble_has(&c->trouble, STORE_TROUBLE_SILENT))
		return "silent";
	if (redis_trouble_has(&c->trouble, STORE_TROUBLE_UNCONFIRMED))
		return "unconfirmed";
	for (int kind = 0; kind < STORE_REFUSALS; kind++)
		if (redis_trouble_has(&c->trouble, (enum store_trouble)kind) &&
		    store_trouble_is_total((enum store_trouble)kind))
			return "refusing";
	return state_names[STORE_UP];
}

const char *store_state_name(const struct store *s)
{
	EACH_CONN(s, c)
	if (s->state == STORE_UP && c->state == STORE_UP &&
	    conn_state_name(c) != state_names[STORE_UP])
		return conn_state_name(c);
	return state_names[s->state];
}

/* The answer comes behind those to what was asked of a refused request. */
static void on_asked(struct store_call *call, const redisReply *reply, bool is_last)
{
	const char *text = store_trouble_now(call->store);

	CALL_TELLER(call, store_done_fn)
	(call->ctx, call->err.code, text[0] ? text : NULL);
}

void store_trouble_ask(struct store *s, store_done_fn on_done, void *ctx)
{
	struct store_call *call =
		store_call_begin(s, NULL, on_asked, (store_tell_fn)on_done, ctx);

	store_call_add(call, "PING");
	store_call_send(call, 0);
}

/* One without a limit makes all of them have none. */
static void add_memory(const struct store *s, struct store_stats *out)
{
	bool is_limited = true;

	EACH_CONN(s, c)
	{
		double bytes = (double)c->stats.memory_bytes;
		uint64_t max = c->stats.memory_max_bytes;

		out->memory_bytes += c->stats.memory_bytes;
		out->memory_max_bytes += max;
		is_limited = is_limited && max > 0;
		if (max > 0 && bytes * 100 / (double)max > out->memory_percent)
			out->memory_percent = bytes * 100 / (double)max;
	}
	if (!is_limited)
		out->memory_max_bytes = 0;
}

static void read_master(const struct redis_conn *c, struct store_master *out)
{
	const struct store_stats *st = &c->stats;
	bool is_silent = redis_trouble_has(&c->trouble, STORE_TROUBLE_SILENT);

	out->state = conn_state_name(c);
	out->is_up = c->state == STORE_UP && !is_silent;
	out->is_away = c->state == STORE_DOWN || is_silent;
	out->replicas = c->replay.replicas;
	out->lag_bytes = c->replay.lag;
	out->pending_requests = st->pending_requests;
	out->pending_bytes = st->pending_bytes;
	out->reconnects = st->reconnects;
	out->memory_bytes = st->memory_bytes;
	out->memory_max_bytes = st->memory_max_bytes;
	if (st->round_trip.count > 0)
		out->round_trip_ns = st->round_trip.sum / st->round_trip.count;
}

bool store_master_next(const struct store *s, unsigned *place, struct store_master *out)
{
	const struct redis_lane *lane;

	do {
		if (!s->lanes || *place >= s->lanes->count)
			return false;
		lane = s->lanes->lanes[(*place)++];
	} while (s->lanes->is_cluster && lane->slot_count == 0);
	*out = (struct store_master){
		.address = s->lanes->is_cluster ? lane->address : s->address,
		.state = state_names[STORE_STARTING],
		.slots = lane->slot_count,
	};
	if (lane->conn)
		read_master(lane->conn, out);
	return true;
}

static const struct redis_cells *cells_of(const struct store *s)
{
	return s && s->lanes && s->lanes->self.cells.wanted > 1 ? &s->lanes->self.cells
								: NULL;
}

unsigned store_cells(const struct store *s)
{
	return cells_of(s) ? cells_of(s)->wanted : 1;
}

unsigned store_cell(const struct store *s)
{
	if (cells_of(s))
		return cells_of(s)->own;
	return s && s->lanes && s->lanes->self.owner.incarnation[0] ? STORE_NO_CELL : 0;
}

unsigned store_cell_of(const struct store *s, struct slice vhost)
{
	return cells_of(s) ? redis_cells_of(cells_of(s), vhost) : 0;
}

bool store_is_placed(const struct store *s, struct slice vhost)
{
	return cells_of(s) && redis_cells_place_of(cells_of(s), vhost) != STORE_NO_CELL;
}

bool store_has_vhost(const struct store *s, struct slice vhost)
{
	return !cells_of(s) || redis_cells_of(cells_of(s), vhost) == cells_of(s)->own;
}

uint64_t store_number(const struct store *s, uint64_t n)
{
	return cells_of(s) ? n * STORE_CELLS_MAX + cells_of(s)->own : n;
}

void store_cell_name(const struct store *s, const char *name,
		     char out[STORE_CELL_NAME_MAX])
{
	unsigned cell = cells_of(s) ? cells_of(s)->own : 0;

	if (cell == 0)
		snprintf(out, STORE_CELL_NAME_MAX, "%s", name);
	else
		snprintf(out, STORE_CELL_NAME_MAX, "%s:%u", name, cell);
}

uint64_t store_changes(const struct store *s, enum store_change what)
{
	const struct redis_cells *cells = cells_of(s);

	if (!cells)
		return 0;
	return what == STORE_CHANGE_USERS   ? cells->users
	       : what == STORE_CHANGE_RULES ? cells->rules
					    : cells->places;
}

/* NULL: there is no such cell, or it has no owner. */
static const struct redis_cell *owned_cell(const struct store *s, unsigned cell)
{
	const struct redis_cells *cells = cells_of(s);

	return cells && cell < cells->count && !cells->cells[cell].is_free &&
			       cells->cells[cell].record.incarnation[0]
		       ? &cells->cells[cell]
		       : NULL;
}

void store_count_rules(struct store *s)
{
	struct store_call *call;

	if (!cells_of(s))
		return;
	call = store_done_call_create(s, NULL, NULL, NULL);
	store_call_add(call, "HINCRBY " LAYOUT_CLUSTER_KEY " rules 1");
	store_call_send(call, 0);
}

bool store_has_others(const struct store *s)
{
	for (unsigned k = 0; k < store_cells(s); k++)
		if (k != store_cell(s) && owned_cell(s, k))
			return true;
	return false;
}

uint64_t store_cell_vacant_ms(const struct store *s, unsigned cell)
{
	const struct redis_cells *cells = cells_of(s);
	uint64_t since_ms =
		cells && cell < cells->count ? cells->cells[cell].free_since_ms : 0;

	return since_ms ? (uint64_t)machine_clock_ms(CLOCK_MONOTONIC) - since_ms + 1 : 0;
}

void store_membership(const struct store *s, unsigned cell, struct store_membership *out)
{
	const struct redis_self *self = s && s->lanes ? &s->lanes->self : NULL;
	const struct redis_cell *owned = owned_cell(s, cell);
	const struct redis_holder_record *owner = NULL;

	*out = (struct store_membership){ "", "", "", "", 0 };
	if (!self || !self->at)
		return;
	out->self = self->incarnation;
	out->secret = self->secret;
	if (owned && cell != self->cells.own)
		owner = &owned->record;
	else if (!cells_of(s) && self->owner.incarnation[0])
		owner = &self->owner;
	if (!owner)
		return;
	out->owner = owner->incarnation;
	out->owner_at = owner->at;
	out->owner_node = owner->node;
}

void store_stats(const struct store *s, struct store_stats *out)
{
	static const char *const kinds[] = {
		[REDIS_URL_NONE] = "none",         [REDIS_URL_EMBEDDED] = "embedded",
		[REDIS_URL_TCP] = "redis",         [REDIS_URL_UNIX] = "redis",
		[REDIS_URL_SENTINEL] = "sentinel",
	};
	const struct redis_conn *meta = s->lanes ? redis_lanes_meta(s->lanes) : NULL;

	*out = (struct store_stats){ 0 };
	if (s->lanes)
		redis_lanes_stats(s->lanes, out);
	out->kind = s->lanes && s->lanes->is_cluster ? "cluster" : kinds[s->url.kind];
	out->transactions = s->transactions;
	if (s->sentinel)
		sentinel_count(s->sentinel, &out->sentinels, &out->sentinels_known);
	add_memory(s, out);
	snprintf(out->address, sizeof(out->address), "%s", s->address);
	if (meta)
		snprintf(out->version, sizeof(out->version), "%s", meta->hello.version);
}

struct memory_call {
	struct store_call call;
	struct redis_lane *lane;
};

static void on_info(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct redis_lane *lane = container_of(call, struct memory_call, call)->lane;
	struct slice info;

	lane->is_memory_asked = false;
	if (!reply || !lane->conn)
		return;
	info = store_reply_slice(reply);
	lane->conn->stats.memory_bytes = resp_info_number(info, "used_memory");
	lane->conn->stats.memory_max_bytes = resp_info_number(info, "maxmemory");
}

static void ask_memory(struct store *s, struct redis_lane *lane, unsigned slot)
{
	struct memory_call *m = store_call_create(s, NULL, sizeof(*m), on_info, NULL);

	lane->is_memory_asked = true;
	m->lane = lane;
	m->call.request.slot = slot;
	store_call_add(&m->call, "INFO memory");
	store_call_send(&m->call, REDIS_REPLY_STRING);
}

void store_memory_ask(struct store *s)
{
	if (!s->lanes || s->is_closing)
		return;
	for (unsigned slot = redis_lanes_first_slot(s->lanes, 0); slot < LAYOUT_SLOTS;
	     slot = redis_lanes_first_slot(s->lanes, slot + 1)) {
		struct redis_lane *lane = s->lanes->lanes[redis_lanes_of(s->lanes, slot)];

		if (lane->conn && lane->state == STORE_UP && !lane->is_memory_asked)
			ask_memory(s, lane, slot);
	}
}
