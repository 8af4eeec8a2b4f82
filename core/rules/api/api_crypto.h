/* api_crypto.h: tide.sha256, tide.hmac_sha256, tide.crc32, tide.random_bytes,
 * tide.base64, tide.hex, tide.equal and tide.json.
 *
 * None of them can be interrupted: each takes texts of a limited length. */
#pragma once

#include <lua.h>

#include "base/slice.h"

/* The longest text that a function takes. */
#define API_CRYPTO_TEXT_MAX ((size_t)1 << 20)
#define API_CRYPTO_RANDOM_MAX 1024

/* Add the functions to `tide`, which is on the top. May raise. */
void api_crypto_add(lua_State *L);

/* The CRC-32 of zlib, PNG and Ethernet. */
uint32_t api_crypto_crc32(struct slice bytes);
