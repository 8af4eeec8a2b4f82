/* http.h: the HTTP port: docs/http.md.
 *
 * Its connections are those of the network, with their limits and their TLS. Each is a
 * relay (http_relay.h): libmicrohttpd gets one end of a socket pair, parses the requests
 * and writes the answers; the bytes of the other end go to the peer. There is one engine
 * (http_engine.h) for all of them. */
#pragma once

#include <uv.h>

#include "proto/protocol.h"

struct http_engine;

struct http_config {
	size_t payload_max;
	unsigned connections_max;
	int64_t request_timeout_ms; /* for a request to come; longer for a long body */
	const char *const *hosts;   /* names that it is asked by, besides localhost */
	unsigned host_count;
};

TIDE_MUST_USE int http_create(struct http_engine **out, uv_loop_t *loop,
			      const struct http_config *config, struct error *err);
/* All its connections have ended. on_closed comes later. */
void http_engine_close(struct http_engine *e, void (*on_closed)(void *ctx), void *ctx);

/* The `shared` of its protocol_spec is the engine. */
extern const struct protocol_kind http_protocol;

/* A whole answer, for who is refused before anything is read. */
void http_refuse(struct out *out, unsigned status, const char *code, const char *text);
