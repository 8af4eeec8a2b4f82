#include "http_message.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/base64.h"
#include "base/duration.h"
#include "base/mem.h"

/* Of one object: the first error stays. */
struct http_message_reader {
	const json_t *object;
	struct error *err;
	int rc;
};

static void refuse(struct http_message_reader *r, const char *name, const char *expected)
{
	if (r->rc == TIDE_OK)
		r->rc = error_set(r->err, TIDE_ESYNTAX, "%s: expected %s", name,
				  expected);
}

/* NULL: it is not given. */
static const json_t *find(const struct http_message_reader *r, const char *name)
{
	const json_t *value = json_object_get(r->object, name);

	return json_is_null(value) ? NULL : value;
}

static struct slice text_of(const json_t *value)
{
	return (struct slice){ json_string_value(value), json_string_length(value) };
}

static struct slice read_text(struct http_message_reader *r, const char *name)
{
	const json_t *value = find(r, name);

	if (!value)
		return (struct slice){ NULL, 0 };
	if (!json_is_string(value))
		refuse(r, name, "a string");
	return text_of(value);
}

static uint64_t read_uint(struct http_message_reader *r, const char *name, uint64_t max)
{
	const json_t *value = find(r, name);
	json_int_t n = json_integer_value(value);
	char expected[64];

	if (!value || (json_is_integer(value) && n >= 0 && (uint64_t)n <= max))
		return (uint64_t)n;
	snprintf(expected, sizeof(expected), "a number from 0 to %" PRIu64, max);
	refuse(r, name, expected);
	return 0;
}

static int64_t read_duration(struct http_message_reader *r, const char *name, int64_t min,
			     int64_t max)
{
	const json_t *value = find(r, name);
	int64_t ms = json_integer_value(value);
	bool is_read =
		json_is_integer(value) ||
		(json_is_string(value) && duration_parse(text_of(value), &ms) == 0);

	if (!value || (is_read && ms >= min && ms <= max))
		return ms;
	refuse(r, name,
	       min >= MSG_ACK_TIMEOUT_MIN_MS
		       ? "a duration like \"30s\", or a number of ms, from 10ms to 24h"
		       : "a duration like \"30s\", or a number of ms");
	return 0;
}

static bool read_flag(struct http_message_reader *r, const char *name)
{
	const json_t *value = find(r, name);

	if (value && !json_is_boolean(value))
		refuse(r, name, "true or false");
	return json_is_true(value);
}

static void read_headers(struct http_message_reader *r, struct http_message *out)
{
	json_t *headers = (json_t *)find(r, "headers"), *value;
	const char *name;

	if (headers && !json_is_object(headers))
		refuse(r, "headers", "an object of strings");
	if (json_object_size(headers) > MSG_HEADERS_MAX && r->rc == TIDE_OK)
		r->rc = error_set(r->err, TIDE_ETOOLONG,
				  "headers: a message has at most %d", MSG_HEADERS_MAX);
	if (r->rc < 0)
		return;
	json_object_foreach(headers, name, value)
	{
		if (!json_is_string(value) || !slice_is_name(slice_from(name)))
			refuse(r, "headers",
			       "an object of strings, whose names have no white space "
			       "and no control characters");
		out->headers[out->spec.header_count++] =
			(struct msg_header){ slice_from(name), text_of(value) };
	}
	out->spec.headers = out->headers;
}

static void read_payload(struct http_message_reader *r, struct http_message *out)
{
	struct slice text = read_text(r, "payload"),
		     encoded = read_text(r, "payload_base64");
	size_t len;

	if (text.data && encoded.data)
		refuse(r, "payload", "no payload_base64 beside it");
	if (r->rc < 0)
		return;
	out->spec.payload = text.data;
	out->spec.payload_len = text.len;
	if (!encoded.data)
		return;
	out->room = mem_alloc(encoded.len + 1);
	if (!base64_decode(encoded, BASE64_STANDARD, out->room, &len))
		refuse(r, "payload_base64", "base64 with padding");
	out->spec.payload = out->room;
	out->spec.payload_len = len;
}

static struct slice read_key(struct http_message_reader *r)
{
	struct slice key = read_text(r, "key");

	if (!key.data || slice_is(key, "-"))
		return SLICE("");
	if (key.len > 0 && !slice_is_name(key))
		refuse(r, "key",
		       "at most 255 bytes of UTF-8 without white space and control "
		       "characters");
	return key;
}

static void check_names(struct http_message_reader *r)
{
	json_t *object = (json_t *)r->object, *value;
	const char *name;

	if (object && !json_is_object(object))
		r->rc = error_set(r->err, TIDE_ESYNTAX,
				  "a message is an object with: " HTTP_MESSAGE_NAMES);
	json_object_foreach(object, name, value) if (r->rc == TIDE_OK &&
						     !slice_is_listed(slice_from(name),
								      HTTP_MESSAGE_NAMES))
		r->rc = error_set(r->err, TIDE_ESYNTAX,
				  "a message has no member '%.64s'; it "
				  "takes: " HTTP_MESSAGE_NAMES,
				  name);
}

int http_message_read(struct http_message *out, const void *object, struct slice exchange,
		      struct error *err)
{
	struct http_message_reader r = { object, err, TIDE_OK };
	struct publish_spec *spec = &out->spec;

	*out = (struct http_message){ 0 };
	check_names(&r);
	if (!slice_is(exchange, "-"))
		spec->exchange = exchange;
	spec->key = read_key(&r);
	spec->priority = (uint8_t)read_uint(&r, "priority", MSG_PRIORITY_MAX);
	spec->delay_ms = read_duration(&r, "delay", 0, DURATION_MAX_MS);
	spec->ttl_ms = read_duration(&r, "ttl", 1, DURATION_MAX_MS);
	spec->ack_timeout_ms = (uint32_t)read_duration(
		&r, "ack-timeout", MSG_ACK_TIMEOUT_MIN_MS, MSG_ACK_TIMEOUT_MAX_MS);
	spec->dedupe_id = read_text(&r, "id");
	if (spec->dedupe_id.data &&
	    (spec->dedupe_id.len == 0 || spec->dedupe_id.len > MSG_DEDUPE_ID_MAX))
		refuse(&r, "id", "a string of 1 to 128 bytes");
	out->demand.must = read_flag(&r, "must");
	out->demand.has_expected = find(&r, "expect") != NULL;
	out->demand.expected = read_uint(&r, "expect", INT64_MAX);
	read_headers(&r, out);
	read_payload(&r, out);
	return r.rc;
}

void http_message_deinit(struct http_message *m)
{
	mem_free(m->room);
	m->room = NULL;
}

void http_message_write(const struct delivery *d, const char *receipt, struct json *j)
{
	const struct msg *m = d->msg;

	json_object_begin(j);
	json_member_hex(j, "id", m->id);
	if (receipt)
		json_member_text(j, "receipt", receipt);
	json_member_string(j, "exchange", msg_exchange_word(m));
	json_member_string(j, "key", m->key);
	json_member_int(j, "priority", m->priority);
	json_member_int(j, "ts", m->ts_unix_ms);
	json_member_int(j, "attempt", d->attempt);
	json_member_bool(j, "redelivered", d->is_redelivered);
	if (d->has_offset) {
		json_member_int(j, "partition", d->partition);
		json_member_int(j, "offset", (int64_t)d->offset);
	}
	msg_write_headers(reply_head(d), j);
	session_peek_write_payload(j, m);
	json_object_end(j);
}
