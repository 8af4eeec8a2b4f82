/* line.h: the line protocol of one connection: bytes in, commands out.
 *
 * docs/protocol.md is the specification. The parser is incremental: any split
 * of the input gives the same result. It holds no policy; what a request may
 * do is the session's business. */
#pragma once

#include "base/decimal.h"
#include "session/session.h"
#include "out.h"

#define LINE_MAX_BYTES 65536 /* of a line, with its end */
#define LINE_PAYLOAD_MAX_DEFAULT ((size_t)16 << 20)

/* What the connection offers to its protocol. */
struct line_ops {
	/* Close once everything written has been sent. */
	void (*finish)(void *ctx);
	/* Something was written outside of line_feed, or input may be taken again. */
	void (*wake)(void *ctx);
	/* Send what was written, if the peer takes it, and close. */
	void (*kill)(void *ctx);
	bool (*can_take)(void *ctx);
	void (*describe)(void *ctx, struct json *out);
	const char *(*peer)(void *ctx); /* may be NULL */
};

enum line_state {
	LINE_COMMAND,
	LINE_PAYLOAD,  /* of `msg`, filled up to `filled` */
	LINE_ENDING,   /* the CRLF after a payload */
	LINE_SKIPPING, /* a payload that was refused */
	LINE_SKIPPED,  /* the CRLF after it */
	LINE_CLOSED,   /* nothing more is read */
};

struct line {
	struct session *session;
	struct out *out;
	const struct line_ops *ops;
	void *ctx;
	size_t payload_max;
	int64_t heartbeat_ms; /* both sides promised to be heard so often; 0: none did */
	struct msg *msg;
	size_t filled;
	uint64_t skip;
	struct publish_demand demand; /* of the publish whose payload is being read */
	unsigned channel;             /* likewise */
	uint8_t state;                /* enum line_state */
	bool is_quiet;
	bool has_asked; /* a request came: too late for HELLO */
	bool is_told_blocked;
	bool is_counted; /* `msg` is, as one that is being received */
	bool is_heavy;   /* the request that was run last was no light one */
	bool is_paused;  /* line_feed left something to do: feed it again, later */
	/* The time of the message sent last, in digits: the next has often the same. */
	int64_t ts_unix_ms;
	uint8_t ts_len; /* 0: none yet */
	char ts_text[DECIMAL_MAX];
};

void line_init(struct line *l, struct service *service, struct out *out,
	       const struct line_ops *ops, void *ctx, size_t payload_max);
/* Ends the session. */
void line_deinit(struct line *l);

/* Take in what can be taken, and give how many bytes that was. What is left is
 * an incomplete line, or waits: because the connection is to be held back
 * (line_is_held), or because its share of this turn is used up (is_paused). The
 * bytes may be changed. */
size_t line_feed(struct line *l, char *data, size_t len);
/* The client must wait: publishers are held back, or it has too many unanswered
 * requests. */
bool line_is_held(const struct line *l);

/* A large payload can be read to its place directly: where, and how much; NULL
 * when it is not the time for that. */
char *line_direct(struct line *l, size_t *len);
void line_direct_filled(struct line *l, size_t len);

/* EVT <what> <words>; `words` may be "". */
void line_reply_event(struct line *l, unsigned channel, const char *what,
		      const char *words);
/* ERR for a request that has no reply yet; after the replies that its channel
 * still owes, so that no client takes it for the answer to another request. */
void line_reply_error(struct line *l, unsigned channel, const struct error *err);

extern const struct session_ops line_reply_ops;
