/* use.c: the uses of scripts, and the calls of them; and
 * what holds a call back: circuits, and the memory ceiling. See engine_private.h. */

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/table.h"
#include "engine_private.h"
#include "host/log.h"
#include "host/machine.h"
#include "rules/sandbox/breaker.h"

/* The part of the ceiling for calls alone: nothing is bound or declared in it. */
#define RESERVE(max) ((max) / 16)
/* How long scripts are not called when their memory is used up: each call would collect
 * all of it. */
#define REST_MS 1000
#define TURN_NS 1000000

static struct script_state *state_of(struct engine *e)
{
	return &e->current->script;
}

/* Two ends of a cycle: the first may be of one that had marked already what has become
 * garbage since. */
static void on_collect(uv_idle_t *idle)
{
	struct engine *e = idle->data;
	struct script_state *s = state_of(e);
	uint64_t start_ns = uv_hrtime();

	if (e->room.collecting != e->epoch) {
		uv_idle_stop(idle);
		return;
	}
	do /* a step of the collector, below a millisecond */
		e->room.cycles_left -= lua_gc(s->L, LUA_GCSTEP, 0) != 0;
	while (e->room.cycles_left > 0 && uv_hrtime() - start_ns < TURN_NS);
	if (e->room.cycles_left > 0)
		return;
	s->collected_bytes = s->memory_bytes;
	uv_idle_stop(idle);
}

/* Unless little has been added since it was done last. */
static void collect_garbage(struct engine *e)
{
	const struct script_state *s = state_of(e);
	bool is_done = s->collected_bytes > 0 &&
		       s->memory_bytes <= s->collected_bytes + s->memory_max_bytes / 64;

	if (is_done || e->is_closing || uv_is_active((uv_handle_t *)&e->room.collector))
		return;
	e->room.collecting = e->epoch;
	e->room.cycles_left = 2;
	uv_idle_start(&e->room.collector, on_collect);
}

int room_check(struct engine *e, const struct account *a, struct error *err)
{
	const struct script_state *s = state_of(e);
	size_t max = s->memory_max_bytes, used = s->memory_bytes;
	size_t share = account_share(a, used, max), limit = share;

	if (a->full_bytes > 0 && a->full_bytes < share)
		limit = a->full_bytes - RESERVE(a->full_bytes);
	if (a->bytes <= limit && used <= max - RESERVE(max))
		return TIDE_OK;
	collect_garbage(e);
	return error_set(err, TIDE_ELIMIT,
			 "the scripts' memory is nearly full: %s%s%" SLICE_FMT
			 "%s holds %zu KiB, its share is %zu of %zu KiB; raise "
			 "--rules-memory or remove bindings",
			 a->file, a->vhost.len ? " for vhost '" : "", SLICE_ARG(a->vhost),
			 a->vhost.len ? "'" : "", a->bytes / 1024, share / 1024,
			 max / 1024);
}

int room_after_new(struct engine *e, struct account *a, int rc, struct error *err)
{
	const struct script_state *s = state_of(e);

	if (rc == TIDE_OK || !s->was_refused) {
		if (rc == TIDE_OK)
			a->full_bytes = 0;
		return rc;
	}
	a->full_bytes = a->bytes;
	collect_garbage(e);
	err->code = TIDE_ELIMIT;
	return TIDE_ELIMIT;
}

/* Values that scripts have kept since they were loaded would fail them for ever: the
 * next generation begins without them. But to load the same amount anew would be in
 * vain. */
static void start_afresh(struct engine *e, const struct account *a)
{
	const struct script_state *s = state_of(e);
	bool is_kept = s->memory_bytes > e->room.fresh_bytes + s->memory_max_bytes / 8;

	if (!is_kept || e->room.ending_epoch == e->epoch)
		return;
	e->room.ending_epoch = e->epoch;
	log_warn("%s: scripts have filled their %zu KiB (--rules-memory), of which "
		 "%s%s%" SLICE_FMT "%s holds %zu KiB; reloading them",
		 e->tide.about, s->memory_max_bytes / 1024, a->file,
		 a->vhost.len ? " for vhost '" : "", SLICE_ARG(a->vhost),
		 a->vhost.len ? "'" : "", a->bytes / 1024);
	e->reload.must_build = true;
	watch_poke(e->watch);
}

