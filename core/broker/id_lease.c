#include "id_lease.h"

#include "base/decimal.h"
#include "host/log.h"
#include "broker.h"

#define DOC_IDS "ids"

/* How far the mark is ahead. Ids are so far from the clock, at most, after a kill
 * and a restart. */
#define LEASE_MS 10000
#define REFUSED_REST_MS 500
/* Ids have 42 bits of milliseconds. A mark that leaves less than ten years of them
 * is nobody's clock. */
#define MARK_MAX ((INT64_C(1) << 42) - INT64_C(3660) * 24 * 3600 * 1000)

void id_lease_init(struct id_lease *l, unsigned node)
{
	*l = (struct id_lease){ .renew_ms = INT64_MAX };
	id_source_init(&l->source, node);
}

static void on_written(void *ctx, int status, const char *text)
{
	struct broker *b = ctx;

	if (status == TIDE_OK || status == TIDE_ESHUTDOWN)
		return;
	log_warn("cannot write tide:ids to Redis, trying again: %s",
		 text ? text : error_text(status));
	b->ids.renew_ms = b->ids.source.last_ms + REFUSED_REST_MS;
}

static void write_mark(struct broker *b, int64_t mark_ms)
{
	char node[DECIMAL_MAX], mark[DECIMAL_MAX];
	struct store_field change = {
		.name = { node, (size_t)(decimal_put(node, b->config.node) - node) },
		.value = { mark, (size_t)(decimal_put(mark, (uint64_t)mark_ms) - mark) },
	};

	store_document_change(b->store, DOC_IDS, &change, 1, on_written, b);
}

void id_lease_renew(struct broker *b)
{
	struct id_lease *l = &b->ids;

	if (b->is_closing)
		return;
	l->renew_ms = l->source.last_ms + LEASE_MS / 2;
	write_mark(b, l->source.last_ms + LEASE_MS);
}

void id_lease_end(struct broker *b)
{
	if (b->env.store && b->is_started && b->ids.renew_ms > 0)
		write_mark(b, b->ids.source.last_ms);
}

static void go_on_from(struct broker *b, int64_t mark_ms)
{
	id_source_advance(&b->ids.source, id_at_unix_ms(mark_ms));
	if (mark_ms > b->now_ms + LEASE_MS)
		log_warn("the clock is %lld s behind tide:ids; it may have been set "
			 "back. Ids continue from tide:ids",
			 (long long)(mark_ms - b->now_ms) / 1000);
}

static void on_fields(void *ctx, int status, const char *text,
		      const struct store_field *fields, size_t count)
{
	struct broker *b = ctx;
	uint64_t node, mark;

	for (size_t i = 0; i < count; i++) {
		if (!slice_to_uint(fields[i].name, ID_NODE_MAX, &node) ||
		    node != b->config.node)
			continue;
		if (slice_to_uint(fields[i].value, MARK_MAX, &mark))
			go_on_from(b, (int64_t)mark);
		else
			log_error("tide:ids: '%" SLICE_FMT
				  "' of node %u is not a time; ignoring it",
				  SLICE_ARG(fields[i].value), b->config.node);
	}
	b->ids.renew_ms = 0; /* the first id writes a mark */
	b->ids.on_loaded(b->ids.ctx, status, text);
}

void id_lease_load(struct broker *b, store_done_fn on_loaded, void *ctx)
{
	b->ids.on_loaded = on_loaded;
	b->ids.ctx = ctx;
	store_document_read(b->store, DOC_IDS, on_fields, b);
}
