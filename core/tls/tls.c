#include "tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <time.h>

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

static int make_context(const SSL_METHOD *method, const struct tls_files *files,
			struct tls_context **out, struct error *err)
{
	struct tls_context *c = mem_zalloc(sizeof(*c));
	int rc;

	ERR_clear_error();
	c->refs = 1;
	c->ssl = SSL_CTX_new(method);
	/* The type is for searches in a chain, which a connection has none of. */
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
	rc = make_context(TLS_server_method(), files, out, err);
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
	int rc = make_context(TLS_client_method(), files, out, err);

	if (rc < 0)
		return rc;
	SSL_CTX_set_verify((*out)->ssl, SSL_VERIFY_PEER, NULL);
	if (!files->ca)
		SSL_CTX_set_default_verify_paths((*out)->ssl);
	return TIDE_OK;
}

static struct tls_context *tls_context_ref(struct tls_context *c)
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

/* For tls.c: OpenSSL's SSL_CTX, and the BIO_METHOD of its connections. */
static struct ssl_ctx_st *tls_context_ssl(const struct tls_context *c)
{
	return c->ssl;
}

static struct bio_method_st *tls_context_bio(const struct tls_context *c)
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

/* Of what the other side said first, for a sentence. */
#define FIRST_BYTES 96
/* The bytes that a record adds to its plaintext, at most. */
#define RECORD_EXTRA 64

struct tls {
	struct tls_context *context;
	SSL *ssl;
	struct slice in; /* fed, and borrowed */
	struct buf kept; /* fed before that */
	struct buf out;
	char *peer_name;
	char *error;
	char *host;   /* NULL: we are the server */
	bool is_open; /* it has been agreed upon, whatever the other side begins later */
	uint8_t first_len;
	char first[FIRST_BYTES];
};

/* ---- the BIO: OpenSSL reads from `in`, and writes to `out` */

static int on_bio_write(BIO *bio, const char *data, int len)
{
	struct tls *t = BIO_get_data(bio);

	buf_append(&t->out, data, (size_t)len);
	return len;
}

static int on_bio_read(BIO *bio, char *out, int room)
{
	struct tls *t = BIO_get_data(bio);
	struct slice from = buf_len(&t->kept) ? buf_slice(&t->kept) : t->in;
	size_t n = from.len < (size_t)room ? from.len : (size_t)room;

	BIO_clear_retry_flags(bio);
	if (n == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	memcpy(out, from.data, n);
	if (buf_len(&t->kept))
		buf_consume(&t->kept, n);
	else
		t->in = slice_skip(t->in, n);
	return (int)n;
}

static long on_bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
	return command == BIO_CTRL_FLUSH;
}

static struct tls *create_tls(struct tls_context *context)
{
	struct tls *t = mem_zalloc(sizeof(*t));
	BIO_METHOD *method = tls_context_bio(context);
	BIO *bio;

	BIO_meth_set_write(method, on_bio_write);
	BIO_meth_set_read(method, on_bio_read);
	BIO_meth_set_ctrl(method, on_bio_ctrl);
	t->context = tls_context_ref(context);
	t->ssl = SSL_new(tls_context_ssl(context));
	bio = BIO_new(method);
	if (!t->ssl || !bio)
		mem_fail(sizeof(*t));
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	SSL_set_bio(t->ssl, bio, bio);
	return t;
}

struct tls *tls_create_server(struct tls_context *context)
{
	struct tls *t = create_tls(context);

	SSL_set_accept_state(t->ssl);
	return t;
}

struct tls *tls_create_client(struct tls_context *context, const char *host)
{
	struct tls *t = create_tls(context);
	unsigned char address[sizeof(struct in6_addr)];

	SSL_set_connect_state(t->ssl);
	t->host = mem_strdup(host);
	if (inet_pton(AF_INET, host, address) == 1 ||
	    inet_pton(AF_INET6, host, address) == 1) {
		X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), host);
	} else {
		SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
		SSL_set1_host(t->ssl, host);
		SSL_set_tlsext_host_name(t->ssl, host);
	}
	return t;
}

void tls_destroy(struct tls *t)
{
	if (!t)
		return;
	SSL_free(t->ssl);
	tls_context_unref(t->context);
	buf_deinit(&t->kept);
	buf_deinit(&t->out);
	mem_free(t->peer_name);
	mem_free(t->error);
	mem_free(t->host);
	mem_free(t);
}

