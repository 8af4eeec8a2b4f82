/* tls.h: TLS of one connection: bytes in, bytes out, no socket.
 *
 * What comes from the socket is fed (tls_feed), then read as plaintext until nothing is
 * left (tls_read). What is to be sent is written as plaintext (tls_write). What belongs
 * on the socket lies in tls_out, after each of these calls: the handshake answers there
 * too. A client begins it by a first tls_read. */
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "tls_context.h"

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
