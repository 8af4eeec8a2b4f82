/* The option `reconnect`: what a new connection is told, and what becomes of requests. */
#include <uv.h>

#include "check.h"
#include "client/client.h"
#include "failing_mem.h"
#include "fake_broker.h"
#include "tidemq/client.h"

#define ID "0c5e1f3a90001000"
#define MSG(sid, tag) "MSG " sid " " tag " 1 - q id=" ID " ts=1 2\r\nhi\r\n"

static const char *const states[] = { [TIDEMQ_CONNECTED] = "connected",
				      [TIDEMQ_LOST] = "lost",
				      [TIDEMQ_RESTORED] = "restored",
				      [TIDEMQ_GAVE_UP] = "gave up" };

/* What happened, in order. */
static struct buf story;

static void on_state(struct tidemq_client *c, enum tidemq_state state,
		     const struct tidemq_error *why, void *ctx)
{
	buf_printf(&story, "%s", states[state]);
	if (why->status != TIDEMQ_OK && state != TIDEMQ_LOST)
		buf_printf(&story, " %d <%s> %s", why->status, why->word, why->text);
	buf_append_text(&story, "; ");
}

static const struct tidemq_options again = { .reconnect = true, .on_state = on_state };

static struct tidemq_client *connect_to(const char *url,
					const struct tidemq_options *options)
{
	struct tidemq_error err = { 0 };
	buf_clear(&story);
	struct tidemq_client *c = tidemq_connect(url, options, &err);
	assert_string_equal(err.text, "");
	assert_non_null(c);
	return c;
}

/* The broker stays until the client goes. */
#define START(...) START_AND_END(__VA_ARGS__, ".")
#define START_AND_END(...)                                         \
	struct fake_broker f;                                      \
	static const char *const script[] = { __VA_ARGS__, NULL }; \
	fake_start(&f, script);                                    \
	struct tidemq_client *c = connect_to(f.url, &again)

#define END(text)                 \
	tidemq_disconnect(c);     \
	assert_buf(&story, text); \
	buf_deinit(&story);       \
	fake_stop(&f)

static void check_request(struct tidemq_client *c, const char *line, int status)
{
	assert_int_equal(tidemq_request(c, line, NULL, 0, NULL), status);
}

/* The broker answers OK to each of the lines. */
#define OK_TO(...) check_all(c, (const char *const[]){ __VA_ARGS__, NULL })
static void check_all(struct tidemq_client *c, const char *const *line)
{
	for (; *line; line++)
		check_request(c, *line, TIDEMQ_OK);
}

static struct tidemq_msg *next(struct tidemq_client *c, uint64_t tag)
{
	struct tidemq_msg *m;
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_OK);
	assert_int_equal(m->tag, tag);
	return m;
}

TEST_THAT(what_was_made_is_made_again_in_order)
{
	START(FAKE_HELLO, "<@3 OPEN prefetch=5", ">@3 OK\r\n",
	      "<DECLARE exchange e topic alternate=x", ">OK warning no x\r\n",
	      "<declare queue q", ">OK\r\n", "<DECLARE queue - durable=0",
	      ">OK gen-1\r\n", "<BIND q e a.#", ">OK\r\n", "<@3 SUB q s1 prefetch=1",
	      ">@3 OK\r\n", "<BIND q e a.#", ">OK\r\n", "!", FAKE_HELLO,
	      "<@3 OPEN prefetch=5", "<DECLARE exchange e topic alternate=x",
	      "<declare queue q", "<DECLARE queue gen-1 durable=0", "<BIND q e a.#",
	      ">@3 OK\r\nOK\r\nOK\r\nOK\r\nOK\r\n", "<@3 SUB q s1 prefetch=1", "<PING",
	      ">@3 OK\r\nOK\r\n");
	OK_TO("@3 OPEN prefetch=5", "DECLARE exchange e topic alternate=x",
	      "declare queue q", "DECLARE queue - durable=0", "BIND q e a.#",
	      "@3 SUB q s1 prefetch=1", "BIND q e a.#", "PING");
	END("connected; lost; restored; ");
}

