/* bench_stomp.h: a worker of `tidemq bench --protocol stomp`: a connection that speaks
 * STOMP 1.2. What is sent leaves with bench_stomp_flush. */
#pragma once

#include <uv.h>

#include "base/slice.h"

struct bench_stomp;
struct url;

struct bench_stomp_handlers {
	void *ctx;
	/* It is connected, or subscribed. */
	void (*on_ready)(void *ctx);
	/* The next SEND is confirmed. */
	void (*on_receipt)(void *ctx);
	void (*on_message)(void *ctx, struct slice body);
	/* Why it has failed; bench_stomp_close is still to be called. */
	void (*on_lost)(void *ctx, const char *why);
};

/* What it begins with. */
struct bench_stomp_spec {
	const struct url *at;
	const char *vhost;
	/* Of a consumer; NULL: it is a producer. */
	const char *queue;
	unsigned prefetch;
	bool is_auto_ack;
	const char *group; /* of a topic, as the next one; NULL: none */
	const char *from;
	struct bench_stomp_handlers handlers;
};

/* NULL: `*why` says why not. */
struct bench_stomp *bench_stomp_open(uv_loop_t *loop, const struct bench_stomp_spec *spec,
				     const char **why);
void bench_stomp_send(struct bench_stomp *s, const char *queue, struct slice body);
/* Acknowledge what has come. */
void bench_stomp_settle(struct bench_stomp *s);
void bench_stomp_flush(struct bench_stomp *s);
/* It is freed when the loop has closed it. Accepts NULL. */
void bench_stomp_close(struct bench_stomp *s);
