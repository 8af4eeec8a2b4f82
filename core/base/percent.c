#include "percent.h"

#include "hex.h"

size_t percent_encoded_len(struct slice value)
{
	size_t len = 0, run;

	while ((run = percent_plain_len(value)) < value.len) {
		len += run + 3;
		value = slice_skip(value, run + 1);
	}
	return len + value.len;
}

void percent_encode(struct buf *out, struct slice value)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t run;

	while ((run = percent_plain_len(value)) < value.len) {
		unsigned char c = (unsigned char)value.data[run];
		const char code[3] = { '%', digits[c >> 4], digits[c & 0xf] };

		buf_append(out, value.data, run);
		buf_append(out, code, sizeof(code));
		value = slice_skip(value, run + 1);
	}
	buf_append_slice(out, value);
}

int percent_decode(struct slice value, char *out, size_t *out_len)
{
	size_t len = 0;

	for (size_t i = 0; i < value.len; i++) {
		char c = value.data[i];

		if (c == '%') {
			if (value.len - i < 3)
				return TIDE_ESYNTAX;
			int high = hex_value(value.data[i + 1]);
			int low = hex_value(value.data[i + 2]);
			if (high < 0 || low < 0)
				return TIDE_ESYNTAX;
			c = (char)(high << 4 | low);
			i += 2;
		}
		out[len++] = c;
	}
	*out_len = len;
	return TIDE_OK;
}
