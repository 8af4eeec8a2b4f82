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

char *decimal_put(char *at, uint64_t n)
{
	char *end, *to;

	if (n < 10) {
		*at = (char)('0' + n);
		return at + 1;
	}
	end = to = at + decimal_len(n);
	for (; n >= 100; n /= 100)
		memcpy(to -= 2, pairs + 2 * (n % 100), 2);
	if (n >= 10)
		memcpy(to - 2, pairs + 2 * n, 2);
	else
		to[-1] = (char)('0' + n);
	return end;
}

char *decimal_put_int(char *at, int64_t n)
{
	if (n >= 0)
		return decimal_put(at, (uint64_t)n);
	*at = '-';
	return decimal_put(at + 1, -(uint64_t)n);
}
