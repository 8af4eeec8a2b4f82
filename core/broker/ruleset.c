#include "ruleset.h"

#include "broker.h"
#include "definition.h"

struct stepping {
	enum ruleset_slot slot;
	unsigned left;
};

/* Nothing fails while the engine has no scripts yet. */
static bool attach(void *ctx, struct definition *d)
{
	struct stepping *s = ctx;

	if (!definition_needs(d, s->slot))
		return true;
	if (s->left-- == 0)
		return false;
	definition_follow(d);
	return true;
}

bool ruleset_step(const struct ruleset *r, struct broker *b, unsigned max)
{
	struct stepping s = { r->slot, max };

	return definition_each(b, attach, &s);
}

void ruleset_leave(const struct ruleset *r, struct broker *b)
{
	definition_detach_all(b, r->slot);
	b->candidates[r->slot] = NULL;
}
