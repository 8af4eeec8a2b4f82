/* error.h: the one error space of tidemq.
 *
 * Every fallible function returns an int: 0 is success, a negative number an error.
 * Numbers above -5000 are libuv's (and errno's, negated); ours start at -5001. The wire
 * code of an error is its word in the line protocol.
 *
 * `struct error` carries a code with a sentence for people. The function that handles an
 * error logs it; everyone below returns it. */
#pragma once

#include <stddef.h>

#define TIDE_MUST_USE __attribute__((warn_unused_result))
#define TIDE_PRINTF(f, a) __attribute__((format(printf, f, a)))

/*        enumerator         number  wire code        what it means */
#define TIDE_ERRORS(X)                                                                \
	X(TIDE_ESYNTAX, -5001, "syntax", "the request is not well formed")            \
	X(TIDE_EVERB, -5002, "unknown-verb", "no such verb")                          \
	X(TIDE_ETOOLONG, -5003, "too-long", "a line, name or list is over its limit") \
	X(TIDE_ETOOLARGE, -5004, "too-large", "the payload is over its limit")        \
	X(TIDE_ENOTFOUND, -5005, "not-found", "nothing of that name exists")          \
	X(TIDE_EMISMATCH, -5006, "mismatch", "it exists with other arguments")        \
	X(TIDE_EEXISTS, -5007, "exists", "it exists already or is in use")            \
	X(TIDE_EUNROUTABLE, -5008, "unroutable", "no queue takes the message")        \
	X(TIDE_EREJECTED, -5009, "rejected", "a filter refused the message")          \
	X(TIDE_ERULE, -5010, "rule", "a rule script failed")                          \
	X(TIDE_ELEASE, -5011, "lease-lost", "the message or lock is no longer yours") \
	X(TIDE_ELIMIT, -5012, "limit", "a limit of the broker is reached")            \
	X(TIDE_EFULL, -5013, "full", "the queue is full")                             \
	X(TIDE_EDENIED, -5014, "denied", "not allowed")                               \
	X(TIDE_EBUSY, -5015, "busy", "try again later")                               \
	X(TIDE_ESTORE, -5016, "store", "Redis refused or cannot be reached")          \
	X(TIDE_ESHUTDOWN, -5017, "shutdown", "the broker is stopping")                \
	X(TIDE_EABORTED, -5018, "aborted", "the transaction has failed already")

enum {
	TIDE_OK = 0,
#define X(name, number, code, text) name = (number),
	TIDE_ERRORS(X)
#undef X
	/* Not errors of a client: answers of functions that may have nothing. */
	TIDE_EMPTY = -5100, /* nothing is there now */
	TIDE_AGAIN = -5101, /* more input is needed */
};

#define ERROR_TEXT_MAX 512

struct error {
	int code;
	char text[ERROR_TEXT_MAX]; /* one sentence, no line break, no final full stop */
};

/* Fill `err` and return `code`. Line breaks and other control characters in
 * the text become spaces: an error is one line wherever it is shown. `err` may be
 * NULL, and the arguments may point into it. */
int error_set(struct error *err, int code, const char *format, ...) TIDE_PRINTF(3, 4);

/* The word of the line protocol for `code`; libuv's errors are "store". */
const char *error_wire_code(int code);

/* The meaning of `code`, for libuv's numbers too. Never NULL; static storage. */
const char *error_text(int code);
