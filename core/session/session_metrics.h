/* session_metrics.h: all metrics as Prometheus reads them, in pieces.
 *
 * A scrape of very many queues takes seconds. It is a job (broker/pace.h): one piece of
 * one scrape at a time, and the next piece when this one has been taken.
 * Queues and vhosts may come and go meanwhile: broker/walk.h. What comes is not shown,
 * what goes is missing in the families that follow. A scrape keeps one piece, and with
 * is_per_vhost a row for each vhost. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"

struct session;
struct session_metrics;

struct metrics_spec {
	bool is_per_vhost; /* queues, topics, groups and exchanges of a vhost together */
	bool is_openmetrics;
	/* A piece is there, or the end. Take it now or later; or end the scrape. */
	void (*on_piece)(void *ctx);
	void *ctx;
};

/* TIDE_EDENIED: it takes the tag monitor. The session may end before the scrape. */
TIDE_MUST_USE int session_metrics_start(struct session_metrics **out, struct session *s,
					const struct metrics_spec *spec,
					struct error *err);
/* Append the piece. TIDE_AGAIN: none is there, on_piece tells; TIDE_EMPTY: that was all.
 */
TIDE_MUST_USE int session_metrics_take(struct session_metrics *m, struct buf *out);
/* In any case, at its end or before. Not in on_piece. Accepts NULL. */
void session_metrics_end(struct session_metrics *m);
