#include "spec_queue.h"

#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "figures/figure.h"
#include "rules/sandbox/field.h"

struct spec_queue {
	struct spec_queue *next;
	double facts[FIGURE_ROWS_MAX]; /* by row */
	char name[];
};

static const void *find(void *ctx, struct slice vhost, struct slice name)
{
	const struct spec_queue *q = ctx;

	while (q && !slice_is(name, q->name))
		q = q->next;
	return q;
}

static double read_fact(const void *queue, unsigned row)
{
	return ((const struct spec_queue *)queue)->facts[row];
}

static void forget(struct engine *e, const char *name)
{
	struct spec_queue *q, **at = (struct spec_queue **)&e->tide.queues.ctx;

	while ((q = *at) != NULL) {
		if (name && strcmp(q->name, name) != 0) {
			at = &q->next;
			continue;
		}
		*at = q->next;
		mem_free(q);
	}
}

/* Facts that are not given are 0; negative ones the queue does not have. */
static void read_facts(lua_State *L, int table, double *facts)
{
	const char *names[FIGURE_ROWS_MAX + 1] = { NULL };
	unsigned count = 0;

	for (unsigned i = 0; i < queue_facts_count; i++)
		if (queue_facts_names[i])
			names[count++] = queue_facts_names[i];
	field_check_names(L, table, "a queue", names);
	for (unsigned i = 0; i < queue_facts_count; i++) {
		if (!queue_facts_names[i])
			continue;
		lua_getfield(L, table, queue_facts_names[i]);
		facts[i] = luaL_optnumber(L, -1, 0);
		if (facts[i] < 0)
			facts[i] = NAN;
		lua_pop(L, 1);
	}
}

void spec_queue_set(lua_State *L, struct engine *e)
{
	const char *name = luaL_checkstring(L, 2);
	double facts[FIGURE_ROWS_MAX] = { 0 };

	if (!lua_isnoneornil(L, 3)) {
		luaL_checktype(L, 3, LUA_TTABLE);
		read_facts(L, 3, facts);
	}
	forget(e, name);
	if (lua_isnoneornil(L, 3))
		return;
	struct spec_queue *q = mem_alloc(sizeof(*q) + strlen(name) + 1);
	memcpy(q->facts, facts, sizeof(facts));
	memcpy(q->name, name, strlen(name) + 1);
	q->next = e->tide.queues.ctx;
	e->tide.queues = (struct queue_facts){ q, find, read_fact };
}

void spec_queue_clear(struct engine *e)
{
	forget(e, NULL);
}
