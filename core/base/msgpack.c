#include "msgpack.h"

#include <math.h>
#include <string.h>

/* The first byte of a value. Those with a length in them: the lowest of their range. */
enum {
	POSITIVE = 0x00,
	MAP_SHORT = 0x80,
	ARRAY_SHORT = 0x90,
	TEXT_SHORT = 0xa0,
	NIL = 0xc0,
	NEVER = 0xc1,
	FALSE = 0xc2,
	TRUE = 0xc3,
	BYTES_8 = 0xc4,
	BYTES_32 = 0xc6,
	FLOAT_32 = 0xca,
	FLOAT_64 = 0xcb,
	UINT_8 = 0xcc,
	UINT_64 = 0xcf,
	INT_8 = 0xd0,
	INT_64 = 0xd3,
	TEXT_8 = 0xd9,
	TEXT_32 = 0xdb,
	ARRAY_16 = 0xdc,
	ARRAY_32 = 0xdd,
	MAP_16 = 0xde,
	MAP_32 = 0xdf,
	NEGATIVE = 0xe0,
};

struct msgpack_reading {
	struct json_tape *tape;
	const char *begin, *end, *at;
	unsigned depth_max;
	struct error *err;
};

/* ---- reading */

static int refuse(const struct msgpack_reading *r, const char *what)
{
	return error_set(r->err, TIDE_ESYNTAX, "the MessagePack has %s at byte %zu", what,
			 (size_t)(r->at - r->begin) + 1);
}

static int add(const struct msgpack_reading *r, struct json_node node)
{
	if (json_tape_add(r->tape, node) == TIDE_OK)
		return TIDE_OK;
	return error_set(r->err, TIDE_ELIMIT, "out of memory for the MessagePack");
}

/* `size` bytes behind the first one as a number; the reader is then behind them.
 * On failure *out is 0, for the compilers that cannot tell that nobody reads it. */
static int read_uint(struct msgpack_reading *r, unsigned size, uint64_t *out)
{
	*out = 0;
	if ((size_t)(r->end - r->at) < 1 + (size_t)size)
		return refuse(r, "a value that is cut off");
	r->at++;
	for (unsigned i = 0; i < size; i++)
		*out = *out << 8 | (unsigned char)*r->at++;
	return TIDE_OK;
}

static int read_integer(struct msgpack_reading *r, unsigned size, bool is_signed)
{
	const char *begin = r->at;
	uint64_t n;
	int rc = read_uint(r, size, &n);

	if (rc != TIDE_OK)
		return rc;
	if (!is_signed && n > INT64_MAX) {
		r->at = begin;
		return refuse(r, "an integer above 2^63-1");
	}
	if (is_signed && size < 8 && n >> (size * 8 - 1))
		n -= UINT64_C(1) << size * 8;
	return add(r, (struct json_node){ .kind = JSON_TAPE_INTEGER,
					  .integer = (int64_t)n });
}

static int read_float(struct msgpack_reading *r, unsigned size)
{
	const char *begin = r->at;
	uint64_t bits;
	double number;
	int rc = read_uint(r, size, &bits);

	if (rc != TIDE_OK)
		return rc;
	if (size == 4) {
		uint32_t few = (uint32_t)bits;
		float single;

		memcpy(&single, &few, sizeof(single));
		number = single;
	} else {
		memcpy(&number, &bits, sizeof(number));
	}
	if (!isfinite(number)) {
		r->at = begin;
		return refuse(r, "a number that is NaN or infinite");
	}
	return add(r, (struct json_node){ .kind = JSON_TAPE_NUMBER, .number = number });
}

/* The length is in the lead byte, masked by `mask`, or in the `size` bytes behind it. */
static int read_len(struct msgpack_reading *r, unsigned size, unsigned mask,
		    uint64_t *out)
{
	uint64_t in_lead = (unsigned char)*r->at & mask;
	int rc = read_uint(r, size, out);

	if (rc == TIDE_OK && size == 0)
		*out = in_lead;
	return rc;
}

