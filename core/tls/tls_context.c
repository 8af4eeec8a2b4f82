#include "tls_context.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/mem.h"

/* TLS 1.2 with keys that are made for each connection, and authenticated encryption. */
#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"
/* How long a client may resume a session without a new key exchange. */
#define TICKET_SECONDS 3600

struct tls_context {
	unsigned refs;
	SSL_CTX *ssl;
	BIO_METHOD *bio;
};

/* A prompt would wait for somebody at the terminal. */
static int refuse_passphrase(char *out, int size, int is_writing, void *ctx)
{
	*(bool *)ctx = true;
	return 0;
}

static int check_file(const char *path, const char *what, struct error *err)
{
	FILE *file = fopen(path, "re");
	int rc;

	if (!file)
		return error_set(err, -errno, "cannot read the %s '%s': %s", what, path,
				 strerror(errno));
	/* A directory can be opened. */
	rc = fgetc(file) == EOF ? -EINVAL : TIDE_OK;
	fclose(file);
	return rc < 0 ? error_set(err, rc, "the %s '%s' is empty or no file", what, path)
		      : TIDE_OK;
}

/* OpenSSL has refused the content of a file. */
static int refuse_file(const char *path, const char *what, struct error *err)
{
	unsigned long number = ERR_peek_error();
	const char *reason = ERR_reason_error_string(number);

	if (ERR_GET_LIB(number) == ERR_LIB_PEM &&
	    ERR_GET_REASON(number) == PEM_R_NO_START_LINE)
		reason = "it holds none in PEM form";
	return error_set(err, -EINVAL, "cannot use the %s '%s': %s", what, path,
			 reason ? reason : "OpenSSL refuses it");
}

static int load_key(SSL_CTX *ssl, const char *path, struct error *err)
{
	bool is_encrypted = false;
	int rc = check_file(path, "key", err);

	if (rc < 0)
		return rc;
	SSL_CTX_set_default_passwd_cb(ssl, refuse_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(ssl, &is_encrypted);
	if (SSL_CTX_use_PrivateKey_file(ssl, path, SSL_FILETYPE_PEM) != 1)
		rc = refuse_file(path, "key", err);
	SSL_CTX_set_default_passwd_cb_userdata(ssl, NULL);
	SSL_CTX_set_default_passwd_cb(ssl, NULL);
	return is_encrypted
		       ? error_set(err, -EINVAL,
				   "the key '%s' is encrypted: write it without a "
				   "passphrase (openssl pkey -in FILE -out FILE), for "
				   "the broker's user alone",
				   path)
		       : rc;
}

static int load_cert(SSL_CTX *ssl, const struct tls_files *files, struct error *err)
{
	unsigned long number;
	int rc = check_file(files->cert, "certificate", err);

	if (rc == TIDE_OK && SSL_CTX_use_certificate_chain_file(ssl, files->cert) != 1)
		rc = refuse_file(files->cert, "certificate", err);
	if (rc == TIDE_OK)
		rc = load_key(ssl, files->key, err);
	number = ERR_peek_error();
	if (rc < 0 && ERR_GET_LIB(number) == ERR_LIB_X509 &&
	    (ERR_GET_REASON(number) == X509_R_KEY_VALUES_MISMATCH ||
	     ERR_GET_REASON(number) == X509_R_KEY_TYPE_MISMATCH))
		rc = error_set(err, -EINVAL,
			       "the key '%s' does not match the certificate '%s'",
			       files->key, files->cert);
	return rc;
}

static int load_ca(SSL_CTX *ssl, const char *path, struct error *err)
{
	int rc = check_file(path, "CA certificate", err);

	if (rc == TIDE_OK && SSL_CTX_load_verify_file(ssl, path) != 1)
		rc = refuse_file(path, "CA certificate", err);
	/* Whatever the file names is trusted, be it a root or not. */
	X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ssl), X509_V_FLAG_PARTIAL_CHAIN);
	return rc;
}

static int load(SSL_CTX *ssl, const struct tls_files *files, struct error *err)
{
	int rc = TIDE_OK;

	if (!files->cert != !files->key)
		return error_set(err, -EINVAL, "a certificate needs its key: give both");
	if (files->cert)
		rc = load_cert(ssl, files, err);
	if (rc == TIDE_OK && files->ca)
		rc = load_ca(ssl, files->ca, err);
	return rc;
}

static int create(const SSL_METHOD *method, const struct tls_files *files,
		  struct tls_context **out, struct error *err)
{
	struct tls_context *c = mem_zalloc(sizeof(*c));
	int rc;

