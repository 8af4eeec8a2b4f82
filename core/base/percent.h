/* percent.h: percent-encoding of header values (RFC 3986, section 2.1).
 *
 * Encoded are bytes below 0x21, 0x7f, and '%': what a word of a line may not hold. */
#pragma once

#include "buf.h"
#include "error.h"
#include "slice.h"

struct url {
	char *host;    /* without brackets; NULL for a path */
	unsigned port; /* 1 to 65535 */
	char *path;    /* of a Unix socket; NULL for a host */
	char *user;    /* NULL: no @ */
	char *password;
};

#define URL_ADDRESS_MAX 300
/* "host:port", "[IPv6]:port" or the path, for messages. */
void url_address(const struct url *u, char out[URL_ADDRESS_MAX]);

/* How many bytes at the front need no encoding. */
static inline size_t percent_plain_len(struct slice s)
{
	size_t len = 0;

	while (len < s.len && (unsigned char)s.data[len] > 0x20 && s.data[len] != 0x7f &&
	       s.data[len] != '%')
		len++;
	return len;
}

size_t percent_encoded_len(struct slice value);
void percent_encode(struct buf *out, struct slice value);
/* Decode into `out`, which has room for value.len bytes, and give the length;
 * TIDE_ESYNTAX for a '%' that is not followed by two hex digits. `out` may be
 * the place of the value itself. */
TIDE_MUST_USE int percent_decode(struct slice value, char *out, size_t *out_len);

/* Take apart what follows the scheme. On failure `err` has the sentence, and `out`
 * has to be deinitialised all the same. */
TIDE_MUST_USE int url_parse_host(struct slice text, unsigned port_default,
				 struct url *out, struct slice *rest, struct error *err);
TIDE_MUST_USE int url_parse_path(struct slice text, struct url *out, struct slice *rest,
				 struct error *err);
/* Decode a part into `*out`, which is freed first. */
TIDE_MUST_USE int url_decode(struct slice part, const char *what, char **out,
			     struct error *err);
void url_deinit(struct url *u);
