#include "tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/mem.h"

/* Of what the other side said first, for a sentence. */
#define FIRST_BYTES 96
/* What a record adds to its plaintext, at most. */
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

static struct tls *create(struct tls_context *context)
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
	struct tls *t = create(context);

	SSL_set_accept_state(t->ssl);
	return t;
}

struct tls *tls_create_client(struct tls_context *context, const char *host)
{
	struct tls *t = create(context);
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

/* What the other side's alert says is in the error's number. */
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
