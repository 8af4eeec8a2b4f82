/* index.c: an exchange's bindings, and the call that routes. */

#include <inttypes.h>
#include <lauxlib.h>
#include <string.h>

#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "rules/api/draft.h"
#include "index.h"
#include "engine_private.h"

#define ROUTE_DESTS_MAX (1024 * 1024)

struct index {
	struct handle handle;
	struct index_source source;
};

static const char to_key; /* of `to` in the registry */

struct changing {
	const struct use *use;
	enum rule_function function;
	const struct index_binding *binding;
};

/* bind (index, pattern, dest, args, name), and unbind alike */
static int l_change(lua_State *L)
{
	const struct changing *c = lua_touserdata(L, 1);
	struct rule *rule = c->use->rule;

	lua_rawgeti(L, LUA_REGISTRYINDEX, rule->functions[c->function]);
	lua_rawgeti(L, LUA_REGISTRYINDEX, c->use->state);
	lua_pushlstring(L, c->binding->pattern.data, c->binding->pattern.len);
	lua_pushinteger(L, c->binding->dest);
	options_push(L, &rule->binding_options, c->binding->args);
	if (c->binding->name.len > 0)
		lua_pushlstring(L, c->binding->name.data, c->binding->name.len);
	else
		lua_pushfstring(L, "%I", (lua_Integer)c->binding->dest);
	lua_call(L, 5, 0);
	return 0;
}

static int change(struct generation *g, const struct changing *c, struct error *err)
{
	struct rule *rule = c->use->rule;
	struct script_call call = { .file = rule->file,
				    .stats = &rule->stats,
				    .account = c->use->account,
				    .body = l_change,
				    .ctx = (void *)c };

	return script_enter(&g->script, &call, err);
}

static int bind_in(struct index *x, struct generation *g, const struct index_binding *b,
		   struct error *err)
{
	const struct use *use = &g->uses[x->handle.number];
	struct changing c = { use, RULE_BIND, b };
	int rc =
		options_check(&use->rule->binding_options, b->args, use->rule->file, err);

	return rc != TIDE_OK ? rc : change(g, &c, err);
}

static int unbind_in(struct index *x, struct generation *g, const struct index_binding *b,
		     struct error *err)
{
	struct changing c = { &g->uses[x->handle.number], RULE_UNBIND, b };

	return change(g, &c, err);
}

/* Bind everything that there is. */
static int rebuild(struct index *x, struct generation *g, struct error *err)
{
	struct index_binding b = { .place = 0 };
	int rc = TIDE_OK;

	for (; rc == TIDE_OK && x->source.next(x->source.ctx, &b); b.place++)
		rc = bind_in(x, g, &b, err);
	return rc;
}

int index_stage(struct handle *h, struct generation *g, struct error *err)
{
	struct index *x = container_of(h, struct index, handle);
	struct index_binding b = { .place = h->staged_end };
	struct error cause;

	if (!x->source.next(x->source.ctx, &b)) {
		h->staged_end = UINT32_MAX;
		return TIDE_EMPTY;
	}
	h->staged_end = b.place + 1;
	if (bind_in(x, g, &b, &cause) == TIDE_OK)
		return TIDE_OK;
	return error_set(err, TIDE_ERULE, "%s (for %s)", cause.text, h->user);
}

/* The generation that a change at a place has to be made in too; NULL when there is
 * none. What is not yet in it comes, or does not, with the rest. */
static struct generation *staged_generation(const struct index *x, uint32_t place)
{
	return place < x->handle.staged_end ? reload_generation_of(&x->handle) : NULL;
}

static void follow_bind(struct index *x, const struct index_binding *b)
{
	struct build *build = &x->handle.engine->build;
	struct generation *g = staged_generation(x, b->place);
	struct error cause;

	if (g && bind_in(x, g, b, &cause) != TIDE_OK)
		error_set(&build->failure, TIDE_ERULE, "%s (for %s)", cause.text,
			  x->handle.user);
}

/* An index that fails to take a binding out cannot be used. */
static void follow_unbind(struct index *x, const struct index_binding *b)
{
	struct generation *g = staged_generation(x, b->place);
	struct error ignored;

	if (g && unbind_in(x, g, b, &ignored) != TIDE_OK)
		x->handle.engine->build.must_restart = true;
}

int index_create(struct engine *e, const struct index_spec *spec, struct index **out,
		 struct error *err)
{
	struct index *x = mem_zalloc(sizeof(*x));
	const struct strategy_spec of_handle = { SCRIPT_ROUTING, spec->type,
						 spec->options, spec->user, spec->vhost };
	int rc = handle_open(&x->handle, e, &of_handle, err);

