/* peer.h: a broker without a store in this process, and connections to it
 * without sockets. For unit tests and fuzzers: nothing here asserts, a broker
 * that does not start aborts. */
#ifndef TIDE_TEST_PEER_H
#define TIDE_TEST_PEER_H

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "host/log.h"
#include "base/mem.h"
#include "session/service.h"
#include "broker/vhost.h"
#include "proto/line/line.h"

struct rig {
	uv_loop_t loop;
	struct service *service;
	struct pool chunks;
	bool is_started;
	void (*on_turn)(void *ctx); /* the network, if there is one */
	void *ctx;
};

struct peer {
	struct rig *rig;
	struct protocol *protocol;
	struct out out;
	struct buf in;   /* given, but not yet taken */
	struct buf sent; /* what the broker said */
	bool is_direct;  /* large payloads are read to their place */
	bool is_full;    /* takes no deliveries */
	bool is_finished;
};

/* ---- the broker ----------------------------------------------------------------------
 */

static inline void rig_on_started(void *ctx, const struct error *err)
{
	struct rig *rig = ctx;

	if (err) {
		fprintf(stderr, "the broker does not start: %s\n", err->text);
		abort();
	}
	rig->is_started = true;
	uv_stop(&rig->loop);
}

static inline void rig_on_turn(void *ctx)
{
	struct rig *rig = ctx;

	if (rig->on_turn)
		rig->on_turn(rig->ctx);
}

static inline void rig_on_closed(void *ctx)
{
	struct rig *rig = ctx;

	rig->service = NULL;
}

/* A broker with ./rules and ./lua: tests run where the Makefile is. */
static inline void rig_init(struct rig *rig, const struct broker_config *config)
{
	struct service_hooks hooks = { rig, rig_on_started, NULL, rig_on_turn,
				       rig_on_closed };
	struct error err;

	*rig = (struct rig){ 0 };
	log_configure(LOG_ERROR, true);
	uv_loop_init(&rig->loop);
	out_pool_init(&rig->chunks);
	if (service_create(&rig->service, &rig->loop, config, &hooks, &err) < 0) {
		fprintf(stderr, "the broker cannot be made: %s\n", err.text);
		abort();
	}
	while (!rig->is_started)
		uv_run(&rig->loop, UV_RUN_DEFAULT);
}

static inline void rig_config_init(struct broker_config *config)
{
	broker_config_init(config);
	config->store.url = "none";
	config->rules_watch = false;
}

static inline void rig_deinit(struct rig *rig)
{
	service_close(rig->service, 0);
	uv_run(&rig->loop, UV_RUN_DEFAULT);
	if (rig->service || uv_loop_close(&rig->loop) != 0)
		abort();
	pool_deinit(&rig->chunks);
}

/* Turns, until there is nothing to deal out. */
static inline void rig_settle(struct rig *rig)
{
	unsigned turns = 0;

	do {
		service_turn(rig->service);
		if (++turns == 10000) {
			fprintf(stderr, "the broker does not come to rest\n");
			abort();
		}
	} while (!TAILQ_EMPTY(&rig->service->broker->active));
}

/* ---- a connection
 * ----------------------------------------------------------------------
 */

static inline void peer_op_finish(void *ctx)
{
	((struct peer *)ctx)->is_finished = true;
}

static inline void peer_op_nothing(void *ctx)
{
	(void)ctx;
}

static inline bool peer_op_can_take(void *ctx)
{
	struct peer *p = ctx;

	return !p->is_full && !p->is_finished;
}

static inline void peer_op_describe(void *ctx, struct json *out)
{
	(void)ctx;
	json_member_text(out, "peer", "test");
}

/* In memory of its own: a test that fails jumps out of its function and leaves it. */
static inline struct peer *
peer_create_of(struct rig *rig, const struct protocol_kind *kind, size_t payload_max)
{
	static const struct protocol_ops ops = {
		.finish = peer_op_finish,
		.kill = peer_op_finish,
		.wake = peer_op_nothing,
		.can_take = peer_op_can_take,
		.describe = peer_op_describe,
	};

	struct peer *p = mem_zalloc(sizeof(*p));

	p->rig = rig;
	out_init(&p->out, &rig->chunks);
	p->in = (struct buf){ 0 };
	p->sent = (struct buf){ 0 };
	p->protocol = mem_alloc(kind->size);
	kind->init(p->protocol, &(struct protocol_spec){ .service = rig->service,
							 .out = &p->out,
							 .ops = &ops,
							 .ctx = p,
							 .payload_max = payload_max });
	return p;
}

static inline struct peer *peer_create(struct rig *rig, size_t payload_max)
{
	return peer_create_of(rig, &line_protocol, payload_max);
}

static inline void peer_destroy(struct peer *p)
{
	p->protocol->kind->deinit(p->protocol);
	mem_free(p->protocol);
	out_deinit(&p->out);
	buf_deinit(&p->in);
	buf_deinit(&p->sent);
	mem_free(p);
}

static inline size_t peer_feed_direct(struct peer *p, const char *data, size_t len)
{
	size_t room;
	char *place = protocol_direct(p->protocol, &room);

	if (!p->is_direct || !place || buf_len(&p->in) > 0)
		return 0;
	len = len < room ? len : room;
	memcpy(place, data, len);
	protocol_filled(p->protocol, len);
	return len;
}

/* What a read from a socket does. The codec gets a copy of exactly the right
 * size, so that AddressSanitizer sees it look beyond the end. */
static inline void peer_feed(struct peer *p, const char *data, size_t len)
{
	size_t used = peer_feed_direct(p, data, len), held;
	char *copy;

	if (len > used)
		buf_append(&p->in, data + used, len - used);
	held = buf_len(&p->in);
	if (held == 0)
		return;
	copy = mem_alloc(held);
	memcpy(copy, buf_slice(&p->in).data, held);
	used = p->protocol->kind->feed(p->protocol, copy, held);
	mem_free(copy);
	buf_consume(&p->in, used);
}

/* Give input, and turns until the broker rests and takes no more of what it was
 * given. A busy machine interrupts the process for longer than a turn may take; the
 * broker then leaves the rest of the input for the next turn. */
static inline void peer_say(struct peer *p, const char *data, size_t len)
{
	size_t held;

	peer_feed(p, data, len);
	rig_settle(p->rig);
	while ((held = buf_len(&p->in)) > 0) {
		peer_feed(p, NULL, 0);
		if (buf_len(&p->in) == held)
			break;
		rig_settle(p->rig);
	}
}

/* Move what was written to `sent`. */
static inline void peer_collect(struct peer *p)
{
	struct iovec vec[4];
	unsigned count;

	while ((count = out_iovecs(&p->out, vec, 4)) > 0) {
		size_t len = 0;

		for (unsigned i = 0; i < count; i++) {
			buf_append(&p->sent, vec[i].iov_base, vec[i].iov_len);
			len += vec[i].iov_len;
		}
		out_consume(&p->out, len);
	}
}

#endif
