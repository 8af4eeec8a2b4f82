#include "stranger.h"

#include <stdio.h>

#include "conn.h"
#include "host/log.h"
#include "session/service_users.h"

static void insert(struct conn *c)
{
	struct server *s = c->server;

	c->is_stranger = true;
	c->stranger_ms = (int64_t)uv_now(s->loop);
	TAILQ_INSERT_TAIL(&s->strangers, c, stranger_link);
	s->stranger_count++;
}

void stranger_remove(struct conn *c)
{
	struct server *s = c->server;

	if (!c->is_stranger)
		return;
	c->is_stranger = false;
	TAILQ_REMOVE(&s->strangers, c, stranger_link);
	s->stranger_count--;
}

void stranger_renew(struct conn *c)
{
	stranger_remove(c);
	insert(c);
}

void stranger_check(struct conn *c)
{
	bool has_session = c->protocol && !c->is_shaking;

	if (has_session && !session_is_stranger(c->protocol->session))
		stranger_remove(c);
}

static void end(struct conn *c, const char *words)
{
	log_warn("%s: closed: %s", c->peer, words);
	/* Whoever opens thousands does not keep them by reading nothing. */
	c->is_brief = true;
	stranger_remove(c);
	if (c->is_finishing)
		conn_close(c);
	else
		conn_close_with(c, words);
	/* The stranger may be owed the answer to its HELLO. */
	conn_end(c);
}

static void end_first(struct server *s)
{
	struct conn *c;
	char words[128];

	snprintf(words, sizeof(words),
		 "limit more than %u connections have not logged in "
		 "(--max-unauthenticated)",
		 s->config.strangers_max);
	while ((c = TAILQ_FIRST(&s->strangers)) != NULL) {
		stranger_check(c);
		if (c->is_stranger) {
			end(c, words);
			return;
		}
	}
}

void stranger_add(struct conn *c)
{
	struct server *s = c->server;

	insert(c);
	if (s->stranger_count > s->config.strangers_max)
		end_first(s);
}

static bool is_late(const struct conn *c, int64_t now_ms)
{
	return now_ms - c->stranger_ms > c->server->config.login_timeout_ms;
}

/* For what is not its fault: that we take long to decide. Who has left does not care. */
static bool is_waiting(const struct conn *c)
{
	/* Who says nothing where nobody must log in is no matter. */
	if (c->is_undecided && !c->server->config.is_exposed &&
	    service_users_is_open(c->server->service))
		return true;
	return c->is_shaking || (c->protocol && !c->has_left &&
				 session_is_logging_in(c->protocol->session));
}

void stranger_tick(struct server *s, int64_t now_ms)
{
	struct conn *c, *next;
	char words[128];

	if (!s->config.login_timeout_ms)
		return;
	snprintf(words, sizeof(words),
		 "denied nobody logged in within %g s (--login-timeout)",
		 (double)s->config.login_timeout_ms / 1000);
	for (c = TAILQ_FIRST(&s->strangers); c && is_late(c, now_ms); c = next) {
		next = TAILQ_NEXT(c, stranger_link);
		stranger_check(c);
		if (c->is_stranger && !is_waiting(c))
			end(c, words);
	}
}
