/* certs.h: certificates for a test, in a directory of its own.
 *
 * certs_make("server", …, "ca") writes server.pem and server.key, signed by ca.key. */
#ifndef TIDE_TEST_CERTS_H
#define TIDE_TEST_CERTS_H

#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#define CERTS_PATH_MAX 512

/* Fuzzers use it too: no assertions of cmocka. */
#define certs_check(condition)                                                \
	do {                                                                  \
		if (!(condition)) {                                           \
			fprintf(stderr, "certs.h: failed: " #condition "\n"); \
			abort();                                              \
		}                                                             \
	} while (0)

struct cert {
	const char *cn;       /* NULL: none */
	int cn_len;           /* 0: all of it */
	const char *san;      /* "DNS:localhost,IP:127.0.0.1"; NULL: none */
	long from_s, until_s; /* from now; both 0: a day */
	bool is_ca;
	unsigned rsa_bits; /* 0: an elliptic curve */
};

static char certs_dir[64];

static void certs_begin(void)
{
	strcpy(certs_dir, "/tmp/tidemq-certs-XXXXXX");
	certs_check(mkdtemp(certs_dir));
}

static inline void certs_end(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf %s", certs_dir);
	certs_check(system(command) == 0);
}

/* The path of a file; the last 32 are good. */
static inline const char *certs_path(const char *name, const char *ending)
{
	static char paths[32][CERTS_PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 32];

	snprintf(path, CERTS_PATH_MAX, "%s/%s%s", certs_dir, name, ending);
	return path;
}

static inline void certs_write_key(const char *name, EVP_PKEY *key,
				   const char *passphrase)
{
	FILE *file = fopen(certs_path(name, ".key"), "w");

	certs_check(PEM_write_PrivateKey(file, key, passphrase ? EVP_aes_128_cbc() : NULL,
					 (const unsigned char *)passphrase,
					 passphrase ? (int)strlen(passphrase) : 0, NULL,
					 NULL) == 1);
	fclose(file);
}

static inline EVP_PKEY *certs_read_key(const char *name)
{
	FILE *file = fopen(certs_path(name, ".key"), "r");
	EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);

	fclose(file);
	certs_check(key);
	return key;
}

static inline X509 *certs_read(const char *name)
{
	FILE *file = fopen(certs_path(name, ".pem"), "r");
	X509 *cert = PEM_read_X509(file, NULL, NULL, NULL);

	fclose(file);
	certs_check(cert);
	return cert;
}

static inline void certs_extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *extension;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	certs_check(extension);
	X509_add_ext(cert, extension, -1);
	X509_EXTENSION_free(extension);
}

/* `issuer` is a name, or NULL: it signs itself. */
static inline void certs_make(const char *name, const struct cert *spec,
			      const char *issuer)
{
	static long serial = 1;
	EVP_PKEY *key =
		spec->rsa_bits ? EVP_RSA_gen(spec->rsa_bits) : EVP_EC_gen("P-256");
	EVP_PKEY *signer = issuer ? certs_read_key(issuer) : key;
	X509 *cert = X509_new(), *by = issuer ? certs_read(issuer) : cert;
	X509_NAME *subject = X509_get_subject_name(cert);
	FILE *file = fopen(certs_path(name, ".pem"), "w");

	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
	X509_gmtime_adj(X509_getm_notBefore(cert), spec->from_s ? spec->from_s : -60);
	X509_gmtime_adj(X509_getm_notAfter(cert), spec->until_s ? spec->until_s : 86400);
	if (spec->cn)
		X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
					   (const unsigned char *)spec->cn,
					   spec->cn_len ? spec->cn_len : -1, -1, 0);
	X509_set_issuer_name(cert, X509_get_subject_name(by));
	X509_set_pubkey(cert, key);
	if (spec->is_ca)
		certs_extend(cert, by, NID_basic_constraints, "critical,CA:TRUE");
	if (spec->san)
		certs_extend(cert, by, NID_subject_alt_name, spec->san);
	certs_check(X509_sign(cert, signer, EVP_sha256()) > 0);
	PEM_write_X509(file, cert);
	fclose(file);
	certs_write_key(name, key, NULL);
	if (issuer) {
		X509_free(by);
		EVP_PKEY_free(signer);
	}
	X509_free(cert);
	EVP_PKEY_free(key);
}

#endif