TEST_THAT(what_was_undone_stays_undone)
{
	START(FAKE_HELLO, "<@1 OPEN", ">@1 OK\r\n", "<@1 SUB q a", ">@1 OK\r\n",
	      "<DECLARE queue q", ">OK\r\n", "<DECLARE queue kept", ">OK\r\n",
	      "<DECLARE exchange e fanout", ">OK\r\n", "<DECLARE exchange q fanout",
	      ">OK\r\n", "<BIND q e -", ">OK\r\n", "<BIND kept e -", ">OK\r\n",
	      "<BIND kept e x", ">OK\r\n", "<BIND q e - dest=exchange", ">OK\r\n",
	      "<SUB q s1", ">OK\r\n", "<SUB q s2", ">OK\r\n", "<UNSUB s1", ">OK\r\n",
	      "<UNBIND kept e x", ">OK\r\n", "<DELETE queue q",
	      ">EVT cancelled s2 queue-deleted\r\nOK\r\n", "<@1 CLOSE", ">@1 OK\r\n",
	      "<DELETE group e g", "!", FAKE_HELLO, "<DECLARE queue kept",
	      "<DECLARE exchange e fanout", "<DECLARE exchange q fanout",
	      "<BIND kept e -", "<BIND q e - dest=exchange",
	      ">OK\r\nOK\r\nOK\r\nOK\r\nOK\r\n", "<PING", ">OK\r\n");
	OK_TO("@1 OPEN", "@1 SUB q a", "DECLARE queue q", "DECLARE queue kept",
	      "DECLARE exchange e fanout", "DECLARE exchange q fanout", "BIND q e -",
	      "BIND kept e -", "BIND kept e x", "BIND q e - dest=exchange", "SUB q s1",
	      "SUB q s2", "UNSUB s1", "UNBIND kept e x", "DELETE queue q", "@1 CLOSE");
	check_request(c, "DELETE group e g", TIDEMQ_ELOST);
	OK_TO("PING");
	END("connected; lost; restored; ");
}

TEST_THAT(what_was_changed_is_not_declared_as_it_was)
{
	START(FAKE_HELLO, "<DECLARE queue q ttl=1m", ">OK\r\n", "<DECLARE queue kept",
	      ">OK\r\n", "<DECLARE queue q ttl=2m update", ">OK\r\n",
	      "<DECLARE queue kept update=0", ">OK\r\n", "!", FAKE_HELLO,
	      "<DECLARE queue kept", "<DECLARE queue kept update=0", ">OK\r\nOK\r\n",
	      "<PING", ">OK\r\n");

	OK_TO("DECLARE queue q ttl=1m", "DECLARE queue kept",
	      "DECLARE queue q ttl=2m update", "DECLARE queue kept update=0", "PING");
	END("connected; lost; restored; ");
}

TEST_THAT(an_exclusive_queue_goes_with_its_connection)
{
	START(FAKE_HELLO, "<DECLARE queue exclusive", ">OK\r\n",
	      "<DECLARE queue mine exclusive", ">OK\r\n", "<DECLARE queue - exclusive=1",
	      ">OK gen-1\r\n", "<BIND mine e x", ">OK\r\n", "<SUB gen-1 s1", ">OK\r\n",
	      "!", FAKE_HELLO, "<DECLARE queue exclusive", ">OK\r\n");
	struct tidemq_msg *m;
	OK_TO("DECLARE queue exclusive", "DECLARE queue mine exclusive",
	      "DECLARE queue - exclusive=1", "BIND mine e x", "SUB gen-1 s1");
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_ECANCELLED);
	assert_string_equal(tidemq_last_error(c)->text, "s1 queue-deleted");
	END("connected; lost; restored; ");
}

