/* exchange.h: an exchange, its bindings, and what it remembers of routing.
 *
 * The type of an exchange is a script. */
#pragma once

#include <sys/queue.h>

#include "base/args.h"
#include "base/error.h"
#include "base/table.h"
#include "broker.h"
#include "definition.h"
#include "ruleset.h"
#include "terms.h"
#include "unroutable.h"
#include "vhost.h"

struct index_binding;
struct queue;
struct route;
struct waiter;

TAILQ_HEAD(binding_list, binding);

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

/* A way from an exchange to a queue, a topic or another exchange. */
struct binding {
	UT_hash_handle hh; /* by text, in the source's hash */
	uint32_t number;   /* its place in the source's table */
	bool is_released;  /* it has gone, but a script may still lead to it */
	struct exchange *source;
	struct queue *queue; /* one of the two is the destination */
	struct exchange *exchange;
	char *pattern;    /* "" is written "-" on the wire */
	struct args args; /* sorted, without dest= */
	/* "queue <name> <exchange> <pattern|-> <options>": the member of the set
	 * in Redis; no two bindings of a vhost have the same. */
	char *text;
	size_t text_len;
	struct definition definition;
	TAILQ_ENTRY(binding) dest_link; /* in the destination's list */
};

struct binding_spec {
	struct exchange *source;
	struct queue *queue;
	struct exchange *exchange;
	struct slice pattern;
	const struct args *args;
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

/* The one with the same ends, pattern and options, or NULL. */
struct binding *binding_find(const struct binding_spec *spec);
/* By the text of its definition. */
struct binding *binding_find_text(const struct exchange *source, struct slice text);
/* There is none like it. The routing script is asked, and may refuse. */
TIDE_MUST_USE int binding_create(const struct binding_spec *spec, struct binding **out,
				 struct error *err);
/* One that Redis has, of an exchange that is not attached to its script: no script is
 * asked. @param text  the member of the set */
void binding_restore(const struct binding_spec *spec, struct slice text);
void binding_destroy(struct binding *b);
/* One of many that go together. It leads nowhere from now on. When the turn has been
 * long, the routing script is told in one of the next. Until then its number is not used
 * again. */
void binding_release(struct binding *b);
/* Go on telling scripts. */
void binding_turn(struct broker *broker);
/* The destination's name. */
struct slice binding_dest(const struct binding *b);
/* Remove those of a destination from Redis. */
void binding_erase_all(const struct binding_list *incoming);

#define ROUTE_ASK ((unsigned)-1)

struct route_target {
	struct queue *queue;
	unsigned shard; /* ROUTE_ASK: the script is asked for each message */
	bool has_rank;  /* else the script is asked for each message */
	double rank;
	const struct binding
		*binding; /* that led there; NULL from the default exchange */
};

struct route {
	UT_hash_handle hh;              /* of the exchange that remembers it */
	TAILQ_ENTRY(route) memory_link; /* in the order in which they were made */
	struct exchange *exchange;
	uint64_t version;
	uint64_t epoch;
	struct route_target *targets;
	unsigned count;
	unsigned cap;
	bool is_pure;
	/* For EXPLAIN. Not beside is_pure: it is written for each message, and reading
	 * both at once then would wait for the write. */
	bool was_cached;
	size_t key_len;
	char key[];
};

struct route *route_cache_new(struct slice key);
/* One that no exchange remembers. Accepts NULL. */
void route_cache_free(struct route *r);
/* Keep a pure route, in the place of an outdated one for the same key. */
void route_cache_add(struct exchange *x, struct route *r);
