#include "run.h"

#include "base/mem.h"

static int compare(const struct run *a, const struct run *b)
{
	return (a->first_tag > b->first_tag) - (a->first_tag < b->first_tag);
}

RB_GENERATE_INTERNAL(run_tag_tree, run, by_tag, compare, static __attribute__((unused)))

void run_add(struct run_tag_tree *t, struct run *r)
{
	RB_INSERT(run_tag_tree, t, r);
}

void run_remove(struct run_tag_tree *t, struct run *r)
{
	RB_REMOVE(run_tag_tree, t, r);
}

void run_set_reason(struct run *r, struct slice reason)
{
	char *text = reason.len > 0 ? mem_alloc(reason.len) : NULL;

	if (text)
		memcpy(text, reason.data, reason.len);
	mem_free((char *)r->reason.data);
	r->reason = (struct slice){ text, reason.len };
}

struct run *run_from_tag(const struct run_tag_tree *t, uint64_t tag)
{
	struct run *r = RB_ROOT(t), *found = NULL;

	/* Runs have no tag in common: their ends are in the order of their beginnings. */
	while (r)
		if (tag < r->first_tag + r->count) {
			found = r;
			r = RB_LEFT(r, by_tag);
		} else {
			r = RB_RIGHT(r, by_tag);
		}
	return found;
}
