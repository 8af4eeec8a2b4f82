#include "amqp_codec.h"

#include <inttypes.h>
#include <stdio.h>

/* Tables in tables. */
#define DEPTH_MAX 32

#define X(name, text, class_id, method_id, has_content, fields) \
	[name] = { text, class_id, method_id, has_content, fields },
static const struct amqp_method_row methods[] = { AMQP_METHODS(X) };
#undef X

#define X(name, text, letter) [name] = { text, letter },
static const struct {
	const char *name;
	char letter;
} properties[] = { AMQP_PROPERTIES(X) };
#undef X

const struct amqp_method_row *amqp_codec_method(enum amqp_method method)
{
	return &methods[method];
}

enum amqp_method amqp_codec_find_method(unsigned class_id, unsigned method_id)
{
	int m = 0;

	while (m < AMQP_METHOD_COUNT &&
	       (methods[m].class_id != class_id || methods[m].method_id != method_id))
		m++;
	return (enum amqp_method)m;
}

#define X(name, text, number, is_hard) { number, is_hard, text },
static const struct {
	int number;
	bool is_hard;
	const char *name;
} codes[] = { AMQP_CODES(X){ AMQP_NO_ROUTE, false, "NO_ROUTE" } };
#undef X
#define CODES (sizeof(codes) / sizeof(codes[0]))

const char *amqp_codec_code_name(enum amqp_code code)
{
	size_t i = 0;

	while (i < CODES - 1 && codes[i].number != (int)code)
		i++;
	return codes[i].name;
}

bool amqp_codec_code_is_hard(enum amqp_code code)
{
	size_t i = 0;

	while (i < CODES - 1 && codes[i].number != (int)code)
		i++;
	return codes[i].is_hard;
}

/* ---- methods ----------------------------------------------------------------------- */

static unsigned number_bytes(char letter)
{
	return letter == 'o' ? 1 : letter == 's' ? 2 : letter == 'l' ? 4 : 8;
}

/* A text or a table behind its length. */
static bool read_run(struct slice *rest, unsigned bytes, struct slice *out)
{
	uint64_t len;

	if (rest->len < bytes)
		return false;
	len = amqp_get_number(rest->data, bytes);
	if (len > rest->len - bytes)
		return false;
	*out = (struct slice){ rest->data + bytes, (size_t)len };
	*rest = slice_skip(*rest, bytes + (size_t)len);
	return true;
}

static bool read_value(char letter, struct slice *rest, struct amqp_value *out)
{
	unsigned bytes = number_bytes(letter);

	if (letter == 'S')
		return read_run(rest, 1, &out->s);
	if (letter == 'L')
		return read_run(rest, 4, &out->s);
	if (letter == 'T')
		return read_run(rest, 4, &out->s) && amqp_field_is_table(out->s);
	if (rest->len < bytes)
		return false;
	out->n = amqp_get_number(rest->data, bytes);
	*rest = slice_skip(*rest, bytes);
	return true;
}

bool amqp_codec_read(const char *fields, struct slice bytes, struct amqp_value *out)
{
	unsigned bit = 8;

	for (; *fields; fields++, out++) {
		*out = (struct amqp_value){ 0 };
		if (*fields != 'b') {
			bit = 8;
			if (!read_value(*fields, &bytes, out))
				return false;
			continue;
		}
		/* Bits that follow each other share octets. */
		if (bit == 8 && bytes.len == 0)
			return false;
		if (bit == 8) {
			bytes = slice_skip(bytes, 1);
			bit = 0;
		}
		out->n = (uint8_t)bytes.data[-1] >> bit++ & 1;
	}
	return bytes.len == 0;
}

size_t amqp_codec_size(enum amqp_method method, const struct amqp_value *values)
{
	size_t size = 4;

	for (const char *f = methods[method].fields; *f; f++, values++)
		size += strchr("SLT", *f) ? 4 + values->s.len : 8;
	return size;
}

static char *put_value(char *at, char letter, const struct amqp_value *v)
{
	size_t len = v->s.len;

	if (!strchr("SLT", letter))
		return amqp_put_number(at, v->n, number_bytes(letter));
	if (letter == 'S' && len > 255)
		len = 255;
	at = amqp_put_number(at, len, letter == 'S' ? 1 : 4);
	if (len > 0)
		memcpy(at, v->s.data, len);
	return at + len;
}

