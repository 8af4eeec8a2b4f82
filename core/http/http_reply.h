/* http_reply.h: what a session function has answered, as JSON. */
#pragma once

#include "http_request.h"

/* The answer to the request. */
void http_reply_write(struct http_request *q, struct reply *r);
