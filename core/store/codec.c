#include "codec.h"

#include <msgpack.h>

enum { FIELD_COUNT = 10 };

#define EXACT_INTEGER_MAX 9007199254740992.0

static bool rank_is_integer(double rank)
{
	return rank >= -EXACT_INTEGER_MAX && rank <= EXACT_INTEGER_MAX &&
	       rank == (double)(int64_t)rank;
}

/* ---- encoding ---------------------------------------------------------- */

static size_t size_uint(uint64_t n)
{
	return n < 128           ? 1
	       : n <= UINT8_MAX  ? 2
	       : n <= UINT16_MAX ? 3
	       : n <= UINT32_MAX ? 5
				 : 9;
}

static size_t size_int(int64_t n)
{
	if (n >= 0)
		return size_uint((uint64_t)n);
	return n >= -32         ? 1
	       : n >= INT8_MIN  ? 2
	       : n >= INT16_MIN ? 3
	       : n >= INT32_MIN ? 5
				: 9;
}

static size_t size_bin(size_t len)
{
	return len + (len <= UINT8_MAX ? 2 : len <= UINT16_MAX ? 3 : 5);
}

static size_t size_str(size_t len)
{
	return len < 32 ? len + 1 : size_bin(len);
}

/* A header's value or the payload: str where it can be, so that any reader of
 * MessagePack shows it as text (the cmsgpack inside of Redis knows no bin at
 * all); not looked at for ever where it is long. */
static bool is_text(struct slice s)
{
	return s.len <= CODEC_TEXT_MAX && slice_is_utf8(s);
}

static struct slice msg_payload(const struct msg *m)
{
	return (struct slice){ m->payload, m->payload_len };
}

static size_t size_bytes(struct slice s)
{
	return is_text(s) ? size_str(s.len) : size_bin(s.len);
}

static size_t size_headers(const struct msg *m)
{
	size_t size = m->header_count < 16 ? 1 : 3;
	for (unsigned i = 0; i < m->header_count; i++) {
		size += size_str(m->headers[i].name.len);
		size += size_bytes(m->headers[i].value);
	}
	return size;
}

size_t codec_size(const struct msg *m, double rank)
{
	return 1 + size_uint(CODEC_VERSION) + size_str(m->exchange.len) +
	       size_str(m->key.len) + size_int(m->ts_unix_ms) + size_int(m->due_unix_ms) +
	       size_int(m->expires_unix_ms) + size_uint(m->priority) +
	       (rank_is_integer(rank) ? size_int((int64_t)rank) : 9) + size_headers(m) +
	       size_bytes(msg_payload(m));
}

static int on_packed(void *ctx, const char *data, size_t len)
{
	buf_append(ctx, data, len);
	return 0;
}

static void pack_str(msgpack_packer *p, struct slice s)
{
	msgpack_pack_str(p, s.len);
	msgpack_pack_str_body(p, s.data, s.len);
}

static void pack_bytes(msgpack_packer *p, struct slice s)
{
	if (is_text(s)) {
		pack_str(p, s);
	} else {
		msgpack_pack_bin(p, s.len);
		msgpack_pack_bin_body(p, s.data, s.len);
	}
}

static void pack_headers(msgpack_packer *p, const struct msg *m)
{
	msgpack_pack_map(p, m->header_count);
	for (unsigned i = 0; i < m->header_count; i++) {
		pack_str(p, m->headers[i].name);
		pack_bytes(p, m->headers[i].value);
	}
}

void codec_encode(struct buf *out, const struct msg *m, double rank)
{
	msgpack_packer p;
	msgpack_packer_init(&p, out, on_packed);
	msgpack_pack_array(&p, FIELD_COUNT);
	msgpack_pack_uint8(&p, CODEC_VERSION);
	pack_str(&p, m->exchange);
	pack_str(&p, m->key);
	msgpack_pack_int64(&p, m->ts_unix_ms);
	msgpack_pack_int64(&p, m->due_unix_ms);
	msgpack_pack_int64(&p, m->expires_unix_ms);
	msgpack_pack_uint8(&p, m->priority);
	if (rank_is_integer(rank))
		msgpack_pack_int64(&p, (int64_t)rank);
	else
		msgpack_pack_double(&p, rank);
	pack_headers(&p, m);
	pack_bytes(&p, msg_payload(m));
}

