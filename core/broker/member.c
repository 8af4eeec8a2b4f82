#include "member.h"

#include "base/decimal.h"
#include "base/mem.h"
#include "log/assign.h"
#include "pull.h"
#include "queue.h"

static bool keeps_order(const struct topic_group *g)
{
	return g->topic->queue->config.keeps_order;
}

static void give(struct topic_group *g, unsigned partition, struct member *m)
{
	struct group_claim *gc =
		m ? group_open_claim(g, partition) : g->claims[partition];

	if (!gc || gc->owner == m)
		return;
	group_rest(gc);
	if (gc->owner)
		gc->owner->is_changed = true;
	gc->owner = m;
	pull_lose(gc);
	gc->is_handover = m && gc->claim.held > 0 && keeps_order(g);
	if (m) {
		m->is_changed = true;
		group_wake(gc);
	} else {
		group_check(gc);
	}
}

/* All that a reader wants. */
static void give_all(struct topic_group *g, struct member *m)
{
	for (unsigned i = 0; i < group_width(g); i++)
		if (g->only < 0 || g->only == i)
			give(g, i, m);
}

static void share(struct topic_group *g)
{
	unsigned owners[QUEUE_SHARDS_MAX], count = 0;
	struct member **members = mem_alloc((g->member_count + 1) * sizeof(*members));
	struct member *m;

	TAILQ_FOREACH (m, &g->members, link) {
		m->number = count;
		members[count++] = m;
	}
	for (unsigned i = 0; i < group_width(g); i++) {
		const struct group_claim *gc = g->claims[i];

		owners[i] = gc && gc->owner ? gc->owner->number : ASSIGN_NONE;
	}
	assign_partitions(owners, group_width(g), count);
	for (unsigned i = 0; i < group_width(g); i++)
		give(g, i, owners[i] == ASSIGN_NONE ? NULL : members[owners[i]]);
	mem_free(members);
}

static void tell(const struct topic_group *g)
{
	struct member *m;

	TAILQ_FOREACH (m, &g->members, link)
		if (m->is_changed && g->name)
			m->consumer->ops->on_assigned(m->consumer);
}

struct member *member_create(struct topic_group *g, struct consumer *c)
{
	struct member *m = mem_zalloc(sizeof(*m));

	m->group = g;
	m->consumer = c;
	m->is_changed = true;
	TAILQ_INIT(&m->ready);
	TAILQ_INSERT_TAIL(&g->members, m, link);
	g->member_count++;
	c->member = m;
	if (g->name)
		share(g);
	else
		give_all(g, m);
	tell(g);
	return m;
}

/* Take a member out of its group; its partitions are without an owner for a moment. */
static void leave(struct member *m)
{
	for (unsigned i = 0; i < group_width(m->group); i++) {
		struct group_claim *gc = m->group->claims[i];

		if (!gc || gc->owner != m)
			continue;
		group_rest(gc);
		gc->owner = NULL;
	}
}

void member_destroy(struct member *m)
{
	struct topic_group *g = m->group;

	leave(m);
	TAILQ_REMOVE(&g->members, m, link);
	g->member_count--;
	m->consumer->member = NULL;
	mem_free(m);
	if (g->member_count > 0) {
		share(g);
		tell(g);
	} else {
		group_left(g);
	}
}

void member_format(const struct member *m, char out[MEMBER_PARTITIONS_MAX])
{
	const struct topic_group *g = m->group;
	char *at = out;

	for (unsigned i = 0; i < group_width(g); i++) {
		if (!g->claims[i] || g->claims[i]->owner != m)
			continue;
		if (at != out)
			*at++ = ',';
		at = decimal_put(at, i);
	}
	if (at == out)
		*at++ = '-';
	*at = '\0';
}
