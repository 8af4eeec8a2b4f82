#include "check.h"

#include "broker/event.h"
#include "broker/exchange.h"

static struct broker *make(struct exchange *x)
{
	struct broker_config config;
	struct broker *b;

	broker_config_init(&config);
	b = broker_create(NULL, &config);
	b->events.exchange = x;
	b->is_started = true;
	return b;
}

static void done(struct broker *b)
{
	b->events.exchange = NULL;
	broker_clear(b);
	broker_destroy(b);
}

TEST_THAT(nothing_is_made_while_nobody_listens)
{
	struct exchange x = { .binding_count = 0 };
	struct broker *b = make(&x);

	EVENT_TELL(b, EVENT_VHOST_DECLARED, SLICE("v"));
	assert_int_equal(b->events.count, 0);
	assert_int_equal(b->events.lost, 0);
	b->is_draining = true;
	x.binding_count = 1;
	EVENT_TELL(b, EVENT_VHOST_DECLARED, SLICE("v"));
	assert_int_equal(b->events.count, 0);
	done(b);
}

TEST_THAT(an_event_is_headers_and_the_same_as_json)
{
	struct exchange x = { .binding_count = 1 };
	struct broker *b = make(&x);
	char number[EVENT_NUMBER_MAX];
	const struct msg *m;

	b->now_ms = 1234;
	EVENT_TELL(b, EVENT_CONSUMER_STARTED, SLICE("/"), SLICE("q \"1\""),
		   event_number(7, number), SLICE("s"), SLICE(""));
	m = STAILQ_FIRST(&b->events.waiting)->msg;
	assert_true(slice_is(m->key, "consumer.started"));
	assert_true(slice_is(m->exchange, "$events"));
	assert_int_equal(m->header_count, 4); /* nobody's name is left out */
	assert_true(slice_is(msg_header(m, SLICE("queue")), "q \"1\""));
	assert_true(slice_is(msg_header(m, SLICE("connection")), "7"));
	assert_true(slice_is((struct slice){ m->payload, m->payload_len },
			     "{\"event\":\"consumer.started\",\"time_ms\":1234,"
			     "\"vhost\":\"/\",\"queue\":\"q \\\"1\\\"\",\"connection\":7,"
			     "\"consumer\":\"s\"}"));
	done(b);
}

TEST_THAT(events_that_nobody_publishes_are_counted_and_not_kept)
{
	struct exchange x = { .binding_count = 1 };
	struct broker *b = make(&x);

	for (int i = 0; i < EVENTS_MAX + 3; i++)
		EVENT_TELL(b, EVENT_VHOST_DECLARED, SLICE("v"));
	assert_int_equal(b->events.count, EVENTS_MAX);
	assert_int_equal(b->events.lost, 3);
	done(b);
}

TEST_THAT(each_kind_is_a_row_of_the_documents)
{
	struct buf text = { 0 };
	unsigned lines = 0;

	event_document(&text);
	for (size_t i = 0; i < buf_len(&text); i++)
		lines += buf_cstr(&text)[i] == '\n';
	assert_int_equal(lines, EVENT_KINDS + 2);
	buf_deinit(&text);
}

RUN_TESTS()
