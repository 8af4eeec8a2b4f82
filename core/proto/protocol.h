/* protocol.h: the protocol of a connection: bytes in, requests out, answers back.
 *
 * A connection knows its protocol by this struct alone, and each protocol has one as the
 * first member of its own. Its functions are in struct protocol_kind. */
#pragma once

#include "session/session.h"
#include "out.h"

/* The input that a protocol leaves at most, to be given again with what follows. */
#define PROTOCOL_UNREAD_MAX 65536
#define PROTOCOL_PAYLOAD_MAX_DEFAULT ((size_t)16 << 20)
/* From this size on a payload is read straight to its place. */
#define PROTOCOL_DIRECT_BYTES 16384

/* The services of the connection for its protocol. */
struct protocol_ops {
	/* Close once everything written has been sent. */
	void (*finish)(void *ctx);
	/* Something was written outside of `feed`, or input may be taken again. */
	void (*wake)(void *ctx);
	/* Send what was written, if the peer takes it, and close. */
	void (*kill)(void *ctx);
	/* The output is under its mark: deliveries go into it, and the next request is
	 * taken. */
	bool (*can_take)(void *ctx);
	void (*describe)(void *ctx, struct json *out);
	/* All but the name of the protocol. NULL: nothing is known. */
	void (*facts)(void *ctx, struct session_peer *out);
	/* Is a request over HTTP another broker's? Then nothing of it is taken, and
	 * nothing behind it. NULL: it never is. */
	bool (*is_elsewhere)(void *ctx, const char *target);
};

struct protocol_spec {
	struct service *service;
	struct out *out;
	const struct protocol_ops *ops;
	void *ctx;
	size_t payload_max;
	struct allowance *address; /* what the peer's address may have; NULL: all */
	void *shared; /* by all connections of the protocol; NULL: nothing is */
	bool is_once; /* one request over HTTP ends it */
};

struct protocol;

struct protocol_kind {
	const char *name; /* "line" */
	size_t size;      /* of its own struct */
	void (*init)(struct protocol *p, const struct protocol_spec *spec);
	/* Ends the session. */
	void (*deinit)(struct protocol *p);
	/* Take in what can be taken, and give how many bytes that was. What is left is an
	 * incomplete request, or waits: because the connection is to be held back
	 * (protocol_is_held), or because its share of this turn is used up (is_paused).
	 * The bytes may be changed. */
	size_t (*feed)(struct protocol *p, char *data, size_t len);
	/* The connection takes no more requests and ends soon; words: "<code> <text>". */
	void (*tell_closed)(struct protocol *p, const char *words);
	/* The connection has sent no other bytes for heartbeat_out_ms. */
	void (*heartbeat)(struct protocol *p);
	/* Once a second, by the clock of the loop. NULL: no matter. */
	void (*tick)(struct protocol *p, int64_t now_ms);
	/* The output is about to be sent: write what was held back for it. NULL: nothing
	 * is. */
	void (*flush)(struct protocol *p);
	/* Some of the output has left. NULL: no matter. */
	void (*sent)(struct protocol *p);
	/* The peer sends no more. NULL: no matter. */
	void (*ended)(struct protocol *p);
};

struct protocol {
	const struct protocol_kind *kind;
	struct service *service;
	struct session *session;
	struct out *out;
	const struct protocol_ops *ops;
	void *ctx;
	size_t payload_max;
	int64_t heartbeat_in_ms;  /* the peer promised to be heard so often; 0: it did not
				   */
	int64_t heartbeat_out_ms; /* likewise, this side */
	struct msg *msg; /* whose payload is being read, up to `filled`; NULL: none */
	size_t filled;
	uint64_t received; /* how many payloads came in pieces, with this one */
	size_t kept;       /* of its answer: it goes into the output later */
	bool is_counted;   /* one is coming in pieces: the session knows */
	bool is_paused;    /* `feed` left something to do: feed it again, later */
	bool has_input;    /* it keeps some: feed it, with nothing, when that may be */
	bool is_full;      /* it can take no more, until it wakes the connection */
	bool is_busy;      /* it owes answers that the session knows nothing of */
	bool is_silent;    /* it has said its last: what it owes is not waited for */
};

/* @param ops  of the session; their ctx is `p` */
void protocol_init(struct protocol *p, const struct protocol_kind *kind,
		   const struct session_ops *ops, const struct protocol_spec *spec);
void protocol_deinit(struct protocol *p);

/* The client must wait: it does not read its answers, or has too many unanswered
 * requests, or publishers are held back. */
static inline bool protocol_is_held(const struct protocol *p)
{
	return p->is_full || !p->ops->can_take(p->ctx) ||
	       session_is_held(p->session, p->msg != NULL || p->is_counted);
}

/* Some of the output has left. */
static inline void protocol_sent(struct protocol *p)
{
	session_answer_leave(p->session, p->out->bytes + p->kept);
	if (p->kind->sent)
		p->kind->sent(p);
}

/* Is the protocol done: are all its requests answered, or will they never be? */
static inline bool protocol_is_answered(const struct protocol *p)
{
	return p->is_silent || (!p->is_busy && session_is_answered(p->session));
}

/* `bytes` of a payload, or of what is kept for it, have come, and so many may follow. */
void protocol_receive(struct protocol *p, size_t bytes, size_t missing);
/* All have, or the rest never will. */
void protocol_received(struct protocol *p);

/* Of p->msg. */
static inline size_t protocol_missing(const struct protocol *p)
{
	return p->msg->payload_len - p->filled;
}

static inline bool protocol_is_filled(const struct protocol *p)
{
	return protocol_missing(p) == 0;
}

/* Of a body whose length nobody knows: it takes no place before it is long. */
static inline size_t protocol_missing_unknown(size_t len, size_t max)
{
	return len < SESSION_RECEIVE_SMALL ? 1 : max - len;
}

/* `len` more bytes of the payload are in their place. */
static inline void protocol_filled(struct protocol *p, size_t len)
{
	p->filled += len;
	if (p->is_counted)
		session_receive_add(p->session, len, protocol_missing(p));
}

/* Put them there: gives how many were taken. */
static inline size_t protocol_fill(struct protocol *p, const char *data, size_t len)
{
	size_t wanted = protocol_missing(p);
	size_t n = len < wanted ? len : wanted;

	memcpy(msg_payload_room(p->msg) + p->filled, data, n);
	protocol_filled(p, n);
	return n;
}

/* The place for the next bytes of a large payload, and how much: they can be read there
 * directly, then protocol_filled. NULL when it is not the time for that. */
char *protocol_direct(struct protocol *p, size_t *len);
/* At the end of `feed`: what has come of a payload counts as memory. */
static inline void protocol_count_payload(struct protocol *p)
{
	if (p->msg && !p->is_counted)
		protocol_receive(p, p->msg->bytes - protocol_missing(p),
				 protocol_missing(p));
}

/* Members of struct session_ops that all protocols share. */
void protocol_on_progress(void *ctx);
bool protocol_can_take(void *ctx);
void protocol_describe(void *ctx, struct json *out);
void protocol_facts(void *ctx, struct session_peer *out);