/* The account is exhausted: may the script be called now? */
static bool has_rested(struct engine *e, const struct account *a, struct error *err)
{
	const struct script_state *s = state_of(e);

	if (machine_clock_ms(CLOCK_MONOTONIC) >= a->rests_until_ms)
		return true;
	error_set(err, TIDE_ERULE,
		  "%s: not called: the rules' memory ceiling of %zu KiB is reached "
		  "(--rules-memory): the script holds %zu KiB",
		  a->file, s->memory_max_bytes / 1024, a->bytes / 1024);
	return false;
}

/* A call has ended, to which memory was refused, or to one before it. */
static void note_memory(struct engine *e, struct account *a, int rc)
{
	struct script_state *s = state_of(e);

	if (rc == TIDE_OK && !s->was_refused) {
		a->is_exhausted = s->is_exhausted = false;
		return;
	}
	if (s->was_refused)
		collect_garbage(e);
	if (rc == TIDE_OK || !a->is_exhausted)
		return;
	a->rests_until_ms = machine_clock_ms(CLOCK_MONOTONIC) + REST_MS;
	start_afresh(e, a);
}

/* Each takes about 700 bytes, and clients can make uses. */
#define CIRCUITS_MAX 4096

#define KEY_MAX (sizeof(struct rule *) + sizeof(size_t) + NAME_LEN_MAX)

struct circuit {
	UT_hash_handle hh;
	const struct rule *rule;
	struct breaker breaker;
	char *user;
	char last_error[ERROR_TEXT_MAX]; /* of the failures that the breaker counts */
	size_t key_len;
	char key[];
};

static size_t make_key(char out[KEY_MAX], const struct use_call *c)
{
	const struct rule *rule = c->use->rule;
	struct slice whose = c->address.len ? c->address : c->vhost;
	size_t number = c->handle ? c->handle->number : SIZE_MAX - (c->address.len > 0);

	/* A longer text is no name. */
	if (whose.len > NAME_LEN_MAX)
		whose.len = NAME_LEN_MAX;
	memcpy(out, &rule, sizeof(rule));
	memcpy(out + sizeof(rule), &number, sizeof(number));
	if (whose.len)
		memcpy(out + sizeof(rule) + sizeof(number), whose.data, whose.len);
	return sizeof(rule) + sizeof(number) + whose.len;
}

/* The circuit of the call; NULL for a use without failures. */
static struct circuit *find_circuit(const struct engine *e, const struct use_call *c)
{
	char key[KEY_MAX];
	struct circuit *found;

	if (!e->circuits || e->config.has_no_breaker)
		return NULL;
	size_t len = make_key(key, c);
	HASH_FIND(hh, e->circuits, key, len, found);
	return found;
}

static void forget_circuit(struct engine *e, struct circuit *circuit)
{
	HASH_DEL(e->circuits, circuit);
	mem_free(circuit->user);
	mem_free(circuit);
}

/* The closed ones first: they only lose count. */
static void make_circuit_room(struct engine *e)
{
	struct circuit *circuit, *next;

	if (HASH_COUNT(e->circuits) < CIRCUITS_MAX)
		return;
	HASH_ITER (hh, e->circuits, circuit, next)
		if (!circuit->breaker.is_open)
			forget_circuit(e, circuit);
	if (HASH_COUNT(e->circuits) >= CIRCUITS_MAX)
		circuit_forget_all(e);
}

