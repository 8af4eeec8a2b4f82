#include <lauxlib.h>

#include "base/mem.h"
#include "engine_private.h"

static size_t take_number(struct engine *e)
{
	if (e->free_count > 0)
		return e->free_numbers[--e->free_count];
	return e->number_count++;
}

static void give_number(struct engine *e, size_t number)
{
	if (e->free_count == e->free_cap) {
		e->free_cap = e->free_cap * 2 + 16;
		e->free_numbers = mem_realloc(e->free_numbers,
					      e->free_cap * sizeof(*e->free_numbers));
	}
	e->free_numbers[e->free_count++] = number;
}

static int use_now(struct engine *e, size_t number, enum script_kind kind,
		   struct slice name, const struct args *options, struct error *err)
{
	struct rule *rule;
	int rc = generation_get(e->current, kind, name, &rule, err);

	if (rc == TIDE_OK)
		rc = room_check(e, err);
	if (rc != TIDE_OK)
		return rc;
	rc = use_open(e->current, number, rule, options, err);
	return room_after_new(e, rc, err);
}

int handle_open(struct handle *h, struct engine *e, enum script_kind kind,
		struct slice name, const struct args *options, const char *user,
		struct error *err)
{
	size_t number = take_number(e);
	int rc = e->current ? use_now(e, number, kind, name, options, err) : TIDE_OK;

	if (rc != TIDE_OK) {
		give_number(e, number);
		return rc;
	}
	h->engine = e;
	h->number = number;
	h->kind = kind;
	h->name = mem_strndup(name.data, name.len);
	h->user = mem_strdup(user);
	h->options = (struct args){ 0 };
	if (options)
		args_copy(&h->options, options);
	TAILQ_INSERT_TAIL(&e->handles, h, link);
	return TIDE_OK;
}

void handle_close(struct handle *h)
{
	struct engine *e = h->engine;

	reload_forget(h);
	if (e->carry_at == h)
		e->carry_at = TAILQ_NEXT(h, link);
	TAILQ_REMOVE(&e->handles, h, link);
	if (e->current) {
		handle_use(h)->rule->stats.cache_hits += h->cache_hits;
		circuit_forget_handle(e, h);
		use_release(e->current, h->number);
	}
	give_number(e, h->number);
	args_deinit(&h->options);
	mem_free(h->name);
	mem_free(h->user);
}

int handle_install(struct handle *h, struct generation *g, struct error *err)
{
	struct error cause;
	struct rule *rule = generation_find(g, h->kind, slice_from(h->name));

	if (!rule)
		return error_set(err, TIDE_ERULE, "%s/%s.lua: is missing, but %s uses it",
				 script_kind_name(h->kind), h->name, h->user);
	int rc = use_open(g, h->number, rule, &h->options, &cause);
	if (rc != TIDE_OK)
		return error_set(err, TIDE_ERULE, "%s (for %s)", cause.text, h->user);
	struct use *use = &g->uses[h->number];
	use->must_carry = rule->functions[RULE_CARRY] != LUA_NOREF;
	g->must_carry |= use->must_carry;
	return TIDE_OK;
}