TEST_THAT(a_publish_without_reply_is_sent_again_with_the_same_id)
{
	START(FAKE_HELLO, "~PUB - q must id=[0-9a-f]*-0 2", "<hi", "!", FAKE_HELLO, "=",
	      "<hi", ">OK " ID " 1 duplicate\r\n", "<PUB - q id=mine 0", "<", "!",
	      FAKE_HELLO, "<PUB - q id=mine 0", "<", ">OK " ID " 1\r\n",
	      "<PUB - q id=his 1", "<x", ">OK " ID " 1\r\n", "~PUB - q id=*-1 0", "<",
	      ">ERR full no\r\n");
	const struct tidemq_publication first = {
		.key = "q", .payload = "hi", .payload_len = 2, .must = true
	};
	const struct tidemq_publication second = { .key = "q", .dedupe_id = "mine" };
	const struct tidemq_publication third = { .key = "q" };
	struct tidemq_receipt receipt;
	assert_int_equal(tidemq_publish(c, &first, &receipt), TIDEMQ_OK);
	assert_true(receipt.is_duplicate);
	assert_int_equal(tidemq_publish(c, &second, NULL), TIDEMQ_OK);
	assert_int_equal(tidemq_request(c, "PUB - q id=his", "x", 1, NULL), TIDEMQ_OK);
	assert_int_equal(tidemq_publish(c, &third, NULL), TIDEMQ_EREFUSED);
	END("connected; lost; restored; lost; restored; ");
}

TEST_THAT(pipelined_publishes_keep_their_order)
{
	START(FAKE_HELLO, "~PUB - q id=*-0 1", "<a", "~PUB - q id=*-1 1", "<b",
	      "~PUB - q id=*-2 1", "<c", ">OK " ID " 1\r\n", "!", FAKE_HELLO,
	      "~PUB - q id=*-1 1", "<b", "~PUB - q id=*-2 1", "<c",
	      ">OK " ID " 1\r\nOK " ID " 1\r\n");
	for (const char *payload = "abc"; *payload; payload++) {
		const struct tidemq_publication p = { .key = "q",
						      .payload = payload,
						      .payload_len = 1 };
		assert_int_equal(tidemq_publish_pipelined(c, &p), TIDEMQ_OK);
	}
	assert_int_equal(tidemq_flush(c), TIDEMQ_OK);
	END("connected; lost; restored; ");
}

TEST_THAT(what_must_not_be_done_twice_fails)
{
	START(FAKE_HELLO, "<KICK q", "!", FAKE_HELLO, "<LIST queues", "!", FAKE_HELLO,
	      "<LIST queues", ">DATA 2\r\n[]\r\n");
	struct tidemq_reply reply;
	check_request(c, "KICK q", TIDEMQ_ELOST);
	assert_string_equal(tidemq_last_error(c)->text,
			    "the connection has ended: the broker closed it");
	assert_int_equal(tidemq_request(c, "LIST queues", NULL, 0, &reply), TIDEMQ_OK);
	assert_string_equal(reply.text, "[]");
	END("connected; lost; restored; lost; restored; ");
}

TEST_THAT(tags_of_a_lost_connection_are_refused)
{
	START(FAKE_HELLO, "<SUB q s1", ">OK\r\n" MSG("s1", "1") MSG("s1", "2"), "<PING",
	      "!", FAKE_HELLO, "<SUB q s1", "<PING",
	      ">OK\r\nOK\r\n" MSG("s1", "1") "EVT lease s1 1 500\r\n" MSG("s1", "2"),
	      "<ACK 1", ">OK 1\r\n", "<NACK 1-2 4 7-x pri=1 requeue", ">OK 1\r\n");
	struct tidemq_subscription s = { .queue = "q", .sid = "s1" };
	struct tidemq_msg *old, *fresh;
	assert_int_equal(tidemq_subscribe(c, &s), TIDEMQ_OK);
	old = next(c, 1);
	OK_TO("PING");
	/* The second one was not handed out: it comes again. */
	fresh = next(c, 3);
	assert_int_equal(tidemq_ack(c, old), TIDEMQ_ELEASELOST);
	assert_string_equal(tidemq_last_error(c)->word, "lease-lost");
	assert_int_equal(tidemq_ack(c, fresh), TIDEMQ_OK);
	tidemq_msg_free(old);
	tidemq_msg_free(fresh);
	check_request(c, "ACK 3 2", TIDEMQ_ELEASELOST);
	check_request(c, "ACK 1-2", TIDEMQ_ELEASELOST);
	OK_TO("NACK 2-4 6 7-x pri=1 requeue");
	END("connected; lost; restored; ");
}

#define AT(sid, tag, ts, partition, offset)                                  \
	"MSG " sid " " tag " 1 - t id=" ID " ts=" ts " partition=" partition \
	" offset=" offset " 2\r\nhi\r\n"

