/* line.h: the line protocol of one connection: bytes in, commands out.
 *
 * docs/protocol.md is the specification. The parser is incremental: any split
 * of the input gives the same result. It holds no policy; what a request may
 * do is the session's business. */
#pragma once

#include "base/decimal.h"
#include "proto/protocol.h"

#define LINE_MAX_BYTES PROTOCOL_UNREAD_MAX /* of a line, with its end */

struct line {
	struct protocol base;
	uint64_t skip;
	struct publish_demand demand; /* of the publish whose payload is being read */
	unsigned channel;             /* likewise */
	uint8_t state;                /* enum line_state */
	bool is_quiet;
	bool may_ask;   /* it is logged in, or need not be */
	bool has_asked; /* a request came: too late for HELLO */
	bool is_told_blocked;
	bool is_heavy; /* the request that was run last was no light one */
	/* The time of the message sent last, in digits: the next has often the same. */
	int64_t ts_unix_ms;
	uint8_t ts_len; /* 0: none yet */
	char ts_text[DECIMAL_MAX];
};

enum line_state {
	LINE_COMMAND,
	LINE_PAYLOAD,  /* of base.msg, then the CRLF after it */
	LINE_SKIPPING, /* a payload that was refused */
	LINE_SKIPPED,  /* the CRLF after it */
	LINE_CLOSED,   /* nothing more is read */
};

extern const struct protocol_kind line_protocol;
