#include "base64.h"

#include <stdint.h>
#include <string.h>

static const char *const alphabets[] = {
	[BASE64_STANDARD] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
	[BASE64_URL] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};

static uint32_t group_at(struct slice bytes, size_t i)
{
	uint32_t bits = (uint32_t)(unsigned char)bytes.data[i] << 16;

	if (i + 1 < bytes.len)
		bits |= (uint32_t)(unsigned char)bytes.data[i + 1] << 8;
	if (i + 2 < bytes.len)
		bits |= (unsigned char)bytes.data[i + 2];
	return bits;
}

size_t base64_encode(struct slice bytes, enum base64_alphabet alphabet, char *out)
{
	const char *digits = alphabets[alphabet];
	size_t n = 0;

	for (size_t i = 0; i < bytes.len; i += 3) {
		uint32_t bits = group_at(bytes, i);
		size_t left = bytes.len - i, chars = left < 3 ? left + 1 : 4;

		for (size_t c = 0; c < chars; c++)
			out[n++] = digits[bits >> (18 - 6 * c) & 63];
		for (size_t c = chars; c < 4 && alphabet == BASE64_STANDARD; c++)
			out[n++] = '=';
	}
	return n;
}

/* The value of a digit, or -1. */
static int value_of(char c, enum base64_alphabet alphabet)
{
	const char *at = c ? strchr(alphabets[alphabet], c) : NULL;

	return at ? (int)(at - alphabets[alphabet]) : -1;
}

/* Cut the padding off. False: it is wrong. */
static bool cut_padding(struct slice *text, enum base64_alphabet alphabet)
{
	size_t padding = 0;

	while (padding < 2 && text->len > padding &&
	       text->data[text->len - 1 - padding] == '=')
		padding++;
	bool is_optional = alphabet == BASE64_URL && padding == 0;
	if (!is_optional && text->len % 4 != 0)
		return false;
	text->len -= padding;
	return text->len % 4 != 1;
}

bool base64_decode(struct slice text, enum base64_alphabet alphabet, char *out,
		   size_t *out_len)
{
	uint32_t bits = 0;
	unsigned count = 0;
	size_t n = 0;

	if (!cut_padding(&text, alphabet))
		return false;
	for (size_t i = 0; i < text.len; i++) {
		int value = value_of(text.data[i], alphabet);

		if (value < 0)
			return false;
		bits = bits << 6 | (uint32_t)value;
		count += 6;
		if (count < 8)
			continue;
		count -= 8;
		out[n++] = (char)(bits >> count & 255);
		bits &= (1u << count) - 1;
	}
	*out_len = n;
	return bits == 0;
}
