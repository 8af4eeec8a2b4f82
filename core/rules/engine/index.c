/* index.c: an exchange's bindings, and the call that routes. */

#include <inttypes.h>
#include <lauxlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/table.h"
#include "host/log.h"
#include "rules/api/api_msg.h"
#include "index.h"
#include "engine_private.h"

#define ROUTE_DESTS_MAX (1024 * 1024)
#define FREED_AT_ONCE 2000 /* bindings; more are freed by a thread */

/* The engine's own copy, from which a generation's index is built. */
struct index_binding {
	UT_hash_handle hh;
	uint32_t dest;
	uint64_t staged;      /* the serial of the build that has it */
	struct slice pattern; /* in the key */
	struct args args;
	size_t key_len;
	char key[];
};

/* How many bindings lead to a destination: what a script may hand to `to`. */
struct destination {
	UT_hash_handle hh;
	uint32_t dest;
	uint32_t bindings;
};

struct index {
	struct handle handle; /* first: handle_install casts */
	struct index_binding *bindings;
	struct destination *destinations;
	/* What the build under way has to bind next; those behind it are new. */
	struct index_binding *cursor;
	uint64_t staging; /* the serial of the build that the cursor is for */
};

static const char to_key; /* of `to` in the registry */

/* ---- the copy -------------------------------------------------------------------- */

/* The key of a binding: its destination, pattern and arguments. */
static void format_key(struct buf *out, struct slice pattern, const struct args *args,
		       uint32_t dest)
{
	buf_append(out, &dest, sizeof(dest));
	buf_append_slice(out, pattern);
	buf_append_char(out, '\0');
	if (args)
		args_format(args, out);
}

static struct index_binding *find_binding(struct index *x, const struct buf *key)
{
	struct index_binding *b;
	struct slice k = buf_slice(key);
	HASH_FIND(hh, x->bindings, k.data, k.len, b);
	return b;
}

static void add_destination(struct index *x, uint32_t dest)
{
	struct destination *d;
	HASH_FIND(hh, x->destinations, &dest, sizeof(dest), d);
	if (!d) {
		d = mem_zalloc(sizeof(*d));
		d->dest = dest;
		HASH_ADD(hh, x->destinations, dest, sizeof(dest), d);
	}
	d->bindings++;
}

static void remove_destination(struct index *x, uint32_t dest)
{
	struct destination *d;
	HASH_FIND(hh, x->destinations, &dest, sizeof(dest), d);
	if (d && --d->bindings == 0) {
		HASH_DEL(x->destinations, d);
		mem_free(d);
	}
}

static struct index_binding *add_binding(struct index *x, const struct buf *key,
					 size_t pattern_len, const struct args *args,
					 uint32_t dest)
{
	struct slice k = buf_slice(key);
	struct index_binding *b = mem_alloc(sizeof(*b) + k.len);
	memcpy(b->key, k.data, k.len);
	b->key_len = k.len;
	b->dest = dest;
	b->pattern = (struct slice){ b->key + sizeof(dest), pattern_len };
	args_init(&b->args);
	if (args)
		args_copy(&b->args, args);
	b->staged = 0;
	HASH_ADD_KEYPTR(hh, x->bindings, b->key, b->key_len, b);
	add_destination(x, dest);
	return b;
}

static void remove_binding(struct index *x, struct index_binding *b)
{
	remove_destination(x, b->dest);
	if (x->cursor == b)
		x->cursor = b->hh.next;
	HASH_DEL(x->bindings, b);
	args_deinit(&b->args);
	mem_free(b);
}

/* ---- binding ----------------------------------------------------------------------- */

struct changing {
	const struct use *use;
	enum rule_function function;
	struct slice pattern;
	const struct args *args;
	uint32_t dest;
};

/* bind (index, pattern, dest, args), and unbind alike */
static int l_change(lua_State *L)
{
	const struct changing *c = lua_touserdata(L, 1);
	const struct rule *rule = c->use->rule;
	lua_rawgeti(L, LUA_REGISTRYINDEX, rule->functions[c->function]);
	lua_rawgeti(L, LUA_REGISTRYINDEX, c->use->state);
	lua_pushlstring(L, c->pattern.data, c->pattern.len);
	lua_pushinteger(L, c->dest);
	options_push(L, &rule->binding_options, c->args);
	lua_call(L, 4, 0);
	return 0;
}

static int change(struct generation *g, const struct changing *c, struct error *err)
{
	struct rule *rule = (struct rule *)c->use->rule;
	struct script_call call = { .file = rule->file,
				    .stats = &rule->stats,
				    .body = l_change,
				    .ctx = (void *)c };
	return script_enter(&g->script, &call, err);
}

