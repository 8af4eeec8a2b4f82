#include <uv.h>

#include "check.h"
#include "fake_broker.h"
#include "tidemq/client.h"

/* What happened, one word each. */
struct seen {
	struct buf log;
	struct tidemq_client *client;
	void (*on_up)(struct seen *s);
	int closed;
};

static void on_reply(struct tidemq_client *c, const struct tidemq_reply *reply, void *ctx)
{
	struct seen *s = ctx;
	buf_printf(&s->log, "reply %d <%s> <%s>; ", reply->status, reply->word,
		   reply->text);
}

static void on_reply_then_close(struct tidemq_client *c, const struct tidemq_reply *reply,
				void *ctx)
{
	on_reply(c, reply, ctx);
	tidemq_close(c, NULL, NULL);
}

static void on_connected(struct tidemq_client *c, const struct tidemq_error *why,
			 void *ctx)
{
	struct seen *s = ctx;
	buf_printf(&s->log, "connected %d; ", why->status);
	if (why->status == TIDEMQ_OK)
		s->on_up(s);
	else
		tidemq_close(c, NULL, NULL);
}

static void on_msg(struct tidemq_client *c, struct tidemq_msg *m, void *ctx)
{
	struct seen *s = ctx;
	buf_printf(&s->log, "msg %s %s; ", m->sid, m->payload);
	tidemq_msg_free(m);
}

static void on_event(struct tidemq_client *c, unsigned channel, const char *text,
		     void *ctx)
{
	struct seen *s = ctx;
	buf_printf(&s->log, "event %u %s; ", channel, text);
}

static void on_lost(struct tidemq_client *c, const struct tidemq_error *why, void *ctx)
{
	struct seen *s = ctx;
	buf_printf(&s->log, "lost %d <%s> %s; ", why->status, why->word, why->text);
	tidemq_close(c, NULL, NULL);
}

static void run(const char *const *script, const struct tidemq_options *options,
		void (*on_up)(struct seen *), const char *log)
{
	struct fake_broker f;
	uv_loop_t loop;
	struct seen s = { .on_up = on_up };
	const struct tidemq_handlers handlers = { .ctx = &s,
						  .on_connected = on_connected,
						  .on_msg = on_msg,
						  .on_event = on_event,
						  .on_lost = on_lost };
	s.log = (struct buf){ 0 };
	fake_start(&f, script);
	assert_int_equal(uv_loop_init(&loop), 0);
	s.client = tidemq_start(&loop, f.url, options, &handlers, NULL);
	assert_non_null(s.client);
	assert_int_equal(tidemq_send(s.client, "PING", NULL, 0, NULL, NULL),
			 TIDEMQ_EBUSY);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	assert_buf(&s.log, log);
	buf_deinit(&s.log);
	fake_stop(&f);
}

static void send_three(struct seen *s)
{
	const struct tidemq_publication p = { .key = "q",
					      .payload = "x",
					      .payload_len = 1 };
	assert_int_equal(tidemq_send(s->client, "SUB q s1", NULL, 0, on_reply, s),
			 TIDEMQ_OK);
	assert_int_equal(tidemq_send_publication(s->client, 2, &p, on_reply, s),
			 TIDEMQ_OK);
	assert_int_equal(tidemq_send(s->client, "PING", NULL, 0, on_reply_then_close, s),
			 TIDEMQ_OK);
	assert_int_equal(tidemq_send(s->client, "a\nb", NULL, 0, on_reply, s),
			 TIDEMQ_EINVAL);
}

TEST_THAT(requests_of_one_turn_are_answered_by_channel)
{
	static const char *const script[] = {
		FAKE_HELLO,
		"<SUB q s1",
		"<@2 PUB - q 1",
		"<x",
		"<PING",
		">@2 ERR denied no\r\nOK\r\nMSG s1 1 1 - q id=0c5e1f3a90001000 ts=1 "
		"2\r\nhi\r\n",
		">EVT blocked store\r\nEVT heartbeat\r\n@2 EVT cancelled s9 "
		"deleted\r\nOK\r\n",
		NULL,
	};
	run(script, NULL, send_three,
	    "connected 0; reply -7 <denied> <no>; reply 0 <> <>; msg s1 hi; "
	    "event 0 blocked store; event 2 cancelled s9 deleted; reply 0 <> <>; ");
}

