/* client_url.h: where a broker is and who wants to know.
 *
 *     tide://[user:pass@]host[:port]/vhost
 *     tide+unix:/path/of/socket[?vhost=name][&user=name][&pass=word]
 *
 * user, pass, vhost and the path of a socket may be percent-encoded. */
#pragma once

#include "base/url.h"
#include "client_fail.h"

#define CLIENT_URL_PORT_DEFAULT 7310
#define CLIENT_URL_DEFAULT "tide://127.0.0.1:7310/"

struct client_url {
	struct url at;
	char *vhost; /* never NULL */
};

/* TIDEMQ_OK, or TIDEMQ_EINVAL with a sentence; `out` is then empty. */
TIDE_MUST_USE int client_url_parse(const char *text, struct client_url *out,
				   struct tidemq_error *err);
void client_url_deinit(struct client_url *u);
