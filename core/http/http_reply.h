/* http_reply.h: what a session function has answered, as JSON. */
#pragma once

#include "http_request.h"

/* The answer to the request. */
void http_reply_write(struct http_request *q, struct reply *r);
/* The members of what a publish has led to. */
void http_reply_published(struct json *j, const struct reply *r);
/* The member "error" of an object. */
void http_reply_error(struct json *j, int code, const char *text);
