#include "json.h"

#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "id.h"
#include "mem.h"
#include "utf8.h"

#define JSON_TAPE_SOURCE_MAX ((size_t)1 << 30)

/* A comma is due after a value and after the end of one; a bracket that opens
 * and a key take that back. So one flag serves every depth. */
static void comma(struct json *j)
{
	if (j->need_comma)
		buf_append_char(j->out, ',');
}

static void value(struct json *j, const char *text)
{
	comma(j);
	buf_append_text(j->out, text);
	j->need_comma = true;
}

static void begin(struct json *j, char bracket)
{
	comma(j);
	buf_append_char(j->out, bracket);
	j->need_comma = false;
}

static void end(struct json *j, char bracket)
{
	buf_append_char(j->out, bracket);
	j->need_comma = true;
}

void json_object_begin(struct json *j)
{
	begin(j, '{');
}

void json_object_end(struct json *j)
{
	end(j, '}');
}

void json_array_begin(struct json *j)
{
	begin(j, '[');
}

void json_array_end(struct json *j)
{
	end(j, ']');
}

static void escape(struct buf *out, char c)
{
	static const char *const short_forms[0x20] = {
		['\b'] = "\\b", ['\f'] = "\\f", ['\n'] = "\\n",
		['\r'] = "\\r", ['\t'] = "\\t",
	};

	if (c == '"')
		buf_append_text(out, "\\\"");
	else if (c == '\\')
		buf_append_text(out, "\\\\");
	else if ((unsigned char)c < 0x20 && short_forms[(unsigned char)c])
		buf_append_text(out, short_forms[(unsigned char)c]);
	else
		buf_append(out,
			   (char[]){ '\\', 'u', '0', '0',
				     hex_digit((unsigned char)c >> 4),
				     hex_digit((unsigned char)c) },
			   6);
}

static bool is_printable(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void quote(struct buf *out, struct slice s)
{
	buf_append_char(out, '"');
	for (size_t i = 0; i < s.len;) {
		size_t run = i;

		while (run < s.len && is_printable((unsigned char)s.data[run]))
			run++;
		buf_append(out, s.data + i, run - i);
		i = run;
		if (i == s.len)
			break;
		if ((unsigned char)s.data[i] < 0x80) {
			escape(out, s.data[i++]);
			continue;
		}
		uint32_t point;
		size_t n = utf8_decode(s.data + i, s.len - i, &point);
		if (n > 0)
			buf_append(out, s.data + i, n);
		else
			buf_append_text(out, "\xef\xbf\xbd");
		i += n > 0 ? n : 1;
	}
	buf_append_char(out, '"');
}

void json_key_slice(struct json *j, struct slice key)
{
	comma(j);
	quote(j->out, key);
	buf_append_char(j->out, ':');
	j->need_comma = false;
}

void json_key(struct json *j, const char *key)
{
	json_key_slice(j, slice_from(key));
}

void json_slice(struct json *j, struct slice s)
{
	comma(j);
	quote(j->out, s);
	j->need_comma = true;
}

void json_text(struct json *j, const char *text)
{
	json_slice(j, slice_from(text));
}

void json_int(struct json *j, int64_t n)
{
	comma(j);
	if (n < 0)
		buf_append_char(j->out, '-');
	/* Negated as unsigned: -INT64_MIN does not fit an int64_t. */
	buf_append_uint(j->out, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
	j->need_comma = true;
}

void json_uint(struct json *j, uint64_t n)
{
	comma(j);
	buf_append_uint(j->out, n);
	j->need_comma = true;
}

void json_nil(struct json *j)
{
	value(j, "null");
}

void json_written(struct json *j, struct slice written)
{
	comma(j);
	buf_append_slice(j->out, written);
	j->need_comma = true;
}

void json_number(struct json *j, double n)
{
	if (!isfinite(n)) {
		json_nil(j); /* JSON has neither infinities nor NaN */
		return;
	}
	char text[32];
	/* The fewest digits that read back as the same number: 17 always do. */
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, n);
		if (strtod(text, NULL) == n)
			break;
	}
	value(j, text);
}

void json_member_object(struct json *j, const char *key)
{
	json_key(j, key);
	json_object_begin(j);
}

void json_member_array(struct json *j, const char *key)
{
	json_key(j, key);
	json_array_begin(j);
}

void json_member_list(struct json *j, const char *key, struct slice elements)
{
	json_member_array(j, key);
	buf_append_slice(j->out, elements);
	json_array_end(j);
}

