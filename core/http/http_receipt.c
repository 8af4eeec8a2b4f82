#include "http_receipt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/id.h"
#include "siphash.h"

static uint64_t sign(const struct http_receipt *r, const uint64_t key[2],
		     struct slice queue)
{
	struct buf text = { 0 };
	uint64_t signature;

	buf_printf(&text, "%" PRIu64 ".%" PRIu64 ".%" SLICE_FMT, r->session, r->tag,
		   SLICE_ARG(queue));
	signature = siphash(key, buf_slice(&text));
	buf_deinit(&text);
	return signature;
}

void http_receipt_format(const struct http_receipt *r, const uint64_t key[2],
			 struct slice queue, char out[HTTP_RECEIPT_SIZE])
{
	snprintf(out, HTTP_RECEIPT_SIZE, "%" PRIu64 ".%" PRIu64 ".%016" PRIx64,
		 r->session, r->tag, sign(r, key, queue));
}

enum http_receipt_verdict http_receipt_parse(struct slice text, const uint64_t key[2],
					     struct slice queue, struct http_receipt *out)
{
	struct slice rest = text;
	struct slice session = slice_cut(&rest, '.'), tag = slice_cut(&rest, '.');
	uint64_t signature;

	if (!slice_to_uint(session, UINT64_MAX, &out->session) ||
	    !slice_to_uint(tag, UINT64_MAX - 1, &out->tag) || rest.len != ID_HEX_LEN ||
	    id_parse(rest, &signature) < 0)
		return HTTP_RECEIPT_MALFORMED;
	return signature == sign(out, key, queue) ? HTTP_RECEIPT_GOOD
						  : HTTP_RECEIPT_FOREIGN;
}
