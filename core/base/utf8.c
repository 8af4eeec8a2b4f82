#include "utf8.h"

/* By the length of the sequence: the least code point that needs it. */
static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

static size_t sequence_len(unsigned char lead)
{
	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead < 0xe0)
		return 2;
	if (lead >= 0xe0 && lead < 0xf0)
		return 3;
	if (lead >= 0xf0 && lead < 0xf5)
		return 4;
	return 0;
}

size_t utf8_decode(const char *data, size_t len, uint32_t *out)
{
	if (len == 0)
		return 0;
	unsigned char lead = (unsigned char)data[0];
	size_t n = sequence_len(lead);
	if (n == 0 || n > len)
		return 0;
	/* A lead byte carries 7, 5, 4 or 3 bits. */
	uint32_t point = n == 1 ? lead : lead & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		unsigned char c = (unsigned char)data[i];

		if ((c & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (c & 0x3f);
	}
	if (point < least[n] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
		return 0;
	*out = point;
	return n;
}

size_t utf8_whole(const char *data, size_t len)
{
	size_t back = 0;

	while (back < 4 && back < len) {
		unsigned char c = (unsigned char)data[len - 1 - back];

		back++;
		if ((c & 0xc0) == 0x80)
			continue;
		return sequence_len(c) > back ? len - back : len;
	}
	return len;
}
