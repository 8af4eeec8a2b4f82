/* http.h: the HTTP port: docs/http.md.
 *
 * Its connections are those of the network, with their limits and their TLS. The protocol
 * of each reads its requests (http_head.h), one after the other, and each goes from state
 * to state until its answer has been written (http_exchange.c). What they share is the
 * engine. */
#pragma once

#include <uv.h>

#include "proto/protocol.h"

struct http_engine;

struct http_config {
	size_t payload_max;
	int64_t request_timeout_ms; /* for a request to come; longer for a long body */
	const char *const *hosts;   /* names that it is asked by, besides localhost */
	unsigned host_count;
	/* Whose pages may ask besides its own: "https://app.example", or "*" */
	const char *const *origins;
	unsigned origin_count;
};

struct http_engine *http_create(uv_loop_t *loop, const struct http_config *config);
/* All its connections have ended. on_closed comes later. */
void http_engine_close(struct http_engine *e, void (*on_closed)(void *ctx), void *ctx);

/* The `shared` of its protocol_spec is the engine. */
extern const struct protocol_kind http_protocol;

/* A whole answer, for who is refused before a request is there. The connection ends. */
void http_answer_whole(struct out *out, unsigned status, const char *code,
		       const char *text);
/* "https://HOST[:PORT]" without a path, or "*". */
bool http_is_origin(const char *text);
