#include "spec_queue.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rules/sandbox/field.h"

struct spec_queue {
	struct spec_queue *next;
	double facts[QUEUE_FACT_COUNT];
	char name[];
};

static const void *find(void *ctx, struct slice vhost, struct slice name)
{
	const struct spec_queue *q = ctx;

	while (q && !slice_is(name, q->name))
		q = q->next;
	return q;
}

static double read_fact(const void *queue, enum queue_fact fact)
{
	return ((const struct spec_queue *)queue)->facts[fact];
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

/* What is not given is 0. */
static void read_facts(lua_State *L, int table, double *facts)
{
	const char *names[QUEUE_FACT_COUNT + 1] = { NULL };

	memcpy(names, queue_facts_names, QUEUE_FACT_COUNT * sizeof(*names));
	field_check_names(L, table, "a queue", names);
	for (int i = 0; i < QUEUE_FACT_COUNT; i++) {
		lua_getfield(L, table, names[i]);
		facts[i] = luaL_optnumber(L, -1, 0);
		lua_pop(L, 1);
	}
}

void spec_queue_set(lua_State *L, struct engine *e)
{
	const char *name = luaL_checkstring(L, 2);
	double facts[QUEUE_FACT_COUNT];

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