void json_member_string(struct json *j, const char *key, struct slice s)
{
	json_key(j, key);
	json_slice(j, s);
}

void json_member_text(struct json *j, const char *key, const char *text)
{
	json_key(j, key);
	json_text(j, text);
}

void json_member_int(struct json *j, const char *key, int64_t n)
{
	json_key(j, key);
	json_int(j, n);
}

void json_member_number(struct json *j, const char *key, double n)
{
	json_key(j, key);
	json_number(j, n);
}

void json_member_hex(struct json *j, const char *key, uint64_t n)
{
	char text[ID_HEX_LEN];

	id_format(n, text);
	json_member_string(j, key, (struct slice){ text, sizeof(text) });
}

void json_member_bool(struct json *j, const char *key, bool b)
{
	json_key(j, key);
	value(j, b ? "true" : "false");
}

/* A JSON reader: a text becomes an array of nodes, in the order of the text.
 *
 * Nothing is allocated for a value: a tape is read into again and again. Integers of 64
 * bits are exact. Unreadable are the values of a name that an object has twice, texts
 * that are not UTF-8 or have a zero in them, lone surrogates, numbers that neither
 * int64_t nor double can hold, and containers that are too deep. They hide no others.
 *
 * The children of a container lie behind it: of an object a name, then its value. */

/* Up to here names are compared with each other. */
#define NAMES_COMPARED 12

/* A text being read. The zero behind it ends every loop. */
struct json_reading {
	struct json_tape *tape;
	const char *begin, *end, *at;
	unsigned depth_max;
	bool is_front;          /* the source goes on behind `end` */
	bool is_cut;            /* ... and has a value there that ends later */
	int partial;            /* the error of the first unreadable value; TIDE_OK */
	const char *text_fault; /* of the text under way; NULL: none so far */
	struct error *err;
};

void json_tape_deinit(struct json_tape *t)
{
	mem_free(t->nodes);
	mem_free(t->names);
	buf_deinit(&t->texts);
	*t = (struct json_tape){ 0 };
}

static int refuse(struct json_reading *r)
{
	r->is_cut = r->is_front && r->at == r->end;
	return error_set(r->err, TIDE_ESYNTAX, "this is not JSON: wrong at byte %zu",
			 (size_t)(r->at - r->begin) + 1);
}

/* Text that cannot be kept may be JSON: the reader goes on behind it. */
static void note_unreadable(struct json_reading *r, const char *at, int code,
			    const char *what)
{
	if (r->partial == TIDE_OK)
		r->partial = error_set(r->err, code, "the JSON has %s at byte %zu", what,
				       (size_t)(at - r->begin) + 1);
}

static int no_memory(struct json_reading *r)
{
	return error_set(r->err, TIDE_ELIMIT, "out of memory for the JSON");
}

static TIDE_MUST_USE int grow(struct json_tape *t)
{
	uint32_t cap = t->cap ? t->cap * 2 : 64;
	struct json_node *nodes = mem_try_realloc(t->nodes, cap * sizeof(*nodes));

	if (!nodes)
		return TIDE_ELIMIT;
	t->nodes = nodes;
	t->cap = cap;
	return TIDE_OK;
}

static inline int add(struct json_reading *r, struct json_node node)
{
	struct json_tape *t = r->tape;

	if (t->count == t->cap && grow(t) != TIDE_OK)
		return no_memory(r);
	t->nodes[t->count++] = node;
	return TIDE_OK;
}

static int add_unreadable(struct json_reading *r, const char *at, const char *what)
{
	note_unreadable(r, at, TIDE_ESYNTAX, what);
	return add(r, (struct json_node){ .kind = JSON_TAPE_UNREADABLE,
					  .end = r->tape->count + 1 });
}

static inline void skip_space(struct json_reading *r)
{
	while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')
		r->at++;
}

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* ---- numbers */

static int add_integer(struct json_reading *r, const char *begin, uint64_t magnitude,
		       bool is_over)
{
	bool is_negative = *begin == '-';

	if (is_over || magnitude > (uint64_t)INT64_MAX + is_negative)
		return add_unreadable(r, begin, "an integer of more than 64 bits");
	return add(r,
		   (struct json_node){ .kind = JSON_TAPE_INTEGER,
				       .integer = is_negative ? (int64_t)(0 - magnitude)
							      : (int64_t)magnitude });
}

/* The number from `begin` to r->at, of a known shape. `digits` are all of its digits as
 * one integer, of which `scale` are behind the point. */
