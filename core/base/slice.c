#include "slice.h"

#include "bytes.h"
#include "utf8.h"

bool slice_to_uint(struct slice s, uint64_t max, uint64_t *out)
{
	if (s.len == 0)
		return false;
	uint64_t n = 0;
	for (size_t i = 0; i < s.len; i++) {
		if (s.data[i] < '0' || s.data[i] > '9')
			return false;
		/* Not compared with the maximum each time: that takes a division. */
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(s.data[i] - '0'), &n))
			return false;
	}
	if (n > max)
		return false;
	*out = n;
	return true;
}

bool slice_to_int(struct slice s, int64_t min, int64_t max, int64_t *out)
{
	bool is_negative = s.len > 0 && s.data[0] == '-';
	uint64_t digits;
	int64_t n;

	if (!slice_to_uint(slice_skip(s, is_negative), INT64_MAX, &digits))
		return false;
	n = is_negative ? -(int64_t)digits : (int64_t)digits;
	if (n < min || n > max)
		return false;
	*out = n;
	return true;
}

bool slice_is_listed(struct slice word, const char *list)
{
	struct slice rest = slice_from(list);

	while (rest.len > 0)
		if (slice_is_equal(slice_cut(&rest, ' '), word))
			return true;
	return false;
}

bool slice_is_choice(struct slice word, const char *choices, unsigned *index)
{
	struct slice rest = slice_from(choices);

	*index = 0;
	while (rest.len > 0) {
		struct slice choice = slice_cut(&rest, ' ');

		if (slice_is(choice, "or"))
			continue;
		if (slice_has_suffix(choice, ","))
			choice.len--;
		if (slice_is_equal(choice, word))
			return true;
		++*index;
	}
	return false;
}

bool slice_to_share(struct slice s, double *out)
{
	struct slice fraction = s, whole;
	uint64_t percent = 0, part = 0;
	double unit = 1;
	bool is_number;

	if (s.len && s.data[s.len - 1] == '%')
		fraction.len--;
	is_number = fraction.len && fraction.data[fraction.len - 1] != '.';
	whole = slice_cut(&fraction, '.');
	for (size_t i = 0; i < fraction.len; i++)
		unit *= 10;
	if (!is_number || !slice_to_uint(whole, 100, &percent) || fraction.len > 6 ||
	    (fraction.len > 0 && !slice_to_uint(fraction, 999999, &part)))
		return false;
	*out = ((double)percent + (double)part / unit) / 100;
	return *out > 0 && *out <= 1;
}

static bool is_blank_or_control(uint32_t point)
{
	return point <= 0x20 || (point >= 0x7f && point <= 0xa0) || point == 0x1680 ||
	       (point >= 0x2000 && point <= 0x200a) || point == 0x2028 ||
	       point == 0x2029 || point == 0x202f || point == 0x205f || point == 0x3000;
}

#define EACH_BYTE UINT64_C(0x0101010101010101)
#define HIGH_BITS (EACH_BYTE * 0x80)

/* Eight bytes from '!' to '~'. Below 0x80, adding 1 reaches the high bit from 0x7f
 * alone, and adding 0x5f from 0x21 on. */
static bool is_graphic(uint64_t bytes)
{
	return ((bytes | (bytes + EACH_BYTE)) & HIGH_BITS) == 0 &&
	       ((bytes + EACH_BYTE * 0x5f) & HIGH_BITS) == HIGH_BITS;
}

/* The form of most names; "not" may mean a name in other letters. */
static bool is_graphic_name(struct slice s)
{
	uint64_t few;

	for (; s.len > 8; s = slice_skip(s, 8))
		if (!is_graphic(bytes_load_eight(s.data)))
			return false;
	few = bytes_load_few(s.data, s.len);
	return is_graphic(s.len < 4 ? few | (EACH_BYTE * '!') << 24 : few);
}

bool slice_is_name(struct slice s)
{
	if (s.len == 0 || s.len > NAME_LEN_MAX)
		return false;
	if (is_graphic_name(s))
		return true;
	for (size_t i = 0, n; i < s.len; i += n) {
		uint32_t point;

		n = utf8_decode(s.data + i, s.len - i, &point);
		if (n == 0 || is_blank_or_control(point))
			return false;
	}
	return true;
}

/* How many bytes at the front are surely ASCII: most of a text is, and 32 or eight
 * at a time cost no more than one. */
static size_t skip_ascii(const char *data, size_t len)
{
	size_t i = 0;

	for (; len - i >= 32; i += 32)
		if ((bytes_load_eight(data + i) | bytes_load_eight(data + i + 8) |
		     bytes_load_eight(data + i + 16) | bytes_load_eight(data + i + 24)) &
		    HIGH_BITS)
			break;
	for (; len - i >= 8; i += 8)
		if (bytes_load_eight(data + i) & HIGH_BITS)
			break;
	return i;
}

bool slice_is_utf8(struct slice s)
{
	for (size_t i = 0; i < s.len;) {
		uint32_t point;

		i += skip_ascii(s.data + i, s.len - i);
		if (i == s.len)
			break;
		size_t n = utf8_decode(s.data + i, s.len - i, &point);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}
