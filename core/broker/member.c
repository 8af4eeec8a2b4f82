#include "member.h"

#include "base/decimal.h"
#include "base/mem.h"
#include "log/assign.h"
#include "queue.h"

/* One that is idle is not active for consumer.h: what it lacks is no credit. */
void member_wake(struct member *m)
{
	struct consumer *c = m->consumer;

	if (m->is_pull) {
		consumer_look(c);
		return;
	}
	if (c->is_active)
		return;
	c->is_active = true;
	consumer_update(c);
}

void member_rest(struct member *m)
{
	if (m->is_pull) {
		consumer_looked(m->consumer);
		return;
	}
	m->consumer->is_active = false;
	consumer_update(m->consumer);
}

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

		owners[i] = gc && gc->owner && !gc->owner->is_pull ? gc->owner->number
								   : ASSIGN_NONE;
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

void member_offer(struct group_claim *gc)
{
	struct member *m = TAILQ_FIRST(&gc->group->pulls);

	if (gc->owner || !m || (gc->claim.held > 0 && keeps_order(gc->group)))
		return;
	gc->owner = m;
	group_wake(gc);
}

/* To the GETs that wait. */
static void offer_all(struct topic_group *g)
{
	if (TAILQ_EMPTY(&g->pulls))
		return;
	for (unsigned i = 0; i < group_width(g); i++)
		if (g->only < 0 || g->only == i)
			member_offer(group_open_claim(g, i));
}

struct member *member_create_pull(struct topic_group *g, struct consumer *c,
				  bool is_short)
{
	struct member *m = mem_zalloc(sizeof(*m));

	m->group = g;
	m->consumer = c;
	m->is_pull = true;
	m->is_short = is_short;
	TAILQ_INIT(&m->ready);
	TAILQ_INSERT_TAIL(&g->pulls, m, link);
	c->member = m;
	offer_all(g);
	return m;
}

bool member_is_reading(const struct member *m)
{
	for (unsigned i = 0; i < group_width(m->group); i++) {
		const struct group_claim *gc = m->group->claims[i];

		if (gc && gc->owner == m && (gc->is_reading || gc->search))
			return true;
	}
	return false;
}

/* Its partitions are nobody's for a moment. */
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

	bool is_pull = m->is_pull;

	leave(m);
	TAILQ_REMOVE(is_pull ? &g->pulls : &g->members, m, link);
	g->member_count -= !is_pull;
	m->consumer->member = NULL;
	mem_free(m);
	if (g->member_count > 0 && !is_pull) {
		share(g);
		tell(g);
	} else {
		offer_all(g);
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
