#include "link.h"

#include <stdio.h>

#include "base/percent.h"

#define GREETING "TIDE-BROKER"

static const char *const roles[] = { "line", "http", "member" };

/* `who` keeps the proof of one side from being that of the other. */
static void prove(const char *secret, const char *who, const char *nonce,
		  struct slice text, char out[SECRET_MAX])
{
	struct buf all = { 0 };

	buf_printf(&all, "%s %s ", who, nonce);
	buf_append_slice(&all, text);
	secret_prove(secret, buf_slice(&all), out);
	buf_deinit(&all);
}

static int check_version(struct slice word, struct error *err)
{
	uint64_t version;

	if (!slice_to_uint(word, 1000000, &version) || version + 1 < LINK_VERSION ||
	    version > LINK_VERSION + 1)
		return error_set(err, TIDE_ESYNTAX,
				 "brokers of version %.*s and %d of the link do not "
				 "understand each other",
				 SLICE_HEAD(word, 8), LINK_VERSION);
	return TIDE_OK;
}

static bool copy_word(struct slice word, char *out, size_t size)
{
	if (word.len >= size)
		return false;
	memcpy(out, word.data, word.len);
	out[word.len] = '\0';
	return true;
}

void link_write_greeting(struct buf *out, const char *nonce)
{
	buf_printf(out, GREETING " %d %s\n", LINK_VERSION, nonce);
}

/* "limit ...": a limit is for the client to know, the rest is between brokers. */
static int read_refusal(struct slice words, struct error *err)
{
	struct slice text = words, code = slice_cut(&text, ' ');

	if (slice_is(code, "limit"))
		return error_set(err, TIDE_ELIMIT, "%.*s", SLICE_HEAD(text, 200));
	return error_set(err, TIDE_EDENIED, "%.*s", SLICE_HEAD(words, 200));
}

int link_read_greeting(struct slice line, char nonce[LINK_NONCE_MAX], struct error *err)
{
	struct slice word = slice_cut(&line, ' '), version;

	if (slice_is(word, "ERR"))
		return read_refusal(line, err);
	version = slice_cut(&line, ' ');
	if (!slice_is(word, GREETING) || !copy_word(line, nonce, LINK_NONCE_MAX))
		return error_set(err, TIDE_ESYNTAX, "no broker lets others in there");
	return check_version(version, err);
}

static void add_text(struct buf *out, const char *name, const char *value)
{
	if (!value[0])
		return;
	buf_printf(out, " %s=", name);
	percent_encode(out, slice_from(value));
}

void link_write_hello(struct buf *out, const struct link_hello *h, const char *nonce,
		      const char *secret)
{
	char proof[SECRET_MAX];
	struct buf text = { 0 };

	buf_printf(&text, "%d %s %s", LINK_VERSION, h->nonce, roles[h->role]);
	buf_printf(&text, " node=%llu local=%d exposed=%d", (unsigned long long)h->node,
		   h->is_local, h->is_exposed);
	if (h->is_of_cells)
		buf_printf(&text, " cell=%llu", (unsigned long long)h->cell);
	if (h->is_of_cells && h->since_unix_ms)
		buf_printf(&text, " since=%llu", (unsigned long long)h->since_unix_ms);
	if (h->is_of_cells && h->has_own)
		buf_printf(&text, " own=%llu", (unsigned long long)h->own);
	add_text(&text, "broker", h->broker);
	add_text(&text, "release", h->release);
	add_text(&text, "at", h->at);
	add_text(&text, "peer", h->peer);
	add_text(&text, "tls", h->tls);
	add_text(&text, "cipher", h->cipher);
	add_text(&text, "certificate", h->certificate);
	prove(secret, "front", nonce, buf_slice(&text), proof);
	buf_printf(out, "%s ", proof);
	buf_append_slice(out, buf_slice(&text));
	buf_append_char(out, '\n');
	buf_deinit(&text);
}

