/* http_batch.h: many messages in one request: {"messages":[…]}.
 *
 * All are published in their order, some in each turn, and waited for together. The
 * answer has a result for each: an object as for one message, or {"error":…}. */
#pragma once

#include "http_request.h"

#define HTTP_BATCH_MAX 10000

/* @param exchange  "-": the default one; as long-lived as the request */
TIDE_MUST_USE int http_batch_start(struct http_request *q, struct slice exchange,
				   struct reply *r, struct error *err);
