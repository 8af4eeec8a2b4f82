/* sentinel.h: which Redis the Sentinels name as the master.
 *
 * All Sentinels are asked at once, over connections that are kept: those of the URL, and
 * those that they tell of. Of their answers the one with the highest config-epoch counts,
 * since a Sentinel that was cut off names the master of before. Who does not answer
 * within 300 ms is not waited for once another one has.
 *
 * After the first question all are asked again every second, so that a failover is seen
 * while the former master still answers. */
#pragma once

#include <uv.h>

#include "redis_url.h"
#include "tls/tls.h"

#define SENTINEL_PERIOD_MS 1000

struct sentinel;

/* Called from the loop, never by a function of this file, and not after
 * sentinel_close. */
struct sentinel_hooks {
	void *ctx;
	/* The answer to sentinel_ask. `host` is good for the call. */
	void (*on_found)(void *ctx, const char *host, unsigned port);
	/* No Sentinel names one: who was asked, and what became of it. */
	void (*on_failed)(void *ctx, const char *why);
	/* Another master is named than on_found had. */
	void (*on_moved)(void *ctx, const char *host, unsigned port);
};

/* `url`, of kind REDIS_URL_SENTINEL, outlives it.
 *
 * @param patience_ms  how long to wait for the first that answers */
struct sentinel *sentinel_create(uv_loop_t *loop, const struct redis_url *url,
				 int64_t patience_ms, const struct sentinel_hooks *hooks);
/* Ask for the master. One question at a time: not before the last one is answered.
 *
 * @param tls  NULL for none; lives until the next question, or the close */
void sentinel_ask(struct sentinel *s, struct tls_context *tls);
/* Sentinels that have answered lately, and those that are known. */
void sentinel_count(struct sentinel *s, unsigned *answering, unsigned *known);
/* End everything, free it, call on_closed. */
void sentinel_close(struct sentinel *s, void (*on_closed)(void *ctx), void *ctx);
