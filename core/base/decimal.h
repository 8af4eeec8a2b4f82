/* decimal.h: whole numbers as decimal digits, written where the caller has room.
 *
 * Every line of the protocol and every command for Redis has some. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DECIMAL_MAX 20 /* digits of 2^64 - 1; a sign and those of 2^63 */

/* How many digits `n` has. */
unsigned decimal_len(uint64_t n);
/* Write the digits; gives the place behind them. */
char *decimal_put(char *at, uint64_t n);
char *decimal_put_int(char *at, int64_t n);