static void check_place(struct tidemq_client *c, const char *sid, unsigned partition,
			uint64_t offset)
{
	struct tidemq_msg *m;
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_OK);
	assert_string_equal(m->sid, sid);
	assert_int_equal(m->partition, partition);
	assert_int_equal(m->offset, offset);
	tidemq_msg_free(m);
}

TEST_THAT(a_reader_goes_on_behind_its_last_message)
{
	START(FAKE_HELLO, "<SUB t a from=first prefetch=9", ">OK\r\n",
	      "<SUB t b partition=3", ">OK\r\n", "<SUB t g group=x from=first", ">OK\r\n",
	      "<SUB t n from=7",
	      ">OK\r\n" AT("a", "1", "5", "0", "0") AT("a", "2", "9", "1", "7")
		      AT("b", "3", "9", "3", "11") AT("g", "4", "9", "1", "7"),
	      "<PING", "!", FAKE_HELLO, "<SUB t a prefetch=9 from=@5",
	      "<SUB t b partition=3 from=12", "<SUB t g group=x from=first",
	      "<SUB t n from=7", "<PING",
	      ">OK\r\nOK\r\nOK\r\nOK\r\nOK\r\n" AT("a", "1", "5", "0", "0")
		      AT("a", "2", "6", "1", "4") AT("a", "3", "9", "1", "8")
			      AT("a", "4", "9", "1", "7") AT("g", "5", "9", "1", "7"),
	      "<ACK 1", "<ACK 2", "<PING", ">OK\r\nOK\r\nOK\r\n");
	struct tidemq_subscription b = {
		.queue = "t", .sid = "b", .has_partition = true, .partition = 3
	};
	OK_TO("SUB t a from=first prefetch=9");
	assert_int_equal(tidemq_subscribe(c, &b), TIDEMQ_OK);
	OK_TO("SUB t g group=x from=first", "SUB t n from=7");
	check_place(c, "a", 0, 0);
	check_place(c, "a", 1, 7);
	check_place(c, "b", 3, 11);
	check_place(c, "g", 1, 7);
	OK_TO("PING");
	check_place(c, "a", 1, 8);
	/* It was refused, or its lease ran out. */
	check_place(c, "a", 1, 7);
	check_place(c, "g", 1, 7);
	OK_TO("PING");
	END("connected; lost; restored; ");
}

TEST_THAT(what_a_reader_was_not_given_comes_again)
{
	START(FAKE_HELLO, "<SUB t a",
	      ">OK\r\n" AT("a", "1", "5", "0", "10") AT("a", "2", "6", "0", "11")
		      AT("a", "3", "7", "0", "12"),
	      "<PING", "!", FAKE_HELLO, "<SUB t a from=@6", "<PING",
	      ">OK\r\nOK\r\n" AT("a", "1", "6", "0", "11"));
	OK_TO("SUB t a");
	check_place(c, "a", 0, 10);
	OK_TO("PING");
	check_place(c, "a", 0, 11);
	END("connected; lost; restored; ");
}

TEST_THAT(a_transaction_is_lost_with_its_connection)
{
	START(FAKE_HELLO, "<SUB q s1", ">OK\r\n" MSG("s1", "1"), "<BEGIN", ">OK\r\n",
	      "<PUB - q 1", "<a", ">OK queued\r\n", "<PUB - q 1", "<b", "!", FAKE_HELLO,
	      "<SUB q s1", ">OK\r\n", "<BEGIN", ">OK\r\n", "<ACK 9223372036854775807",
	      ">ERR not-found no\r\n", "<COMMIT", ">ERR not-found no\r\n",
	      "~PUB - q id=* 1", "<c", ">OK " ID " 1\r\n");
	struct tidemq_msg *old;
	OK_TO("SUB q s1");
	old = next(c, 1);
	OK_TO("BEGIN");
	assert_int_equal(tidemq_request(c, "PUB - q", "a", 1, NULL), TIDEMQ_OK);
	assert_int_equal(tidemq_request(c, "PUB - q", "b", 1, NULL), TIDEMQ_ELOST);
	assert_int_equal(tidemq_request(c, "PUB - q", "b", 1, NULL), TIDEMQ_ELOST);
	assert_non_null(strstr(tidemq_last_error(c)->text, "begin again"));
	assert_int_equal(tidemq_ack(c, old), TIDEMQ_ELOST);
	check_request(c, "COMMIT", TIDEMQ_ELOST);
	/* The broker has to fail a transaction of which an ack is a part. */
	OK_TO("BEGIN");
	assert_int_equal(tidemq_ack(c, old), TIDEMQ_EREFUSED);
	check_request(c, "COMMIT", TIDEMQ_EREFUSED);
	assert_int_equal(tidemq_request(c, "PUB - q", "c", 1, NULL), TIDEMQ_OK);
	tidemq_msg_free(old);
	END("connected; lost; restored; ");
}