	ERR_clear_error();
	c->refs = 1;
	c->ssl = SSL_CTX_new(method);
	/* Its type is for searches in a chain, which a connection has none of. */
	c->bio = BIO_meth_new(BIO_TYPE_MEM, "tidemq");
	if (!c->ssl || !c->bio)
		mem_fail(sizeof(*c));
	SSL_CTX_set_min_proto_version(c->ssl, TLS1_2_VERSION);
	SSL_CTX_set_options(c->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					    SSL_OP_CIPHER_SERVER_PREFERENCE);
	/* An idle connection owns no buffers. */
	SSL_CTX_set_mode(c->ssl, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
	rc = load(c->ssl, files, err);
	ERR_clear_error();
	if (rc < 0) {
		tls_context_unref(c);
		return rc;
	}
	*out = c;
	return TIDE_OK;
}

static int ask_clients(SSL_CTX *ssl, const char *ca, enum tls_client client,
		       struct error *err)
{
	int mode = SSL_VERIFY_PEER;

	if (client == TLS_CLIENT_NONE)
		return TIDE_OK;
	if (!ca)
		return error_set(err, -EINVAL,
				 "clients' certificates need a CA to verify them with");
	if (client == TLS_CLIENT_REQUIRED)
		mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	SSL_CTX_set_verify(ssl, mode, NULL);
	/* Clients choose their certificate by the names of these. */
	SSL_CTX_set_client_CA_list(ssl, SSL_load_client_CA_file(ca));
	return TIDE_OK;
}

int tls_context_create_server(const struct tls_files *files, enum tls_client client,
			      struct tls_context **out, struct error *err)
{
	static const unsigned char id[] = "tidemq";
	int rc;

	if (!files->cert || !files->key)
		return error_set(err, -EINVAL, "TLS needs a certificate and its key");
	rc = create(TLS_server_method(), files, out, err);
	if (rc < 0)
		return rc;
	rc = ask_clients((*out)->ssl, files->ca, client, err);
	if (rc < 0) {
		tls_context_unref(*out);
		*out = NULL;
		return rc;
	}
	SSL_CTX_set_cipher_list((*out)->ssl, CIPHERS);
	SSL_CTX_set_session_id_context((*out)->ssl, id, sizeof(id) - 1);
	SSL_CTX_set_timeout((*out)->ssl, TICKET_SECONDS);
	SSL_CTX_set_num_tickets((*out)->ssl, 1);
	return TIDE_OK;
}

int tls_context_create_client(const struct tls_files *files, struct tls_context **out,
			      struct error *err)
{
	int rc = create(TLS_client_method(), files, out, err);

	if (rc < 0)
		return rc;
	SSL_CTX_set_verify((*out)->ssl, SSL_VERIFY_PEER, NULL);
	if (!files->ca)
		SSL_CTX_set_default_verify_paths((*out)->ssl);
	return TIDE_OK;
}

struct tls_context *tls_context_ref(struct tls_context *c)
{
	c->refs++;
	return c;
}

void tls_context_unref(struct tls_context *c)
{
	if (!c || --c->refs > 0)
		return;
	SSL_CTX_free(c->ssl);
	BIO_meth_free(c->bio);
	mem_free(c);
}

struct ssl_ctx_st *tls_context_ssl(const struct tls_context *c)
{
	return c->ssl;
}

struct bio_method_st *tls_context_bio(const struct tls_context *c)
{
	return c->bio;
}

void tls_context_describe(const struct tls_context *c, struct buf *out)
{
	const X509 *cert = SSL_CTX_get0_certificate(c->ssl);
	char name[256] = "", until[32] = "?";
	struct tm tm;

	if (!cert)
		return;
	X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name,
				  sizeof(name));
	if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1)
		strftime(until, sizeof(until), "%Y-%m-%d %H:%M", &tm);
	buf_printf(out, "%s, valid until %s UTC",
		   name[0] ? name : "without a common name", until);
}

int64_t tls_context_until_unix_ms(const struct tls_context *c)
{
	const X509 *cert = SSL_CTX_get0_certificate(c->ssl);
	struct tm tm;

	if (!cert || ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) != 1)
		return 0;
	return (int64_t)timegm(&tm) * 1000;
}

bool tls_context_is_expired(const struct tls_context *c, int64_t now_unix_ms)
{
	const X509 *cert = SSL_CTX_get0_certificate(c->ssl);
	time_t now = (time_t)(now_unix_ms / 1000);

	return cert && (X509_cmp_time(X509_get0_notAfter(cert), &now) < 0 ||
			X509_cmp_time(X509_get0_notBefore(cert), &now) > 0);
}
