#include "check.h"
#include "fake_broker.h"
#include "tidemq/client.h"

#define ID_1 "0c5e1f3a90001000"
#define ID_2 "0c5e1f3a90001001"

static struct tidemq_client *connect_to(struct fake_broker *f,
					const struct tidemq_options *options)
{
	struct tidemq_error err = { 0 };
	struct tidemq_client *c = tidemq_connect(f->url, options, &err);
	assert_string_equal(err.text, "");
	assert_non_null(c);
	return c;
}

#define PLAY(...)                                                  \
	struct fake_broker f;                                      \
	static const char *const script[] = { __VA_ARGS__, NULL }; \
	fake_start(&f, script)
#define START(...) START_WITH(NULL, __VA_ARGS__)
#define START_WITH(options, ...) \
	PLAY(__VA_ARGS__);       \
	struct tidemq_client *c = connect_to(&f, options)
#define END()                 \
	tidemq_disconnect(c); \
	fake_stop(&f)

static void subscribe(struct tidemq_client *c)
{
	struct tidemq_subscription s = { .queue = "jobs", .sid = "s1" };
	assert_int_equal(tidemq_subscribe(c, &s), TIDEMQ_OK);
}

TEST_THAT(connect_says_hello_and_keeps_the_answer)
{
	PLAY("<HELLO user=u pass=p%25%20 vhost=shop name=me heartbeat=2000",
	     ">DATA 12\r\n{\"node\":  3}\r\n", "<PING", ">OK\r\n");
	char url[256];
	snprintf(url, sizeof(url), "%s?vhost=shop&user=u&pass=p%%25%%20", f.url);
	const struct tidemq_options options = { .name = "me", .heartbeat_ms = 2000 };
	struct tidemq_client *c = tidemq_connect(url, &options, NULL);
	assert_non_null(c);
	assert_string_equal(tidemq_server_info(c), "{\"node\":  3}");
	assert_int_equal(tidemq_request(c, "PING", NULL, 0, NULL), TIDEMQ_OK);
	END();
}

TEST_THAT(connect_reports_what_the_broker_refuses)
{
	PLAY("<HELLO vhost=/", ">ERR limit too many connections\r\n");
	struct tidemq_error err;
	assert_null(tidemq_connect(f.url, NULL, &err));
	assert_int_equal(err.status, TIDEMQ_EREFUSED);
	assert_string_equal(err.word, "limit");
	assert_string_equal(err.text, "too many connections");
	fake_stop(&f);
}

TEST_THAT(connect_to_nobody_fails)
{
	struct tidemq_error err;
	assert_null(tidemq_connect("tide+unix:/nonexistent/socket", NULL, &err));
	assert_int_equal(err.status, TIDEMQ_ECONNECT);
	assert_non_null(strstr(err.text, "/nonexistent/socket"));
	assert_null(tidemq_connect("tide://127.0.0.1:1/", NULL, &err));
	assert_int_equal(err.status, TIDEMQ_ECONNECT);
	assert_null(tidemq_connect("nonsense", NULL, &err));
	assert_int_equal(err.status, TIDEMQ_EINVAL);
}

TEST_THAT(connect_to_a_mute_server_times_out)
{
	struct fake_broker f;
	struct tidemq_error err;
	const struct tidemq_options options = { .connect_timeout_ms = 20 };
	fake_listen(&f);
	assert_null(tidemq_connect(f.url, &options, &err));
	assert_int_equal(err.status, TIDEMQ_ETIMEDOUT);
	close(f.listener);
	unlink(f.path);
	rmdir(f.dir);
}

