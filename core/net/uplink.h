/* uplink.h: a connection of a front to the owner of the store: dialled, proven (link.h),
 * then bytes both ways.
 *
 * The callbacks come from the loop, never from a call on the uplink. After uplink_close
 * none comes. */
#pragma once

#include "link.h"

struct server;
struct tls_context;
struct uplink;

struct uplink_ops {
	/* Both sides know each other. */
	void (*on_open)(void *ctx);
	void (*on_bytes)(void *ctx, const char *data, size_t len);
	/* uplink_is_full is over. */
	void (*on_drained)(void *ctx);
	/* The end: why->code is TIDE_OK if the owner has closed its side, after on_open.
	 * The uplink is to be closed. */
	void (*on_end)(void *ctx, const struct error *why);
};

struct uplink_spec {
	const char *at;          /* HOST:PORT, tls:HOST:PORT, unix:PATH */
	struct tls_context *tls; /* for tls: */
	struct link_hello hello; /* without its nonce */
	const char *secret;      /* outlives the uplink's opening */
	const struct uplink_ops *ops;
	void *ctx;
};

/* NULL: it cannot even be tried, and `err` says why. */
struct uplink *uplink_open(struct server *s, const struct uplink_spec *spec,
			   struct error *err);
void uplink_close(struct uplink *u);
/* All is taken. */
void uplink_write(struct uplink *u, const char *data, size_t len);
/* Much of it was not sent yet: write no more before on_drained. */
bool uplink_is_full(const struct uplink *u);
/* Nothing more is written: the owner sees the end behind the rest. */
void uplink_end(struct uplink *u);
/* Read no more, and go on. */
void uplink_pause(struct uplink *u);
void uplink_resume(struct uplink *u);
