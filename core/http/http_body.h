/* http_body.h: the body of a request, as its pieces come: by a length, or in chunks.
 *
 * It refuses as http_head.h does. */
#pragma once

#include "http_head.h"

enum http_body_state {
	HTTP_BODY_BYTES, /* `left` more of a body that has a length */
	HTTP_BODY_SIZE,  /* the line before a chunk */
	HTTP_BODY_CHUNK, /* `left` more of it */
	HTTP_BODY_CRLF,  /* behind it */
	HTTP_BODY_TRAILERS,
	HTTP_BODY_DONE,
};

struct http_body {
	enum http_body_state state;
	uint64_t left;
	struct http_scan scan; /* of the trailers */
};

void http_body_init(struct http_body *b, const struct http_head *h);
/* Take a piece of what has come, which may be changed. What is not used belongs to a line
 * whose rest has not come.
 *
 * @param used   receives how many bytes it was; 0: more must come
 * @param piece  receives what of them is content */
TIDE_MUST_USE const char *http_body_feed(struct http_body *b, char *data, size_t len,
					 size_t *used, struct slice *piece);
