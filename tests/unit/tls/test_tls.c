/* TLS without a socket: two of struct tls, and bytes carried by hand in between. */
#include "check.h"
#include "certs.h"

#include <errno.h>
#include <openssl/ssl.h>

#include "base/mem.h"
#include "tls/tls.h"

/* ---- contexts ---- */

static struct error err;

static struct tls_files files_of(const char *name, const char *ca)
{
	return (struct tls_files){ .cert = name ? certs_path(name, ".pem") : NULL,
				   .key = name ? certs_path(name, ".key") : NULL,
				   .ca = ca ? certs_path(ca, ".pem") : NULL };
}

static struct tls_context *server_of(const char *name, const char *ca,
				     enum tls_client client)
{
	struct tls_files files = files_of(name, ca);
	struct tls_context *c = NULL;

	if (tls_context_create_server(&files, client, &c, &err) < 0)
		fail_msg("%s", err.text);
	return c;
}

static struct tls_context *client_of(const char *name, const char *ca)
{
	struct tls_files files = files_of(name, ca);
	struct tls_context *c = NULL;

	if (tls_context_create_client(&files, &c, &err) < 0)
		fail_msg("%s", err.text);
	return c;
}

static void refuse_server(const struct tls_files *files, enum tls_client client,
			  const char *text)
{
	struct tls_context *c = NULL;

	assert_true(tls_context_create_server(files, client, &c, &err) < 0);
	assert_null(c);
	if (!strstr(err.text, text))
		fail_msg("'%s' is not in '%s'", text, err.text);
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	fputs(text, file);
	fclose(file);
}

