#include "vhost.h"

#include <stdio.h>

#include "../base/mem.h"
#include "exchange.h"
#include "queue.h"

bool vhost_name_is_valid(struct slice name)
{
	if (slice_is(name, "/"))
		return true;
	return slice_is_name(name) && !memchr(name.data, '/', name.len) &&
	       !memchr(name.data, ':', name.len);
}

struct vhost *vhost_find(struct broker *b, struct slice name)
{
	struct vhost *v;

	HASH_FIND(hh, b->vhosts, name.data, name.len, v);
	return v;
}

int vhost_open(struct broker *b, struct slice name, struct vhost **out, struct error *err)
{
	struct vhost *v = vhost_find(b, name);

	if (v) {
		*out = v;
		return TIDE_OK;
	}
	if (!vhost_name_is_valid(name))
		return error_set(err, TIDE_ESYNTAX,
				 "'%" SLICE_FMT
				 "' is no vhost: wanted is / or a name of 1-255 "
				 "bytes without white space, '/' and ':'",
				 SLICE_ARG(name));
	if (HASH_COUNT(b->vhosts) >= b->config.vhosts_max)
		return error_set(err, TIDE_ELIMIT,
				 "there are %u vhosts already, which is the limit",
				 b->config.vhosts_max);
	v = mem_zalloc(sizeof(*v));
	v->broker = b;
	v->name = mem_strndup(name.data, name.len);
	v->name_len = name.len;
	HASH_ADD_KEYPTR(hh, b->vhosts, v->name, v->name_len, v);
	*out = v;
	return TIDE_OK;
}

void vhost_destroy(struct vhost *v)
{
	struct queue *q, *next_queue;

	HASH_ITER (hh, v->queues, q, next_queue)
		queue_destroy(q);
	while (v->exchanges)
		exchange_destroy(v->exchanges);
	HASH_DEL(v->broker->vhosts, v);
	mem_free(v->name);
	mem_free(v);
}

void vhost_format_user(const struct vhost *v, const char *kind, struct slice name,
		       char out[VHOST_USER_MAX])
{
	bool is_default = slice_is(vhost_slice(v), "/");

	snprintf(out, VHOST_USER_MAX, "%s '%" SLICE_FMT "'%s%s%s", kind, SLICE_ARG(name),
		 is_default ? "" : " of vhost '", is_default ? "" : v->name,
		 is_default ? "" : "'");
}