static int add_real(struct json_reading *r, const char *begin, uint64_t digits, int scale)
{
	static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
					 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
					 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
	double number;

	/* Both are exact, and the quotient is rounded once. */
	if (scale >= 0 && scale <= 22 && digits <= UINT64_C(1) << 53) {
		number = (double)digits / powers[scale];
		number = *begin == '-' ? -number : number;
	} else {
		number = strtod(begin, NULL);
	}
	if (!isfinite(number))
		return add_unreadable(r, begin, "a number that is too large");
	return add(r, (struct json_node){ .kind = JSON_TAPE_NUMBER, .number = number });
}

/* Digits go on to `*number`; more than fit set `*is_over`. False: there is none. */
static bool read_digits(struct json_reading *r, uint64_t *number, bool *is_over)
{
	const char *begin = r->at;

	for (; is_digit(*r->at); r->at++) {
		unsigned digit = (unsigned)(*r->at - '0');

		*is_over |= *number > (UINT64_MAX - digit) / 10;
		*number = *number * 10 + digit;
	}
	return r->at > begin;
}

static int read_number(struct json_reading *r)
{
	const char *begin = r->at;
	uint64_t digits = 0, exponent = 0;
	bool is_over = false, is_real = false;
	int scale = 0;

	r->at += *r->at == '-';
	if (*r->at == '0')
		r->at++;
	else if (!read_digits(r, &digits, &is_over))
		return refuse(r);
	if (*r->at == '.') {
		const char *point = r->at++;

		is_real = true;
		if (!read_digits(r, &digits, &is_over))
			return refuse(r);
		scale = r->at - point <= 23 ? (int)(r->at - point) - 1 : -1;
	}
	if (*r->at == 'e' || *r->at == 'E') {
		is_real = true;
		scale = -1;
		r->at++;
		r->at += *r->at == '-' || *r->at == '+';
		if (!read_digits(r, &exponent, &is_over))
			return refuse(r);
	}
	if (r->is_front && r->at == r->end)
		return refuse(r);
	return is_real ? add_real(r, begin, digits, is_over ? -1 : scale)
		       : add_integer(r, begin, digits, is_over);
}

/* ---- texts */

static bool read_hex(struct json_reading *r, uint32_t *out)
{
	*out = 0;
	for (int i = 0; i < 4; i++, r->at++) {
		int digit = hex_value(*r->at);

		if (digit < 0)
			return false;
		*out = *out << 4 | (uint32_t)digit;
	}
	return true;
}

static char *put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
	} else if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
		*to++ = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		*to++ = (char)(0xe0 | c >> 12);
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	} else {
		*to++ = (char)(0xf0 | c >> 18);
		*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	}
	return to;
}

static bool is_second_half(uint32_t c)
{
	return c >= 0xdc00 && c < 0xe000;
}

