#include "check.h"

#include "base/mem.h"
#include "proto/stomp/stomp.h"
#include "proto/stomp/stomp_frame.h"

static struct stomp_frame f;
static struct error err;
static char *copy;

static int parse(const char *head, enum stomp_version version)
{
	mem_free(copy);
	copy = mem_strdup(head);
	return stomp_frame_parse(&f, copy, strlen(head), version, &err);
}

static int drop_copy(void **state)
{
	mem_free(copy);
	copy = NULL;
	return 0;
}

/* In every split the end is found when its last byte is there, and not before. */
TEST_THAT(the_end_of_a_head_is_found_in_any_split)
{
	static const char *const heads[] = { "SEND\n\n",          "SEND\r\n\r\n",
					     "SEND\na:b\n\n",     "SEND\na:b\r\n\n",
					     "SEND\r\na:b\n\r\n", "SEND\na:b\rc\n\n" };

	for (size_t i = 0; i < COUNT(heads); i++) {
		size_t len = strlen(heads[i]);

		for (size_t cut = 0; cut < len; cut++) {
			size_t scanned = 0;

			assert_int_equal(stomp_frame_find_end(heads[i], cut, &scanned),
					 0);
			assert_int_equal(stomp_frame_find_end(heads[i], len, &scanned),
					 len);
		}
		for (size_t scanned = 0, n = 1; n <= len; n++)
			assert_int_equal(stomp_frame_find_end(heads[i], n, &scanned),
					 n == len ? len : 0);
	}
}

TEST_THAT(a_nul_in_a_head_is_found_in_any_split)
{
	static const char head[] = "SEND\na:b\0c\n\n";

	for (size_t cut = 0; cut < sizeof(head) - 1; cut++) {
		size_t scanned = 0, first = stomp_frame_find_end(head, cut, &scanned);

		assert_true(first == (cut > 8 ? SIZE_MAX : 0));
		if (!first)
			assert_true(stomp_frame_find_end(head, sizeof(head) - 1,
							 &scanned) == SIZE_MAX);
	}
}

TEST_THAT(known_headers_are_those_of_the_command)
{
	assert_int_equal(parse("SEND\ndestination:/queue/a\nid:7\nx:y\n\n", STOMP_1_2),
			 0);
	assert_int_equal(f.verb, STOMP_SEND);
	assert_slice(stomp_frame_header(&f, STOMP_H_DESTINATION), "/queue/a");
	assert_null(stomp_frame_header(&f, STOMP_H_ID).data);
	assert_int_equal(f.count, 2);
	assert_slice(f.others[0].name, "id");
	assert_slice(stomp_frame_other(&f, "x"), "y");
	assert_null(stomp_frame_other(&f, "z").data);
	assert_int_equal(parse("ACK\nid:7\n\n", STOMP_1_2), 0);
	assert_slice(stomp_frame_header(&f, STOMP_H_ID), "7");
}

TEST_THAT(of_a_repeated_header_the_first_counts)
{
	assert_int_equal(parse("SEND\nx:1\npriority:2\nx:3\npriority:4\n\n", STOMP_1_2),
			 0);
	assert_int_equal(f.count, 1);
	assert_slice(stomp_frame_other(&f, "x"), "1");
	assert_slice(stomp_frame_header(&f, STOMP_H_PRIORITY), "2");
}

TEST_THAT(escapes_are_those_of_the_version)
{
	assert_int_equal(parse("SEND\na\\cb:\\n\\\\\\r:c\r\n\n", STOMP_1_2), 0);
	assert_slice(f.others[0].name, "a:b");
	assert_slice(f.others[0].value, "\n\\\r:c");
	assert_int_equal(parse("SEND\na:\\r\n\n", STOMP_1_1), TIDE_ESYNTAX);
	assert_int_equal(parse("SEND\na:\\t\n\n", STOMP_1_2), TIDE_ESYNTAX);
	assert_int_equal(parse("SEND\na:\\\n\n", STOMP_1_2), TIDE_ESYNTAX);
	assert_int_equal(parse("SEND\n a : b\\n \n\n", STOMP_1_0), 0);
	assert_slice(f.others[0].name, "a");
	assert_slice(f.others[0].value, "b\\n");
	assert_int_equal(parse("SEND\na: b \n\n", STOMP_1_1), 0);
	assert_slice(f.others[0].value, " b ");
	assert_int_equal(parse("CONNECT\npasscode:a\\cb\n\n", STOMP_1_2), 0);
	assert_slice(stomp_frame_header(&f, STOMP_H_PASSCODE), "a\\cb");
}

TEST_THAT(what_is_no_header_is_named)
{
	assert_int_equal(parse("SEND\nabc\n\n", STOMP_1_2), TIDE_ESYNTAX);
	assert_string_equal(err.text, "'abc' is not a header: expected name:value");
	assert_int_equal(parse("SEND\n:abc\n\n", STOMP_1_2), TIDE_ESYNTAX);
	assert_int_equal(parse("send\n\n", STOMP_1_2), TIDE_EVERB);
	assert_int_equal(parse("STOMP\n\n", STOMP_1_0), 0);
	assert_int_equal(f.verb, STOMP_CONNECT);
}

