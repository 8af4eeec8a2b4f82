/* index.h: the bindings of an exchange, as its routing script indexes them. */
#pragma once

#include "engine.h"
#include "options.h"

struct index;

struct index_binding {
	uint32_t place; /* among the owner's bindings */
	uint32_t dest;  /* the owner's number for the target; the script hands it back */
	struct slice pattern;
	const struct args *args;
	struct slice name; /* of the target, the same after a restart; empty: `dest` */
};

/* The owner keeps the bindings. A build asks it for them. */
struct index_source {
	const void *ctx;
	/* The first binding from `b->place` on; false: none. */
	bool (*next)(const void *ctx, struct index_binding *b);
	/* Does a binding lead there? */
	bool (*is_dest)(const void *ctx, uint32_t dest);
};

struct index_spec {
	struct slice type;
	const struct args *options;
	const char *user;   /* for errors: "exchange 'orders'" */
	struct slice vhost; /* whose memory it is; may be empty */
	struct index_source source;
};

/* The index has no bindings yet; index_bind adds them. */
TIDE_MUST_USE int index_create(struct engine *e, const struct index_spec *spec,
			       struct index **out, struct error *err);
void index_destroy(struct index *x);

/* Add a binding. Its place is free, or index_source.next gives the binding already.
 * TIDE_ERULE: the script refuses the pattern. */
TIDE_MUST_USE int index_bind(struct index *x, const struct index_binding *b,
			     struct error *err);
/* A binding has gone: index_source.next no longer gives it. After an error the script may
 * still lead to its destination. */
TIDE_MUST_USE int index_unbind(struct index *x, const struct index_binding *b,
			       struct error *err);

/* Does the decision depend on the routing key alone? Then it may be cached. */
bool index_is_pure(const struct index *x);

/* The file that decides, relative to the rules directory. */
const char *index_script(const struct index *x);

/* As options_differ, by what the script declares. NULL: it declares nothing. */
bool index_differs(const struct index *x, const struct args *has,
		   const struct args *wanted, struct option_difference *out);

/* Count a decision that the broker took from its cache. */
void index_count_hit(struct index *x);

/* The destinations of the matching bindings, in no order, perhaps repeated. The array
 * is the engine's and good until the next call into it. */
TIDE_MUST_USE int index_route(struct index *x, const struct script_question *q,
			      const uint32_t **dests, size_t *count, struct error *err);
