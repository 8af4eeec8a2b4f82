/* exchange.h: an exchange, its bindings, and what it remembers of routing.
 *
 * The type of an exchange is a script. */
#pragma once

#include <sys/queue.h>

#include "base/table.h"
#include "binding.h"
#include "broker.h"
#include "definition.h"
#include "terms.h"
#include "ruleset.h"
#include "unroutable.h"
#include "vhost.h"

struct route;
struct waiter;

struct exchange {
	UT_hash_handle hh;
	uint64_t serial; /* never used again */
	struct vhost *vhost;
	char *name;
	size_t name_len;
	char *type;
	union {
		struct terms terms;
		struct {
			struct config config; /* what it does */
			struct config
				*own; /* what it was declared with; NULL: the same */
			char *policy; /* the policies that make the difference, or NULL */
		};
	};
	struct definition definition;
	struct index *indexes[RULESET_SLOTS]; /* NULL: not attached */
	struct binding **bindings;            /* by number, NULL where free */
	uint32_t binding_cap;
	uint32_t binding_count;
	uint32_t number_count;  /* ever given out; those that came back: */
	uint32_t *free_numbers; /* room for binding_cap */
	uint32_t free_count;
	struct binding *by_text;       /* uthash: the same bindings */
	struct binding_list incoming;  /* from other exchanges */
	struct binding_list unbinding; /* gone, but that the script is to be told */
	TAILQ_ENTRY(exchange) unbinding_link;
	struct route *routes; /* uthash by key: pure decisions */
	unsigned route_count;
	uint64_t visit; /* the last routing that came by, and where it is in its lists */
	struct exchange *next_todo, *next_visited;
	const struct exchange
		*alternate_of; /* by which it was reached; NULL: a binding */
	uint64_t published;
	struct unroutable unroutable; /* of what was published to it */
	bool is_going;                /* being destroyed, in a list of such */
	struct exchange *next_going;
};

/* One of those that each vhost has, amq.topic and the like, is made when it is first
 * looked for. */
struct exchange *exchange_find(struct vhost *v, struct slice name);
/* Is this exchange a predeclared one? */
bool exchange_is_predeclared(const struct exchange *x);

/* The name is free. */
TIDE_MUST_USE int exchange_create(struct vhost *v, const struct terms_spec *spec,
				  struct terms *terms_take, struct exchange **out,
				  struct error *err);
/* Would its script take these options, and all bindings? */
TIDE_MUST_USE int exchange_try(const struct exchange *x, const struct config *c,
			       struct error *err);
/* One that Redis has: it exists without its script, until exchange_attach.
 * @param args  NULL: the definition cannot be read, for the reason in `err` */
void exchange_restore(struct vhost *v, struct slice name, struct slice type,
		      const struct args *args, struct error *err);
/* Have its script in a ruleset index its bindings: definition_attach. */
TIDE_MUST_USE int exchange_attach(struct exchange *x, const struct ruleset *r,
				  struct error *err);
void exchange_detach(struct exchange *x, enum ruleset_slot slot);
/* Remove the definition and the bindings, both ways, from Redis; before
 * exchange_destroy. `waiter` may be NULL. */
void exchange_erase(struct exchange *x, struct waiter *waiter);
/* With its bindings, both ways, of which nothing is removed from Redis. The
 * auto-delete exchanges that lose their last binding by it are deleted. */
void exchange_destroy(struct exchange *x);
/* A binding has gone: delete it if it is auto-delete and that was its last. */
void exchange_collect(struct exchange *x, struct waiter *waiter);
/* The definition is kept in Redis. */
static inline bool exchange_is_durable(const struct exchange *x)
{
	return x->config.is_durable && x->vhost->broker->env.store;
}

static inline struct slice exchange_slice(const struct exchange *x)
{
	return (struct slice){ x->name, x->name_len };
}