TEST_THAT(headers_have_a_limit)
{
	struct buf text = { 0 };

	buf_append_text(&text, "SEND\n");
	for (int i = 0; i < MSG_HEADERS_MAX; i++)
		buf_printf(&text, "h%d:x\n", i);
	buf_append_text(&text, "\n");
	assert_int_equal(parse(buf_cstr(&text), STOMP_1_2), 0);
	assert_int_equal(f.count, MSG_HEADERS_MAX);
	text.end--;
	buf_append_text(&text, "one:more\n\n");
	assert_int_equal(parse(buf_cstr(&text), STOMP_1_2), TIDE_ETOOLONG);
	buf_deinit(&text);
}

TEST_THAT(values_are_checked)
{
	static const struct number_limits to_nine = { 0, 9 }, to_minute = { 0, 60000 };

	assert_int_equal(parse("SEND\npriority:10\nmust:maybe\ndelay:2m\n\n", STOMP_1_2),
			 0);
	stomp_frame_uint(&f, STOMP_H_PRIORITY, to_nine, 1);
	assert_int_equal(f.rc, TIDE_ESYNTAX);
	assert_string_equal(err.text,
			    "header priority:10: expected a number from 0 to 9");
	/* The first error is the one that is told. */
	assert_false(stomp_frame_flag(&f, STOMP_H_MUST, true));
	assert_string_equal(err.text,
			    "header priority:10: expected a number from 0 to 9");
	f.rc = TIDE_OK;
	assert_false(stomp_frame_flag(&f, STOMP_H_MUST, true));
	assert_int_equal(f.rc, TIDE_ESYNTAX);
	f.rc = TIDE_OK;
	stomp_frame_duration(&f, STOMP_H_DELAY, to_minute);
	assert_int_equal(f.rc, TIDE_ESYNTAX);
	f.rc = TIDE_OK;
	assert_true(stomp_frame_flag(&f, STOMP_H_REQUEUE, true));
	stomp_frame_need(&f, STOMP_H_DESTINATION);
	assert_string_equal(err.text, "SEND needs a header 'destination'");
}

TEST_THAT(destinations_are_decoded)
{
	char room[STOMP_DESTINATION_MAX];
	struct stomp_destination d;

	assert_int_equal(
		stomp_destination_parse(SLICE("/exchange/a%2Fb/k.%25"), room, &d, &err),
		0);
	assert_int_equal(d.place, STOMP_EXCHANGE);
	assert_slice(d.exchange, "a/b");
	assert_slice(d.key, "k.%");
	assert_int_equal(stomp_destination_parse(SLICE("/exchange/x"), room, &d, &err),
			 0);
	assert_int_equal(d.key.len, 0);
	assert_int_equal(stomp_destination_parse(SLICE("/topic/a.#"), room, &d, &err), 0);
	assert_slice(d.exchange, "amq.topic");
	assert_slice(d.key, "a.#");
	assert_int_equal(stomp_destination_parse(SLICE("/amq/queue/q"), room, &d, &err),
			 0);
	assert_int_equal(d.place, STOMP_AMQ_QUEUE);
	assert_int_equal(stomp_destination_parse(SLICE("jobs%2F"), room, &d, &err), 0);
	assert_int_equal(d.place, STOMP_QUEUE);
	assert_slice(d.key, "jobs/");
	assert_int_equal(stomp_destination_parse(SLICE("amq/queue/q"), room, &d, &err),
			 TIDE_ESYNTAX);
	assert_int_equal(stomp_destination_parse(SLICE("/amq/queue/q"), room, &d, &err),
			 0);
	assert_int_equal(d.exchange.len, 0);
	assert_slice(d.key, "q");
}

TEST_THAT(what_is_no_destination_is_refused)
{
	static const char *const texts[] = {
		"/jobs",         "/queue",       "/queue/",         "/queue/a/b",
		"/queue/a b",    "/queue/%zz",   "/queue/%",        "/queue/-",
		"/exchange/",    "/exchange//k", "/exchange/a/b/c", "/topic/",
		"/reply-queue/", "/temp-queue/", "/amq/queue/",     "/Queue/a",
	};
	char room[STOMP_DESTINATION_MAX], many[STOMP_DESTINATION_MAX + 1];
	struct stomp_destination d;

	for (size_t i = 0; i < COUNT(texts); i++)
		if (stomp_destination_parse(slice_from(texts[i]), room, &d, &err) !=
		    TIDE_ESYNTAX)
			fail_msg("%s is taken", texts[i]);
	memset(many, 'a', sizeof(many));
	memcpy(many, "/queue/", 7);
	assert_int_equal(stomp_destination_parse((struct slice){ many, sizeof(many) },
						 room, &d, &err),
			 TIDE_ETOOLONG);
}

RUN_TESTS(.end = drop_copy)