TEST_THAT(what_cannot_be_restored_is_told)
{
	START(FAKE_HELLO, "<BIND q e x", ">OK\r\n", "<SUB q s1", ">OK\r\n", "<SUB r s2",
	      ">OK\r\n", "!", FAKE_HELLO, "<BIND q e x", ">ERR not-found no e\r\n",
	      "<SUB q s1", "<SUB r s2", ">ERR denied no q\r\nOK\r\n");
	struct tidemq_msg *m;
	OK_TO("BIND q e x", "SUB q s1", "SUB r s2");
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_ECANCELLED);
	assert_string_equal(tidemq_last_error(c)->text, "s1 denied");
	END("connected; lost; restored -7 <not-found> BIND q e x: no e; ");
}

TEST_THAT(a_broker_that_is_not_ready_is_asked_again)
{
	START(FAKE_HELLO, "<DECLARE queue q", ">OK\r\n", "!", "<HELLO vhost=/",
	      ">ERR limit too many\r\n", "!", FAKE_HELLO, "<DECLARE queue q",
	      ">ERR store no Redis\r\n", "!", FAKE_HELLO, "<DECLARE queue q", ">OK\r\n",
	      "<PING", ">OK\r\n");
	OK_TO("DECLARE queue q", "PING");
	END("connected; lost; restored; ");
}

TEST_THAT(a_broker_that_does_not_restore_is_left)
{
	START_AND_END("*", FAKE_HELLO, "<DECLARE queue q", ">OK\r\n", "!", FAKE_HELLO,
		      "<DECLARE queue q", ".", "!", FAKE_HELLO, "<DECLARE queue q",
		      ">OK\r\n", "<PING", ">OK\r\n", ".");
	OK_TO("DECLARE queue q");
	c->options.connect_timeout_ms = patience_ms(2000); /* not that of the first */
	OK_TO("PING");
	END("connected; lost; restored; ");
}

TEST_THAT(a_refused_login_is_the_end)
{
	START(FAKE_HELLO, "<PING", ">EVT closed shutdown bye\r\n", "!", "<HELLO vhost=/",
	      ">ERR denied wrong password\r\n");
	check_request(c, "PING", TIDEMQ_ECLOSED);
	check_request(c, "PING", TIDEMQ_ECLOSED);
	assert_string_equal(tidemq_last_error(c)->word, "denied");
	assert_string_equal(tidemq_last_error(c)->text, "wrong password");
	END("connected; lost; gave up -3 <denied> wrong password; ");
}

TEST_THAT(quit_is_the_end)
{
	START_AND_END(FAKE_HELLO, "<QUIT", ">OK\r\n");
	struct tidemq_msg *m;
	OK_TO("QUIT");
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_ECLOSED);
	END("connected; gave up -3 <> the connection has ended: the broker closed it; ");
}

TEST_THAT(a_client_gives_up_in_time)
{
	struct fake_broker f;
	static const char *const script[] = { FAKE_HELLO, NULL };
	struct tidemq_options options = again;
	char want[300];
	options.reconnect_for_ms = 1;
	fake_start(&f, script);
	struct tidemq_client *c = connect_to(f.url, &options);
	unlink(f.path);
	check_request(c, "PING", TIDEMQ_ECLOSED);
	snprintf(
		want, sizeof(want),
		"connected; lost; gave up -3 <> gave up after 1 ms without a connection: "
		"cannot connect to %s: no such file or directory; ",
		f.path);
	END(want);
}

