/* shadow_hook.h: what candidate rules in the shadow say where scripts of deliver/,
 * settled/, declare/ and connect/ are asked, beside what the active rules say.
 *
 * Both are asked the same, the candidate rules first: in a dry run, on the counters and
 * the like of the active ones. */
#pragma once

#include "broker/step.h"
#include "candidate.h"

struct shadow_hook;

struct shadow_hook *shadow_hook_create(struct candidate *c);
/* Accepts NULL. */
void shadow_hook_destroy(struct shadow_hook *s);

/* Count a question. False: it is none of live traffic. */
bool shadow_hook_see(struct shadow_hook *s, const struct step *h);
/* Ask the candidate rules. @param now_ms  what tide.now gives */
void shadow_hook_ask(struct shadow_hook *s, const struct step *h, int64_t now_ms);
/* The active rules have answered. Harmless when the others were not asked. */
void shadow_hook_compare(struct shadow_hook *s, const struct step *h);

/* Ask both about the next queue, topic or exchange that there is. False: that was the
 * last one. */
bool shadow_hook_walk(struct shadow_hook *s);

/* Members of an object, one for each kind. */
void shadow_hook_write(const struct shadow_hook *s, const struct vhost *viewer,
		       struct json *out);
