/* hex.h: hexadecimal digits. */
#pragma once

/* The lower-case digit of `n`, 0 to 15. */
static inline char hex_digit(unsigned n)
{
	return "0123456789abcdef"[n & 0xf];
}

/* What a lower-case digit stands for; -1 when it is none. */
static inline int hex_value_lower(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The same for digits of both cases. */
static inline int hex_value(char c)
{
	return hex_value_lower(c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c);
}
