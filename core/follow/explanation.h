/* explanation.h: what a decision was, and why: EXPLAIN, and TRACE of a live publish.
 *
 * It is told the steps of one decision while it is made, then written as a document. */
#pragma once

#include "base/json.h"
#include "broker/decide.h"

struct explanation;

struct explanation *explanation_create(void);
/* Accepts NULL. */
void explanation_destroy(struct explanation *x);

/* Follow the decision that is made by `spec` under the conditions `c` next: its steps,
 * the lines that decide, and what scripts cost. */
void explanation_watch(struct explanation *x, struct decide_spec *spec,
		       struct decision_context *c);
/* The members `line` and `lines` of the call, if they are known. */
void explanation_write_lines(struct json *j, const struct line_trace *t);
/* Members of an object: the decision, or as much of it as was made when it failed.
 *
 * @param failure  code TIDE_OK: none */
void explanation_write(struct explanation *x, const struct decide_spec *spec,
		       const struct decision *d, const struct error *failure,
		       struct json *j);