static struct circuit *create_circuit(struct engine *e, const struct use_call *c)
{
	char key[KEY_MAX], user[NAME_LEN_MAX + 24] = "its schedule";
	size_t len = make_key(key, c);
	struct circuit *circuit = mem_zalloc(sizeof(*circuit) + len);

	make_circuit_room(e);
	if (c->address.len)
		snprintf(user, sizeof(user), "logins from '%" SLICE_FMT "'",
			 SLICE_ARG(c->address));
	else if (c->vhost.len && c->use->rule->kind != SCRIPT_SCHEDULE)
		snprintf(user, sizeof(user), "vhost '%" SLICE_FMT "'",
			 SLICE_ARG(c->vhost));
	circuit->rule = c->use->rule;
	circuit->user = mem_strdup(c->handle ? c->handle->user : user);
	circuit->key_len = len;
	memcpy(circuit->key, key, len);
	HASH_ADD_KEYPTR(hh, e->circuits, circuit->key, circuit->key_len, circuit);
	return circuit;
}

static bool does_circuit_allow(const struct engine *e, struct circuit *circuit,
			       struct error *err)
{
	int64_t rest_ms = e->config.breaker_rest_ms;

	if (breaker_allows(&circuit->breaker, machine_clock_ms(CLOCK_MONOTONIC), rest_ms))
		return true;
	error_set(err, TIDE_ERULE, "%s (" CIRCUIT_NOT_CALLED "; tried every %d s)",
		  circuit->last_error, (int)((rest_ms + 999) / 1000));
	return false;
}

static void tell_circuit(const struct engine *e, const struct circuit *circuit)
{
	if (circuit->breaker.is_open)
		log_error("%s: %s uses up its time or memory too often for %s; paused "
			  "there for %d ms at a time; last error: %s",
			  e->tide.about, circuit->rule->file, circuit->user,
			  (int)e->config.breaker_rest_ms, circuit->last_error);
	else
		log_info("%s: %s works again for %s", e->tide.about, circuit->rule->file,
			 circuit->user);
}

static void count_circuit(struct engine *e, struct circuit *circuit, bool has_failed)
{
	int64_t now_ms = machine_clock_ms(CLOCK_MONOTONIC);

	if (!breaker_count(&circuit->breaker, has_failed, now_ms))
		return;
	if (has_failed)
		circuit->breaker.since_unix_ms = machine_clock_ms(CLOCK_REALTIME);
	tell_circuit(e, circuit);
}

/* A call has used up its time or memory. */
static void count_failure(struct engine *e, const struct use_call *c,
			  const struct error *err)
{
	struct circuit *circuit = find_circuit(e, c);

	if (e->config.has_no_breaker)
		return;
	if (!circuit)
		circuit = create_circuit(e, c);
	snprintf(circuit->last_error, sizeof(circuit->last_error), "%s", err->text);
	count_circuit(e, circuit, true);
}

/* A call has not used up its time or memory. This may free the circuit. */
static void count_success(struct engine *e, struct circuit *circuit)
{
	count_circuit(e, circuit, false);
	if (breaker_is_blank(&circuit->breaker, machine_clock_ms(CLOCK_MONOTONIC)))
		forget_circuit(e, circuit);
}

void circuit_forget_handle(struct engine *e, const struct handle *h)
{
	const struct use use = { .rule = handle_use(h)->rule };
	const struct use_call c = { .use = &use, .handle = h };
	struct circuit *circuit = find_circuit(e, &c);

	if (circuit)
		forget_circuit(e, circuit);
}

void circuit_forget_all(struct engine *e)
{
	struct circuit *circuit, *next;

	HASH_ITER (hh, e->circuits, circuit, next)
		forget_circuit(e, circuit);
}

unsigned circuit_count_open(const struct engine *e, const struct rule *rule)
{
	const struct circuit *circuit;
	unsigned count = 0;

	for (circuit = e->circuits; circuit; circuit = circuit->hh.next)
		count += circuit->rule == rule && circuit->breaker.is_open;
	return count;
}

