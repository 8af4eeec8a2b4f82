/* encode.h: requests as bytes, checked, so that nothing a caller passes can
 * break the framing. */
#ifndef TIDE_CLIENT_ENCODE_H
#define TIDE_CLIENT_ENCODE_H

#include "base/buf.h"
#include "client_fail.h"

#define ENCODE_LINE_MAX 65536 /* with its line end */
#define ENCODE_HEADERS_MAX 64
#define ENCODE_DEDUPE_ID_MAX 128

/* What the client must know of a line. */
struct request_head {
	unsigned channel;
	bool has_payload; /* PUB */
};

/* Look at a request line that a caller wrote: TIDEMQ_OK, or TIDEMQ_EINVAL when
 * it cannot be sent as one request. */
TIDE_MUST_USE int encode_inspect(struct slice line, struct request_head *out,
				 struct tidemq_error *err);

/* Append a request: the line, and for a PUB the length and the payload.
 * TIDEMQ_EINVAL or TIDEMQ_ENOMEM, and nothing is appended. */
TIDE_MUST_USE int encode_request(struct buf *out, struct slice line,
				 const struct request_head *head, struct slice payload,
				 struct tidemq_error *err);

/* Append the line of a PUB, without length and line end. */
TIDE_MUST_USE int encode_publication(struct buf *out, unsigned channel,
				     const struct tidemq_publication *p,
				     struct tidemq_error *err);

/* A word of a request: a name, or `-` for an empty one when `may_be_empty`. */
TIDE_MUST_USE int encode_word(struct buf *out, const char *text, const char *what,
			      bool may_be_empty, struct tidemq_error *err);

#endif
