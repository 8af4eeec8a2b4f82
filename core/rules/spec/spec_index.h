/* spec_index.h: an index with bindings of its own, for specs and tests: the engine leaves
 * the bindings to the owner of an index.
 *
 * A binding is a pattern, options and a destination; binding twice is binding once. */
#pragma once

#include "rules/engine/index.h"

struct spec_binding;

struct spec_index {
	struct index *index;
	struct spec_binding **places; /* NULL where free */
	struct spec_binding *by_text; /* uthash: the same */
	uint32_t count;               /* of places */
};

/* As index_create. The spec's source is not read. */
TIDE_MUST_USE int spec_index_create(struct engine *e, const struct index_spec *spec,
				    struct spec_index **out, struct error *err);
/* Accepts NULL. */
void spec_index_destroy(struct spec_index *x);
/* @param b  its place is not read */
TIDE_MUST_USE int spec_index_bind(struct spec_index *x, const struct index_binding *b,
				  struct error *err);
/* TIDE_ENOTFOUND when there is no such binding. */
TIDE_MUST_USE int spec_index_unbind(struct spec_index *x, const struct index_binding *b,
				    struct error *err);
