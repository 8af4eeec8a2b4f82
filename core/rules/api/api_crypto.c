#include "api_crypto.h"

#include <lauxlib.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/base64.h"
#include "base/bytes.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"
#include "rules/sandbox/script.h"

#define SHA256_LEN 32

static struct slice check_text(lua_State *L, int arg)
{
	struct slice text;

	script_check(L);
	text.data = luaL_checklstring(L, arg, &text.len);
	luaL_argcheck(L, text.len <= API_CRYPTO_TEXT_MAX, arg,
		      "the text has more than 1 MiB");
	return text;
}

/* sha256 (text) -> 32 bytes */
static int l_sha256(lua_State *L)
{
	unsigned char digest[SHA256_LEN];
	struct slice text = check_text(L, 1);

	if (EVP_Digest(text.data, text.len, digest, NULL, EVP_sha256(), NULL) != 1)
		return luaL_error(L, "SHA-256 failed");
	lua_pushlstring(L, (const char *)digest, sizeof(digest));
	return 1;
}

/* hmac_sha256 (key, text) -> 32 bytes */
static int l_hmac_sha256(lua_State *L)
{
	unsigned char digest[SHA256_LEN];
	struct slice key = check_text(L, 1), text = check_text(L, 2);

	/* Whoever forgets to set the key would accept what anybody signs. */
	luaL_argcheck(L, key.len > 0, 1, "the key is empty");
	if (!HMAC(EVP_sha256(), key.data, (int)key.len, (const unsigned char *)text.data,
		  text.len, digest, NULL))
		return luaL_error(L, "HMAC-SHA-256 failed");
	lua_pushlstring(L, (const char *)digest, sizeof(digest));
	return 1;
}

static enum base64_alphabet check_alphabet(lua_State *L, int arg)
{
	static const char *const names[] = { "standard", "url", NULL };

	return (enum base64_alphabet)luaL_checkoption(L, arg, "standard", names);
}

/* base64.encode (bytes [, "url"]) -> text */
static int l_base64_encode(lua_State *L)
{
	struct slice bytes = check_text(L, 1);
	enum base64_alphabet alphabet = check_alphabet(L, 2);
	luaL_Buffer b;
	char *out = luaL_buffinitsize(L, &b, base64_encoded_max(bytes.len) + 1);

	luaL_pushresultsize(&b, base64_encode(bytes, alphabet, out));
	return 1;
}

/* base64.decode (text [, "url"]) -> bytes, or nil and a message */
static int l_base64_decode(lua_State *L)
{
	struct slice text = check_text(L, 1);
	enum base64_alphabet alphabet = check_alphabet(L, 2);
	luaL_Buffer b;
	char *out = luaL_buffinitsize(L, &b, text.len + 1);
	size_t len;

	if (base64_decode(text, alphabet, out, &len)) {
		luaL_pushresultsize(&b, len);
		return 1;
	}
	lua_pushnil(L);
	lua_pushliteral(L, "this is not base64");
	return 2;
}

/* hex.encode (bytes) -> text, in lower case */
static int l_hex_encode(lua_State *L)
{
	struct slice bytes = check_text(L, 1);
	luaL_Buffer b;
	char *out = luaL_buffinitsize(L, &b, 2 * bytes.len + 1);

	for (size_t i = 0; i < bytes.len; i++) {
		out[2 * i] = hex_digit((unsigned char)bytes.data[i] >> 4);
		out[2 * i + 1] = hex_digit((unsigned char)bytes.data[i]);
	}
	luaL_pushresultsize(&b, 2 * bytes.len);
	return 1;
}

/* hex.decode (text) -> bytes, or nil and a message */
static int l_hex_decode(lua_State *L)
{
	struct slice text = check_text(L, 1);
	luaL_Buffer b;
	char *out = luaL_buffinitsize(L, &b, text.len / 2 + 1);
	bool is_hex = text.len % 2 == 0;

	for (size_t i = 0; i + 1 < text.len && is_hex; i += 2) {
		int high = hex_value(text.data[i]), low = hex_value(text.data[i + 1]);

		is_hex = high >= 0 && low >= 0;
		out[i / 2] = is_hex ? (char)(high << 4 | low) : '\0';
	}
	if (is_hex) {
		luaL_pushresultsize(&b, text.len / 2);
		return 1;
	}
	lua_pushnil(L);
	lua_pushliteral(L, "this is not hexadecimal");
	return 2;
}

/* The effect of four bits on the rest; 16 entries are in the cache of any machine. */
static const uint32_t by_nibble[16] = {
	0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
	0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
	0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

uint32_t api_crypto_crc32(struct slice bytes)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < bytes.len; i++) {
		crc ^= (unsigned char)bytes.data[i];
		crc = crc >> 4 ^ by_nibble[crc & 0xf];
		crc = crc >> 4 ^ by_nibble[crc & 0xf];
	}
	return ~crc;
}

/* crc32 (text) -> integer, 0 .. 2^32-1 */
static int l_crc32(lua_State *L)
{
	lua_pushinteger(L, api_crypto_crc32(check_text(L, 1)));
	return 1;
}

/* random_bytes (n) -> n bytes that nobody can guess */
static int l_random_bytes(lua_State *L)
{
	unsigned char bytes[API_CRYPTO_RANDOM_MAX];
	lua_Integer n = luaL_checkinteger(L, 1);

	script_check_pure(L, "tide.random_bytes()");
	luaL_argcheck(L, n >= 1 && n <= API_CRYPTO_RANDOM_MAX, 1, "expected 1 to 1024");
	if (RAND_bytes(bytes, (int)n) != 1)
		return luaL_error(L, "the machine has no random numbers");
	lua_pushlstring(L, (const char *)bytes, (size_t)n);
	return 1;
}

/* equal (a, b) -> whether they are the same bytes. The time that it takes tells their
 * lengths and nothing else. */
static int l_equal(lua_State *L)
{
	struct slice a = check_text(L, 1), b = check_text(L, 2);

	lua_pushboolean(L, a.len == b.len && CRYPTO_memcmp(a.data, b.data, a.len) == 0);
	return 1;
}

/* Add the functions as the table `name`. */
static void add_table(lua_State *L, const char *name, const luaL_Reg *functions)
{
	lua_newtable(L);
	luaL_setfuncs(L, functions, 0);
	read_only_protect(L);
	lua_setfield(L, -2, name);
}

void api_crypto_add(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "sha256", l_sha256 }, { "hmac_sha256", l_hmac_sha256 },
		{ "crc32", l_crc32 },   { "random_bytes", l_random_bytes },
		{ "equal", l_equal },   { NULL, NULL },
	};
	static const luaL_Reg base64[] = {
		{ "encode", l_base64_encode },
		{ "decode", l_base64_decode },
		{ NULL, NULL },
	};
	static const luaL_Reg hex[] = {
		{ "encode", l_hex_encode },
		{ "decode", l_hex_decode },
		{ NULL, NULL },
	};

	luaL_setfuncs(L, functions, 0);
	add_table(L, "base64", base64);
	add_table(L, "hex", hex);
}
