/* encode.h: what a client says: URLs of brokers, and requests as bytes, checked, so that
 * nothing a caller passes can break the framing. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/percent.h"
#include "tidemq/client.h"

#define ENCODE_LINE_MAX 65536 /* with its line end */
#define ENCODE_HEADERS_MAX 64
#define ENCODE_DEDUPE_ID_MAX 128

/* A request's line, taken apart. */
struct encode_line {
	struct slice text; /* all of it */
	unsigned channel;
	struct slice verb;
	struct slice words; /* what follows the verb */
	bool is_pub;
};

/* TIDEMQ_OK, or TIDEMQ_EINVAL when the text cannot be sent as one line. */
TIDE_MUST_USE int encode_inspect(struct slice text, struct encode_line *out,
				 struct tidemq_error *err);

/* Append a request: the line, and for a PUB the length and the payload.
 *
 * @param id  of a PUB: its option `id=`; NULL = none is added
 * @return    TIDEMQ_OK; TIDEMQ_EINVAL or TIDEMQ_ENOMEM, and nothing is appended */
TIDE_MUST_USE int encode_request(struct buf *out, const struct encode_line *line,
				 const char *id, struct slice payload,
				 struct tidemq_error *err);

/* Append the line of a PUB, without length and line end. */
TIDE_MUST_USE int encode_publication(struct buf *out, unsigned channel,
				     const struct tidemq_publication *p,
				     struct tidemq_error *err);

/* Append the line of a SUB, of a GET. */
TIDE_MUST_USE int encode_subscription(struct buf *out,
				      const struct tidemq_subscription *s,
				      struct tidemq_error *err);
TIDE_MUST_USE int encode_fetch(struct buf *out, const struct tidemq_fetch *f,
			       struct tidemq_error *err);

/* A word of a request: a name, or `-` for an empty one when `may_be_empty`. */
TIDE_MUST_USE int encode_word(struct buf *out, const char *text, const char *what,
			      bool may_be_empty, struct tidemq_error *err);

/* Append " option=value"; nothing for 0, or for NULL. */
void encode_number(struct buf *out, const char *option, int64_t value);
void encode_option(struct buf *out, const char *option, const char *value);

#define CLIENT_URL_PORT_DEFAULT 7310
#define CLIENT_URL_DEFAULT "tide://127.0.0.1:7310/"

/* Where a broker is and who wants to know.
 *
 *     tide://[user:pass@]host[:port]/vhost    or /?cell=N
 *     tides://…                               the same with TLS
 *     tide+unix:/path/of/socket[?vhost=name][&user=name][&pass=word][&cell=N]
 *
 * user, pass, vhost and the path of a socket may be percent-encoded. */
struct client_url {
	struct url at;
	char *vhost; /* never NULL */
	char *cell;  /* of a store that is split; NULL: that of the vhost */
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
