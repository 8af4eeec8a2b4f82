/* http_answer.h: the answer to a request: a document, a file, or an error.
 *
 * It is kept in the request, and leaves as the peer takes it (http_exchange.c).
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
/* Begin one that is nothing of these: its status, and the headers that all have. */
void http_answer_begin(struct http_request *q, unsigned status);
/* Of an answer that has begun. No part of it is a peer's word. */
void http_answer_header(struct http_request *q, const char *name, const char *value);
/* Write what stands before the bytes. */
void http_answer_write_head(struct http_request *q);
/* By the code of an error. */
unsigned http_answer_status(int code);