static void note_first(struct tls *t, const char *data, size_t len)
{
	size_t room = FIRST_BYTES - t->first_len, n = len < room ? len : room;

	memcpy(t->first + t->first_len, data, n);
	t->first_len = (uint8_t)(t->first_len + n);
}

void tls_feed(struct tls *t, const char *data, size_t len)
{
	if (t->first_len < FIRST_BYTES)
		note_first(t, data, len);
	tls_keep(t);
	t->in = (struct slice){ data, len };
	if (buf_len(&t->kept))
		tls_keep(t);
}

void tls_keep(struct tls *t)
{
	if (t->in.len)
		buf_append_slice(&t->kept, t->in);
	t->in = SLICE("");
	buf_shrink(&t->kept);
}

bool tls_has_input(const struct tls *t)
{
	return t->in.len || buf_len(&t->kept) || SSL_has_pending(t->ssl);
}

size_t tls_unread_bytes(const struct tls *t)
{
	return t->in.len + buf_len(&t->kept) + (size_t)SSL_pending(t->ssl);
}

/* ---- failures */

/* The first line of what is no TLS. Of a client's the first word: a password may follow.
 */
static void describe_first(const struct tls *t, struct error *err)
{
	char text[FIRST_BYTES + 1];
	size_t n = 0;

	for (; n < t->first_len && t->first[n] != '\r' && t->first[n] != '\n' &&
	       (t->host || t->first[n] != ' ');
	     n++)
		text[n] = t->first[n] >= 0x20 && t->first[n] < 0x7f ? t->first[n] : '.';
	text[n] = '\0';
	error_set(err, -EPROTO, "the other side does not speak TLS: it began with '%s'",
		  text);
}

static void describe_cert(const struct tls *t, struct error *err)
{
	long result = SSL_get_verify_result(t->ssl);

	if (result == X509_V_ERR_HOSTNAME_MISMATCH ||
	    result == X509_V_ERR_IP_ADDRESS_MISMATCH)
		error_set(err, -EPROTO, "the other side's certificate is not for '%s'",
			  t->host ? t->host : "");
	else
		error_set(err, -EPROTO,
			  "the other side's certificate is not accepted: %s",
			  X509_verify_cert_error_string(result));
}

/* The error's number has the other side's alert. */
static void describe_alert(int alert, struct error *err)
{
	error_set(err, -EPROTO, "the other side has ended TLS: %s",
		  alert == SSL_AD_CERTIFICATE_REQUIRED
			  ? "it requires a certificate"
			  : SSL_alert_desc_string_long(alert));
}

static void describe(const struct tls *t, unsigned long number, struct error *err)
{
	const char *text = ERR_reason_error_string(number);

	switch (ERR_GET_REASON(number)) {
	case SSL_R_HTTP_REQUEST:
	case SSL_R_HTTPS_PROXY_REQUEST:
	case SSL_R_WRONG_VERSION_NUMBER:
	case SSL_R_PACKET_LENGTH_TOO_LONG:
		if (!tls_is_first_byte(t->first[0]) && !SSL_is_init_finished(t->ssl)) {
			describe_first(t, err);
			return;
		}
		break;
	case SSL_R_CERTIFICATE_VERIFY_FAILED:
		describe_cert(t, err);
		return;
	case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
		text = "the other side gave no certificate, and one is required";
		break;
	case SSL_R_UNSUPPORTED_PROTOCOL:
		text = "the other side has no version from TLS 1.2 on";
		break;
	case SSL_R_NO_SHARED_CIPHER:
		text = "the other side has no cipher that is allowed here";
		break;
	default:
		if (ERR_GET_REASON(number) > SSL_AD_REASON_OFFSET) {
			describe_alert(ERR_GET_REASON(number) - SSL_AD_REASON_OFFSET,
				       err);
			return;
		}
	}
	error_set(err, -EPROTO, "%s", text ? text : "TLS failed");
}

static int fail(struct tls *t)
{
	struct error err;

	if (!t->error) {
		describe(t, ERR_peek_error(), &err);
		t->error = mem_strdup(err.text);
	}
	ERR_clear_error();
	return -EPROTO;
}

/* ---- bytes */

