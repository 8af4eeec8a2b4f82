/* LOCK, UNLOCK and CHECK. */
#include "verb.h"

#include "line.h"

#define TTL_MS 30000
#define TTL_MIN_MS 100
#define TTL_MAX_MS (INT64_C(24) * 3600 * 1000)
#define WAIT_MAX_MS (3600 * 1000)

static uint64_t read_token(struct request *q, const char *name, struct slice text)
{
	uint64_t token = 0;

	if (q->rc == TIDE_OK && (!slice_to_uint(text, UINT64_MAX - 1, &token) || !token))
		request_refuse(q, name, text, "the token of a LOCK, a number");
	return token;
}

COMMAND(lock_take)
{
	const struct number_limits wait = { 0, WAIT_MAX_MS },
				   ttl = { TTL_MIN_MS, TTL_MAX_MS };
	struct slice token = request_option(q, "token");
	struct lock_request request = { .name = request_name(q, 0, "a lock") };

	request.wait_ms = request_duration(q, "wait", wait);
	/* A lock that is taken back has its own. */
	request.ttl_ms = token.data ? 0 : TTL_MS;
	if (request_option(q, "ttl").data)
		request.ttl_ms = request_duration(q, "ttl", ttl);
	if (token.data)
		request.token = read_token(q, "token", token);
	if (q->rc < 0)
		return q->rc;
	return session_lock_take(session_channel(l->base.session, q->channel), &request,
				 r, q->err);
}

typedef int lock_fn(struct session *s, struct slice name, uint64_t token, struct reply *r,
		    struct error *err);

static int with_token(struct line *l, struct request *q, struct reply *r, lock_fn *run)
{
	struct slice name = request_name(q, 0, "a lock");
	uint64_t token = read_token(q, NULL, q->words[1]);

	return q->rc < 0 ? q->rc : run(l->base.session, name, token, r, q->err);
}

COMMAND(lock_release)
{
	return with_token(l, q, r, session_lock_release);
}

COMMAND(lock_check)
{
	return with_token(l, q, r, session_lock_check);
}
