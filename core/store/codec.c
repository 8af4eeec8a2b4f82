#include "codec.h"

#include <endian.h>
#include <string.h>

enum { FIELD_COUNT = 10 }; /* and the facts */

#define ACK_TIMEOUT SLICE("ack-timeout")

#define EXACT_INTEGER_MAX 9007199254740992.0

/* See codec_head_max: the fixed fields take less than the struct does, the tags of a
 * header less than its struct. */
_Static_assert(sizeof(struct msg) >=
		       2 + 2 * 5 + 3 * 9 + 3 + 9 + 3 + 5 + 2 + sizeof("ack-timeout") + 5,
	       "a head fits");
_Static_assert(sizeof(struct msg_header) >= 2 * 5, "the tags of a header fit");

/* The encoder is written by hand, into room that is there: a packer that appends each
 * number by a call took three times as long for a message of 128 bytes. */

/* A tag, and the low `width` bytes of a number after it, the highest first. */
static inline char *put_tagged(char *at, uint8_t tag, uint64_t n, unsigned width)
{
	*at++ = (char)tag;
	n = htobe64(n << (64 - 8 * width));
	memcpy(at, &n, width);
	return at + width;
}

static char *put_uint(char *at, uint64_t n)
{
	if (n < 128) {
		*at = (char)n;
		return at + 1;
	}
	return n <= UINT8_MAX    ? put_tagged(at, 0xcc, n, 1)
	       : n <= UINT16_MAX ? put_tagged(at, 0xcd, n, 2)
	       : n <= UINT32_MAX ? put_tagged(at, 0xce, n, 4)
				 : put_tagged(at, 0xcf, n, 8);
}

static char *put_int(char *at, int64_t n)
{
	uint64_t bits = (uint64_t)n;

	if (n >= 0)
		return put_uint(at, bits);
	if (n >= -32) {
		*at = (char)n;
		return at + 1;
	}
	return n >= INT8_MIN    ? put_tagged(at, 0xd0, bits, 1)
	       : n >= INT16_MIN ? put_tagged(at, 0xd1, bits, 2)
	       : n >= INT32_MIN ? put_tagged(at, 0xd2, bits, 4)
				: put_tagged(at, 0xd3, bits, 8);
}

static char *put_number(char *at, double number)
{
	uint64_t bits;

	if (number >= -EXACT_INTEGER_MAX && number <= EXACT_INTEGER_MAX &&
	    number == (double)(int64_t)number)
		return put_int(at, (int64_t)number);
	memcpy(&bits, &number, sizeof(bits));
	return put_tagged(at, 0xcb, bits, 8);
}

/* The tag and the length of a str or a bin. */
static char *put_len(char *at, bool is_str, size_t len)
{
	uint8_t tag8 = is_str ? 0xd9 : 0xc4; /* 16 and 32 bits of length: the next tags */

	if (is_str && len < 32) {
		*at = (char)(0xa0 | len);
		return at + 1;
	}
	return len <= UINT8_MAX    ? put_tagged(at, tag8, len, 1)
	       : len <= UINT16_MAX ? put_tagged(at, (uint8_t)(tag8 + 1), len, 2)
				   : put_tagged(at, (uint8_t)(tag8 + 2), len, 4);
}

static char *put_bytes(char *at, bool is_str, struct slice s)
{
	at = put_len(at, is_str, s.len);
	if (s.len > 0)
		memcpy(at, s.data, s.len);
	return at + s.len;
}

/* A value is a str where it can be: any reader of MessagePack shows it as text, and
 * the cmsgpack of Redis knows no bin. The bound limits the time for a long one. */
static bool is_text(struct slice s)
{
	return s.len <= CODEC_TEXT_MAX && slice_is_utf8(s);
}

static char *put_facts(char *at, const struct msg *m)
{
	*at++ = (char)(0x80 | 1);
	at = put_bytes(at, true, ACK_TIMEOUT);
	return put_uint(at, m->ack_timeout_ms);
}

