/* list_write.h: what LIST shows of a thing: an object. */
#pragma once

#include "base/json.h"

struct session;
struct vhost;

/* A vhost, and what all its queues have together. */
struct list_vhost_sum {
	const struct vhost *vhost;
	uint64_t ready, delayed, unacked, buried;
};

void list_write_exchange(struct session *s, const void *item, struct json *j);
void list_write_queue(struct session *s, const void *item, struct json *j);
void list_write_topic(struct session *s, const void *item, struct json *j);
void list_write_group(struct session *s, const void *item, struct json *j);
void list_write_binding(struct session *s, const void *item, struct json *j);
void list_write_consumer(struct session *s, const void *item, struct json *j);
void list_write_connection(struct session *s, const void *item, struct json *j);
void list_write_lock(struct session *s, const void *item, struct json *j);
/* A struct list_vhost_sum; who may not see the figures gets the name alone. */
void list_write_vhost(struct session *s, const void *item, struct json *j);
