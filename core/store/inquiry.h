/* inquiry.h: the same few commands to each of several servers beside the store's own
 * Redis: nodes of a Redis Cluster, Sentinels.
 *
 * The owner decides whom to ask, when, how long to wait, and what the answers mean. Its
 * hooks come from the loop, never from a function of this file. */
#pragma once

#include "base/buf.h"
#include "base/percent.h"
#include "redis_request.h"
#include "tls/tls.h"

struct inquiry;

/* One server; it lies within a struct of the owner. */
struct respondent {
	struct inquiry *inquiry;
	struct url at;
	struct redis_link *link; /* NULL: none */
	struct redis_request request;
	bool is_asked; /* and has not answered */
};

struct inquiry {
	/* Given, all zero but these. */
	uv_loop_t *loop;
	/* The reply to one command. The login is number 0, even if there is none. */
	void (*on_reply)(struct respondent *r, unsigned command, const redisReply *reply);
	/* After the last reply. */
	void (*on_answered)(struct respondent *r, const redisReply *last);
	/* The owner calls inquiry_drop, in here or later. */
	void (*on_lost)(struct respondent *r, const char *why);
	/* Free the owner, after the last link: the inquiry lies in it. */
	void (*on_closed)(struct inquiry *q);
	struct tls_context *tls; /* NULL for none; of the links that are opened next */
	/* For the owner's limits and pauses. `data` is the inquiry. */
	uv_timer_t timer;
	/* Within. */
	struct buf commands;
	uv_buf_t part;
	unsigned command_count;
	bool has_login;
	unsigned open_count; /* links and the timer */
	void (*then)(void *ctx);
	void *then_ctx;
};

/* @param password  NULL: no login
 * @param user      NULL: the default one */
void inquiry_init(struct inquiry *q, const char *user, const char *password);
/* One more command, in the format of redisCommand; before anybody is asked. */
TIDE_PRINTF(2, 3) void inquiry_add(struct inquiry *q, const char *format, ...);
/* Put the commands to one that is not asked, over a new link if it has none.
 *
 * @return  an error if there can be no link; it has to be dropped */
TIDE_MUST_USE int inquiry_ask(struct inquiry *q, struct respondent *r);
/* Close its link, if there is one. The respondent's memory must stay. */
void inquiry_drop(struct respondent *r);
/* End, after all were dropped: on_closed follows, then `then`. */
void inquiry_close(struct inquiry *q, void (*then)(void *ctx), void *ctx);
