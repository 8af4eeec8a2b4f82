/* encode.h: requests as bytes, checked, so that nothing a caller passes can
 * break the framing. */
#pragma once

#include "base/buf.h"
#include "client_fail.h"

#define ENCODE_LINE_MAX 65536 /* with its line end */
#define ENCODE_HEADERS_MAX 64
#define ENCODE_DEDUPE_ID_MAX 128

/* Append a request that a caller wrote: the line, and for a PUB the length and the
 * payload.
 *
 * @return  TIDEMQ_OK with its channel; TIDEMQ_EINVAL when it cannot be sent as one
 *          request, or TIDEMQ_ENOMEM, and nothing is appended */
TIDE_MUST_USE int encode_request(struct buf *out, struct slice line, struct slice payload,
				 unsigned *channel, struct tidemq_error *err);

/* Append the line of a PUB, without length and line end. */
TIDE_MUST_USE int encode_publication(struct buf *out, unsigned channel,
				     const struct tidemq_publication *p,
				     struct tidemq_error *err);

/* A word of a request: a name, or `-` for an empty one when `may_be_empty`. */
TIDE_MUST_USE int encode_word(struct buf *out, const char *text, const char *what,
			      bool may_be_empty, struct tidemq_error *err);