	if (rc != TIDE_OK) {
		mem_free(x);
		return rc;
	}
	x->source = spec->source;
	*out = x;
	return TIDE_OK;
}

void index_destroy(struct index *x)
{
	if (!x)
		return;
	handle_close(&x->handle);
	mem_free(x);
}

/* In the active generation, if there is one yet. */
static int bind_now(struct index *x, const struct index_binding *b, struct error *err)
{
	struct engine *e = x->handle.engine;

	if (!e->current)
		return TIDE_OK;
	int rc = room_check(e, handle_use(&x->handle)->account, err);
	if (rc != TIDE_OK)
		return rc;
	return room_after_new(e, handle_use(&x->handle)->account,
			      bind_in(x, e->current, b, err), err);
}

int index_bind(struct index *x, const struct index_binding *b, struct error *err)
{
	int rc = bind_now(x, b, err);

	if (rc == TIDE_OK)
		follow_bind(x, b);
	return rc;
}

/* The script failed to take a binding out, and nobody knows what its index is
 * like now: a new one takes its place. */
static int replace_index(struct index *x, struct error *err)
{
	struct handle *h = &x->handle;
	struct generation *g = h->engine->current;
	struct rule *rule = handle_use(h)->rule;
	struct use old = *handle_use(h);

	handle_use(h)->rule = NULL;
	int rc = use_open(g, h, rule, err);
	if (rc == TIDE_OK)
		rc = rebuild(x, g, err);
	if (rc != TIDE_OK) {
		use_release(g, h->number);
		*handle_use(h) = old;
		return rc;
	}
	struct use new = *handle_use(h);
	*handle_use(h) = old;
	use_release(g, h->number);
	*handle_use(h) = new;
	return TIDE_OK;
}

int index_unbind(struct index *x, const struct index_binding *b, struct error *err)
{
	struct engine *e = x->handle.engine;
	int rc = e->current ? unbind_in(x, e->current, b, err) : TIDE_OK;

	follow_unbind(x, b);
	if (rc == TIDE_OK)
		return TIDE_OK;
	log_warn("%s: %s; rebuilding the index of %s", e->tide.about, err->text,
		 x->handle.user);
	return replace_index(x, err);
}

bool index_is_pure(const struct index *x)
{
	return handle_use(&x->handle)->is_pure;
}

const char *index_script(const struct index *x)
{
	return handle_use(&x->handle)->rule->file;
}

bool index_differs(const struct index *x, const struct args *has,
		   const struct args *wanted, struct option_difference *out)
{
	const struct options none = { .items = NULL };

	return options_differ(x ? &handle_use(&x->handle)->rule->options : &none, has,
			      wanted, out);
}

void index_count_hit(struct index *x)
{
	x->handle.cache_hits++;
}

/* to (dest); the sink is the first upvalue */
static int l_to(lua_State *L)
{
	struct route_sink *sink = lua_touserdata(L, lua_upvalueindex(1));
	const struct index *x = sink->index;

	if (!x)
		return luaL_error(L, "'to' has expired: it was good for one call only");
	lua_Integer n = luaL_checkinteger(L, 1);
	uint32_t dest = (uint32_t)n;
	if (n != (lua_Integer)dest || !x->source.is_dest(x->source.ctx, dest))
		return luaL_error(L, "no binding leads to %I", n);
	if (sink->count == sink->cap) {
		if (sink->cap == ROUTE_DESTS_MAX)
			return luaL_error(L, "more than %d destinations",
					  ROUTE_DESTS_MAX);
		sink->cap = sink->cap ? sink->cap * 2 : 64;
		sink->dests = mem_realloc(sink->dests, sink->cap * sizeof(*sink->dests));
	}
	sink->dests[sink->count++] = dest;
	return 0;
}

void index_open(lua_State *L, struct engine *e)
{
	lua_pushlightuserdata(L, &e->sink);
	lua_pushcclosure(L, l_to, 1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &to_key);
}

static void push_to(lua_State *L, const void *ctx)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &to_key);
}

int index_route(struct index *x, const struct script_question *q, const uint32_t **dests,
		size_t *count, struct error *err)
{
	struct engine *e = x->handle.engine;
	static const struct script_value to = { push_to, NULL };
	const struct api_msg msg = { .msg = q->msg };
	const struct use *use = handle_use(&x->handle);
	const struct use_call call = { .use = use,
				       .handle = &x->handle,
				       .context = q->context,
				       .is_pure = use->is_pure,
				       .given = { NULL, &msg, &to } };

	e->sink.index = x;
	e->sink.count = 0;
	int rc = use_decide(e, &call, err);
	e->sink.index = NULL;
	if (rc != TIDE_OK)
		return rc;
	*dests = e->sink.dests;
	*count = e->sink.count;
	return TIDE_OK;
}
