/* base64.h: bytes as text, RFC 4648. Decoding is strict: each text has one form. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "slice.h"

enum base64_alphabet {
	BASE64_STANDARD, /* '+' and '/', padded with '=' */
	BASE64_URL,      /* '-' and '_', not padded; decoding accepts the padding */
};

/* The bytes of the encoded text, or more: without a zero at the end. */
static inline size_t base64_encoded_max(size_t len)
{
	return (len + 2) / 3 * 4;
}

/* @param out  base64_encoded_max(bytes.len) bytes
 * @return     how many were written */
size_t base64_encode(struct slice bytes, enum base64_alphabet alphabet, char *out);

/* @param out      text.len bytes
 * @param out_len  how many were written
 * @return         false: a character is not of the alphabet, the padding is missing or
 *                 wrong, or bits are left over that are not zero */
bool base64_decode(struct slice text, enum base64_alphabet alphabet, char *out,
		   size_t *out_len);
