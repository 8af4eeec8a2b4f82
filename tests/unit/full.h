/* full.h: how much of a long enumeration a test goes through: all of it, and less in a
 * sanitized build, which is ten times as slow and meets the same code. */
#ifndef TIDE_TEST_FULL_H
#define TIDE_TEST_FULL_H

#if defined(__SANITIZE_ADDRESS__)
#define FULL(all, sanitized) (sanitized)
#else
#define FULL(all, sanitized) (all)
#endif

#endif
