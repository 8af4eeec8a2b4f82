/* client_url.h: where a broker is and who wants to know.
 *
 *     tide://[user:pass@]host[:port]/vhost
 *     tides://…                               the same with TLS
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
	bool is_tls;
};

/* Parse URLs with commas between them. A comma before anything but the scheme of a URL
 * belongs to the URL.
 *
 * @return  TIDEMQ_OK, and the URLs are client_url_free's; or TIDEMQ_EINVAL with a
 * sentence that shows no password */
TIDE_MUST_USE int client_url_parse(const char *text, struct client_url **out,
				   size_t *count, struct tidemq_error *err);
void client_url_free(struct client_url *urls, size_t count);