TEST_THAT(publish_gives_the_receipt)
{
	START(FAKE_HELLO, "<PUB - jobs pri=7 must h:a=b%20c 2", "<hi",
	      ">OK " ID_1 " 3\r\n", "<PUB - jobs id=a 0", "<",
	      ">OK " ID_2 " 1 duplicate\r\n", "<PUB - t 0", "<",
	      ">OK " ID_1 " 2 63:18446744073709551614 topics=2 more\r\n", "<PUB - t 0",
	      "<", ">OK " ID_2 " 1 duplicate 0:7\r\n", "<PUB - t 0", "<",
	      ">OK " ID_1 " 1 x:y 3:4\r\n", "<PUB x - 0", "<",
	      ">ERR not-found there is no exchange 'x'\r\n", "<PING", ">OK\r\n");
	const struct tidemq_header header = { "a", "b c", 3 };
	struct tidemq_publication p = { .key = "jobs",
					.payload = "hi",
					.payload_len = 2,
					.priority = 7,
					.must = true,
					.headers = &header,
					.header_count = 1 };
	struct tidemq_receipt receipt;
	assert_int_equal(tidemq_publish(c, &p, &receipt), TIDEMQ_OK);
	assert_string_equal(receipt.id, ID_1);
	assert_int_equal(receipt.queues, 3);
	assert_false(receipt.is_duplicate);
	p = (struct tidemq_publication){ .key = "jobs", .dedupe_id = "a" };
	assert_int_equal(tidemq_publish(c, &p, &receipt), TIDEMQ_OK);
	assert_string_equal(receipt.id, ID_2);
	assert_true(receipt.is_duplicate);
	assert_false(receipt.has_offset);
	p = (struct tidemq_publication){ .key = "t" };
	assert_int_equal(tidemq_publish(c, &p, &receipt), TIDEMQ_OK);
	assert_false(receipt.is_duplicate);
	assert_true(receipt.has_offset);
	assert_int_equal(receipt.queues, 2);
	assert_int_equal(receipt.topics, 2);
	assert_int_equal(receipt.partition, 63);
	assert_true(receipt.offset == UINT64_MAX - 1);
	assert_int_equal(tidemq_publish(c, &p, &receipt), TIDEMQ_OK);
	assert_true(receipt.is_duplicate);
	assert_true(receipt.has_offset);
	assert_int_equal(receipt.partition, 0);
	assert_true(receipt.offset == 7);
	assert_int_equal(tidemq_publish(c, &p, &receipt), TIDEMQ_OK);
	assert_false(receipt.has_offset);
	assert_int_equal(
		tidemq_publish(c, &(struct tidemq_publication){ .exchange = "x" }, NULL),
		TIDEMQ_EREFUSED);
	assert_string_equal(tidemq_last_error(c)->word, "not-found");
	assert_string_equal(tidemq_last_error(c)->text, "there is no exchange 'x'");
	assert_int_equal(tidemq_request(c, "PING", NULL, 0, NULL), TIDEMQ_OK);
	assert_int_equal(tidemq_last_error(c)->status, TIDEMQ_OK);
	END();
}

TEST_THAT(pipelined_publications_wait_for_the_window_only)
{
	/* Half a window must be free again before the third is sent. */
	const struct tidemq_options options = { .window = 2 };
	START_WITH(&options, FAKE_HELLO, "<PUB - q 1", "<1", "<PUB - q 1", "<2",
		   ">OK " ID_1 " 1\r\n", "<PUB - q 1", "<3",
		   ">ERR full the queue is full\r\nOK " ID_2 " 1\r\n", "<PUB - q 1", "<5",
		   ">OK " ID_2 " 1\r\n");
	struct tidemq_publication p = { .key = "q", .payload_len = 1 };
	static const char *const payloads[] = { "1", "2", "3" };
	for (size_t i = 0; i < 3; i++) {
		p.payload = payloads[i];
		assert_int_equal(tidemq_publish_pipelined(c, &p), TIDEMQ_OK);
	}
	assert_int_equal(tidemq_flush(c), TIDEMQ_EREFUSED);
	assert_string_equal(tidemq_last_error(c)->word, "full");
	assert_int_equal(tidemq_flush(c), TIDEMQ_OK);
	assert_int_equal(tidemq_confirmed(c), 2);
	p.payload = "5";
	assert_int_equal(tidemq_publish_pipelined(c, &p), TIDEMQ_OK);
	assert_int_equal(tidemq_flush(c), TIDEMQ_OK);
	assert_int_equal(tidemq_confirmed(c), 3);
	END();
}

