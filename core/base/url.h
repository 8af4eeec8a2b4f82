/* url.h: the parts that URLs of a broker and of a Redis share.
 *
 *   [user[:password]@]host[:port][/rest]     an IPv6 address in [ ]
 *   [user[:password]@]path[?rest]
 *
 * All parts but the rest are percent-decoded. An error never shows a password. */
#pragma once

#include "error.h"
#include "slice.h"

struct url {
	char *host;    /* without brackets; NULL for a path */
	unsigned port; /* 1 to 65535 */
	char *path;    /* of a Unix socket; NULL for a host */
	char *user;    /* NULL: no @ */
	char *password;
};

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

#define URL_ADDRESS_MAX 300
/* "host:port", "[IPv6]:port" or the path, for messages. */
void url_address(const struct url *u, char out[URL_ADDRESS_MAX]);
