/* vhost.h: a name space of exchanges and queues. */
#ifndef TIDE_BROKER_VHOST_H
#define TIDE_BROKER_VHOST_H

#include "../base/slice.h"
#include "../base/table.h"
#include "broker.h"

struct exchange;
struct queue;

struct vhost {
	UT_hash_handle hh;
	struct broker *broker;
	char *name;
	size_t name_len;
	struct exchange
		*exchanges;   /* uthash by name; the default exchange is not in it */
	struct queue *queues; /* uthash by name */
};

/* "/" or 1–255 bytes of a name without '/' and ':', which separate the parts
 * of Redis's keys. */
bool vhost_name_is_valid(struct slice name);
struct vhost *vhost_find(struct broker *b, struct slice name);
/* The vhost, made when it is new. */
TIDE_MUST_USE int vhost_open(struct broker *b, struct slice name, struct vhost **out,
			     struct error *err);
/* Frees everything in it, tells nobody and removes nothing from Redis. */
void vhost_destroy(struct vhost *v);

static inline struct slice vhost_slice(const struct vhost *v)
{
	return (struct slice){ v->name, v->name_len };
}

#endif
