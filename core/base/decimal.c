#include "decimal.h"

#include <string.h>

unsigned decimal_len(uint64_t n)
{
	unsigned len = 1;

	for (; n >= 10000; n /= 10000)
		len += 4;
	return len + (n >= 10) + (n >= 100) + (n >= 1000);
}

/* Two digits a step: a division is most of what a digit costs. */
static const char pairs[] = "00010203040506070809101112131415161718192021222324"
			    "25262728293031323334353637383940414243444546474849"
			    "50515253545556575859606162636465666768697071727374"
			    "75767778798081828384858687888990919293949596979899";

static inline char *put_pair(char *at, uint32_t n)
{
	memcpy(at, pairs + 2 * n, 2);
	return at + 2;
}

/* With zeros in front. */
static inline char *put_four(char *at, uint32_t n)
{
	return put_pair(put_pair(at, n / 100), n % 100);
}

static inline char *put_below_100(char *at, uint32_t n)
{
	if (n >= 10)
		return put_pair(at, n);
	*at = (char)('0' + n);
	return at + 1;
}

static inline char *put_below_10000(char *at, uint32_t n)
{
	if (n < 100)
		return put_below_100(at, n);
	return put_pair(put_below_100(at, n / 100), n % 100);
}

char *decimal_put(char *at, uint64_t n)
{
	uint32_t low;

	if (n < 10000)
		return put_below_10000(at, (uint32_t)n);
	if (n < 100000000)
		return put_four(put_below_10000(at, (uint32_t)n / 10000),
				(uint32_t)n % 10000);
	low = (uint32_t)(n % 100000000);
	at = decimal_put(at, n / 100000000);
	return put_four(put_four(at, low / 10000), low % 10000);
}

char *decimal_put_int(char *at, int64_t n)
{
	if (n >= 0)
		return decimal_put(at, (uint64_t)n);
	*at = '-';
	return decimal_put(at + 1, -(uint64_t)n);
}