char *amqp_codec_put(char *at, enum amqp_method method, const struct amqp_value *values)
{
	const struct amqp_method_row *row = &methods[method];
	unsigned bit = 8;

	at = amqp_put_number(at, row->class_id, 2);
	at = amqp_put_number(at, row->method_id, 2);
	for (const char *f = row->fields; *f; f++, values++) {
		if (*f != 'b') {
			bit = 8;
			at = put_value(at, *f, values);
			continue;
		}
		if (bit == 8) {
			*at++ = 0;
			bit = 0;
		}
		at[-1] = (char)(at[-1] | (values->n & 1) << bit++);
	}
	return at;
}

/* ---- field tables ------------------------------------------------------------------ */

/* How many bytes the value has; SIZE_MAX: there is no such type, or they are not there.
 */
static size_t value_len(char type, struct slice rest)
{
	size_t fixed = 0;

	switch (type) {
	case 'S':
	case 'x':
	case 'A':
	case 'F':
		if (rest.len < 4)
			return SIZE_MAX;
		fixed = 4 + (size_t)amqp_get_number(rest.data, 4);
		break;
	case 't':
	case 'b':
	case 'B':
		fixed = 1;
		break;
	case 's':
	case 'u':
	case 'U':
		fixed = 2;
		break;
	case 'I':
	case 'i':
	case 'f':
		fixed = 4;
		break;
	case 'D':
		fixed = 5;
		break;
	case 'l':
	case 'L':
	case 'd':
	case 'T':
		fixed = 8;
		break;
	case 'V':
		break;
	default:
		return SIZE_MAX;
	}
	return fixed <= rest.len ? fixed : SIZE_MAX;
}

/* The value of an item of a table, or of an array. */
static bool next_value(struct slice *rest, struct amqp_field *out)
{
	size_t len;

	if (rest->len == 0)
		return false;
	out->type = rest->data[0];
	len = value_len(out->type, slice_skip(*rest, 1));
	if (len == SIZE_MAX)
		return false;
	out->bytes = (struct slice){ rest->data + 1, len };
	*rest = slice_skip(*rest, 1 + len);
	return true;
}

bool amqp_field_next_item(struct slice *rest, struct amqp_field *out)
{
	return next_value(rest, out);
}

bool amqp_field_next(struct slice *rest, struct amqp_field *out)
{
	return rest->len > 0 && read_run(rest, 1, &out->name) && next_value(rest, out);
}

/* @param is_array  its items have no names */
static bool is_valid(struct slice rest, bool is_array, unsigned depth)
{
	struct amqp_field f;

	while (rest.len > 0) {
		if (!(is_array ? next_value(&rest, &f) : amqp_field_next(&rest, &f)))
			return false;
		if ((f.type == 'F' || f.type == 'A') &&
		    (depth == DEPTH_MAX ||
		     !is_valid(slice_skip(f.bytes, 4), f.type == 'A', depth + 1)))
			return false;
	}
	return true;
}

bool amqp_field_is_table(struct slice table)
{
	return is_valid(table, false, 0);
}

bool amqp_field_find(struct slice table, const char *name, struct amqp_field *out)
{
	while (amqp_field_next(&table, out))
		if (slice_is(out->name, name))
			return true;
	return false;
}

static int64_t signed_number(struct slice bytes)
{
	unsigned unused = 64 - 8 * (unsigned)bytes.len;

	return (int64_t)(amqp_get_number(bytes.data, (unsigned)bytes.len) << unused) >>
	       unused;
}

static double real_number(struct slice bytes)
{
	uint64_t n = amqp_get_number(bytes.data, (unsigned)bytes.len);
	uint32_t half = (uint32_t)n;
	double number;
	float small;

	if (bytes.len == sizeof(small)) {
		memcpy(&small, &half, sizeof(small));
		return (double)small;
	}
	memcpy(&number, &n, sizeof(number));
	return number;
}

