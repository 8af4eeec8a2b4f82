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
	MEM_GROW(e->free_numbers, e->free_count, e->free_cap, 16);
	e->free_numbers[e->free_count++] = number;
}

static int use_now(const struct handle *h, struct error *err)
{
	struct engine *e = h->engine;
	struct script_state *s = &e->current->script;
	struct account *account;
	struct rule *rule;
	int rc = generation_get(e->current, h->kind, slice_from(h->name), &rule, err);

	if (rc != TIDE_OK)
		return rc;
	account = account_open(&s->accounts, rule->file, slice_from(h->vhost));
	rc = room_check(e, account, err);
	if (rc != TIDE_OK)
		return rc;
	rc = use_open(e->current, h, rule, err);
	return room_after_new(e, account, rc, err);
}

static void free_parts(struct handle *h)
{
	give_number(h->engine, h->number);
	args_deinit(&h->options);
	mem_free(h->name);
	mem_free(h->user);
	mem_free(h->vhost);
}

int handle_open(struct handle *h, struct engine *e, const struct strategy_spec *spec,
		struct error *err)
{
	h->engine = e;
	h->number = take_number(e);
	h->kind = spec->kind;
	h->name = mem_strndup(spec->name.data, spec->name.len);
	h->user = mem_strdup(spec->user);
	h->vhost = mem_strndup(spec->vhost.data, spec->vhost.len);
	h->options = (struct args){ 0 };
	if (spec->options)
		args_copy(&h->options, spec->options);
	int rc = e->current ? use_now(h, err) : TIDE_OK;
	if (rc == TIDE_OK)
		TAILQ_INSERT_TAIL(&e->handles, h, link);
	else
		free_parts(h);
	return rc;
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
	free_parts(h);
}

int handle_install(struct handle *h, struct generation *g, struct error *err)
{
	struct error cause;
	struct rule *rule = generation_find(g, h->kind, slice_from(h->name));

	if (!rule)
		return error_set(err, TIDE_ERULE, "%s/%s.lua: is missing, but %s uses it",
				 script_kind_name(h->kind), h->name, h->user);
	int rc = use_open(g, h, rule, &cause);
	if (rc != TIDE_OK)
		return error_set(err, TIDE_ERULE, "%s (for %s)", cause.text, h->user);
	struct use *use = &g->uses[h->number];
	use->must_carry = rule->functions[RULE_CARRY] != LUA_NOREF;
	g->must_carry |= use->must_carry;
	return TIDE_OK;
}