char *codec_put_head(char *at, const struct msg *m, double rank, int64_t expires_unix_ms)
{
	bool has_facts = m->ack_timeout_ms != 0;

	*at++ = (char)(0x90 | (FIELD_COUNT + has_facts));
	*at++ = has_facts ? CODEC_VERSION_FACTS : CODEC_VERSION;
	at = put_bytes(at, true, m->exchange);
	at = put_bytes(at, true, m->key);
	at = put_int(at, m->ts_unix_ms);
	at = put_int(at, m->due_unix_ms);
	at = put_int(at, expires_unix_ms);
	at = put_uint(at, m->priority);
	at = put_number(at, rank);
	if (m->header_count < 16)
		*at++ = (char)(0x80 | m->header_count);
	else
		at = put_tagged(at, 0xde, m->header_count, 2);
	for (unsigned i = 0; i < m->header_count; i++) {
		at = put_bytes(at, true, m->headers[i].name);
		at = put_bytes(at, is_text(m->headers[i].value), m->headers[i].value);
	}
	if (has_facts)
		at = put_facts(at, m);
	return put_len(at, is_text((struct slice){ m->payload, m->payload_len }),
		       m->payload_len);
}

/* Read with a cursor of our own and not with msgpack_unpack_next: that one
 * allocates what a length in the bytes asks for before it looks whether the
 * bytes are there, and needs a heap of objects for each message. */

struct codec_cursor {
	const uint8_t *at;
	size_t left;
	bool is_bad;
};

static uint64_t take_big_endian(struct codec_cursor *c, size_t width)
{
	uint64_t n = 0;

	if (c->left < width) {
		c->is_bad = true;
		return 0;
	}
	for (size_t i = 0; i < width; i++)
		n = n << 8 | c->at[i];
	c->at += width;
	c->left -= width;
	return n;
}

static int64_t take_int(struct codec_cursor *c)
{
	uint8_t tag = (uint8_t)take_big_endian(c, 1);

	if (tag < 0x80)
		return tag;
	if (tag >= 0xe0)
		return (int8_t)tag;
	if (tag >= 0xcc && tag <= 0xcf) {
		uint64_t n = take_big_endian(c, (size_t)1 << (tag - 0xcc));

		if (n > INT64_MAX)
			c->is_bad = true;
		return (int64_t)n;
	}
	if (tag >= 0xd0 && tag <= 0xd3) {
		unsigned width = 1u << (tag - 0xd0);
		unsigned unused = 64 - 8 * width;

		return (int64_t)(take_big_endian(c, width) << unused) >> unused;
	}
	c->is_bad = true;
	return 0;
}

static double take_number(struct codec_cursor *c)
{
	if (c->left == 0 || *c->at != 0xcb)
		return (double)take_int(c);
	double number;
	take_big_endian(c, 1);
	uint64_t bits = take_big_endian(c, 8);
	memcpy(&number, &bits, sizeof(number));
	return number;
}

/* A str or a bin. */
static struct slice take_bytes(struct codec_cursor *c)
{
	uint8_t tag = (uint8_t)take_big_endian(c, 1);
	uint64_t len = 0;

	if (tag >= 0xa0 && tag <= 0xbf)
		len = tag & 0x1f;
	else if (tag >= 0xd9 && tag <= 0xdb)
		len = take_big_endian(c, (size_t)1 << (tag - 0xd9));
	else if (tag >= 0xc4 && tag <= 0xc6)
		len = take_big_endian(c, (size_t)1 << (tag - 0xc4));
	else
		c->is_bad = true;
	if (c->is_bad || len > c->left) {
		c->is_bad = true;
		return (struct slice){ "", 0 };
	}
	struct slice s = { (const char *)c->at, (size_t)len };
	c->at += len;
	c->left -= (size_t)len;
	return s;
}

/* The number of elements; `fix_tag` is the tag of the short form with none,
 * `tag16` the tag of the form with a 16-bit number. */
static uint64_t take_count(struct codec_cursor *c, uint8_t fix_tag, uint8_t tag16)
{
	uint8_t tag = (uint8_t)take_big_endian(c, 1);

	if ((tag & 0xf0) == fix_tag)
		return tag & 0x0f;
	if (tag == tag16)
		return take_big_endian(c, 2);
	if (tag == tag16 + 1)
		return take_big_endian(c, 4);
	c->is_bad = true;
	return 0;
}

