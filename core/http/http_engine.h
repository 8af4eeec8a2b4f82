/* http_engine.h: libmicrohttpd in the loop: one daemon without listeners or threads.
 *
 * It has one end of a socket pair for each connection, and one epoll descriptor for all
 * of them, which the loop watches. What it finds goes to the functions of
 * http_exchange.h.
 */
#pragma once

#include <microhttpd.h>

#include "http.h"

struct http_leases;
struct http_relay;

/* What it calls, with the types of libmicrohttpd. */
struct http_engine_hooks {
	MHD_AccessHandlerCallback step;
	void *(*begin)(void *cls, const char *target, struct MHD_Connection *c);
	MHD_RequestCompletedCallback end;
};

struct http_engine {
	uv_loop_t *loop;
	struct http_config config;
	struct MHD_Daemon *daemon;
	uv_poll_t poll;   /* its epoll descriptor */
	uv_timer_t timer; /* when it wants to run next */
	struct http_leases *leases;
	TAILQ_HEAD(, http_relay) ending;
	TAILQ_HEAD(, http_request) waiting; /* for the next run */
	STAILQ_HEAD(, http_release) released;
	uint64_t run_ns;  /* when this one began */
	bool is_woken;    /* since then */
	unsigned handles; /* not yet closed */
	void (*on_closed)(void *ctx);
	void *ctx;
};

TIDE_MUST_USE int http_engine_create(struct http_engine **out, uv_loop_t *loop,
				     const struct http_config *config,
				     const struct http_engine_hooks *hooks,
				     struct error *err);
/* Give it the descriptor, which is its own from now on, also on failure. It keeps a
 * reference of the relay for as long as it has the connection. */
TIDE_MUST_USE int http_engine_add(struct http_engine *e, int fd, struct http_relay *r);
/* The relay of a connection. */
struct http_relay *http_engine_relay(struct MHD_Connection *c);
/* It may close its end of a connection that is no longer its own: soon. */
void http_engine_release(struct http_engine *e, struct MHD_UpgradeResponseHandle *handle);
/* It has something to do. */
void http_engine_wake(struct http_engine *e);
