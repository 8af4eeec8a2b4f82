/* conn.h: a connection: a socket, its protocol, what is to be sent.
 *
 * open -> finishing (the last answers are sent; what still comes is thrown away,
 * and is only read to learn that the peer has gone) -> lingering (our side is
 * closed; what still comes is thrown away, so that the answers are not lost in
 * a reset) -> closing -> gone. With TLS it is shaking hands before it is open. conn_close
 * may be called at any time and any number of times; the session ends at the end of the
 * turn, the memory is freed when libuv has closed the handle. */
#pragma once

#include "gate.h"
#include "server.h"
#include "tls/tls.h"

struct relay;

struct conn {
	TAILQ_ENTRY(conn) link;
	TAILQ_ENTRY(conn) due_link;
	union server_socket socket;
	uv_write_t write;
	uv_shutdown_t shutdown;
	struct server *server;
	struct protocol *protocol; /* NULL: none, or it has ended */
	struct out out;
	struct tls *tls;     /* NULL: none */
	struct relay *relay; /* to the owner of its cell; NULL: it is served here */
	struct gate *gate;   /* it comes from a front; NULL: it does not */
	struct buf in;       /* the beginning of a request, or input that is held back */
	/* Of `in`, while the peer owes the rest of a request; 0: it owes none. */
	size_t unfinished_bytes;
	TAILQ_ENTRY(conn) unfinished_link;
	TAILQ_ENTRY(conn) stranger_link;
	int64_t stranger_ms;       /* since when it is one */
	struct allowance *address; /* what its address may have; NULL: all */
	uint64_t receiving;      /* the payload that was on its way at the last tick: its
				    number, 0: none was */
	int64_t receiving_ms;    /* how long it has been */
	int64_t kept_waiting_ms; /* of this, while the broker did not read what came */
	size_t writing;          /* bytes that uv_write is at work on */
	struct buf cipher;       /* with TLS they are these */
	size_t unwritten;        /* of these, at the last tick */
	int64_t last_progress_ms;
	int64_t accepted_ms; /* of the loop's clock, as the next ones */
	int64_t last_read_ms;
	int64_t last_write_ms;
	int64_t linger_until_ms;
	uint64_t bytes_in;
	uint64_t bytes_out;
	char peer[SERVER_ADDRESS_MAX];
	bool is_due;
	bool is_reading;
	bool is_direct; /* the read under way goes straight into a payload */
	bool is_full;   /* output over its high-water mark */
	bool is_finishing;
	bool is_killed; /* it owes no answers: it ends when its output has left, or now */
	bool is_ended;  /* the peer has closed its side, and all before that was read */
	bool has_left;  /* it has closed its side */
	bool is_lingering;
	bool is_closing;   /* conn_close was called */
	bool is_closed;    /* uv_close was called */
	bool is_local;     /* the peer is on this machine */
	bool is_shaking;   /* TLS is not agreed upon yet */
	bool is_stranger;  /* must log in and has not */
	bool is_brief;     /* it does not linger */
	bool is_undecided; /* of a store that is split: which cell it is for */
	bool has_moved; /* its next request is for `cell`, and that is another broker's */
	unsigned cell;
	bool is_settled;  /* which protocol it speaks */
	bool is_http;     /* HTTP, from the start */
	bool is_gate;     /* of another broker, from the start */
	bool has_entered; /* its address has counted it */
};

/* Take a connection from a listener. Over the limit it is told so and closed. */
struct conn_kind {
	bool is_tls, is_http;
	bool is_gate; /* of other brokers */
};
void conn_accept(struct server *s, uv_stream_t *listener, struct conn_kind kind);
/* It is known where it comes from: have it served, here or by the owner of the store. */
void conn_begin(struct conn *c);
void conn_close(struct conn *c);
/* Close it once everything written has been sent. */
void conn_finish(struct conn *c);
/* Close it when the output has left, or at once if the peer does not take it. */
void conn_end(struct conn *c);
/* Tell the client why, then close; words: "<code> <text>". */
void conn_close_with(struct conn *c, const char *words);
/* Send what was written, resume or end what is to be resumed or ended. */
void conn_serve(struct conn *c);
/* Close it, and give back what it keeps of a request. */
void conn_give_up_input(struct conn *c);
/* No more is read; what was asked is still answered. */
void conn_drain(struct conn *c);
bool conn_is_drained(const struct conn *c);

/* Once a second: heartbeats, idleness, the end of lingering. */
void conn_tick(struct conn *c, int64_t now_ms);

/* The socket has taken so many bytes. */
static inline void conn_count_sent(struct conn *c, size_t bytes)
{
	c->bytes_out += bytes;
	c->server->figures->bytes_out += bytes;
}