static void write_open(const struct engine *e, const struct circuit *circuit,
		       struct json *out)
{
	int64_t now_ms = machine_clock_ms(CLOCK_MONOTONIC);

	json_object_begin(out);
	json_member_text(out, "user", circuit->user);
	json_member_text(
		out, "circuit",
		breaker_state(&circuit->breaker, now_ms, e->config.breaker_rest_ms));
	json_member_int(out, "since_ms", circuit->breaker.since_unix_ms);
	json_member_text(out, "last_error", circuit->last_error);
	json_object_end(out);
}

void circuit_write(const struct engine *e, const struct rule *rule, struct json *out)
{
	const struct circuit *circuit, *worst = NULL;
	int64_t now_ms = machine_clock_ms(CLOCK_MONOTONIC);
	unsigned shown = 0;

	for (circuit = e->circuits; circuit; circuit = circuit->hh.next)
		if (circuit->rule == rule && circuit->breaker.is_open &&
		    (!worst || circuit->breaker.opened_ms > worst->breaker.opened_ms))
			worst = circuit;
	json_member_text(
		out, "circuit",
		worst ? breaker_state(&worst->breaker, now_ms, e->config.breaker_rest_ms)
		      : "closed");
	if (!worst)
		return;
	json_member_int(out, "circuit_since_ms", worst->breaker.since_unix_ms);
	json_member_array(out, "circuits");
	for (circuit = e->circuits; circuit && shown < CIRCUITS_SHOWN;
	     circuit = circuit->hh.next)
		if (circuit->rule == rule && circuit->breaker.is_open) {
			write_open(e, circuit, out);
			shown++;
		}
	json_array_end(out);
}

struct using
{
	struct use *use;
	const struct args *options;
};

/* Each reference is in the use before the next step may raise. */
static int l_use(lua_State *L)
{
	struct using *u = lua_touserdata(L, 1);
	struct use *use = u->use;
	struct rule *rule = use->rule;

	script_set_place(script_state_of(L), rule->file, rule->lines[RULE_DECIDE]);
	options_push(L, &rule->options, u->options);
	lua_pushvalue(L, -1);
	use->options = luaL_ref(L, LUA_REGISTRYINDEX);
	use->is_pure = rule->pure == RULE_PURE;
	if (rule->pure == RULE_PURE_BY_OPTIONS) {
		lua_rawgeti(L, LUA_REGISTRYINDEX, rule->pure_function);
		lua_pushvalue(L, -2);
		lua_call(L, 1, 1);
		use->is_pure = lua_toboolean(L, -1);
		lua_pop(L, 1);
	}
	if (rule->functions[RULE_NEW] != LUA_NOREF) {
		lua_rawgeti(L, LUA_REGISTRYINDEX, rule->functions[RULE_NEW]);
		lua_pushvalue(L, -2);
		lua_call(L, 1, 1);
		use->state = luaL_ref(L, LUA_REGISTRYINDEX);
	}
	return 0;
}

static struct use *place_of(struct generation *g, size_t number)
{
	if (number >= g->use_count) {
		size_t count = number + number / 2 + 8;
		g->uses = mem_realloc(g->uses, count * sizeof(*g->uses));
		memset(g->uses + g->use_count, 0,
		       (count - g->use_count) * sizeof(*g->uses));
		g->use_count = count;
	}
	return &g->uses[number];
}

int use_open(struct generation *g, const struct handle *h, struct rule *rule,
	     struct error *err)
{
	size_t number = h->number;
	char script[SCRIPT_PLACE_MAX];