/* ---- decoding ----------------------------------------------------------
 *
 * Read with a cursor of our own and not with msgpack_unpack_next: that one
 * allocates what a length in the bytes asks for before it looks whether the
 * bytes are there, and needs a heap of objects for each message. */

struct cursor {
	const uint8_t *at;
	size_t left;
	bool is_bad;
};

static uint64_t take_big_endian(struct cursor *c, size_t width)
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

static int64_t take_int(struct cursor *c)
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
	switch (tag) {
	case 0xd0:
		return (int8_t)take_big_endian(c, 1);
	case 0xd1:
		return (int16_t)take_big_endian(c, 2);
	case 0xd2:
		return (int32_t)take_big_endian(c, 4);
	case 0xd3:
		return (int64_t)take_big_endian(c, 8);
	default:
		c->is_bad = true;
		return 0;
	}
}

static double take_number(struct cursor *c)
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
static struct slice take_bytes(struct cursor *c)
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
static uint64_t take_count(struct cursor *c, uint8_t fix_tag, uint8_t tag16)
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

static const char *decode_headers(struct cursor *c, struct msg_header *headers,
				  struct msg_spec *spec)
{
	uint64_t count = take_count(c, 0x80, 0xde);
	if (c->is_bad)
		return "headers are no map";
	if (count > MSG_HEADERS_MAX)
		return "too many headers";
	for (uint64_t i = 0; i < count; i++) {
		headers[i].name = take_bytes(c);
		headers[i].value = take_bytes(c);
		if (c->is_bad)
			return "a header is not two strings";
	}
	spec->headers = headers;
	spec->header_count = (uint8_t)count;
	return NULL;
}

/* What is wrong, or NULL. */
static const char *decode_fields(struct cursor *c, struct msg_spec *spec,
				 struct msg_header *headers, double *rank)
{
	if (take_count(c, 0x90, 0xdc) != FIELD_COUNT || c->is_bad)
		return "not an array of 10";
	if (take_int(c) != CODEC_VERSION || c->is_bad)
		return "not of version 1";
	spec->exchange = take_bytes(c);
	spec->key = take_bytes(c);
	if (c->is_bad)
		return "exchange or key is no string";
	spec->ts_unix_ms = take_int(c);
	spec->due_unix_ms = take_int(c);
	spec->expires_unix_ms = take_int(c);
	if (c->is_bad)
		return "a time is no integer";
	int64_t priority = take_int(c);
	if (c->is_bad || priority < 0 || priority > MSG_PRIORITY_MAX)
		return "the priority is out of range";
	spec->priority = (uint8_t)priority;
	*rank = take_number(c);
	if (c->is_bad || *rank != *rank)
		return "the rank is no number";
	const char *wrong = decode_headers(c, headers, spec);
	if (wrong)
		return wrong;
	struct slice payload = take_bytes(c);
	if (c->is_bad)
		return "the payload is incomplete";
	spec->payload = payload.data;
	spec->payload_len = payload.len;
	return c->left > 0 ? "bytes follow the message" : NULL;
}

int codec_decode(struct slice body, uint64_t id, struct msg **out, double *rank,
		 struct error *err)
{
	struct cursor c = { (const uint8_t *)body.data, body.len, false };
	struct msg_header headers[MSG_HEADERS_MAX];
	struct msg_spec spec = { .id = id };
	const char *wrong = decode_fields(&c, &spec, headers, rank);
	if (wrong) {
		size_t offset = body.len - c.left;
		return error_set(err, TIDE_ESTORE, "corrupt at byte %zu of %zu: %s",
				 offset, body.len, wrong);
	}
	struct msg *m = msg_create(&spec);
	if (!m)
		return error_set(err, TIDE_ELIMIT, "no memory for a message of %zu bytes",
				 body.len);
	*out = m;
	return TIDE_OK;
}