TEST_THAT(a_message_is_consumed_and_settled)
{
	START(FAKE_HELLO, "<SUB jobs s1 prefetch=5",
	      ">OK\r\nMSG s1 1 1 - jobs id=" ID_1 " ts=5 2\r\nhi\r\n"
	      "@4 MSG s2 9 2 x k id=" ID_2 " ts=6 redelivered h:t=1 0\r\n\r\n",
	      "<ACK 1", ">OK 1\r\n", "<@4 NACK 9 requeue", ">@4 OK 1\r\n",
	      "<@4 NACK 9 delay=250", ">@4 ERR lease-lost tag 9 is no longer held\r\n",
	      "<@4 TOUCH 9 for=1000", ">@4 OK 1\r\n", "<@4 NACK 9 dead", ">@4 OK 1\r\n",
	      "<@4 NACK 9 bury reason=disk%20full", ">@4 OK 1\r\n", "<UNSUB s1",
	      ">OK\r\n");
	struct tidemq_msg *m, *other;
	struct tidemq_subscription s = { .queue = "jobs", .sid = "s1", .prefetch = 5 };
	assert_int_equal(tidemq_subscribe(c, &s), TIDEMQ_OK);
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_OK);
	assert_string_equal(m->sid, "s1");
	assert_string_equal(m->payload, "hi");
	assert_int_equal(tidemq_ack(c, m), TIDEMQ_OK);
	assert_int_equal(tidemq_next(c, 5000, &other), TIDEMQ_OK);
	assert_int_equal(other->channel, 4);
	assert_string_equal(tidemq_msg_header(other, "t"), "1");
	assert_int_equal(tidemq_nack(c, other, TIDEMQ_NACK_REQUEUE), TIDEMQ_OK);
	assert_int_equal(tidemq_nack_delay(c, other, 250), TIDEMQ_ELEASELOST);
	assert_string_equal(tidemq_last_error(c)->word, "lease-lost");
	assert_int_equal(tidemq_touch(c, other, 1000), TIDEMQ_OK);
	assert_int_equal(tidemq_nack(c, other, TIDEMQ_NACK_DEAD), TIDEMQ_OK);
	assert_int_equal(tidemq_nack_reason(c, other, TIDEMQ_NACK_BURY, "disk full"),
			 TIDEMQ_OK);
	assert_int_equal(tidemq_unsubscribe(c, "s1"), TIDEMQ_OK);
	tidemq_msg_free(m);
	tidemq_msg_free(other);
	END();
}

TEST_THAT(get_counts_and_its_messages_come_out_of_next)
{
	START(FAKE_HELLO, "<GET urgent jobs max=10 wait=50 ack=auto ack-timeout=300",
	      ">OK 1\r\nMSG - - 1 - jobs id=" ID_1 " ts=5 1\r\na\r\n", "<GET a=b max=1",
	      ">OK 0\r\n");
	static const char *const queues[] = { "urgent", "jobs" };
	static const char *const bad[] = { "a=b", "a=b" };
	struct tidemq_fetch g = { .queues = queues,
				  .queue_count = 2,
				  .max = 10,
				  .wait_ms = 50,
				  .auto_ack = true,
				  .ack_timeout_ms = 300 };
	struct tidemq_msg *m;
	unsigned count;
	assert_int_equal(tidemq_get(c, &g, &count), TIDEMQ_OK);
	assert_int_equal(count, 1);
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_OK);
	assert_string_equal(m->sid, "-");
	assert_int_equal(m->tag, 0);
	assert_int_equal(tidemq_ack(c, m), TIDEMQ_EINVAL);
	tidemq_msg_free(m);
	g = (struct tidemq_fetch){ .queues = bad, .queue_count = 2 };
	assert_int_equal(tidemq_get(c, &g, &count), TIDEMQ_EINVAL);
	g.queue_count = 0;
	assert_int_equal(tidemq_get(c, &g, &count), TIDEMQ_EINVAL);
	g.queue_count = 1;
	assert_int_equal(tidemq_get(c, &g, &count), TIDEMQ_OK);
	assert_int_equal(count, 0);
	END();
}

TEST_THAT(a_topic_is_followed_by_a_group_or_read_at_an_offset)
{
	const struct tidemq_options options = { .events = true };
	START_WITH(
		&options, FAKE_HELLO, "<SUB events s1 group=two%20words from=2026-11-23",
		">OK\r\nEVT assigned s1 0,3\r\n", "<SUB events s2 from=first partition=0",
		">OK\r\n", "<GET events max=1 group=g from=last", ">OK 0\r\n",
		"<GET events max=1 partition=3 offset=12",
		">OK 1\r\nMSG - - 1 - events id=" ID_1
		" ts=5 partition=3 offset=14 1\r\na\r\n");
	static const char *const topic[] = { "events" };
	struct tidemq_subscription s = {
		.queue = "events", .sid = "s1", .group = "two words", .from = "2026-11-23"
	};
	struct tidemq_fetch g = {
		.queues = topic, .queue_count = 1, .group = "g", .from = "last"
	};
	struct tidemq_msg *m;
	unsigned count;
	assert_int_equal(tidemq_subscribe(c, &s), TIDEMQ_OK);
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_EEVENT);
	assert_string_equal(tidemq_last_error(c)->text, "assigned s1 0,3");
	s = (struct tidemq_subscription){
		.queue = "events", .sid = "s2", .from = "first", .has_partition = true
	};
	assert_int_equal(tidemq_subscribe(c, &s), TIDEMQ_OK);
	assert_int_equal(tidemq_get(c, &g, &count), TIDEMQ_OK);
	g = (struct tidemq_fetch){ .queues = topic,
				   .queue_count = 1,
				   .has_partition = true,
				   .partition = 3,
				   .offset = "12" };
	assert_int_equal(tidemq_get(c, &g, &count), TIDEMQ_OK);
	assert_int_equal(count, 1);
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_OK);
	assert_true(m->has_offset);
	assert_int_equal(m->partition, 3);
	assert_int_equal(m->offset, 14);
	tidemq_msg_free(m);
	END();
}