TEST_THAT(a_late_reply_costs_the_connection_and_nothing_else)
{
	START(FAKE_HELLO, "~PUB - q id=*-0 1", "<a", "~PUB - q id=*-1 1", "<b", ".", "!",
	      FAKE_HELLO, "~PUB - q id=*-0 1", "<a", ">OK " ID " 1\r\n");
	const struct tidemq_publication a = { .key = "q",
					      .payload = "a",
					      .payload_len = 1 };
	const struct tidemq_publication b = { .key = "q",
					      .payload = "b",
					      .payload_len = 1 };
	int64_t limit_ms = c->options.request_timeout_ms;
	c->options.request_timeout_ms = 50;
	assert_int_equal(tidemq_publish_pipelined(c, &a), TIDEMQ_OK);
	assert_int_equal(tidemq_publish(c, &b, NULL), TIDEMQ_ETIMEDOUT);
	c->options.request_timeout_ms = limit_ms;
	assert_int_equal(tidemq_flush(c), TIDEMQ_OK);
	END("connected; lost; restored; ");
}

TEST_THAT(a_broker_that_does_not_answer_is_left_for_another)
{
	struct fake_broker mute, other;
	static const char *const nothing[] = { FAKE_HELLO, "~PUB - q id=*-0 0", "<", ".",
					       NULL };
	static const char *const answers[] = { FAKE_HELLO, "~PUB - q id=*-0 0",
					       "<",        ">OK " ID " 1\r\n",
					       ".",        NULL };
	const struct tidemq_publication p = { .key = "q" };
	char urls[300];
	fake_start(&mute, nothing);
	fake_start(&other, answers);
	snprintf(urls, sizeof(urls), "%s,%s", mute.url, other.url);
	struct tidemq_client *c = connect_to(urls, &again);
	int64_t limit_ms = c->options.request_timeout_ms;
	assert_int_equal(tidemq_publish_pipelined(c, &p), TIDEMQ_OK);
	c->options.request_timeout_ms = 50;
	assert_int_equal(tidemq_flush(c), TIDEMQ_ETIMEDOUT);
	c->options.request_timeout_ms = limit_ms;
	assert_int_equal(tidemq_flush(c), TIDEMQ_OK);
	tidemq_disconnect(c);
	assert_buf(&story, "connected; lost; restored; ");
	buf_deinit(&story);
	fake_stop(&mute);
	fake_stop(&other);
}

TEST_THAT(the_first_broker_that_answers_is_taken)
{
	START(FAKE_HELLO, "<PING", ">OK\r\n");
	char urls[400];
	OK_TO("PING");
	END("connected; ");
	static const char *const other[] = { FAKE_HELLO, "<PING",    ">OK\r\n",
					     "!",        FAKE_HELLO, "<PING",
					     ">OK\r\n",  ".",        NULL };
	fake_start(&f, other);
	snprintf(urls, sizeof(urls),
		 "tide+unix:/nonexistent/x,tide://127.0.0.1:1/,%s,tide+unix:/y", f.url);
	c = connect_to(urls, NULL);
	OK_TO("PING");
	tidemq_disconnect(c);
	c = connect_to(urls, &again);
	OK_TO("PING");
	END("connected; ");
}

TEST_THAT(what_cannot_be_kept_is_not_sent)
{
	START(FAKE_HELLO, "~PUB - q id=* 1", "<a", ">OK " ID " 1\r\n");
	unsigned failures = 0;
	int rc;
	do {
		mem_fail_at = failures + 1;
		rc = tidemq_send(c, "PUB - q", "a", 1, NULL, NULL);
	} while (rc == TIDEMQ_ENOMEM && ++failures < 10);
	mem_fail_at = 0;
	assert_int_equal(rc, TIDEMQ_OK);
	assert_in_range(failures, 1, 2);
	assert_int_equal(tidemq_flush(c), TIDEMQ_OK);
	END("connected; ");
}

/* ---- asynchronous ---- */

static void on_reply(struct tidemq_client *c, const struct tidemq_reply *reply, void *ctx)
{
	buf_printf(&story, "%s %d; ", (const char *)ctx, reply->status);
	if (strcmp(ctx, "last") == 0)
		tidemq_close(c, NULL, NULL);
}

/* As a context. */
static void *word(const char *text)
{
	return (void *)(uintptr_t)text;
}

