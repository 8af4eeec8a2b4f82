/* service_rules.h: the engine of the active rules, and what follows from a change. */
#pragma once

#include "rules/engine/reload.h"
#include "service.h"

struct bundle;

/* Load the rules, from the rules directory or from `last_good`, and make them active.
 * @param last_good  NULL: the rules directory */
TIDE_MUST_USE int service_rules_load(struct service *s, struct bundle *last_good,
				     struct error *err);
struct rules_change {
	enum engine_origin origin;
	struct bundle *files;    /* NULL: the rules directory */
	const char *specs_dir;   /* of the files, for the gate */
	const char *by;          /* who asks; "" nobody */
	reload_done_fn *on_done; /* may be NULL */
	void *ctx;
};
/* Have the gate ask, then load the rules. on_done may come within the call. */
void service_rules_change(struct service *s, const struct rules_change *spec);
/* The rules directory has changed: load it, as the gate allows. */
void service_rules_follow(struct service *s);
/* An operator wants the rules directory loaded, as the gate allows. The outcome is
 * logged. */
void service_rules_reload(struct service *s);
