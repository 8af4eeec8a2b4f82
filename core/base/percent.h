/* percent.h: percent-encoding of header values (RFC 3986, section 2.1).
 *
 * Encoded are bytes below 0x21, 0x7f, and '%': what a word of a line may not hold. */
#pragma once

#include "buf.h"

/* How many bytes at the front need no encoding. */
static inline size_t percent_plain_len(struct slice s)
{
	size_t len = 0;

	while (len < s.len && (unsigned char)s.data[len] > 0x20 && s.data[len] != 0x7f &&
	       s.data[len] != '%')
		len++;
	return len;
}

size_t percent_encoded_len(struct slice value);
void percent_encode(struct buf *out, struct slice value);
/* Decode into `out`, which has room for value.len bytes, and give the length;
 * TIDE_ESYNTAX for a '%' that is not followed by two hex digits. `out` may be
 * the place of the value itself. */
TIDE_MUST_USE int percent_decode(struct slice value, char *out, size_t *out_len);
