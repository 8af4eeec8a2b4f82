/* service_rules.h: the engine of the active rules, and what follows from a change. */
#pragma once

#include "rules/engine/reload.h"
#include "service.h"

struct bundle;

/* Load these rules and make them active, before it returns.
 * @param refusal  why they are loaded instead of the rules directory; NULL: they are what
 *                 was read of it */
TIDE_MUST_USE int service_rules_load(struct service *s, struct bundle *files,
				     const struct error *refusal, struct error *err);
/* Log that there are files that nothing loads, unless this was said last. */
void service_rules_tell_unread(struct service *s, const char *unread);
struct rules_change {
	enum engine_origin origin;
	struct bundle *files;    /* NULL: the rules directory */
	const char *specs_dir;   /* of the files, for the gate */
	const char *by;          /* who asks; "" nobody */
	reload_done_fn *on_done; /* may be NULL */
	void *ctx;
};
/* Have the rules tried, in a child and by their specs, then load them. on_done may come
 * within the call. */
void service_rules_change(struct service *s, const struct rules_change *spec);
/* The rules directory has changed: load it, as the gate allows. */
void service_rules_follow(struct service *s);
/* An operator wants the rules directory loaded, as the gate allows. The outcome is
 * logged. */
void service_rules_reload(struct service *s);
