/* check.h: cmocka with what it wants to be included before it, and assertions
 * on slices and buffers. */
#ifndef TIDE_TEST_CHECK_H
#define TIDE_TEST_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/slice.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define assert_slice(s, text)                                   \
	do {                                                    \
		struct slice got_ = (s);                        \
		assert_int_equal(got_.len, strlen(text));       \
		assert_memory_equal(got_.data, text, got_.len); \
	} while (0)

#define assert_buf(b, text) assert_string_equal(buf_cstr(b), text)

#endif