static const char *decode_headers(struct codec_cursor *c, struct msg_header *headers,
				  struct msg *spec)
{
	uint64_t count = take_count(c, 0x80, 0xde);

	if (c->is_bad)
		return "the headers are not a map";
	if (count > MSG_HEADERS_ALL)
		return "too many headers";
	for (uint64_t i = 0; i < count; i++) {
		headers[i].name = take_bytes(c);
		headers[i].value = take_bytes(c);
		if (c->is_bad)
			return "a header is not two strings";
		if (!msg_is_header_name(headers[i].name))
			return "the name of a header is not a name";
	}
	spec->headers = headers;
	spec->header_count = (uint8_t)count;
	return NULL;
}

static const char *decode_facts(struct codec_cursor *c, struct msg *spec)
{
	uint64_t count = take_count(c, 0x80, 0xde);

	for (uint64_t i = 0; i < count && !c->is_bad; i++) {
		struct slice name = take_bytes(c);
		int64_t value = take_int(c);

		if (c->is_bad || !slice_is_equal(name, ACK_TIMEOUT))
			continue;
		if (value < MSG_ACK_TIMEOUT_MIN_MS || value > MSG_ACK_TIMEOUT_MAX_MS)
			return "the ack-timeout is out of range";
		spec->ack_timeout_ms = (uint32_t)value;
	}
	return c->is_bad ? "the facts are not a map of integers" : NULL;
}

/* The fault, or NULL. */
static const char *decode_fields(struct codec_cursor *c, struct msg *spec,
				 struct msg_header *headers, double *rank)
{
	uint64_t count = take_count(c, 0x90, 0xdc);
	bool has_facts = count == FIELD_COUNT + 1;
	if ((count != FIELD_COUNT && !has_facts) || c->is_bad)
		return "not an array of 10 or 11";
	if (take_int(c) != (has_facts ? CODEC_VERSION_FACTS : CODEC_VERSION) || c->is_bad)
		return "not of version 1, or 2 with 11 elements";
	spec->exchange = take_bytes(c);
	spec->key = take_bytes(c);
	if (c->is_bad)
		return "exchange or key is not a string";
	if (!msg_is_word(spec->exchange) || !msg_is_word(spec->key))
		return "exchange or key is not a name";
	spec->ts_unix_ms = take_int(c);
	spec->due_unix_ms = take_int(c);
	spec->expires_unix_ms = take_int(c);
	if (c->is_bad)
		return "a time is not an integer";
	int64_t priority = take_int(c);
	if (c->is_bad || priority < 0 || priority > MSG_PRIORITY_MAX)
		return "the priority is out of range";
	spec->priority = (uint8_t)priority;
	*rank = take_number(c);
	if (c->is_bad || *rank != *rank)
		return "the rank is not a number";
	const char *wrong = decode_headers(c, headers, spec);
	if (!wrong && has_facts)
		wrong = decode_facts(c, spec);
	if (wrong)
		return wrong;
	struct slice payload = take_bytes(c);
	if (c->is_bad)
		return "the payload is incomplete";
	spec->payload = payload.data;
	spec->payload_len = payload.len;
	return c->left > 0 ? "bytes follow the message" : NULL;
}

int codec_decode(struct slice body, const struct msg *known, struct msg **out,
		 double *rank, struct error *err)
{
	struct codec_cursor c = { (const uint8_t *)body.data, body.len, false };
	struct msg_header headers[MSG_HEADERS_ALL];
	struct msg spec = { .id = known->id, .pool = known->pool };
	const char *wrong = decode_fields(&c, &spec, headers, rank);

	if (wrong) {
		size_t offset = body.len - c.left;

		return error_set(err, TIDE_ESTORE, "corrupt at byte %zu of %zu: %s",
				 offset, body.len, wrong);
	}
	struct msg *m = msg_create(&spec);
	if (!m)
		return error_set(err, TIDE_ELIMIT,
				 "out of memory for a message of %zu bytes", body.len);
	*out = m;
	return TIDE_OK;
}
