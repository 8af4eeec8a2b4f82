#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "hex.h"
#include "id.h"
#include "utf8.h"

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

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void quote(struct buf *out, struct slice s)
{
	buf_append_char(out, '"');
	for (size_t i = 0; i < s.len;) {
		size_t run = i;

		while (run < s.len && is_plain((unsigned char)s.data[run]))
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
