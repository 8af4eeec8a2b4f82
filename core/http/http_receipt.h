/* http_receipt.h: what a client gives back to settle a message that a GET gave it.
 *
 *   "<session>.<tag>.<signature>"
 *
 * The signature covers the queue and has the key of this process: nobody can guess the
 * receipt of a message that he was not given. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define HTTP_RECEIPT_SIZE 64

struct http_receipt {
	uint64_t session; /* the number of that which holds the message */
	uint64_t tag;
};

void http_receipt_format(const struct http_receipt *r, const uint64_t key[2],
			 struct slice queue, char out[HTTP_RECEIPT_SIZE]);
enum http_receipt_verdict {
	HTTP_RECEIPT_GOOD,
	HTTP_RECEIPT_FOREIGN,   /* of another queue or process, or made up */
	HTTP_RECEIPT_MALFORMED, /* it has another form */
};
enum http_receipt_verdict http_receipt_parse(struct slice text, const uint64_t key[2],
					     struct slice queue,
					     struct http_receipt *out);
