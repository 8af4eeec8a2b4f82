/* tls.h: TLS of one connection: bytes in, bytes out, no socket.
 *
 * What comes from the socket is fed (tls_feed), then read as plaintext until nothing is
 * left (tls_read). What is to be sent is written as plaintext (tls_write). What belongs
 * on the socket lies in tls_out, after each of these calls: the handshake answers there
 * too. A client begins it by a first tls_read. */
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "base/buf.h"

/* The state that the connections of one side of TLS share: a certificate with its
 * key, and whom they trust.
 *
 * The files are PEM, and are read at creation alone. A connection keeps its context: to
 * take other files, make a new one for new connections. TLS 1.2 is the oldest version.
 * One thread uses a context and its connections. */
struct tls_context;

/* The demand of a server on its clients. */
enum tls_client {
	TLS_CLIENT_NONE,     /* no certificate */
	TLS_CLIENT_WANTED,   /* one is verified if it is given */
	TLS_CLIENT_REQUIRED, /* without one there is no connection */
};

/* Paths; NULL: none. */
struct tls_files {
	const char *cert; /* our certificate, then those that lead to its root */
	const char *key;  /* of our certificate, not encrypted */
	const char *ca;   /* whom to trust */
};

/* `files` needs cert and key, and ca for clients' certificates. An error is a sentence
 * that names the file. */
TIDE_MUST_USE int tls_context_create_server(const struct tls_files *files,
					    enum tls_client client,
					    struct tls_context **out, struct error *err);
/* Without a ca it trusts whom the system trusts. cert and key are for servers that ask
 * for a client's certificate: both, or none. */
TIDE_MUST_USE int tls_context_create_client(const struct tls_files *files,
					    struct tls_context **out, struct error *err);
void tls_context_unref(struct tls_context *c); /* accepts NULL */

/* "broker.example, valid until 2027-01-31 12:00 UTC": our certificate. */
void tls_context_describe(const struct tls_context *c, struct buf *out);
/* When our certificate ends; 0: there is none. */
int64_t tls_context_until_unix_ms(const struct tls_context *c);
/* `now_unix_ms` is not within the time of our certificate. */
bool tls_context_is_expired(const struct tls_context *c, int64_t now_unix_ms);

struct tls;

struct tls *tls_create_server(struct tls_context *context);
/* `host` is the name or the address that the certificate must be for. */
struct tls *tls_create_client(struct tls_context *context, const char *host);
void tls_destroy(struct tls *t);

/* The bytes are borrowed until tls_keep, which copies those that have not been read. */
void tls_feed(struct tls *t, const char *data, size_t len);
void tls_keep(struct tls *t);
/* Something fed may be left to be read. */
bool tls_has_input(const struct tls *t);
/* About how much that is. */
size_t tls_unread_bytes(const struct tls *t);

/* Take plaintext.
 *
 * @return  how much; TIDE_AGAIN: more must be fed; TIDE_EMPTY: the other side has said
 *          that it sends no more; another error: the connection is of no more use,
 *          and tls_error says why. The alert for the other side is in tls_out */
TIDE_MUST_USE ssize_t tls_read(struct tls *t, void *out, size_t room);

/* Encrypt the front of `vec`.
 *
 * @param max  plaintext to take at most, at least one record's (TLS_RECORD_BYTES)
 * @return     how much was taken: 0 before the handshake is done; or an error, as
 *             tls_read has them */
#define TLS_RECORD_BYTES ((size_t)16384)
TIDE_MUST_USE ssize_t tls_write(struct tls *t, const struct iovec *vec, unsigned count,
				size_t max);
/* Say that nothing more is sent. */
void tls_finish(struct tls *t);

/* To be sent; the owner consumes it, or takes all of it away. */
struct buf *tls_out(struct tls *t);

/* The handshake is done, and the other side's certificate, if one is asked for, is
 * verified. */
bool tls_is_open(const struct tls *t);
/* One sentence about the failure; "" before one. */
const char *tls_error(const struct tls *t);
/* "TLSv1.3", "TLS_AES_256_GCM_SHA384", when it is open. */
const char *tls_version(const struct tls *t);
const char *tls_cipher(const struct tls *t);
/* The common name of the other side's certificate, which was verified; NULL: none, or
 * one that is no name of the protocol (slice_is_name). As long as the connection. */
const char *tls_peer_name(const struct tls *t);

/* The first byte of a connection begins TLS. */
static inline bool tls_is_first_byte(char byte)
{
	return byte == 0x16;
}
