/* link.h: how two brokers begin a connection that carries that of a client.
 *
 *   owner   TIDE-BROKER <version> <nonce>
 *   front   <proof> <version> <nonce> <role> <words>...
 *   owner   OK <proof>                                or ERR <code> <text>
 *
 * Each line ends with \n. A proof is an HMAC-SHA256 by the secret of {tide}:cluster over
 * what the other side has chosen, so each knows that the other has it. Behind the third
 * line the connection of a client has its bytes, unchanged, both ways; that of a member
 * has lines from the front: CLIENTS <n> once a second, and LEAVE before an orderly end.
 */
#pragma once

#include "base/buf.h"
#include "session/service_net.h"
#include "tls/secret.h"

#define LINK_VERSION 1
#define LINK_LINE_MAX 2048
#define LINK_NONCE_BYTES 16
#define LINK_NONCE_MAX (2 * LINK_NONCE_BYTES + 1)

enum link_role { LINK_LINE, LINK_HTTP, LINK_MEMBER };

/* The second line. */
struct link_hello {
	enum link_role role;
	char nonce[LINK_NONCE_MAX];
	char broker[17]; /* the incarnation of the front */
	uint64_t node;
	char release[32];         /* of its program */
	char at[NET_ADDRESS_MAX]; /* of a member: where brokers reach it */
	/* Of a store that is split: the cell whose owner is meant. */
	bool is_of_cells;
	uint64_t cell;
	/* Of a member: the cell that it owns, if it has one. */
	bool has_own;
	uint64_t own;
	uint64_t since_unix_ms; /* of a member; 0: it does not say */
	/* Of a client: what its connection would tell of it. */
	char peer[NET_ADDRESS_MAX];
	bool is_local;
	bool is_exposed; /* it came to a listener that others than this machine reach */
	char tls[16], cipher[48], certificate[NET_ADDRESS_MAX]; /* "": none */
};

/* Lines are read without their end, and written with it. */
void link_write_greeting(struct buf *out, const char *nonce);
TIDE_MUST_USE int link_read_greeting(struct slice line, char nonce[LINK_NONCE_MAX],
				     struct error *err);
void link_write_hello(struct buf *out, const struct link_hello *hello, const char *nonce,
		      const char *secret);
/* TIDE_EDENIED: the front has another secret. */
TIDE_MUST_USE int link_read_hello(struct slice line, const char *nonce,
				  const char *secret, struct link_hello *out,
				  struct error *err);
void link_write_answer(struct buf *out, const struct link_hello *hello,
		       const char *secret);
/* As link_read_greeting: TIDE_ELIMIT is for the client to know. */
TIDE_MUST_USE int link_read_answer(struct slice line, const struct link_hello *hello,
				   const char *secret, struct error *err);