static void on_connected(struct tidemq_client *c, const struct tidemq_error *why,
			 void *ctx)
{
	assert_int_equal(why->status, TIDEMQ_OK);
	assert_int_equal(tidemq_send(c, "PUB - q", "a", 1, on_reply, word("a")),
			 TIDEMQ_OK);
	assert_int_equal(tidemq_send(c, "PURGE q", NULL, 0, on_reply, word("purge")),
			 TIDEMQ_OK);
}

static void on_msg(struct tidemq_client *c, struct tidemq_msg *m, void *ctx)
{
	tidemq_msg_free(m);
}

static void on_lost(struct tidemq_client *c, const struct tidemq_error *why, void *ctx)
{
	fail();
}

/* A client of the broker of the script lives until its loop has nothing to do. */
static void expect_story(const char *const *script, const struct tidemq_options *options,
			 const char *told)
{
	const struct tidemq_handlers handlers = { .on_connected = on_connected,
						  .on_msg = on_msg,
						  .on_lost = on_lost };
	struct fake_broker f;
	uv_loop_t loop;

	fake_start(&f, script);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_non_null(tidemq_start(&loop, f.url, options, &handlers, NULL));
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	assert_buf(&story, told);
	buf_deinit(&story);
	fake_stop(&f);
}

static void send_when_lost(struct tidemq_client *c, enum tidemq_state state,
			   const struct tidemq_error *why, void *ctx)
{
	on_state(c, state, why, ctx);
	if (state != TIDEMQ_LOST)
		return;
	assert_int_equal(tidemq_send(c, "PUB - q", "b", 1, on_reply, word("b")),
			 TIDEMQ_OK);
	assert_int_equal(tidemq_send(c, "PING", NULL, 0, on_reply, word("ping")),
			 TIDEMQ_EBUSY);
	assert_int_equal(tidemq_send(c, "ACK 1", NULL, 0, on_reply, word("ack")),
			 TIDEMQ_EBUSY);
	assert_int_equal(tidemq_send(c, "PUB - q", "c", 1, on_reply, word("last")),
			 TIDEMQ_OK);
	assert_int_equal(tidemq_send(c, "PUB - q", "d", 1, on_reply, word("d")),
			 TIDEMQ_EBUSY);
}

TEST_THAT(publications_may_be_sent_while_there_is_no_connection)
{
	static const char *const script[] = { FAKE_HELLO,
					      "~PUB - q id=*-0 1",
					      "<a",
					      "<PURGE q",
					      "!",
					      FAKE_HELLO,
					      "~PUB - q id=*-0 1",
					      "<a",
					      "~PUB - q id=*-1 1",
					      "<b",
					      "~PUB - q id=*-2 1",
					      "<c",
					      ">OK\r\nOK\r\nOK\r\n",
					      NULL };
	const struct tidemq_options options = { .reconnect = true,
						.on_state = send_when_lost,
						.window = 3 };
	expect_story(script, &options,
		     "connected; purge -11; lost; restored; a 0; b 0; last 0; ");
}

static void close_when_lost(struct tidemq_client *c, enum tidemq_state state,
			    const struct tidemq_error *why, void *ctx)
{
	on_state(c, state, why, ctx);
	if (state == TIDEMQ_LOST)
		tidemq_close(c, NULL, NULL);
}

TEST_THAT(a_client_may_be_closed_when_its_connection_is_lost)
{
	static const char *const script[] = { FAKE_HELLO, "~PUB - q id=* 1", "<a",
					      "<PURGE q", NULL };
	const struct tidemq_options options = { .reconnect = true,
						.on_state = close_when_lost };
	expect_story(script, &options, "connected; purge -11; lost; a -3; ");
}

TEST_THAT(a_broker_that_falls_silent_is_left)
{
	struct fake_broker f;
	static const char *const script[] = { "<HELLO vhost=/ heartbeat=1000",
					      ">DATA 2\r\n{}\r\n",
					      ".",
					      "!",
					      "<HELLO vhost=/ heartbeat=1000",
					      ">DATA 2\r\n{}\r\n" MSG("s1", "-"),
					      ".",
					      NULL };
	struct tidemq_options options = again;
	options.heartbeat_ms = 1000;
	fake_start(&f, script);
	struct tidemq_client *c = connect_to(f.url, &options);
	tidemq_msg_free(next(c, 0));
	END("connected; lost; restored; ");
}

RUN_TESTS()