TEST_THAT(acks_may_be_pipelined)
{
	START(FAKE_HELLO, "<SUB jobs s1",
	      ">OK\r\nMSG s1 1 1 - jobs id=" ID_1 " ts=5 1\r\na\r\n"
	      "MSG s1 2 1 - jobs id=" ID_2 " ts=5 1\r\nb\r\n",
	      "<ACK 1", "<ACK 2", ">OK 1\r\nERR lease-lost tag 2 is no longer held\r\n",
	      "<PING", ">OK\r\n");
	struct tidemq_msg *m;
	subscribe(c);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_OK);
		assert_int_equal(tidemq_ack_pipelined(c, m), TIDEMQ_OK);
		tidemq_msg_free(m);
	}
	assert_int_equal(tidemq_flush(c), TIDEMQ_ELEASELOST);
	assert_string_equal(tidemq_last_error(c)->word, "lease-lost");
	assert_int_equal(tidemq_request(c, "PING", NULL, 0, NULL), TIDEMQ_OK);
	END();
}

#define AGAIN(tag, id, payload) \
	"MSG s1 " tag " 1 - jobs id=" id " ts=5 redelivered 1\r\n" payload "\r\n"

/* The consumer settled nothing for a whole lease. */
TEST_THAT(a_message_that_comes_again_while_it_waits_is_handed_out_once)
{
	START(FAKE_HELLO, "<SUB jobs s1",
	      ">OK\r\nMSG s1 1 1 - jobs id=" ID_1 " ts=5 1\r\na\r\n"
	      "MSG s1 2 1 - jobs id=" ID_2 " ts=5 1\r\nb\r\n",
	      "<PING", ">" AGAIN("3", ID_1, "a") AGAIN("4", ID_2, "b") "OK\r\n", "<ACK 1",
	      ">OK 1\r\n", "<ACK 4", ">OK 1\r\n", "<QUIT");
	struct tidemq_msg *m;
	subscribe(c);
	assert_int_equal(tidemq_next(c, 5000, &m), TIDEMQ_OK);
	assert_int_equal(tidemq_request(c, "PING", NULL, 0, NULL), TIDEMQ_OK);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(tidemq_ack(c, m), TIDEMQ_OK);
		tidemq_msg_free(m);
		int rc = i == 0 ? TIDEMQ_OK : TIDEMQ_ETIMEDOUT;
		assert_int_equal(tidemq_next(c, 0, &m), rc);
	}
	END();
}

/* What comes meanwhile is read: a socket that ends with unread bytes is one that breaks.
 */
TEST_THAT(disconnect_says_quit_and_waits_for_the_end)
{
	START(FAKE_HELLO, "<SUB jobs s1", ">OK\r\n", "<QUIT",
	      ">MSG s1 1 1 - jobs id=" ID_1 " ts=5 1\r\na\r\nOK\r\n");
	subscribe(c);
	END();
}

TEST_THAT(next_without_messages_times_out_and_the_client_lives)
{
	START(FAKE_HELLO, "<PING",
	      ">OK\r\nEVT heartbeat\r\nEVT cancelled s1 deleted\r\n");
	struct tidemq_msg *m;
	assert_int_equal(tidemq_next(c, 0, &m), TIDEMQ_ETIMEDOUT);
	assert_int_equal(tidemq_next(c, 5, &m), TIDEMQ_ETIMEDOUT);
	assert_null(m);
	assert_int_equal(tidemq_request(c, "PING", NULL, 0, NULL), TIDEMQ_OK);
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_ECANCELLED);
	assert_string_equal(tidemq_last_error(c)->text, "s1 deleted");
	END();
}

