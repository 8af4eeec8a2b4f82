#include "vhost.h"

#include <stdio.h>

#include "base/mem.h"
#include "exchange.h"
#include "queue.h"

/* "/" or 1–255 bytes of a name without '/' and ':', which separate the parts
 * of Redis's keys. */
static bool name_is_valid(struct slice name)
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

int vhost_check_name(struct slice name, struct error *err)
{
	if (name_is_valid(name))
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "'%" SLICE_FMT "' is not a vhost: expected / or a name of 1-255 "
			 "bytes without white space, '/' and ':'",
			 SLICE_ARG(name));
}

static struct vhost *create(struct broker *b, struct slice name)
{
	struct vhost *v = mem_zalloc(sizeof(*v));

	v->broker = b;
	v->name = mem_strndup(name.data, name.len);
	v->name_len = name.len;
	v->refs = 1;
	v->is_kept = slice_is(name, "/");
	HASH_ADD_KEYPTR(hh, b->vhosts, v->name, v->name_len, v);
	return v;
}

int vhost_open(struct broker *b, struct slice name, struct vhost **out, struct error *err)
{
	if (!vhost_find(b, name) && HASH_COUNT(b->vhosts) >= b->config.vhosts_max &&
	    name_is_valid(name))
		return error_set(err, TIDE_ELIMIT, "the limit of %u vhosts is reached",
				 HASH_COUNT(b->vhosts));
	return vhost_recover(b, name, out, err);
}

int vhost_recover(struct broker *b, struct slice name, struct vhost **out,
		  struct error *err)
{
	int rc;

	*out = vhost_find(b, name);
	if (*out)
		return TIDE_OK;
	rc = vhost_check_name(name, err);
	if (rc == TIDE_OK)
		*out = create(b, name);
	return rc;
}

int vhost_refuse(const struct vhost *v, const char *kind, struct slice name,
		 struct error *err)
{
	return error_set(err, TIDE_ENOTFOUND,
			 "there is no %s '%" SLICE_FMT "' in vhost '%s'", kind,
			 SLICE_ARG(name), v->name);
}

void vhost_unref(struct vhost *v)
{
	if (!v || --v->refs > 0)
		return;
	unroutable_deinit(&v->unroutable);
	mem_free(v->name);
	mem_free(v);
}

unsigned vhost_count_exchanges(const struct vhost *v)
{
	unsigned count = 0;

	for (const struct exchange *x = v->exchanges; x; x = x->hh.next)
		count += !exchange_is_predeclared(x) || x->binding_count ||
			 !TAILQ_EMPTY(&x->incoming);
	return count;
}

static bool is_needed(const struct vhost *v)
{
	return v->is_kept || v->sessions || v->queues || v->locks ||
	       vhost_count_exchanges(v);
}

void vhost_enter(struct vhost *v)
{
	v->sessions++;
}

void vhost_leave(struct vhost *v)
{
	v->sessions--;
	vhost_check(v);
}

void vhost_check(struct vhost *v)
{
	if (v->is_idle || is_needed(v))
		return;
	v->is_idle = true;
	TAILQ_INSERT_TAIL(&v->broker->idle_vhosts, v, idle_link);
}

static void be_busy(struct vhost *v)
{
	if (v->is_idle)
		TAILQ_REMOVE(&v->broker->idle_vhosts, v, idle_link);
	v->is_idle = false;
}

void vhost_turn(struct broker *b)
{
	struct exchange *x;
	struct vhost *v;

	while ((v = TAILQ_FIRST(&b->idle_vhosts)) != NULL) {
		be_busy(v);
		if (is_needed(v))
			continue;
		for (x = v->exchanges; x; x = x->hh.next)
			exchange_erase(x, NULL);
		/* Whatever is defined in it from now on defines it anew before. */
		if (b->env.store)
			store_definition_remove(b->store, STORE_VHOSTS, SLICE(""),
						vhost_slice(v), NULL, NULL);
		vhost_destroy(v);
	}
}

void vhost_destroy(struct vhost *v)
{
	struct queue *q, *next_queue;

	HASH_ITER (hh, v->queues, q, next_queue)
		queue_destroy(q);
	while (v->exchanges)
		exchange_destroy(v->exchanges);
	be_busy(v);
	HASH_DEL(v->broker->vhosts, v);
	vhost_unref(v);
}

void vhost_format_user(const struct vhost *v, const char *kind, struct slice name,
		       char out[VHOST_USER_MAX])
{
	bool is_default = slice_is(vhost_slice(v), "/");

	snprintf(out, VHOST_USER_MAX, "%s '%" SLICE_FMT "'%s%s%s", kind, SLICE_ARG(name),
		 is_default ? "" : " of vhost '", is_default ? "" : v->name,
		 is_default ? "" : "'");
}