static int read_text(struct msgpack_reading *r, unsigned size)
{
	const char *begin = r->at;
	uint64_t len;
	int rc = read_len(r, size, 0x1f, &len);

	if (rc != TIDE_OK)
		return rc;
	if (len > (uint64_t)(r->end - r->at)) {
		r->at = begin;
		return refuse(r, "a value that is cut off");
	}
	struct json_node node = { .kind = JSON_TAPE_TEXT,
				  .len = (uint32_t)len,
				  .text = r->at };
	r->at += len;
	return add(r, node);
}

static int read_value(struct msgpack_reading *r, unsigned depth);

static int read_children(struct msgpack_reading *r, uint32_t container, unsigned depth)
{
	struct json_tape *t = r->tape;
	bool is_map = t->nodes[container].kind == JSON_TAPE_OBJECT;
	int rc = TIDE_OK;

	for (uint32_t i = 0; rc == TIDE_OK && i < t->nodes[container].len; i++) {
		uint32_t name = t->count;
		const char *begin = r->at;

		rc = read_value(r, depth);
		if (!is_map || rc != TIDE_OK)
			continue;
		if (t->nodes[name].kind != JSON_TAPE_TEXT) {
			r->at = begin;
			return refuse(r, "a name that is no text");
		}
		rc = read_value(r, depth);
	}
	t->nodes[container].end = t->count;
	return rc;
}

static int read_container(struct msgpack_reading *r, bool is_map, unsigned size,
			  unsigned depth)
{
	const char *begin = r->at;
	uint32_t container = r->tape->count;
	uint64_t count;

	if (depth == r->depth_max)
		return error_set(r->err, TIDE_ELIMIT,
				 "the MessagePack is nested deeper than %u levels",
				 r->depth_max);
	int rc = read_len(r, size, 0x0f, &count);
	if (rc != TIDE_OK)
		return rc;
	/* Each child has a byte or more: what is made for them is bounded by the text. */
	if (count > (uint64_t)(r->end - r->at) / (is_map ? 2 : 1)) {
		r->at = begin;
		return refuse(r, "a value that is cut off");
	}
	rc = add(r,
		 (struct json_node){ .kind = is_map ? JSON_TAPE_OBJECT : JSON_TAPE_ARRAY,
				     .len = (uint32_t)count });
	if (rc == TIDE_OK && !is_map)
		rc = add(r, (struct json_node){ .kind = JSON_TAPE_CURSOR });
	if (rc == TIDE_OK)
		rc = read_children(r, container, depth + 1);
	if (rc != TIDE_OK || !is_map)
		return rc;
	rc = json_tape_check_names(r->tape, container);
	if (rc == TIDE_EEXISTS)
		return refuse(r, "a name twice in a map that ends");
	return rc == TIDE_OK ? rc : error_set(r->err, rc, "out of memory");
}

static int read_simple(struct msgpack_reading *r, enum json_tape_kind kind)
{
	r->at++;
	return add(r, (struct json_node){ .kind = kind });
}

static int read_value(struct msgpack_reading *r, unsigned depth)
{
	if (r->at == r->end)
		return refuse(r, "a value that is cut off");
	unsigned lead = (unsigned char)*r->at;
	if (lead < MAP_SHORT || lead >= NEGATIVE) {
		r->at++;
		return add(r, (struct json_node){ .kind = JSON_TAPE_INTEGER,
						  .integer = (int8_t)lead });
	}
	if (lead < ARRAY_SHORT || lead == MAP_16 || lead == MAP_32)
		return read_container(
			r, true, lead < ARRAY_SHORT ? 0 : 2u << (lead - MAP_16), depth);
	if (lead < TEXT_SHORT || lead == ARRAY_16 || lead == ARRAY_32)
		return read_container(
			r, false, lead < TEXT_SHORT ? 0 : 2u << (lead - ARRAY_16), depth);
	if (lead < NIL)
		return read_text(r, 0);
	if (lead >= BYTES_8 && lead <= BYTES_32)
		return read_text(r, 1u << (lead - BYTES_8));
	if (lead >= TEXT_8 && lead <= TEXT_32)
		return read_text(r, 1u << (lead - TEXT_8));
	if (lead >= UINT_8 && lead <= UINT_64)
		return read_integer(r, 1u << (lead - UINT_8), false);
	if (lead >= INT_8 && lead <= INT_64)
		return read_integer(r, 1u << (lead - INT_8), true);
	if (lead == FLOAT_32 || lead == FLOAT_64)
		return read_float(r, lead == FLOAT_32 ? 4 : 8);
	if (lead == NIL)
		return read_simple(r, JSON_TAPE_NULL);
	if (lead == TRUE || lead == FALSE)
		return read_simple(r, lead == TRUE ? JSON_TAPE_TRUE : JSON_TAPE_FALSE);
	return refuse(r, lead == NEVER ? "a byte that begins no value"
				       : "an extension type");
}

