/* http_answer.h: the answer to a request: a document, a file, or an error.
 *
 * Each request gets one. A handler of a route without a login answers by these; others
 * finish their reply, which http_reply.h writes. */
#pragma once

#include "http_request.h"

/* A JSON document; the buffer is taken. */
void http_answer_take(struct http_request *q, unsigned status, struct buf *json);
/* Bytes that last. A peer that has them, by their ETag ("\"…\""), is told so alone. */
struct http_content {
	struct slice bytes;
	const char *type;
	const char *etag;
};
void http_answer_content(struct http_request *q, const struct http_content *content);
/* {"error":{"code","text"}}; the status is that of the code. */
void http_answer_error(struct http_request *q, const struct error *err);
/* Likewise, with another status, or code. */
void http_answer_refuse(struct http_request *q, unsigned status, const char *code,
			const char *text);
/* Of the answer, which is there. */
void http_answer_header(struct http_request *q, const char *name, const char *value);
/* Likewise: what the engine makes of it. It is taken. */
struct MHD_Response;
void http_answer_set(struct http_request *q, unsigned status,
		     struct MHD_Response *response);
/* By the code of an error. */
unsigned http_answer_status(int code);
/* The document of an error. */
void http_answer_write_error(struct buf *out, const char *code, const char *text);
