/* index.h: the bindings of an exchange, as its routing script indexes them. */
#ifndef TIDE_RULES_ENGINE_INDEX_H
#define TIDE_RULES_ENGINE_INDEX_H

#include "engine.h"

struct index;

/* `user` is what errors call the owner: "exchange 'orders'". */
TIDE_MUST_USE int index_create(struct engine *e, struct slice type,
			       const struct args *args, const char *user,
			       struct index **out, struct error *err);
void index_destroy(struct index *x);

/* `dest` is the caller's number for the target of the binding. The script hands it
 * back. TIDE_ERULE when the script refuses the pattern. */
TIDE_MUST_USE int index_bind(struct index *x, struct slice pattern,
			     const struct args *args, uint32_t dest, struct error *err);
TIDE_MUST_USE int index_unbind(struct index *x, struct slice pattern,
			       const struct args *args, uint32_t dest, struct error *err);

/* Does the decision depend on the routing key alone? Then it may be cached. */
bool index_is_pure(const struct index *x);

/* The file that decides, relative to the rules directory. */
const char *index_script(const struct index *x);

/* Count a decision that the broker took from its cache. */
void index_count_hit(struct index *x);

/* The destinations of the matching bindings, in no order, perhaps repeated. The array
 * is the engine's and good until the next call into it. */
TIDE_MUST_USE int index_route(struct index *x, const struct script_question *q,
			      const uint32_t **dests, size_t *count, struct error *err);

#endif
