/* secret.h: what two programs know, and nobody else: made at random, and shown to be
 * known without being told. All texts are lower-case hex digits. */
#pragma once

#include "base/error.h"
#include "base/slice.h"

#define SECRET_MAX 65 /* of 32 bytes */

/* "len" random bytes; TIDE_ELIMIT: the machine has none. `out` has 2 * len + 1 bytes. */
TIDE_MUST_USE int secret_make(size_t len, char *out, struct error *err);
/* The HMAC-SHA256 of the text by the secret. */
void secret_prove(const char *secret, struct slice text, char out[SECRET_MAX]);
/* Is it the proof? It takes as long whatever differs. */
bool secret_is_proof(struct slice given, const char proof[SECRET_MAX]);
