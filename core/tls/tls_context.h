/* tls_context.h: what the connections of one side of TLS share: a certificate with its
 * key, and whom they trust.
 *
 * The files are PEM, and are read at creation alone. A connection keeps its context: to
 * take other files, make a new one for new connections. TLS 1.2 is the oldest version.
 * One thread uses a context and its connections. */
#pragma once

#include "base/buf.h"

struct tls_context;

/* What a server asks of its clients. */
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
struct tls_context *tls_context_ref(struct tls_context *c);
void tls_context_unref(struct tls_context *c); /* accepts NULL */

/* "broker.example, valid until 2027-01-31 12:00 UTC": our certificate. */
void tls_context_describe(const struct tls_context *c, struct buf *out);
/* When our certificate ends; 0: there is none. */
int64_t tls_context_until_unix_ms(const struct tls_context *c);
/* `now_unix_ms` is not within the time of our certificate. */
bool tls_context_is_expired(const struct tls_context *c, int64_t now_unix_ms);

/* For tls.c: OpenSSL's SSL_CTX, and the BIO_METHOD of its connections. */
struct ssl_ctx_st *tls_context_ssl(const struct tls_context *c);
struct bio_method_st *tls_context_bio(const struct tls_context *c);