/* Read behind "\u", with the second half of a pair. NULL: it is wrong at r->at. */
static char *read_unicode(struct json_reading *r, char *to)
{
	uint32_t c, low = 0;

	if (!read_hex(r, &c))
		return NULL;
	if (c == 0)
		r->text_fault = "a text with \\u0000";
	if (c < 0xd800 || c >= 0xe000)
		return put_utf8(to, c);
	if (!is_second_half(c) && r->at[0] == '\\' && r->at[1] == 'u') {
		r->at += 2;
		if (!read_hex(r, &low))
			return NULL;
	}
	if (is_second_half(low))
		return put_utf8(to, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
	r->text_fault = "a text with half a surrogate pair";
	return to;
}

/* Read behind a backslash, and write to `to`. NULL: it is wrong at r->at. */
static char *read_escape(struct json_reading *r, char *to)
{
	static const char plain[256] = {
		['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
		['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t'
	};
	char c = *r->at;

	if (c == 'u') {
		r->at++;
		return read_unicode(r, to);
	}
	if (!plain[(unsigned char)c])
		return NULL;
	r->at++;
	*to = plain[(unsigned char)c];
	return to + 1;
}

static inline bool is_plain(char c)
{
	return (unsigned char)c - 0x20u < 0x60 && c != '"' && c != '\\';
}

#define EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

/* Go over plain characters, eight at a time: the lowest high bit of `other` is that of
 * the first one that is not plain. Those above it mean nothing. */
static inline void skip_ascii(struct json_reading *r)
{
	uint64_t word, other;

	while (r->end - r->at >= 8) {
		word = le64toh(bytes_load_eight(r->at));
		other = (word | (word - EACH_BYTE(0x20)) |
			 ((word ^ EACH_BYTE('"')) - EACH_BYTE(1)) |
			 ((word ^ EACH_BYTE('\\')) - EACH_BYTE(1))) &
			EACH_BYTE(0x80);
		if (other) {
			r->at += __builtin_ctzll(other) / 8;
			return;
		}
		r->at += 8;
	}
	while (is_plain(*r->at))
		r->at++;
}

/* Go over characters that stand for themselves. False: it is wrong at r->at. */
static bool skip_plain(struct json_reading *r)
{
	uint32_t c;
	size_t n;

	while (is_plain(*r->at) || (unsigned char)*r->at >= 0x80) {
		skip_ascii(r);
		for (; (unsigned char)*r->at >= 0x80; r->at += n) {
			n = utf8_decode(r->at, (size_t)(r->end - r->at), &c);
			if (n == 0) {
				r->text_fault = "a text that is not UTF-8";
				n = 1;
			}
		}
	}
	return (unsigned char)*r->at >= 0x20;
}

/* The rest of a text with escapes, from `begin` on. What is read is never longer than
 * what it is read from: the texts do not move. */
static int read_escaped(struct json_reading *r, const char *begin, struct json_node *out)
{
	struct buf *texts = &r->tape->texts;

	if (texts->cap - texts->start < (size_t)(r->end - r->begin) &&
	    buf_try_reserve(texts, (size_t)(r->end - r->begin)) != TIDE_OK)
		return no_memory(r);
	char *to = texts->data + texts->end;
	out->text = to;
	for (; *r->at == '\\'; begin = r->at) {
		memcpy(to, begin, (size_t)(r->at - begin));
		to += r->at - begin;
		r->at++;
		to = read_escape(r, to);
		if (!to)
			return refuse(r);
		const char *behind = r->at;
		if (!skip_plain(r))
			return refuse(r);
		memcpy(to, behind, (size_t)(r->at - behind));
		to += r->at - behind;
	}
	out->len = (uint32_t)(to - out->text);
	texts->end = (size_t)(to - texts->data);
	return TIDE_OK;
}

static int read_text(struct json_reading *r, struct json_node *out)
{
	const char *begin = ++r->at;
	int rc = TIDE_OK;

	*out = (struct json_node){ .kind = JSON_TAPE_TEXT, .text = begin };
	r->text_fault = NULL;
	if (!skip_plain(r))
		return refuse(r);
	if (*r->at == '\\')
		rc = read_escaped(r, begin, out);
	else
		out->len = (uint32_t)(r->at - begin);
	if (rc != TIDE_OK)
		return rc;
	r->at++;
	return TIDE_OK;
}

static int read_text_value(struct json_reading *r)
{
	const char *begin = r->at;
	struct json_node node;
	int rc = read_text(r, &node);

	if (rc != TIDE_OK)
		return rc;
	return r->text_fault ? add_unreadable(r, begin, r->text_fault) : add(r, node);
}

/* ---- containers */

static int read_value(struct json_reading *r, unsigned depth);

static bool is_same(const struct json_node *a, const struct json_node *b)
{
	return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* An empty table for the names of an object; NULL without memory. */
static uint32_t *clear_names(struct json_tape *t, size_t cap)
{
	if (cap > t->name_cap) {
		uint32_t *names = mem_try_realloc(t->names, cap * sizeof(*names));
		if (!names)
			return NULL;
		t->names = names;
		t->name_cap = cap;
	}
	return memset(t->names, 0, cap * sizeof(*t->names));
}

static void forget_value(struct json_tape *t, uint32_t i)
{
	uint32_t end = json_tape_behind(t, i);

	t->nodes[i] = (struct json_node){ .kind = JSON_TAPE_UNREADABLE, .end = end };
}

/* It is not known which of two values of a name is meant. */
static int forget_both(struct json_tape *t, uint32_t name, uint32_t other)
{
	forget_value(t, name + 1);
	forget_value(t, other + 1);
	return TIDE_EEXISTS;
}

/* Two names that are the same: TIDE_EEXISTS. */
static int check_many_names(struct json_tape *t, uint32_t object)
{
	size_t cap = 64;
	int rc = TIDE_OK;

	while (cap < (size_t)t->nodes[object].len * 2)
		cap *= 2;
	uint32_t *names = clear_names(t, cap);
	if (!names)
		return TIDE_ELIMIT;
	for (uint32_t i = object + 1; i < t->count; i = json_tape_behind(t, i + 1)) {
		const struct json_node *name = &t->nodes[i];
		size_t place = bytes_hash_wide(name->text, name->len) & (cap - 1);

		while (names[place] && !is_same(name, &t->nodes[names[place]]))
			place = (place + 1) & (cap - 1);
		if (names[place])
			rc = forget_both(t, names[place], i);
		else
			names[place] = i;
	}
	return rc;
}

/* The nodes of the object are the last. TIDE_EEXISTS: it has a name twice, and the values
 * of that name are unreadable now. */
static int find_twins(struct json_tape *t, uint32_t object)
{
	int rc = TIDE_OK;

	if (t->nodes[object].len > NAMES_COMPARED)
		return check_many_names(t, object);
	for (uint32_t i = object + 1; i < t->count; i = json_tape_behind(t, i + 1)) {
		for (uint32_t k = object + 1; k < i; k = json_tape_behind(t, k + 1))
			if (is_same(&t->nodes[i], &t->nodes[k]))
				rc = forget_both(t, k, i);
	}
	return rc;
}

/* The object ends at r->at. */
static int check_names(struct json_reading *r, uint32_t object)
{
	int rc = find_twins(r->tape, object);

	if (rc == TIDE_ELIMIT)
		return no_memory(r);
	if (rc == TIDE_EEXISTS)
		note_unreadable(r, r->at, TIDE_ESYNTAX,
				"a name twice in an object that ends");
	return TIDE_OK;
}

/* One that is unreadable leaves r->text_fault. */
static int read_name(struct json_reading *r)
{
	const char *begin = r->at;
	struct json_node node;

	if (*r->at != '"')
		return refuse(r);
	int rc = read_text(r, &node);
	if (rc == TIDE_OK && r->text_fault)
		note_unreadable(r, begin, TIDE_ESYNTAX, r->text_fault);
	if (rc == TIDE_OK)
		rc = add(r, node);
	if (rc != TIDE_OK)
		return rc;
	skip_space(r);
	if (*r->at != ':')
		return refuse(r);
	r->at++;
	return TIDE_OK;
}

/* Of a member that the end of the source cuts, an object stays, with what is in front of
 * the cut. */
static int read_member(struct json_reading *r, uint32_t object, unsigned depth)
{
	struct json_tape *t = r->tape;
	uint32_t name = t->count, value = name + 1;
	int rc = read_name(r);
	bool has_name = !r->text_fault;

	if (rc == TIDE_OK)
		rc = read_value(r, depth);
	if (t->count <= value ||
	    (rc != TIDE_OK && t->nodes[value].kind != JSON_TAPE_OBJECT)) {
		t->count = name;
		return rc;
	}
	t->nodes[object].len++;
	if (!has_name)
		forget_value(t, value);
	return rc;
}

static int read_element(struct json_reading *r, uint32_t array, unsigned depth)
{
	int rc = read_value(r, depth);

	r->tape->nodes[array].len++;
	return rc;
}

/* Read the elements between the brackets. */
static int read_children(struct json_reading *r, uint32_t container, unsigned depth)
{
	bool is_object = r->tape->nodes[container].kind == JSON_TAPE_OBJECT;
	char bracket = is_object ? '}' : ']';
	int rc;

	skip_space(r);
	if (*r->at == bracket)
		return TIDE_OK;
	for (;;) {
		rc = is_object ? read_member(r, container, depth)
			       : read_element(r, container, depth);
		if (rc != TIDE_OK)
			return rc;
		skip_space(r);
		if (*r->at == bracket)
			return TIDE_OK;
		if (*r->at != ',')
			return refuse(r);
		r->at++;
		skip_space(r);
	}
}

/* Go behind the text at r->at. */
static int skip_text(struct json_reading *r)
{
	for (r->at++; *r->at != '"'; r->at++) {
		r->at += *r->at == '\\' && r->at < r->end;
		if (r->at >= r->end)
			return refuse(r);
	}
	r->at++;
	return TIDE_OK;
}

/* Of a container that is too deep only the end is looked for. */
static int skip_container(struct json_reading *r)
{
	const char *begin = r->at;
	char what[48];
	size_t open = 0;

	do {
		char c = *r->at;
		if (r->at == r->end)
			return refuse(r);
		if (c == '"') {
			int rc = skip_text(r);
			if (rc != TIDE_OK)
				return rc;
			continue;
		}
		open += c == '{' || c == '[';
		open -= c == '}' || c == ']';
		r->at++;
	} while (open > 0);
	snprintf(what, sizeof(what), "a value deeper than %u levels", r->depth_max);
	note_unreadable(r, begin, TIDE_ELIMIT, what);
	return add_unreadable(r, begin, what);
}

static int read_container(struct json_reading *r, unsigned depth)
{
	bool is_object = *r->at == '{';
	uint32_t container = r->tape->count;

	if (depth == r->depth_max)
		return skip_container(r);
	int rc = add(r, (struct json_node){ .kind = is_object ? JSON_TAPE_OBJECT
							      : JSON_TAPE_ARRAY });
	if (rc == TIDE_OK && !is_object)
		rc = add(r, (struct json_node){ .kind = JSON_TAPE_CURSOR });
	if (rc != TIDE_OK)
		return rc;
	r->at++;
	rc = read_children(r, container, depth + 1);
	r->tape->nodes[container].end = r->tape->count;
	if (is_object && (rc == TIDE_OK || r->is_cut)) {
		int checked = check_names(r, container);
		rc = checked == TIDE_OK ? rc : checked;
	}
	r->at += rc == TIDE_OK;
	return rc;
}

static int read_word(struct json_reading *r, const char *word, enum json_tape_kind kind)
{
	/* Not beyond the zero: it differs from the word. */
	for (; *word; word++, r->at++)
		if (*r->at != *word)
			return refuse(r);
	return add(r, (struct json_node){ .kind = kind });
}

static int read_value(struct json_reading *r, unsigned depth)
{
	skip_space(r);
	switch (*r->at) {
	case '{':
	case '[':
		return read_container(r, depth);
	case '"':
		return read_text_value(r);
	case 't':
		return read_word(r, "true", JSON_TAPE_TRUE);
	case 'f':
		return read_word(r, "false", JSON_TAPE_FALSE);
	case 'n':
		return read_word(r, "null", JSON_TAPE_NULL);
	default:
		return read_number(r);
	}
}

static int read_document(struct json_reading *r)
{
	if (r->end - r->begin > (ptrdiff_t)JSON_TAPE_SOURCE_MAX)
		return error_set(r->err, TIDE_ELIMIT, "the text is too long");
	int rc = read_value(r, 0);
	if (rc != TIDE_OK)
		return rc;
	skip_space(r);
	return r->at == r->end ? TIDE_OK : refuse(r);
}

static struct json_reading begin_reading(struct json_tape *t, struct slice source,
					 unsigned depth_max, struct error *err)
{
	t->count = 0;
	buf_clear(&t->texts);
	return (struct json_reading){ .tape = t,
				      .begin = source.data,
				      .end = source.data + source.len,
				      .at = source.data,
				      .depth_max = depth_max,
				      .err = err };
}

int json_tape_read(struct json_tape *t, struct slice source, unsigned depth_max,
		   struct error *err)
{
	struct json_reading r = begin_reading(t, source, depth_max, err);
	int rc = read_document(&r);

	if (rc != TIDE_OK)
		t->count = 0;
	return rc == TIDE_OK ? r.partial : rc;
}

void json_tape_read_front(struct json_tape *t, struct slice source, unsigned depth_max)
{
	struct error err;
	struct json_reading r = begin_reading(t, source, depth_max, &err);

	r.is_front = true;
	int rc = read_document(&r);
	bool is_open = rc == TIDE_ESYNTAX && r.is_cut && t->count > 0 &&
		       t->nodes[0].kind == JSON_TAPE_OBJECT;
	if (rc != TIDE_OK && !is_open)
		t->count = 0;
}

uint32_t json_tape_member(const struct json_tape *t, uint32_t i, struct slice name)
{
	uint32_t end = t->nodes[i].end;

	for (i++; i < end; i = json_tape_behind(t, i + 1))
		if (slice_is_equal(json_tape_text(&t->nodes[i]), name))
			return i + 1;
	return 0;
}

uint32_t json_tape_element(struct json_tape *t, uint32_t i, uint64_t n)
{
	struct json_node *cursor = &t->nodes[i + 1];

	if (n < 1 || n > t->nodes[i].len)
		return 0;
	if (cursor->len == 0 || cursor->len > n) {
		cursor->len = 1;
		cursor->at = i + 2;
	}
	for (; cursor->len < n; cursor->len++)
		cursor->at = json_tape_behind(t, cursor->at);
	return cursor->at;
}