static int bind_in(struct index *x, struct generation *g, const struct index_binding *b,
		   struct error *err)
{
	const struct use *use = &g->uses[x->handle.number];
	struct changing c = { use, RULE_BIND, b->pattern, &b->args, b->dest };
	int status = options_check(&use->rule->binding_options, &b->args, use->rule->file,
				   err);
	return status != TIDE_OK ? status : change(g, &c, err);
}

static int rebuild(struct index *x, struct generation *g, struct error *err)
{
	int status = TIDE_OK;
	for (struct index_binding *b = x->bindings; b && status == TIDE_OK;
	     b = b->hh.next)
		status = bind_in(x, g, b, err);
	return status;
}

/* ---- the build under way --------------------------------------------------------- */

bool index_stage(struct index *x, struct generation *g, uint64_t serial, int *status,
		 struct error *err)
{
	struct error cause;
	if (x->staging != serial) {
		x->staging = serial;
		x->cursor = x->bindings;
	}
	struct index_binding *b = x->cursor;
	if (!b)
		return true;
	*status = bind_in(x, g, b, &cause);
	if (*status != TIDE_OK) {
		*status = error_set(err, TIDE_ERULE, "%s (for %s)", cause.text,
				    x->handle.user);
		return true;
	}
	b->staged = serial;
	x->cursor = b->hh.next;
	return !x->cursor;
}

/* A new binding. Where bindings are still to come, it comes with them. */
static void follow_bind(struct index *x, struct index_binding *b)
{
	struct build *build = &x->handle.engine->build;
	struct generation *g = build_generation_of(&x->handle);
	struct error cause;
	if (!g || x->staging != build->serial)
		return;
	if (x->cursor || build->at == &x->handle) {
		if (!x->cursor)
			x->cursor = b;
		return;
	}
	if (bind_in(x, g, b, &cause) == TIDE_OK)
		b->staged = build->serial;
	else
		error_set(&build->failure, TIDE_ERULE, "%s (for %s)", cause.text,
			  x->handle.user);
}

/* A binding goes. An index that fails to take it out cannot be used. */
static void follow_unbind(struct index *x, const struct index_binding *b)
{
	struct build *build = &x->handle.engine->build;
	struct generation *g = build_generation_of(&x->handle);
	struct error ignored;
	if (!g || b->staged != build->serial)
		return;
	struct changing c = { &g->uses[x->handle.number], RULE_UNBIND, b->pattern,
			      &b->args, b->dest };
	if (change(g, &c, &ignored) != TIDE_OK)
		build->must_restart = true;
}

int index_create(struct engine *e, struct slice type, const struct args *args,
		 const char *user, struct index **out, struct error *err)
{
	struct index *x = mem_zalloc(sizeof(*x));
	int status = handle_open(&x->handle, e, SCRIPT_ROUTING, type, args, user, err);
	if (status != TIDE_OK) {
		mem_free(x);
		return status;
	}
	*out = x;
	return TIDE_OK;
}

static void free_index(struct index *x)
{
	struct index_binding *b, *next;
	HASH_ITER (hh, x->bindings, b, next)
		remove_binding(x, b);
	mem_free(x);
}

struct disposal {
	uv_work_t work;
	struct index *index;
};

static void dispose(uv_work_t *work)
{
	free_index(((struct disposal *)work->data)->index);
}

static void on_disposed(uv_work_t *work, int status)
{
	mem_free(work->data);
}

/* Nobody sees it any more; 100,000 bindings take longer to free than the loop may
 * stand still. */
static void free_on_thread(struct index *x, uv_loop_t *loop)
{
	struct disposal *d = mem_zalloc(sizeof(*d));
	d->work.data = d;
	d->index = x;
	if (uv_queue_work(loop, &d->work, dispose, on_disposed) == 0)
		return;
	mem_free(d);
	free_index(x);
}

void index_destroy(struct index *x)
{
	if (!x)
		return;
	uv_loop_t *loop = x->handle.engine->loop;
	handle_close(&x->handle);
	if (HASH_COUNT(x->bindings) > FREED_AT_ONCE)
		free_on_thread(x, loop);
	else
		free_index(x);
}

/* In the generation in force, if there is one yet. */
static int bind_now(struct index *x, struct slice pattern, const struct args *args,
		    uint32_t dest, struct error *err)
{
	struct engine *e = x->handle.engine;
	if (!e->current)
		return TIDE_OK;
	const struct use *use = handle_use(&x->handle);
	struct changing c = { use, RULE_BIND, pattern, args, dest };
	int status =
		options_check(&use->rule->binding_options, args, use->rule->file, err);
	if (status == TIDE_OK)
		status = room_check(e, err);
	if (status != TIDE_OK)
		return status;
	return room_after_new(e, change(e->current, &c, err), err);
}

