#include "shared_sync.h"

#include "base/buf.h"
#include "base/mem.h"
#include "host/log.h"
#include "rules/api/shared.h"
#include "broker.h"

#define DOC_SHARED "rules:shared"

#define BATCH_MAX 1000
#define FAILED_REST_MS 1000
#define EXPIRE_MAX 64 /* expired entries that a turn takes back */

static void on_fields(void *ctx, int status, const char *text,
		      const struct store_field *fields, size_t count)
{
	struct broker *b = ctx;
	unsigned unreadable = 0;

	for (size_t i = 0; i < count; i++)
		unreadable += shared_restore(engine_shared(b->engine), fields[i].name,
					     fields[i].value) != TIDE_OK;
	if (unreadable)
		log_error("{tide}:rules:shared: %u entries cannot be read; they are left "
			  "as they are",
			  unreadable);
	if (status == TIDE_OK)
		shared_keep(engine_shared(b->engine));
	b->shared_sync.on_loaded(b->shared_sync.ctx, status, text);
}

void shared_sync_load(struct broker *b, store_done_fn on_loaded, void *ctx)
{
	char name[STORE_CELL_NAME_MAX];

	b->shared_sync.on_loaded = on_loaded;
	b->shared_sync.ctx = ctx;
	store_cell_name(b->store, DOC_SHARED, name);
	store_document_read(b->store, name, on_fields, b);
}

struct gathering {
	struct buf values;
	struct store_field changes[BATCH_MAX]; /* of values: offsets until the end */
	size_t count;
};

static void on_change(void *ctx, struct slice key, struct slice text)
{
	struct gathering *g = ctx;
	struct store_field *c = &g->changes[g->count++];

	/* The buffer may move while it grows. An offset of 0 would be a removal. */
	c->name = key;
	c->value = text;
	if (!text.data)
		return;
	c->value.data = (const char *)buf_len(&g->values) + 1;
	buf_append_slice(&g->values, text);
}

static void resolve(struct gathering *g)
{
	const char *base = buf_slice(&g->values).data;

	for (size_t i = 0; i < g->count; i++)
		if (g->changes[i].value.data)
			g->changes[i].value.data =
				base + (size_t)g->changes[i].value.data - 1;
}

static void on_written(void *ctx, int status, const char *text)
{
	struct broker *b = ctx;
	struct shared_sync *s = &b->shared_sync;

	s->is_sending = false;
	shared_sent(engine_shared(b->engine), status == TIDE_OK);
	/* When a batch was not enough, the next one follows at once: scripts that
	 * keep something of every message would be faster than the rest allows. */
	if (status < 0)
		s->after_ms = b->now_ms + FAILED_REST_MS;
	else
		s->after_ms = b->now_ms + (s->is_behind ? 0 : SHARED_SYNC_REST_MS);
	if (status < 0 && status != TIDE_ESHUTDOWN && !s->has_failed)
		log_error("cannot write tide.shared to Redis, trying again: %s",
			  text ? text : error_text(status));
	else if (status == TIDE_OK && s->has_failed)
		log_info("tide.shared is written to Redis again");
	s->has_failed = status < 0;
}

static void send_batch(struct broker *b)
{
	struct gathering *g = mem_zalloc(sizeof(*g));
	char name[STORE_CELL_NAME_MAX];

	b->shared_sync.is_behind = shared_send(engine_shared(b->engine), BATCH_MAX,
					       on_change, g) == BATCH_MAX;
	resolve(g);
	b->shared_sync.is_sending = true;
	store_cell_name(b->store, DOC_SHARED, name);
	store_document_change(b->store, name, g->changes, g->count, on_written, b);
	buf_deinit(&g->values);
	mem_free(g);
}

void shared_sync_turn(struct broker *b)
{
	struct shared_sync *s = &b->shared_sync;
	struct shared *shared = engine_shared(b->engine);

	shared_expire(shared, engine_now_ms(b->engine), EXPIRE_MAX);
	if (!b->env.store || s->is_sending || !shared_is_dirty(shared))
		return;
	if (b->now_ms < s->after_ms - FAILED_REST_MS)
		s->after_ms = b->now_ms; /* the clock was set back */
	if (b->now_ms >= s->after_ms || (b->is_draining && !s->has_failed))
		send_batch(b);
}

int64_t shared_sync_due_ms(const struct broker *b)
{
	/* A start with broken rules has no engine for a while. */
	if (!b->env.store || !b->engine || b->shared_sync.is_sending ||
	    !shared_is_dirty(engine_shared(b->engine)))
		return 0;
	return b->shared_sync.after_ms > 0 ? b->shared_sync.after_ms : 1;
}

bool shared_sync_is_idle(const struct broker *b)
{
	return b->shared_sync.has_failed || !b->engine ||
	       shared_is_written(engine_shared(b->engine));
}
