/* http_parse.h: a large body is read as JSON by a thread: that takes some 40 ms for each
 * MiB. */
#pragma once

#include "http_request_private.h"

/* The body is there. A small one is read when the request is worked on. Another has its
 * JSON, or an error, when `parse` is NULL and the request is queued. */
void http_parse_begin(struct http_request *q);
/* The request ends. */
void http_parse_forget(struct http_request *q);
