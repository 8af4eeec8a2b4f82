/* queue_document.h: members that LIST and STATS both have of a queue or a topic. */
#pragma once

#include "base/json.h"
#include "broker/queue.h"

/* "ready", "delayed", "unacked", "buried". */
void queue_document_states(const struct queue *q, struct json *j);
/* "paused" says which directions are; the others when that ends, if it ends by itself. */
void queue_document_pause(const struct queue *q, struct json *j);
/* What all partitions have together: "messages", "bytes", "appended". */
void queue_document_sum(const struct topic *t, struct json *j);
/* Since when the oldest has been there: shard_age_ready, shard_age_lease; 0: there is
 * none. */
int64_t queue_document_since(const struct queue *q, int64_t (*age)(const struct shard *));
/* How long that is; no member if there is none. */
void queue_document_age(const char *name, int64_t since_ms, const struct queue *q,
			struct json *j);
/* "in_10s", "out_10s": queue_fact.h. */
void queue_document_rates(const struct queue *q, struct json *j);
/* A rate as documents show it. */
double queue_document_round(double rate);
/* Options that do not have their defaults, as a member of that name. */
void queue_document_config(const char *name, const struct queue_config *c,
			   struct json *j);
