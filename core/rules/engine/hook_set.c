#include "hook_set.h"

#include <string.h>

#include "base/mem.h"
#include "base/table.h"

#define PLANS_MAX 8192 /* addresses that are remembered */
#define ID_MAX (4 * (NAME_LEN_MAX + 1))

struct kept_plan {
	UT_hash_handle hh;
	struct hook_plan plan;
	size_t id_len;
	char *id; /* behind the places */
};

struct hook_set {
	struct rule **rules; /* the generation's */
	unsigned count;
	struct kept_plan *plans;
	unsigned plan_count;
	struct kept_plan *spare; /* of a dry run, which leaves nothing behind */
};

struct hook_set *hook_set_create(const struct generation *g, enum script_kind kind)
{
	struct hook_set *set = mem_zalloc(sizeof(*set));

	set->rules = mem_alloc((g->rule_count + 1) * sizeof(struct rule *));
	for (size_t i = 0; i < g->rule_count; i++) {
		if (g->rules[i]->kind == kind && g->rules[i]->match)
			set->rules[set->count++] = g->rules[i];
	}
	return set;
}

static void forget_plans(struct hook_set *set)
{
	struct kept_plan *plan, *next;

	HASH_ITER (hh, set->plans, plan, next) {
		HASH_DEL(set->plans, plan);
		mem_free(plan);
	}
	set->plan_count = 0;
}

void hook_set_destroy(struct hook_set *set)
{
	if (!set)
		return;
	forget_plans(set);
	mem_free(set->spare);
	mem_free(set->rules);
	mem_free(set);
}

unsigned hook_set_count(const struct hook_set *set)
{
	return set->count;
}

struct rule *hook_set_rule(const struct hook_set *set, unsigned place)
{
	return set->rules[place];
}

static struct kept_plan *make_plan(struct hook_set *set, const struct hook_subject *s,
				   const char *id, size_t id_len)
{
	size_t room = set->count * sizeof(uint16_t);
	struct kept_plan *kept = mem_zalloc(sizeof(*kept) + room + id_len);
	uint16_t *places = (uint16_t *)(kept + 1);

	kept->id = (char *)(kept + 1) + room;
	kept->id_len = id_len;
	memcpy(kept->id, id, id_len);
	kept->plan.places = places;
	for (unsigned i = 0; i < set->count; i++) {
		if (rule_match_fits_address(set->rules[i]->match, s))
			places[kept->plan.count++] = (uint16_t)i;
	}
	return kept;
}

static void keep_plan(struct hook_set *set, struct kept_plan *kept)
{
	if (set->plan_count >= PLANS_MAX)
		forget_plans(set);
	HASH_ADD_KEYPTR(hh, set->plans, kept->id, kept->id_len, kept);
	set->plan_count++;
}

/* A longer text is no name, and only specs have it. */
static size_t add_name(char *id, size_t len, struct slice name)
{
	if (name.len > NAME_LEN_MAX)
		name.len = NAME_LEN_MAX;
	if (name.len)
		memcpy(id + len, name.data, name.len);
	id[len + name.len] = '\0';
	return len + name.len + 1;
}

const struct hook_plan *hook_set_plan(struct hook_set *set, const struct hook_subject *s,
				      bool is_dry)
{
	char id[ID_MAX];
	struct kept_plan *kept;
	size_t len = add_name(id, 0, s->vhost);

	len = add_name(id, len, s->exchange);
	len = add_name(id, len, s->key);
	len = add_name(id, len, s->queue);
	HASH_FIND(hh, set->plans, id, len, kept);
	if (kept)
		return &kept->plan;
	kept = make_plan(set, s, id, len);
	if (is_dry) {
		mem_free(set->spare);
		set->spare = kept;
	} else {
		keep_plan(set, kept);
	}
	return &kept->plan;
}
