/* canary.h: candidate rules that decide in earnest, for a share of the keys.
 *
 * Which messages they decide is said by a hash of the routing key, or of the value of a
 * header: so one key always meets the same rules. A larger share has the keys of a
 * smaller one. Where their scripts fail the active rules decide instead. */
#pragma once

#include "decide.h"

/* Of so many failures they decide no more. */
#define CANARY_FAILED_MAX 20

struct canary {
	struct broker *broker;
	const struct ruleset *rules;
	char *header; /* whose value is hashed; NULL: the routing key is */
	double share;
	struct decision_context context; /* tide.shared is that of the active rules */
	uint64_t decided, failed;
};

/* Do they decide about the message? Not without the header. */
bool canary_takes(const struct canary *c, const struct msg *m);
/* Have them decide the publish if it is theirs. */
void canary_choose(struct canary *c, struct decide_spec *spec);
/* Their scripts have failed with it: the active rules are to decide. Counts it.
 *
 * @param spec  NULL: it is no publish */
void canary_fall_back(struct canary *c, struct decide_spec *spec,
		      const struct error *err);
static inline bool canary_is_stopped(const struct canary *c)
{
	return c->failed >= CANARY_FAILED_MAX;
}
