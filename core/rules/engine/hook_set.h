/* hook_set.h: the active scripts of a kind, in the order of their file names, and which
 * of them match an address. The answer is remembered for the generation. */
#pragma once

#include "generation.h"
#include "rule_match.h"

/* The scripts whose match fits an address, as places in the set. */
struct hook_plan {
	const uint16_t *places;
	unsigned count;
};

struct hook_set;

/* The scripts of the kind that have a match. The generation outlives the set. */
struct hook_set *hook_set_create(const struct generation *g, enum script_kind kind);
/* Accepts NULL. */
void hook_set_destroy(struct hook_set *set);

unsigned hook_set_count(const struct hook_set *set);
struct rule *hook_set_rule(const struct hook_set *set, unsigned place);

/* Good until the next one is asked for. What differs from message to message is not
 * looked at: rule_match_fits.
 *
 * @param is_dry  nothing is remembered */
const struct hook_plan *hook_set_plan(struct hook_set *set, const struct hook_subject *s,
				      bool is_dry);
