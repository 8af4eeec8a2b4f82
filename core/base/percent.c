#include "percent.h"

static bool is_encoded(unsigned char c)
{
	return c < 0x21 || c == 0x7f || c == '%';
}

void percent_encode(struct buf *out, struct slice value)
{
	for (size_t i = 0; i < value.len;) {
		size_t run = i;
		while (run < value.len && !is_encoded((unsigned char)value.data[run]))
			run++;
		buf_append(out, value.data + i, run - i);
		i = run;
		if (i == value.len)
			break;
		unsigned char c = (unsigned char)value.data[i++];
		const char code[3] = { '%', "0123456789ABCDEF"[c >> 4],
				       "0123456789ABCDEF"[c & 0xf] };
		buf_append(out, code, sizeof(code));
	}
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int percent_decode(struct slice value, char *out, size_t *out_len)
{
	size_t len = 0;
	for (size_t i = 0; i < value.len; i++) {
		char c = value.data[i];
		if (c == '%') {
			if (value.len - i < 3)
				return TIDE_ESYNTAX;
			int high = hex_digit(value.data[i + 1]);
			int low = hex_digit(value.data[i + 2]);
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
