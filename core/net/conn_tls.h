/* conn_tls.h: what a connection with TLS does otherwise than one without. */
#pragma once

#include "conn.h"
#include "tls/tls.h"

/* Encrypt the output, and send that. */
void conn_tls_flush(struct conn *c);
/* Something encrypted has not left yet. */
bool conn_tls_has_output(const struct conn *c);
/* Say that nothing more is sent; all that was has left. */
void conn_tls_finish(struct conn *c);

/* The connection has failed: the log gets the reason, the peer an alert. */
void conn_tls_fail(struct conn *c);
/* Its first bytes are no TLS: it gets a sentence that it can read. */
void conn_tls_refuse_plain(struct conn *c, const char *data, size_t len);
/* Its handshake has taken too long. */
void conn_tls_give_up(struct conn *c);

/* Members of an object. */
void conn_tls_describe(const struct conn *c, struct json *out);
void conn_tls_facts(const struct conn *c, struct session_peer *out);
