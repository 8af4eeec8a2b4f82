#include "shared_text.h"

#include <inttypes.h>
#include <stdlib.h>

void shared_text_write(struct buf *out, int64_t expires_unix_ms,
		       const struct shared_value *v)
{
	buf_printf(out, "%" PRId64 " ", expires_unix_ms);
	switch (v->type) {
	case SHARED_TEXT:
		buf_append_char(out, 's');
		buf_append_slice(out, v->text);
		break;
	case SHARED_INTEGER:
		buf_printf(out, "i%" PRId64, v->integer);
		break;
	case SHARED_NUMBER:
		buf_printf(out, "n%.17g", v->number);
		break;
	case SHARED_BOOLEAN:
		buf_append_text(out, v->boolean ? "b1" : "b0");
		break;
	}
}

/* A number that is the whole of the text, which is no longer than any of ours. */
static bool decode_number(struct slice text, struct shared_value *out)
{
	char digits[64], *end;

	if (text.len == 0 || text.len >= sizeof(digits))
		return false;
	memcpy(digits, text.data, text.len);
	digits[text.len] = '\0';
	if (out->type == SHARED_INTEGER)
		out->integer = strtoll(digits, &end, 10);
	else
		out->number = strtod(digits, &end);
	return *end == '\0';
}

/* False for other texts. A value of type s points into `text`. */
bool shared_text_read(struct slice text, int64_t *expires_unix_ms,
		      struct shared_value *out)
{
	const char *space = memchr(text.data, ' ', text.len);
	uint64_t expires;
	size_t head = space ? (size_t)(space - text.data) : 0;

	if (!space || text.len < head + 2 ||
	    !slice_to_uint((struct slice){ text.data, head }, INT64_MAX, &expires))
		return false;
	*expires_unix_ms = (int64_t)expires;
	struct slice value = slice_skip(text, head + 2);
	switch (text.data[head + 1]) {
	case 's':
		*out = (struct shared_value){ .type = SHARED_TEXT, .text = value };
		return true;
	case 'i':
		*out = (struct shared_value){ .type = SHARED_INTEGER };
		return decode_number(value, out);
	case 'n':
		*out = (struct shared_value){ .type = SHARED_NUMBER };
		return decode_number(value, out);
	case 'b':
		*out = (struct shared_value){ .type = SHARED_BOOLEAN,
					      .boolean = slice_is(value, "1") };
		return value.len == 1;
	default:
		return false;
	}
}
