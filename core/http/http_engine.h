/* http_engine.h: what all connections of the HTTP port share: the settings, the leases of
 * messages, and the time that requests have in a turn of the loop. */
#pragma once

#include "http.h"

struct http_leases;
struct http_request;

struct http_engine {
	uv_loop_t *loop;
	struct http_config config;
	struct http_leases *leases;
	uv_idle_t idle; /* active while requests are in the queue */
	TAILQ_HEAD(http_queue, http_request) queue;
	void (*go_on)(struct http_request *q); /* a request that was in the queue */
	uint64_t turn_ms;                      /* of the loop's clock */
	uint64_t turn_ns; /* when requests had their first time in it */
	int64_t date_s;
	char date[32]; /* at that time, as in a header */
	unsigned handles;
	void (*on_closed)(void *ctx);
	void *ctx;
};

struct http_engine *http_engine_create(uv_loop_t *loop, const struct http_config *config,
				       void (*go_on)(struct http_request *q));
/* This turn has no time left for requests. */
bool http_engine_is_late(struct http_engine *e);
/* The request goes on in the next turn. Harmless when it is to do so already. */
void http_engine_queue(struct http_request *q);
void http_engine_forget(struct http_request *q);
/* The time, as a header has it. */
const char *http_engine_date(struct http_engine *e);