/* Words of a later version are left out. */
static bool read_word(struct slice name, struct slice value, struct link_hello *h)
{
	const struct {
		const char *name;
		char *out;
		size_t size;
	} texts[] = {
		{ "broker", h->broker, sizeof(h->broker) },
		{ "release", h->release, sizeof(h->release) },
		{ "at", h->at, sizeof(h->at) },
		{ "peer", h->peer, sizeof(h->peer) },
		{ "tls", h->tls, sizeof(h->tls) },
		{ "cipher", h->cipher, sizeof(h->cipher) },
		{ "certificate", h->certificate, sizeof(h->certificate) },
	};
	size_t len;

	if (slice_is(name, "node"))
		return slice_to_uint(value, UINT32_MAX, &h->node);
	if (slice_is(name, "cell")) {
		h->is_of_cells = true;
		return slice_to_uint(value, UINT32_MAX, &h->cell);
	}
	if (slice_is(name, "own")) {
		h->has_own = true;
		return slice_to_uint(value, UINT32_MAX, &h->own);
	}
	if (slice_is(name, "since"))
		return slice_to_uint(value, INT64_MAX, &h->since_unix_ms);
	if (slice_is(name, "local"))
		h->is_local = slice_is(value, "1");
	if (slice_is(name, "exposed"))
		h->is_exposed = slice_is(value, "1");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (!slice_is(name, texts[i].name))
			continue;
		if (value.len >= texts[i].size ||
		    percent_decode(value, texts[i].out, &len) < 0)
			return false;
		texts[i].out[len] = '\0';
	}
	return true;
}

static bool read_words(struct slice text, struct link_hello *h)
{
	struct slice role = slice_cut(&text, ' '), word, name;
	unsigned known = 0;

	while (known <= LINK_MEMBER && !slice_is(role, roles[known]))
		known++;
	if (known > LINK_MEMBER)
		return false;
	h->role = (enum link_role)known;
	while (text.len > 0) {
		word = slice_cut(&text, ' ');
		name = slice_cut(&word, '=');
		if (!read_word(name, word, h))
			return false;
	}
	return h->broker[0] && (h->role == LINK_MEMBER || h->peer[0]);
}

int link_read_hello(struct slice line, const char *nonce, const char *secret,
		    struct link_hello *out, struct error *err)
{
	struct slice given = slice_cut(&line, ' '), text = line;
	char proof[SECRET_MAX];
	int rc;

	*out = (struct link_hello){ 0 };
	rc = check_version(slice_cut(&text, ' '), err);
	if (rc < 0)
		return rc;
	prove(secret, "front", nonce, line, proof);
	if (!secret[0] || !secret_is_proof(given, proof))
		return error_set(err, TIDE_EDENIED,
				 "this port is for brokers of the same store: who comes "
				 "in must know the secret in {tide}:cluster");
	if (!copy_word(slice_cut(&text, ' '), out->nonce, sizeof(out->nonce)) ||
	    !read_words(text, out))
		return error_set(err, TIDE_ESYNTAX, "the hello of a broker is broken");
	return TIDE_OK;
}

void link_write_answer(struct buf *out, const struct link_hello *h, const char *secret)
{
	char proof[SECRET_MAX];

	prove(secret, "owner", h->nonce, slice_from(h->broker), proof);
	buf_printf(out, "OK %s\n", proof);
}

int link_read_answer(struct slice line, const struct link_hello *h, const char *secret,
		     struct error *err)
{
	struct slice word = slice_cut(&line, ' ');
	char proof[SECRET_MAX];

	if (slice_is(word, "ERR"))
		return read_refusal(line, err);
	prove(secret, "owner", h->nonce, slice_from(h->broker), proof);
	if (!slice_is(word, "OK") || !secret_is_proof(line, proof))
		return error_set(err, TIDE_EDENIED,
				 "who answers there does not know the secret in "
				 "{tide}:cluster");
	return TIDE_OK;
}