int msgpack_read(struct json_tape *t, struct slice source, unsigned depth_max,
		 struct error *err)
{
	struct msgpack_reading r = { .tape = t,
				     .begin = source.data,
				     .end = source.data + source.len,
				     .at = source.data,
				     .depth_max = depth_max,
				     .err = err };

	t->count = 0;
	buf_clear(&t->texts);
	if (source.len > JSON_TAPE_SOURCE_MAX)
		return error_set(err, TIDE_ELIMIT, "the MessagePack is too long");
	int rc = read_value(&r, 0);
	if (rc == TIDE_OK && r.at != r.end)
		return refuse(&r, "more than one value");
	return rc;
}

/* ---- writing */

static void put(struct buf *out, unsigned lead, uint64_t n, unsigned size)
{
	buf_append_char(out, (char)lead);
	while (size-- > 0)
		buf_append_char(out, (char)(n >> size * 8));
}

/* In 1, 2, 4 or 8 bytes: the least exponent of two for it. */
static unsigned exponent_of(uint64_t n)
{
	return n > UINT32_MAX ? 3 : n > UINT16_MAX ? 2 : n > UINT8_MAX;
}

void msgpack_put_nil(struct buf *out)
{
	put(out, NIL, 0, 0);
}

void msgpack_put_boolean(struct buf *out, bool b)
{
	put(out, b ? TRUE : FALSE, 0, 0);
}

void msgpack_put_integer(struct buf *out, int64_t n)
{
	/* Of a negative number the bits that its sign does not need. */
	uint64_t bits = n < 0 ? ~(uint64_t)n << 1 : (uint64_t)n;
	unsigned exponent = exponent_of(bits);

	if (n >= -32 && n < 128)
		put(out, (unsigned)n & 0xff, 0, 0);
	else
		put(out, (n < 0 ? INT_8 : UINT_8) + exponent, (uint64_t)n,
		    1u << exponent);
}

void msgpack_put_number(struct buf *out, double n)
{
	uint64_t bits;

	memcpy(&bits, &n, sizeof(bits));
	put(out, FLOAT_64, bits, 8);
}

void msgpack_put_text(struct buf *out, struct slice s)
{
	unsigned exponent = exponent_of(s.len);

	if (!slice_is_utf8(s))
		put(out, BYTES_8 + exponent, s.len, 1u << exponent);
	else if (s.len < 32)
		put(out, TEXT_SHORT + (unsigned)s.len, 0, 0);
	else
		put(out, TEXT_8 + exponent, s.len, 1u << exponent);
	buf_append_slice(out, s);
}

static void put_head(struct buf *out, unsigned short_lead, unsigned long_lead,
		     uint32_t count)
{
	if (count < 16)
		put(out, short_lead + count, 0, 0);
	else
		put(out, long_lead + (count > UINT16_MAX), count,
		    count > UINT16_MAX ? 4 : 2);
}

void msgpack_put_array(struct buf *out, uint32_t count)
{
	put_head(out, ARRAY_SHORT, ARRAY_16, count);
}

void msgpack_put_map(struct buf *out, uint32_t count)
{
	put_head(out, MAP_SHORT, MAP_16, count);
}
