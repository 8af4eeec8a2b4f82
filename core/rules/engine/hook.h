/* hook.h: scripts that are asked where the broker does something: deliver/, settled/,
 * declare/, connect/. (The filters, which may reroute a message, have filter.h.)
 *
 * Those with a `match` are active, and form a chain in the order of their file names. A
 * hook that nobody uses costs hook_is_used. */
#pragma once

#include <lua.h>

#include "engine.h"
#include "rule_match.h"

struct generation;
struct rule;

/* One walk along the chain. */
struct hook_call {
	enum script_kind kind;
	struct hook_subject subject;
	struct decision_context *context; /* NULL: live */
	/* As in struct use_call. */
	const void *given[SCRIPT_ARGUMENTS_MAX];
	void (*take)(lua_State *L, const struct use_call *c, unsigned result);
	void *ctx;                      /* of `take` and `on_asked` */
	struct script_refusal *refusal; /* a refusal ends the walk */
	/* Told after each script, code 0: it has not failed. A failure does not end the
	 * walk then. NULL: it does. */
	void (*on_asked)(struct hook_call *c, const struct error *failure);
	bool is_decided; /* out, of `take`: the scripts behind this one are not asked */
	/* Out: the script asked last, and its line; NULL: none matches. Good until the
	 * next reload. */
	struct rule *rule;
	const char *file;
	int line;
};

/* Look at the scripts of another generation from now on; NULL: at none. */
void hook_renew(struct engine *e, const struct generation *g);
/* Is a script of the kind active? */
bool hook_is_used(const struct engine *e, enum script_kind kind);
/* May a script match the address? Messages and users are not considered. */
bool hook_is_for(struct engine *e, enum script_kind kind, const struct hook_subject *s);

/* Ask the scripts that match. TIDE_ERULE: one failed; those behind it are not asked. */
TIDE_MUST_USE int hook_run(struct engine *e, struct hook_call *c, struct error *err);
