/* queue_document.h: members that LIST and STATS both have of a queue or a topic. */
#pragma once

#include "base/json.h"
#include "broker/queue.h"

/* "paused" says which directions are; the others when that ends, if it ends by itself. */
void queue_document_pause(const struct queue *q, struct json *j);
/* The object "rates": messages a second over 1, 10 and 60 s. */
void queue_document_rates(struct json *j, const struct rate *in, const struct rate *out);
