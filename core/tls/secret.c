#include "secret.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/bytes.h"

static void write_hex(const unsigned char *bytes, size_t len, char *out)
{
	for (size_t i = 0; i < len; i++) {
		*out++ = hex_digit(bytes[i] >> 4);
		*out++ = hex_digit(bytes[i] & 15);
	}
	*out = '\0';
}

int secret_make(size_t len, char *out, struct error *err)
{
	unsigned char bytes[(SECRET_MAX - 1) / 2];

	out[0] = '\0';
	if (len > sizeof(bytes) || RAND_bytes(bytes, (int)len) != 1)
		return error_set(err, TIDE_ELIMIT, "the machine has no random numbers");
	write_hex(bytes, len, out);
	return TIDE_OK;
}

void secret_prove(const char *secret, struct slice text, char out[SECRET_MAX])
{
	unsigned char digest[EVP_MAX_MD_SIZE] = { 0 };

	/* Its arguments are sound: it does not fail. */
	HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)text.data,
	     text.len, digest, NULL);
	write_hex(digest, 32, out);
}

bool secret_is_proof(struct slice given, const char proof[SECRET_MAX])
{
	return given.len == SECRET_MAX - 1 &&
	       CRYPTO_memcmp(given.data, proof, given.len) == 0;
}
