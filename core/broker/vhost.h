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

/* Room for what vhost_format_user writes. */
#define VHOST_USER_MAX (2 * NAME_LEN_MAX + 48)
/* Who uses a script, for its errors: "queue 'q'", and of which vhost unless that is the
 * default one. */
void vhost_format_user(const struct vhost *v, const char *kind, struct slice name,
		       char out[VHOST_USER_MAX]);

static inline struct slice vhost_slice(const struct vhost *v)
{
	return (struct slice){ v->name, v->name_len };
}

#endif