TEST_THAT(wrong_files_are_named)
{
	struct tls_files files = files_of("server", NULL);
	EVP_PKEY *key = certs_read_key("server");

	files.cert = "/nowhere.pem";
	refuse_server(&files, TLS_CLIENT_NONE,
		      "cannot read the certificate '/nowhere.pem': No such file");
	files = files_of("server", NULL);
	files.key = certs_path("client", ".key");
	refuse_server(&files, TLS_CLIENT_NONE, "does not match the certificate");
	files = files_of("server", NULL);
	files.cert = certs_path("server", ".key");
	refuse_server(&files, TLS_CLIENT_NONE, "it holds none in PEM form");
	files = files_of("server", NULL);
	files.key = certs_path("server", ".pem");
	refuse_server(&files, TLS_CLIENT_NONE, "cannot use the key");
	files.key = certs_dir;
	refuse_server(&files, TLS_CLIENT_NONE, "is empty or no file");
	certs_write_key("locked", key, "secret");
	files.key = certs_path("locked", ".key");
	refuse_server(&files, TLS_CLIENT_NONE,
		      "is encrypted: write it without a passphrase");
	EVP_PKEY_free(key);
	files = files_of("server", NULL);
	refuse_server(&files, TLS_CLIENT_REQUIRED, "need a CA");
	write_file(certs_path("broken", ".pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n");
	files.ca = certs_path("broken", ".pem");
	refuse_server(&files, TLS_CLIENT_REQUIRED, "cannot use the CA certificate");
	files.key = NULL;
	refuse_server(&files, TLS_CLIENT_NONE, "needs a certificate and its key");
}

TEST_THAT(a_context_tells_of_its_certificate)
{
	struct tls_context *c = server_of("server", NULL, TLS_CLIENT_NONE);
	struct buf out = { 0 };
	int64_t now_ms = (int64_t)time(NULL) * 1000;

	tls_context_describe(c, &out);
	assert_non_null(strstr(buf_cstr(&out), "localhost, valid until 2"));
	assert_false(tls_context_is_expired(c, now_ms));
	assert_true(tls_context_is_expired(c, now_ms + 2 * 86400 * 1000LL));
	assert_true(tls_context_is_expired(c, now_ms - 3600 * 1000LL));
	buf_deinit(&out);
	tls_context_unref(c);
}

/* ---- a pair ---- */

struct pair {
	struct tls *client, *server;
};

static struct pair pair_of(struct tls_context *client, struct tls_context *server,
			   const char *host)
{
	struct pair p = { tls_create_client(client, host), tls_create_server(server) };

	/* The connections keep what they need. */
	tls_context_unref(client);
	tls_context_unref(server);
	return p;
}

static void end(struct pair *p)
{
	tls_destroy(p->client);
	tls_destroy(p->server);
}

/* What one has to send, `step` bytes at a time. */
static bool carry(struct tls *from, struct tls *to, size_t step, struct buf *heard)
{
	struct buf moving = *tls_out(from);
	bool did = buf_len(&moving) > 0;

	*tls_out(from) = (struct buf){ 0 };
	while (buf_len(&moving)) {
		size_t n = buf_len(&moving) < step ? buf_len(&moving) : step;
		char *copy = mem_alloc(n);
		char room[5000];
		ssize_t got;

		memcpy(copy, buf_slice(&moving).data, n);
		buf_consume(&moving, n);
		tls_feed(to, copy, n);
		while ((got = tls_read(to, room, sizeof(room))) > 0)
			buf_append(heard, room, (size_t)got);
		tls_keep(to);
		mem_free(copy);
	}
	buf_deinit(&moving);
	return did;
}

/* Until both are quiet. */
static void shake_hands(struct pair *p, size_t step)
{
	struct buf heard = { 0 };
	char byte;
	bool did;

	assert_int_equal(tls_read(p->client, &byte, 1), TIDE_AGAIN);
	do {
		did = carry(p->client, p->server, step, &heard);
		did |= carry(p->server, p->client, step, &heard);
	} while (did);
	assert_int_equal(buf_len(&heard), 0);
	buf_deinit(&heard);
}

static void expect_failure(const struct tls *t, const char *text)
{
	if (!strstr(tls_error(t), text))
		fail_msg("'%s' is not in '%s'", text, tls_error(t));
}

TEST_THAT(bytes_arrive_whatever_their_pieces)
{
	for (size_t step = 1; step < 40000; step = step * 7 + 3) {
		struct pair p =
			pair_of(client_of(NULL, "ca"),
				server_of("server", NULL, TLS_CLIENT_NONE), "localhost");
		size_t big = 100000;
		char *payload = mem_alloc(big);
		struct iovec vec[] = { { (char[]){ "MSG " }, 4 },
				       { payload, big },
				       { (char[]){ "" }, 0 },
				       { (char[]){ "end" }, 3 } };
		struct buf heard = { 0 };

		for (size_t i = 0; i < big; i++)
			payload[i] = (char)(i * 31);
		shake_hands(&p, step);
		assert_true(tls_is_open(p.client) && tls_is_open(p.server));
		assert_string_equal(tls_version(p.server), "TLSv1.3");
		assert_non_null(strstr(tls_cipher(p.server), "AES"));
		assert_null(tls_peer_name(p.server));
		assert_int_equal(tls_write(p.server, vec, 4, SIZE_MAX), big + 7);
		carry(p.server, p.client, step, &heard);
		assert_int_equal(buf_len(&heard), big + 7);
		assert_memory_equal(buf_slice(&heard).data, "MSG ", 4);
		assert_memory_equal(buf_slice(&heard).data + 4, payload, big);
		assert_memory_equal(buf_slice(&heard).data + 4 + big, "end", 3);
		assert_false(tls_has_input(p.client));
		buf_deinit(&heard);
		mem_free(payload);
		end(&p);
	}
}

TEST_THAT(many_small_pieces_are_few_records)
{
	struct pair p = pair_of(client_of(NULL, "ca"),
				server_of("server", NULL, TLS_CLIENT_NONE), "127.0.0.1");
	struct iovec vec[100];
	char line[100];

	memset(line, 'x', sizeof(line));
	for (size_t i = 0; i < COUNT(vec); i++)
		vec[i] = (struct iovec){ line, sizeof(line) };
	shake_hands(&p, 65536);
	assert_int_equal(tls_write(p.client, vec, COUNT(vec), SIZE_MAX), 10000);
	assert_true(buf_len(tls_out(p.client)) < 10000 + 64);
	buf_clear(tls_out(p.client));
	end(&p);
}

TEST_THAT(no_more_than_asked_is_encrypted)
{
	struct pair p = pair_of(client_of(NULL, "ca"),
				server_of("server", NULL, TLS_CLIENT_NONE), "localhost");
	char *payload = mem_zalloc(100000);
	struct iovec vec = { payload, 100000 };

	/* Nothing before the handshake. */
	assert_int_equal(tls_write(p.client, &vec, 1, SIZE_MAX), 0);
	shake_hands(&p, 65536);
	assert_int_equal(tls_write(p.client, &vec, 1, 40000), 32768);
	mem_free(payload);
	end(&p);
}

TEST_THAT(what_is_not_read_is_kept)
{
	struct pair p = pair_of(client_of(NULL, "ca"),
				server_of("server", NULL, TLS_CLIENT_NONE), "localhost");
	struct iovec vec = { (char[]){ "hello world" }, 11 };
	struct buf sent = { 0 };
	char room[64];

	shake_hands(&p, 65536);
	for (int i = 0; i < 3; i++)
		assert_int_equal(tls_write(p.client, &vec, 1, SIZE_MAX), 11);
	sent = *tls_out(p.client);
	*tls_out(p.client) = (struct buf){ 0 };
	tls_feed(p.server, buf_slice(&sent).data, buf_len(&sent));
	assert_int_equal(tls_read(p.server, room, 5), 5);
	tls_keep(p.server);
	buf_deinit(&sent);
	assert_true(tls_has_input(p.server));
	assert_int_equal(tls_read(p.server, room, sizeof(room)), 6);
	assert_memory_equal(room, " world", 6);
	assert_int_equal(tls_read(p.server, room, sizeof(room)), 11);
	assert_int_equal(tls_read(p.server, room, sizeof(room)), 11);
	assert_int_equal(tls_read(p.server, room, sizeof(room)), TIDE_AGAIN);
	assert_false(tls_has_input(p.server));
	end(&p);
}

TEST_THAT(a_side_says_that_it_sends_no_more)
{
	struct pair p = pair_of(client_of(NULL, "ca"),
				server_of("server", NULL, TLS_CLIENT_NONE), "localhost");
	struct iovec vec = { (char[]){ "bye" }, 3 };
	struct buf heard = { 0 };
	char room[8];

	shake_hands(&p, 65536);
	tls_finish(p.client);
	carry(p.client, p.server, 65536, &heard);
	assert_int_equal(tls_read(p.server, room, sizeof(room)), TIDE_EMPTY);
	assert_int_equal(tls_write(p.server, &vec, 1, SIZE_MAX), 3);
	carry(p.server, p.client, 65536, &heard);
	assert_buf(&heard, "bye");
	buf_deinit(&heard);
	end(&p);
}

/* ---- certificates ---- */

static void refuse(const char *server, const char *ca, const char *host, const char *text)
{
	struct pair p = pair_of(client_of(NULL, ca),
				server_of(server, NULL, TLS_CLIENT_NONE), host);

	shake_hands(&p, 65536);
	expect_failure(p.client, text);
	/* The server learns of it. */
	expect_failure(p.server, "the other side has ended TLS: ");
	end(&p);
}

static void accept_host(const char *server, const char *ca, const char *host)
{
	struct pair p = pair_of(client_of(NULL, ca),
				server_of(server, NULL, TLS_CLIENT_NONE), host);

	shake_hands(&p, 65536);
	assert_string_equal(tls_error(p.client), "");
	assert_true(tls_is_open(p.server));
	end(&p);
}

TEST_THAT(a_client_verifies_the_server)
{
	accept_host("server", "ca", "localhost");
	accept_host("server", "ca", "127.0.0.1");
	accept_host("server", "ca", "::1");
	/* A certificate that is named itself is trusted. */
	accept_host("alone", "alone", "localhost");
	refuse("server", "ca", "example.org",
	       "the other side's certificate is not for 'example.org'");
	refuse("server", "ca", "127.0.0.2", "is not for '127.0.0.2'");
	refuse("server", "alone", "localhost",
	       "certificate is not accepted: unable to get local issuer certificate");
	refuse("server", NULL, "localhost", "unable to get local issuer certificate");
	refuse("alone", "ca", "localhost", "self-signed certificate");
	refuse("expired", "ca", "localhost", "certificate has expired");
	refuse("early", "ca", "localhost", "certificate is not yet valid");
}

static struct pair pair_with_client(const char *cert, enum tls_client client)
{
	struct pair p = pair_of(client_of(cert, "ca"), server_of("server", "ca", client),
				"localhost");

	shake_hands(&p, 65536);
	return p;
}

TEST_THAT(a_server_verifies_clients)
{
	struct pair p = pair_with_client("client", TLS_CLIENT_REQUIRED);

	assert_string_equal(tls_peer_name(p.server), "alice");
	end(&p);
	p = pair_with_client("client", TLS_CLIENT_WANTED);
	assert_string_equal(tls_peer_name(p.server), "alice");
	end(&p);
	p = pair_with_client(NULL, TLS_CLIENT_WANTED);
	assert_true(tls_is_open(p.server));
	assert_null(tls_peer_name(p.server));
	end(&p);
	p = pair_with_client("client", TLS_CLIENT_NONE);
	assert_null(tls_peer_name(p.server));
	end(&p);
	p = pair_with_client(NULL, TLS_CLIENT_REQUIRED);
	assert_false(tls_is_open(p.server));
	expect_failure(p.server, "gave no certificate, and one is required");
	expect_failure(p.client,
		       "the other side has ended TLS: it requires a certificate");
	end(&p);
	p = pair_with_client("alone", TLS_CLIENT_WANTED);
	expect_failure(p.server, "certificate is not accepted: self-signed certificate");
	expect_failure(p.client, "unknown CA");
	end(&p);
	p = pair_with_client("expired", TLS_CLIENT_REQUIRED);
	expect_failure(p.server, "certificate has expired");
	end(&p);
}

TEST_THAT(a_name_that_is_none_is_nobody)
{
	static const struct cert names[] = { { .cn = "ali\0ce", .cn_len = 6 },
					     { .cn = "a b" },
					     { .cn = NULL, .san = "DNS:alice" } };

	for (size_t i = 0; i < COUNT(names); i++) {
		struct pair p;

		certs_make("odd", &names[i], "ca");
		p = pair_with_client("odd", TLS_CLIENT_REQUIRED);
		assert_true(tls_is_open(p.server));
		assert_null(tls_peer_name(p.server));
		end(&p);
	}
}

/* ---- what is no TLS ---- */

static void fail_on(const char *bytes, size_t len, bool is_client, const char *text)
{
	struct pair p = pair_of(client_of(NULL, "ca"),
				server_of("server", NULL, TLS_CLIENT_NONE), "localhost");
	struct tls *t = is_client ? p.client : p.server;
	char room[16];

	tls_feed(t, bytes, len);
	assert_int_equal(tls_read(t, room, sizeof(room)), -EPROTO);
	expect_failure(t, text);
	/* It stays so. */
	assert_int_equal(tls_read(t, room, sizeof(room)), -EPROTO);
	assert_int_equal(tls_write(t, &(struct iovec){ room, 1 }, 1, SIZE_MAX), -EPROTO);
	expect_failure(t, text);
	end(&p);
}

TEST_THAT(another_protocol_is_quoted)
{
	static const char err_line[] = "ERR syntax what is this\r\nmore";
	static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	static const char odd[] = "\x80\x01\x02-rest of it";

	fail_on(err_line, strlen(err_line), true,
		"does not speak TLS: it began with 'ERR syntax what is this'");
	fail_on(http, strlen(http), false, "it began with 'GET'");
	fail_on("HELLO pass=x\r\n", 14, false, "it began with 'HELLO'");
	assert_true(tls_is_first_byte(0x16));
	assert_false(tls_is_first_byte('H'));
	fail_on(odd, strlen(odd), true, "");
	fail_on("\x16\x03\x01\xff\xff\x01\x00\x00", 8, false, "");
	fail_on("\x16\x03\x01\x00\x04\x01\x00\x00\x00", 9, false, "");
}

/* A client of another make, which speaks an old version alone. */
TEST_THAT(old_versions_are_refused)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	struct tls_context *context = server_of("server", NULL, TLS_CLIENT_NONE);
	struct tls *t = tls_create_server(context);
	char bytes[4096], room[16];
	int len;

	SSL_set_security_level(ssl, 0);
	SSL_set_min_proto_version(ssl, TLS1_VERSION);
	SSL_set_max_proto_version(ssl, TLS1_1_VERSION);
	SSL_set_bio(ssl, in, out);
	SSL_connect(ssl);
	len = BIO_read(out, bytes, sizeof(bytes));
	assert_true(len > 0);
	tls_feed(t, bytes, (size_t)len);
	assert_int_equal(tls_read(t, room, sizeof(room)), -EPROTO);
	expect_failure(t, "no version from TLS 1.2 on");
	tls_destroy(t);
	tls_context_unref(context);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
}

static int make_certs(void **state)
{
	certs_begin();
	certs_make("ca", &(struct cert){ .cn = "test CA", .is_ca = true }, NULL);
	certs_make("server",
		   &(struct cert){ .cn = "localhost",
				   .san = "DNS:localhost,IP:127.0.0.1,IP:::1" },
		   "ca");
	certs_make("client", &(struct cert){ .cn = "alice" }, "ca");
	certs_make("alone", &(struct cert){ .cn = "localhost", .san = "DNS:localhost" },
		   NULL);
	certs_make("expired",
		   &(struct cert){ .cn = "localhost", .from_s = -7200, .until_s = -3600 },
		   "ca");
	certs_make("early",
		   &(struct cert){ .cn = "localhost", .from_s = 3600, .until_s = 7200 },
		   "ca");
	return 0;
}

static int remove_certs(void **state)
{
	certs_end();
	return 0;
}

RUN_TESTS(.begin = make_certs, .end = remove_certs)