/* A name with a zero in it would be taken for what stands before the zero. */
static void note_peer(struct tls *t)
{
	X509 *cert = SSL_get0_peer_certificate(t->ssl);
	X509_NAME *subject = cert ? X509_get_subject_name(cert) : NULL;
	int at = subject ? X509_NAME_get_index_by_NID(subject, NID_commonName, -1) : -1;
	unsigned char *text = NULL;
	int len;

	if (at < 0 || SSL_get_verify_result(t->ssl) != X509_V_OK)
		return;
	len = ASN1_STRING_to_UTF8(
		&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
	if (len > 0 && slice_is_name((struct slice){ (char *)text, (size_t)len }))
		t->peer_name = mem_strndup((char *)text, (size_t)len);
	OPENSSL_free(text);
}

/* TIDE_OK when the handshake is done. */
static int shake(struct tls *t)
{
	int rc;

	if (t->is_open)
		return TIDE_OK;
	rc = SSL_do_handshake(t->ssl);
	if (rc == 1) {
		t->is_open = true;
		note_peer(t);
		return TIDE_OK;
	}
	return SSL_get_error(t->ssl, rc) == SSL_ERROR_WANT_READ ? TIDE_AGAIN : fail(t);
}

ssize_t tls_read(struct tls *t, void *out, size_t room)
{
	size_t len;
	int rc;

	if (t->error)
		return -EPROTO;
	ERR_clear_error();
	rc = shake(t);
	if (rc < 0)
		return rc;
	rc = SSL_read_ex(t->ssl, out, room, &len);
	if (rc == 1)
		return (ssize_t)len;
	switch (SSL_get_error(t->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
		return TIDE_AGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return TIDE_EMPTY;
	default:
		return fail(t);
	}
}

/* One record of what several pieces have; how much that is. */
static size_t gather(const struct iovec *vec, unsigned count, size_t skip, char *out)
{
	size_t len = 0;

	for (unsigned i = 0; i < count && len < TLS_RECORD_BYTES; i++) {
		size_t has = vec[i].iov_len - skip, room = TLS_RECORD_BYTES - len;
		size_t n = has < room ? has : room;

		memcpy(out + len, (const char *)vec[i].iov_base + skip, n);
		len += n;
		skip = 0;
	}
	return len;
}

/* The plaintext of the next record: as it lies if one piece fills it, else gathered. */
static struct slice next_record(const struct iovec *vec, unsigned count, size_t skip,
				char *room)
{
	if (vec->iov_len - skip >= TLS_RECORD_BYTES)
		return (struct slice){ (const char *)vec->iov_base + skip,
				       TLS_RECORD_BYTES };
	return (struct slice){ room, gather(vec, count, skip, room) };
}

/* For all that will be encrypted: the buffer grows once. */
static void make_room(struct tls *t, const struct iovec *vec, unsigned count, size_t max)
{
	size_t total = 0;

	for (unsigned i = 0; i < count && total < max; i++)
		total += vec[i].iov_len;
	if (total > max)
		total = max;
	buf_reserve(&t->out, total + (total / TLS_RECORD_BYTES + 1) * RECORD_EXTRA);
}

ssize_t tls_write(struct tls *t, const struct iovec *vec, unsigned count, size_t max)
{
	char room[TLS_RECORD_BYTES];
	size_t taken = 0, skip = 0, written;

	if (t->error)
		return -EPROTO;
	if (!SSL_is_init_finished(t->ssl))
		return 0;
	ERR_clear_error();
	make_room(t, vec, count, max);
	while (count > 0 && taken + TLS_RECORD_BYTES <= max) {
		struct slice record = next_record(vec, count, skip, room);

		if (record.len == 0)
			break;
		if (SSL_write_ex(t->ssl, record.data, record.len, &written) != 1)
			return fail(t);
		taken += written;
		skip += written;
		for (; count > 0 && skip >= vec->iov_len; vec++, count--)
			skip -= vec->iov_len;
	}
	return (ssize_t)taken;
}

void tls_finish(struct tls *t)
{
	if (t->error || !SSL_is_init_finished(t->ssl))
		return;
	ERR_clear_error();
	SSL_shutdown(t->ssl);
	ERR_clear_error();
}

struct buf *tls_out(struct tls *t)
{
	return &t->out;
}

bool tls_is_open(const struct tls *t)
{
	return t->is_open;
}

const char *tls_error(const struct tls *t)
{
	return t->error ? t->error : "";
}

const char *tls_version(const struct tls *t)
{
	return SSL_get_version(t->ssl);
}

const char *tls_cipher(const struct tls *t)
{
	return SSL_get_cipher_name(t->ssl);
}

const char *tls_peer_name(const struct tls *t)
{
	return t->peer_name;
}
