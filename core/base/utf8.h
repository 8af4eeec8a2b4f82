/* utf8.h: strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The bytes of the character at the front of `data`, and its code point; 0 when
 * there is no whole, valid one. */
size_t utf8_decode(const char *data, size_t len, uint32_t *out);

/* How much of `data` is left when a character that was cut off at its end is
 * dropped. */
size_t utf8_whole(const char *data, size_t len);
