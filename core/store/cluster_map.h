/* cluster_map.h: which master of a Redis Cluster has which slot, as its nodes tell.
 *
 * One node after the other is asked (CLUSTER INFO, CLUSTER SLOTS), over a connection of
 * its own: those of the URL, and all that the last map has named. One that does not
 * answer in time is left for the next. What a node tells that is cut off from the
 * majority (cluster_state:fail), or that is older than what is known
 * (cluster_current_epoch), counts only if no other tells more. */
#pragma once

#include <uv.h>

#include "layout.h"
#include "redis_url.h"
#include "tls/tls.h"

#define CLUSTER_NO_MASTER 0xffff

struct cluster_master {
	char host[256];
	unsigned port;
	unsigned slots;
	unsigned replicas;
};

struct cluster_map {
	struct cluster_master *masters;
	size_t count, cap;
	unsigned covered;             /* slots that have a master */
	uint16_t owner[LAYOUT_SLOTS]; /* index in `masters`, or CLUSTER_NO_MASTER */
};

struct cluster;

/* Called from the loop, and not after cluster_close. */
struct cluster_hooks {
	void *ctx;
	/* The map is borrowed for the call. */
	void (*on_map)(void *ctx, const struct cluster_map *map);
	/* All were asked, and none told a map: the first reason. */
	void (*on_failed)(void *ctx, const char *why);
};

/* `url` outlives it: user, password, and the first node to ask.
 *
 * @param patience_ms  how long one node is waited for */
struct cluster *cluster_create(uv_loop_t *loop, const struct redis_url *url,
			       int64_t patience_ms, const struct cluster_hooks *hooks);
/* Have a map told. While one is asked for this is no second question.
 *
 * @param tls  NULL for none; lives until the next question, or the close */
void cluster_ask(struct cluster *c, struct tls_context *tls);
/* End everything, free it, call on_closed. */
void cluster_close(struct cluster *c, void (*on_closed)(void *ctx), void *ctx);
