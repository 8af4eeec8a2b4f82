/* http_head.h: the head of a request: RFC 9112, and nothing that two readers could take
 * for two things.
 *
 * What refuses gives the status and a sentence, "400 Host is given twice"; NULL means
 * that all is well. After a refusal nobody knows where the next request begins: the
 * connection ends. */
#pragma once

#include "base/error.h"
#include "base/slice.h"

#define HTTP_HEAD_MAX ((size_t)32 << 10)
#define HTTP_FIELDS_MAX 100

/* Where the look for the end of a head, or of trailers, goes on. */
struct http_scan {
	size_t at;
	size_t line;    /* where the line begins that `at` is in */
	unsigned lines; /* before that */
};

struct http_head {
	const char *method;
	const char *target; /* "/…", or "*" */
	const char *host;   /* of the target, or else of the header; NULL: none */
	const char *fields; /* "name\0value\0" of each */
	unsigned field_count;
	uint64_t length;  /* of the body, unless it comes in chunks */
	bool is_chunked;  /* it does */
	bool is_old;      /* HTTP/1.0 */
	bool is_last;     /* the client wants the connection to end with the answer */
	bool is_expected; /* it waits for a word before it sends the body */
};

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

/* Look for the empty line that ends the lines of `data`.
 *
 * @param len  receives the length with the empty line; 0: more must come */
TIDE_MUST_USE const char *http_head_scan(struct http_scan *s, struct slice data,
					 size_t max, size_t *len);
/* Read a whole head, of which http_head_scan has found the end. `out` points into it. */
TIDE_MUST_USE const char *http_head_read(struct http_head *out, char *text);
/* The value of the first header of that name, in any case; NULL: none. */
const char *http_head_field(const struct http_head *h, const char *name);
/* Headers of that name have the word in their list, in any case. */
bool http_head_has_word(const struct http_head *h, const char *name, const char *word);

void http_body_init(struct http_body *b, const struct http_head *h);
/* Take a piece of what has come, which may be changed. What is not used belongs to a line
 * whose rest has not come.
 *
 * @param used   receives how many bytes it was; 0: more must come
 * @param piece  receives what of them is content */
TIDE_MUST_USE const char *http_body_feed(struct http_body *b, char *data, size_t len,
					 size_t *used, struct slice *piece);