	snprintf(script, sizeof(script), "%s/%s", script_kind_name(rule->kind),
		 rule->name);
	int rc = options_check(&rule->options, &h->options, script, err);
	if (rc != TIDE_OK)
		return rc;
	struct use *use = place_of(g, number);
	*use = (struct use){ .rule = rule, .options = LUA_NOREF, .state = LUA_NOREF };
	use->account =
		account_open(&g->script.accounts, rule->file, slice_from(h->vhost));
	struct using using = { use, &h->options };
	struct script_call call = { .file = rule->file,
				    .stats = &rule->stats,
				    .account = use->account,
				    .body = l_use,
				    .ctx = &using };
	rc = script_enter(&g->script, &call, err);
	if (rc != TIDE_OK)
		use_release(g, number);
	return rc;
}

void use_release(struct generation *g, size_t number)
{
	if (number >= g->use_count || !g->uses[number].rule)
		return;
	struct use *use = &g->uses[number];
	/* A reference's slot exists, so giving it back allocates nothing. */
	luaL_unref(g->script.L, LUA_REGISTRYINDEX, use->options);
	luaL_unref(g->script.L, LUA_REGISTRYINDEX, use->state);
	use->rule = NULL;
}

/* The account of the call's vhost. Accounts live as long as their Lua state. */
static struct account *account_of(struct script_state *s, const struct use_call *c)
{
	struct rule *rule = c->use->rule;

	if (c->use->account)
		return c->use->account;
	if (!rule->recent || !slice_is_equal(rule->recent->vhost, c->vhost))
		rule->recent = account_open(&s->accounts, rule->file, c->vhost);
	return rule->recent;
}

void use_blame(lua_State *L, const struct use_call *c)
{
	const struct rule *rule = c->use->rule;

	script_set_place(script_state_of(L), rule_code_file(rule),
			 rule->lines[c->function]);
}

static const struct script_function *function_of(const struct use_call *c)
{
	return &script_kind_rows[c->use->rule->kind].functions[c->function];
}

int use_refuse_result(lua_State *L, const struct use_call *c)
{
	const struct script_function *f = function_of(c);
	int type = lua_type(L, -1);
	bool is_shown = type == LUA_TNUMBER && f->results & RESULT_NUMBER;

	use_blame(L, c);
	return luaL_error(L, "%s must return %s, not %s%s", f->name, f->wanted,
			  is_shown || type == LUA_TNIL ? "" : "a ",
			  is_shown ? lua_tostring(L, -1) : luaL_typename(L, -1));
}

/* The value on the top as enum script_result. */
static unsigned result_of(lua_State *L, int idx)
{
	switch (lua_type(L, idx)) {
	case LUA_TNIL:
		return RESULT_NIL;
	case LUA_TBOOLEAN:
		return lua_toboolean(L, idx) ? RESULT_TRUE : RESULT_FALSE;
	case LUA_TNUMBER:
		return RESULT_NUMBER;
	case LUA_TSTRING:
		return RESULT_TEXT;
	case LUA_TTABLE:
		return RESULT_TABLE;
	default:
		return RESULT_OTHER;
	}
}

/* The reason on the top, or nil. No client sees a password or a secret in it. */
static void read_reason(lua_State *L, const struct use_call *c, unsigned result)
{
	const char *preset = script_kind_rows[c->use->rule->kind].refusal;
	const char *reason = luaL_optstring(L, -1, "");

	if (reason[strspn(reason, " \t\r\n")] == '\0')
		reason = preset && result == RESULT_FALSE ? preset : "";
	if (!script_hides(script_state_of(L), slice_from(reason)))
		snprintf(c->refusal->reason, REFUSAL_MAX, "%s", reason);
	else
		snprintf(c->refusal->reason, REFUSAL_MAX,
			 "%s, for a reason with a password or a secret",
			 preset ? preset : "a script refused it");
}

/* The two results of a function that may refuse; leaves the first. A reason without a
 * refusal is a slip, which would let a message or somebody in. */