static void send_two(struct seen *s)
{
	assert_int_equal(tidemq_send(s->client, "PING", NULL, 0, on_reply, s), TIDEMQ_OK);
	assert_int_equal(tidemq_send(s->client, "@9 PING", NULL, 0, on_reply, s),
			 TIDEMQ_OK);
	assert_int_equal(tidemq_send(s->client, "PING", NULL, 0, on_reply, s),
			 TIDEMQ_EBUSY);
}

TEST_THAT(a_lost_connection_fails_what_is_in_flight)
{
	static const char *const script[] = { FAKE_HELLO, "<PING", "<@9 PING",
					      ">EVT closed shutdown bye\r\n", NULL };
	const struct tidemq_options options = { .window = 2 };
	run(script, &options, send_two,
	    "connected 0; event 0 closed shutdown bye; reply -3 <shutdown> <bye>; "
	    "reply -3 <shutdown> <bye>; lost -3 <shutdown> bye; ");
}

TEST_THAT(a_reply_to_nothing_ends_the_connection)
{
	static const char *const script[] = { FAKE_HELLO, "<PING", "<@9 PING",
					      ">@7 OK\r\n", NULL };
	const struct tidemq_options options = { .window = 2 };
	run(script, &options, send_two,
	    "connected 0; reply -3 <> <the broker sent a reply to no request>; "
	    "reply -3 <> <the broker sent a reply to no request>; "
	    "lost -4 <> the broker sent a reply to no request; ");
}

static void send_and_close(struct seen *s)
{
	assert_int_equal(tidemq_send(s->client, "PING", NULL, 0, on_reply, s), TIDEMQ_OK);
	tidemq_close(s->client, NULL, NULL);
	assert_buf(&s->log, "connected 0; ");
}

TEST_THAT(close_fails_what_is_in_flight_after_it_returned)
{
	static const char *const script[] = { FAKE_HELLO, "<PING", "<QUIT",
					      ">EVT closed shutdown bye\r\nOK\r\n",
					      NULL };
	run(script, NULL, send_and_close,
	    "connected 0; reply -3 <> <the client was closed>; ");
}

TEST_THAT(a_refused_hello_is_the_outcome_of_connecting)
{
	static const char *const script[] = { "<HELLO vhost=/", ">ERR denied no\r\n",
					      NULL };
	run(script, NULL, send_and_close, "connected -7; ");
}

static void count_closed(void *ctx)
{
	++*(int *)ctx;
}

/* At once, after a turn of the loop, after two, ...: every stage of connecting. */
TEST_THAT(close_while_connecting_leaves_nothing_behind)
{
	static const char *const urls[] = { "tide+unix:/nonexistent/x",
					    "tide://127.0.0.1:1/", "tide://[::1]:1/",
					    "tide://localhost:1/" };
	for (size_t u = 0; u < COUNT(urls); u++) {
		for (int turns = 0; turns < 4; turns++) {
			uv_loop_t loop;
			struct seen s = { 0 };
			const struct tidemq_handlers handlers = { .ctx = &s,
								  .on_connected = on_lost,
								  .on_msg = on_msg,
								  .on_lost = on_lost };
			s.log = (struct buf){ 0 };
			assert_int_equal(uv_loop_init(&loop), 0);
			struct tidemq_client *c =
				tidemq_start(&loop, urls[u], NULL, &handlers, NULL);
			for (int i = 0; i < turns; i++)
				uv_run(&loop, UV_RUN_NOWAIT);
			bool is_over = buf_len(&s.log) > 0;
			if (!is_over)
				tidemq_close(c, count_closed, &s.closed);
			uv_run(&loop, UV_RUN_DEFAULT);
			assert_true(is_over || s.closed == 1);
			assert_int_equal(uv_loop_close(&loop), 0);
			buf_deinit(&s.log);
		}
	}
}

TEST_THAT(handlers_are_required)
{
	const struct tidemq_handlers none = { 0 };
	struct tidemq_error err;
	assert_null(tidemq_start(NULL, "tide://h/", NULL, &none, &err));
	assert_int_equal(err.status, TIDEMQ_EINVAL);
}

RUN_TESTS()
