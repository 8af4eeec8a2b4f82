#include "check.h"

#include <jansson.h>

#include "http/http_request.h"

static int parse(const char *text, struct http_message *m, json_t **object,
		 struct error *err)
{
	*object = json_loads(text, JSON_DECODE_ANY, NULL);
	assert_non_null(*object);
	return http_message_read(m, *object, SLICE("-"), err);
}

TEST_THAT(a_message_is_read)
{
	struct http_message m;
	struct error err;
	json_t *object;

	assert_int_equal(parse("{\"key\":\"k\",\"payload\":\"hello\",\"priority\":9,"
			       "\"headers\":{\"a\":\"b\"},\"delay\":\"2s\",\"ttl\":5000,"
			       "\"ack-timeout\":\"1m\",\"id\":\"me\",\"must\":true,"
			       "\"expect\":12}",
			       &m, &object, &err),
			 TIDE_OK);
	assert_slice(m.spec.exchange, "");
	assert_slice(m.spec.key, "k");
	assert_slice(((struct slice){ m.spec.payload, m.spec.payload_len }), "hello");
	assert_int_equal(m.spec.priority, 9);
	assert_int_equal(m.spec.header_count, 1);
	assert_slice(m.headers[0].name, "a");
	assert_slice(m.headers[0].value, "b");
	assert_int_equal(m.spec.delay_ms, 2000);
	assert_int_equal(m.spec.ttl_ms, 5000);
	assert_int_equal(m.spec.ack_timeout_ms, 60000);
	assert_slice(m.spec.dedupe_id, "me");
	assert_true(m.demand.must && m.demand.has_expected);
	assert_int_equal(m.demand.expected, 12);
	http_message_deinit(&m);
	json_decref(object);
}

TEST_THAT(a_payload_may_be_base64)
{
	struct http_message m;
	struct error err;
	json_t *object;

	assert_int_equal(parse("{\"payload_base64\":\"AAH/\"}", &m, &object, &err),
			 TIDE_OK);
	assert_int_equal(m.spec.payload_len, 3);
	assert_memory_equal(m.spec.payload, "\0\1\xff", 3);
	http_message_deinit(&m);
	json_decref(object);
}

TEST_THAT(what_is_wrong_is_said)
{
	static const struct {
		const char *text;
		const char *error;
	} cases[] = {
		{ "[]", "a message is an object with: " HTTP_MESSAGE_NAMES },
		{ "{\"kye\":1}",
		  "a message has no member 'kye'; it takes: " HTTP_MESSAGE_NAMES },
		{ "{\"key\":1}", "key: expected a string" },
		{ "{\"payload\":{}}", "payload: expected a string" },
		{ "{\"payload\":\"\",\"payload_base64\":\"\"}",
		  "payload: expected no payload_base64 beside it" },
		{ "{\"payload_base64\":\"A\"}",
		  "payload_base64: expected base64 with padding" },
		{ "{\"priority\":256}", "priority: expected a number from 0 to 255" },
		{ "{\"priority\":\"1\"}", "priority: expected a number from 0 to 255" },
		{ "{\"delay\":-1}",
		  "delay: expected a duration like \"30s\", or a number of ms" },
		{ "{\"ttl\":0}",
		  "ttl: expected a duration like \"30s\", or a number of ms" },
		{ "{\"must\":1}", "must: expected true or false" },
		{ "{\"id\":\"\"}", "id: expected a string of 1 to 128 bytes" },
		{ "{\"headers\":[]}", "headers: expected an object of strings" },
		{ "{\"headers\":{\"a b\":\"c\"}}",
		  "headers: expected an object of strings, whose names have no white "
		  "space "
		  "and no control characters" },
		{ "{\"headers\":{\"a\":1}}", "headers: expected an object of strings, "
					     "whose names have no white space "
					     "and no control characters" },
		{ "{\"key\":\"a b\"}", "key: expected at most 255 bytes of UTF-8 without "
				       "white space and control "
				       "characters" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct http_message m;
		struct error err;
		json_t *object;

		assert_int_equal(parse(cases[i].text, &m, &object, &err), TIDE_ESYNTAX);
		assert_string_equal(err.text, cases[i].error);
		http_message_deinit(&m);
		json_decref(object);
	}
}

RUN_TESTS()