static void read_refusal(lua_State *L, const struct use_call *c, unsigned results)
{
	unsigned result = result_of(L, -2);
	bool may_explain =
		result == RESULT_FALSE ||
		(results & RESULT_REASON && result & (RESULT_NUMBER | RESULT_TEXT));

	if (!lua_isnil(L, -1) && (!may_explain || lua_type(L, -1) != LUA_TSTRING)) {
		use_blame(L, c);
		luaL_error(L,
			   "%s returned a second value, a %s: to refuse it must return "
			   "false and a reason, which is a text",
			   function_of(c)->name, luaL_typename(L, -1));
	}
	c->refusal->is_refused = result == RESULT_FALSE;
	if (may_explain)
		read_reason(L, c, result);
	lua_pop(L, 1);
}

/* Runs inside the door: the call that the row describes. */
static int l_decide(lua_State *L)
{
	const struct use_call *c = lua_touserdata(L, 1);
	const struct script_function *f = function_of(c);
	const struct script_argument *a = f->arguments;
	int count = 0;

	lua_rawgeti(L, LUA_REGISTRYINDEX, c->use->rule->functions[c->function]);
	for (; count < SCRIPT_ARGUMENTS_MAX && a[count].push; count++)
		a[count].push(L, c, a[count].view, c->given[count]);
	if (f->results == 0) {
		lua_call(L, count, 0);
		return 0;
	}
	lua_call(L, count, f->results & RESULT_FALSE ? 2 : 1);
	if (f->results & RESULT_FALSE)
		read_refusal(L, c, f->results);
	unsigned result = result_of(L, -1);
	if ((f->results & result) == 0)
		return use_refuse_result(L, c);
	/* Errors in the fields are told there. */
	if (result == RESULT_TABLE)
		use_blame(L, c);
	if (c->take)
		c->take(L, c, result);
	return 0;
}

int use_decide(struct engine *e, const struct use_call *c, struct error *err)
{
	struct rule *rule = c->use->rule;
	struct script_state *s = &e->current->script;
	struct account *account = account_of(s, c);
	struct dry_run *costs = c->context ? c->context->costs : NULL;
	struct line_trace *trace = c->context ? c->context->trace : NULL;
	bool is_counted =
		!c->context || !(c->context->is_dry || c->context->is_uncounted);
	struct script_call call = { .file = rule->file,
				    .model = rule->model,
				    .stats = is_counted ? &rule->stats : NULL,
				    .vhost = c->handle ? slice_from(c->handle->vhost)
						       : c->vhost,
				    .account = account,
				    .is_decision = true,
				    .is_next = c->is_next,
				    .is_pure = c->is_pure,
				    .context = c->context,
				    .password = c->password,
				    .body = l_decide,
				    .ctx = (void *)(uintptr_t)c };
	struct circuit *circuit = find_circuit(e, c);

	if (trace)
		trace->line = 0;
	if (c->refusal) {
		c->refusal->is_refused = false;
		c->refusal->reason[0] = '\0';
	}
	if (account->is_exhausted && !has_rested(e, account, err))
		return TIDE_ERULE;
	if (circuit && !does_circuit_allow(e, circuit, err)) {
		rule->stats.skipped += is_counted;
		return TIDE_ERULE;
	}
	e->call_count++;
	uint64_t started_ns = costs ? uv_hrtime() : 0;
	if (trace)
		line_trace_begin(trace, s->L, rule_code_file(rule));
	int rc = script_enter(s, &call, err);
	if (s->documents->held_bytes > DOCUMENTS_KEPT_BYTES)
		document_trim(s->documents);
	if (trace)
		line_trace_end(s->L);
	if (costs)
		dry_run_count(costs, rule->file, uv_hrtime() - started_ns);
	if (is_counted && rc != TIDE_OK && script_was_costly(s))
		count_failure(e, c, err);
	else if (is_counted && circuit)
		count_success(e, circuit);
	if (s->was_refused || account->is_exhausted)
		note_memory(e, account, rc);
	if (rc == TIDE_OK && c->refusal && c->refusal->is_refused)
		rule->stats.rejected += script_kind_rows[rule->kind].refusal &&
					!(c->context && c->context->is_dry);
	return rc;
}