/* 12345 with a scale of 2 is 123.45. */
static int put_decimal(struct slice bytes, char *room)
{
	unsigned scale = (uint8_t)bytes.data[0];
	int64_t n = signed_number(slice_skip(bytes, 1));
	char digits[24];
	int len;

	if (scale == 0 || scale > 9)
		return snprintf(room, AMQP_TEXT_MAX,
				scale ? "%" PRId64 "e-%u" : "%" PRId64, n, scale);
	len = snprintf(digits, sizeof(digits), "%0*" PRId64, (int)scale + 1,
		       n < 0 ? -n : n);
	return snprintf(room, AMQP_TEXT_MAX, "%s%.*s.%s", n < 0 ? "-" : "",
			len - (int)scale, digits, digits + len - scale);
}

bool amqp_field_text(const struct amqp_field *f, char room[AMQP_TEXT_MAX],
		     struct slice *out)
{
	int len;

	if (f->type == 'S' || f->type == 'x') {
		*out = slice_skip(f->bytes, 4);
		return true;
	}
	if (f->type == 'A' || f->type == 'F' || f->type == 'V')
		return false;
	if (f->type == 't')
		len = snprintf(room, AMQP_TEXT_MAX, f->bytes.data[0] ? "true" : "false");
	else if (f->type == 'd' || f->type == 'f')
		len = snprintf(room, AMQP_TEXT_MAX, f->type == 'd' ? "%.17g" : "%.9g",
			       real_number(f->bytes));
	else if (f->type == 'D')
		len = put_decimal(f->bytes, room);
	else if (strchr("BuiLT", f->type))
		len = snprintf(room, AMQP_TEXT_MAX, "%" PRIu64,
			       amqp_get_number(f->bytes.data, (unsigned)f->bytes.len));
	else
		len = snprintf(room, AMQP_TEXT_MAX, "%" PRId64, signed_number(f->bytes));
	*out = (struct slice){ room, (size_t)len };
	return true;
}

bool amqp_field_is_true(const struct amqp_field *f)
{
	return f->type == 't' && f->bytes.data[0];
}

void amqp_field_add(struct buf *out, struct slice name, char type, struct slice bytes)
{
	size_t len = name.len < 255 ? name.len : 255;

	buf_append_char(out, (char)len);
	buf_append(out, name.data, len);
	buf_append_char(out, type);
	buf_append_slice(out, bytes);
}

static struct slice put_length(char room[8], uint64_t n, unsigned bytes)
{
	amqp_put_number(room, n, bytes);
	return (struct slice){ room, bytes };
}

void amqp_field_add_text(struct buf *out, struct slice name, struct slice text)
{
	char len[8];

	amqp_field_add(out, name, 'S', put_length(len, text.len, 4));
	buf_append_slice(out, text);
}

void amqp_field_add_number(struct buf *out, struct slice name, char type, uint64_t n)
{
	unsigned bytes = type == 't' ? 1 : type == 'I' ? 4 : 8;
	char room[8];

	amqp_field_add(out, name, type, put_length(room, n, bytes));
}

/* ---- properties -------------------------------------------------------------------- */

const char *amqp_properties_name(enum amqp_property p)
{
	return properties[p].name;
}

char amqp_properties_letter(enum amqp_property p)
{
	return properties[p].letter;
}

bool amqp_properties_read(struct slice bytes, struct amqp_properties *out)
{
	memset(out, 0, sizeof(*out));
	if (bytes.len < 2)
		return false;
	out->flags = (uint16_t)amqp_get_number(bytes.data, 2);
	bytes = slice_skip(bytes, 2);
	/* The last two bits would be more flags, of which there are none. */
	if (out->flags & 3)
		return false;
	for (int p = 0; p < AMQP_PROPERTY_COUNT; p++)
		if (amqp_properties_has(out, (enum amqp_property)p) &&
		    !read_value(properties[p].letter, &bytes, &out->values[p]))
			return false;
	return bytes.len == 0;
}

void amqp_properties_write(const struct amqp_properties *p, struct buf *out)
{
	amqp_put_number(buf_reserve(out, 2), p->flags, 2);
	buf_grow(out, 2);
	for (int i = 0; i < AMQP_PROPERTY_COUNT; i++) {
		const struct amqp_value *v = &p->values[i];
		char *at;

		if (!amqp_properties_has(p, (enum amqp_property)i))
			continue;
		at = buf_reserve(out, 8 + v->s.len);
		buf_grow(out, (size_t)(put_value(at, properties[i].letter, v) - at));
	}
}