TEST_THAT(next_returns_events_to_those_who_ask)
{
	const struct tidemq_options options = { .prefetch = 3, .events = true };
	START_WITH(&options, "<HELLO vhost=/ prefetch=3", ">DATA 2\r\n{}\r\n",
		   "<SUB jobs s1 priority=-5 rank=2 notify-lease=1000 exclusive",
		   ">OK\r\nEVT active s1\r\nEVT heartbeat\r\nEVT lease s1 7 500\r\n"
		   "EVT cancelled s1 deleted\r\n");
	const struct tidemq_subscription s = { .queue = "jobs",
					       .sid = "s1",
					       .priority = -5,
					       .rank = 2,
					       .notify_lease_ms = 1000,
					       .exclusive = true };
	struct tidemq_msg *m;
	assert_int_equal(tidemq_subscribe(c, &s), TIDEMQ_OK);
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_EEVENT);
	assert_null(m);
	assert_string_equal(tidemq_last_error(c)->text, "active s1");
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_EEVENT);
	assert_string_equal(tidemq_last_error(c)->text, "lease s1 7 500");
	assert_int_equal(tidemq_next(c, patience_ms(DEADLINE_MS), &m), TIDEMQ_ECANCELLED);
	END();
}

TEST_THAT(a_reply_that_does_not_come_ends_the_connection)
{
	const struct tidemq_options options = { .request_timeout_ms = 20 };
	START_WITH(&options, FAKE_HELLO, "<PING", ".");
	struct tidemq_msg *m;
	assert_int_equal(tidemq_request(c, "PING", NULL, 0, NULL), TIDEMQ_ETIMEDOUT);
	assert_int_equal(tidemq_next(c, -1, &m), TIDEMQ_ECLOSED);
	assert_int_equal(tidemq_request(c, "PING", NULL, 0, NULL), TIDEMQ_ECLOSED);
	assert_int_equal(tidemq_last_error(c)->status, TIDEMQ_ETIMEDOUT);
	END();
}

TEST_THAT(a_reply_that_is_late_says_that_publishers_are_held_back)
{
	const struct tidemq_options options = { .request_timeout_ms = patience_ms(1000) };
	START_WITH(&options, FAKE_HELLO, "<PING",
		   ">EVT blocked memory is short\r\nOK\r\n", "<PING", ".");
	const char *text;
	assert_int_equal(tidemq_request(c, "PING", NULL, 0, NULL), TIDEMQ_OK);
	assert_int_equal(tidemq_request(c, "PING", NULL, 0, NULL), TIDEMQ_ETIMEDOUT);
	text = tidemq_last_error(c)->text;
	assert_non_null(strstr(text, ": publishers are held back, memory is short; "));
	assert_non_null(strstr(text, "the request may be carried out all the same"));
	END();
}

TEST_THAT(a_closed_connection_tells_why)
{
	START(FAKE_HELLO, "<PING", ">EVT closed shutdown the broker is stopping\r\n");
	struct tidemq_reply reply;
	assert_int_equal(tidemq_request(c, "PING", NULL, 0, &reply), TIDEMQ_ECLOSED);
	assert_string_equal(reply.word, "shutdown");
	assert_string_equal(reply.text, "the broker is stopping");
	struct tidemq_msg *m;
	assert_int_equal(tidemq_next(c, -1, &m), TIDEMQ_ECLOSED);
	END();
}

TEST_THAT(nonsense_ends_the_connection)
{
	START(FAKE_HELLO, "<PING", ">HTTP/1.1 400 Bad Request\r\n");
	assert_int_equal(tidemq_request(c, "PING", NULL, 0, NULL), TIDEMQ_ECLOSED);
	assert_int_equal(tidemq_last_error(c)->status, TIDEMQ_ECLOSED);
	assert_non_null(strstr(tidemq_last_error(c)->text, "not a reply"));
	END();
}

TEST_THAT(replies_are_matched_by_channel)
{
	START(FAKE_HELLO, "<@1 OPEN", ">@1 OK\r\n", "<LIST queues", ">DATA 2\r\n[]\r\n",
	      "<PING", ">OK\r\n");
	struct tidemq_reply reply;
	assert_int_equal(tidemq_request(c, "@1 OPEN", NULL, 0, &reply), TIDEMQ_OK);
	assert_false(reply.is_document);
	assert_int_equal(reply.len, 0);
	assert_int_equal(tidemq_request(c, "LIST queues", NULL, 0, &reply), TIDEMQ_OK);
	assert_true(reply.is_document);
	assert_string_equal(reply.text, "[]");
	assert_int_equal(tidemq_request(c, "LIST\nqueues", NULL, 0, &reply),
			 TIDEMQ_EINVAL);
	struct tidemq_subscription s = { .queue = "a b", .sid = "s" };
	assert_int_equal(tidemq_subscribe(c, &s), TIDEMQ_EINVAL);
	assert_int_equal(tidemq_request(c, "PING", NULL, 0, NULL), TIDEMQ_OK);
	END();
}

RUN_TESTS()