int index_bind(struct index *x, struct slice pattern, const struct args *args,
	       uint32_t dest, struct error *err)
{
	struct buf key;
	int status = TIDE_OK;
	buf_init(&key);
	format_key(&key, pattern, args, dest);
	if (!find_binding(x, &key)) {
		status = bind_now(x, pattern, args, dest, err);
		if (status == TIDE_OK)
			follow_bind(x, add_binding(x, &key, pattern.len, args, dest));
	}
	buf_deinit(&key);
	return status;
}

/* The script failed to take a binding out, and nobody knows what its index is
 * like now: a new one takes its place. */
static int replace_index(struct index *x, struct error *err)
{
	struct handle *h = &x->handle;
	struct generation *g = h->engine->current;
	struct rule *rule = (struct rule *)handle_use(h)->rule;
	struct use old = *handle_use(h);
	handle_use(h)->rule = NULL;
	int status = use_open(g, h->number, rule, &h->options, err);
	if (status == TIDE_OK)
		status = rebuild(x, g, err);
	if (status != TIDE_OK) {
		use_release(g, h->number);
		*handle_use(h) = old;
		return status;
	}
	struct use new = *handle_use(h);
	*handle_use(h) = old;
	use_release(g, h->number);
	*handle_use(h) = new;
	return TIDE_OK;
}

static int unbind_now(struct index *x, const struct index_binding *b, struct error *err)
{
	struct engine *e = x->handle.engine;
	if (!e->current)
		return TIDE_OK;
	struct changing c = { handle_use(&x->handle), RULE_UNBIND, b->pattern, &b->args,
			      b->dest };
	return change(e->current, &c, err);
}

int index_unbind(struct index *x, struct slice pattern, const struct args *args,
		 uint32_t dest, struct error *err)
{
	struct buf key;
	buf_init(&key);
	format_key(&key, pattern, args, dest);
	struct index_binding *b = find_binding(x, &key);
	if (!b) {
		buf_deinit(&key);
		return error_set(err, TIDE_ENOTFOUND, "there is no such binding");
	}
	/* Taken out first: what the script hands to `to` after this is checked
	 * against what is left. */
	int status = unbind_now(x, b, err);
	follow_unbind(x, b);
	remove_binding(x, b);
	if (status != TIDE_OK) {
		log_warn("%s: %s; the index of %s is built anew",
			 x->handle.engine->tide.about, err->text, x->handle.user);
		status = replace_index(x, err);
	}
	if (status != TIDE_OK)
		follow_bind(x, add_binding(x, &key, pattern.len, args, dest));
	buf_deinit(&key);
	return status;
}

/* ---- routing -------------------------------------------------------------------------
 */

bool index_is_pure(const struct index *x)
{
	return handle_use(&x->handle)->is_pure;
}

const char *index_script(const struct index *x)
{
	return handle_use(&x->handle)->rule->file;
}

void index_count_hit(struct index *x)
{
	x->handle.cache_hits++;
}

/* to (dest); the sink is the first upvalue */
static int l_to(lua_State *L)
{
	struct route_sink *sink = lua_touserdata(L, lua_upvalueindex(1));
	struct destination *d;
	if (!sink->index)
		return luaL_error(L, "'to' has expired: it was good for one call only");
	lua_Integer n = luaL_checkinteger(L, 1);
	uint32_t dest = (uint32_t)n;
	HASH_FIND(hh, sink->index->destinations, &dest, sizeof(dest), d);
	if (!d || n != (lua_Integer)dest)
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

struct routing {
	const struct use *use;
	struct api_msg msg;
};

/* route (index, msg, to) */
static int l_route(lua_State *L)
{
	const struct routing *r = lua_touserdata(L, 1);
	lua_rawgeti(L, LUA_REGISTRYINDEX, r->use->rule->functions[RULE_DECIDE]);
	lua_rawgeti(L, LUA_REGISTRYINDEX, r->use->state);
	api_msg_push(L, &r->msg);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &to_key);
	lua_call(L, 3, 0);
	return 0;
}

int index_route(struct index *x, const struct script_question *q, const uint32_t **dests,
		size_t *count, struct error *err)
{
	struct engine *e = x->handle.engine;
	struct routing routing = { handle_use(&x->handle), { q->msg, 0 } };
	const struct use_call call = { routing.use, q->context, l_route, &routing };
	e->sink.index = x;
	e->sink.count = 0;
	int status = use_decide(e, &call, err);
	e->sink.index = NULL;
	if (status != TIDE_OK)
		return status;
	*dests = e->sink.dests;
	*count = e->sink.count;
	return TIDE_OK;
}
