#include "route_cache.h"

#include "base/mem.h"
#include "broker.h"

#define ROUTE_CACHE_MAX 8192 /* keys that an exchange remembers */
/* The share of the memory for messages that the routes of all exchanges may take: one
 * part in so many. */
#define ROUTE_CACHE_SHARE 16

struct route *route_cache_new(struct slice key)
{
	struct route *r = mem_zalloc(sizeof(*r) + key.len);

	r->key_len = key.len;
	if (key.len)
		memcpy(r->key, key.data, key.len);
	return r;
}

void route_cache_free(struct route *r)
{
	if (!r)
		return;
	mem_free(r->targets);
	mem_free(r);
}

static size_t size_of(const struct route *r)
{
	return sizeof(*r) + r->key_len + r->cap * sizeof(*r->targets);
}

static void forget(struct route *r)
{
	struct exchange *x = r->exchange;
	struct broker *b = x->vhost->broker;

	HASH_DEL(x->routes, r);
	x->route_count--;
	TAILQ_REMOVE(&b->routes, r, memory_link);
	b->route_bytes -= size_of(r);
	route_cache_free(r);
}

void route_cache_add(struct exchange *x, struct route *r)
{
	struct broker *b = x->vhost->broker;
	struct route *old;

	HASH_FIND(hh, x->routes, r->key, r->key_len, old);
	if (old)
		forget(old);
	/* The first of the table is the oldest. */
	if (x->route_count >= ROUTE_CACHE_MAX)
		forget(x->routes);
	if (r->count && r->count < r->cap) {
		r->cap = r->count;
		r->targets = mem_realloc(r->targets, r->cap * sizeof(*r->targets));
	}
	r->exchange = x;
	HASH_ADD_KEYPTR(hh, x->routes, r->key, r->key_len, r);
	x->route_count++;
	TAILQ_INSERT_TAIL(&b->routes, r, memory_link);
	b->route_bytes += size_of(r);
	while (b->route_bytes > b->config.memory_max_bytes / ROUTE_CACHE_SHARE &&
	       TAILQ_FIRST(&b->routes) != r)
		forget(TAILQ_FIRST(&b->routes));
}

void route_cache_clear(struct exchange *x)
{
	while (x->routes)
		forget(x->routes);
}
