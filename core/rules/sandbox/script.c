#include "script.h"

#include <lauxlib.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hints.h"
#include "host/log.h"
#include "host/machine.h"

/* lua_getstack counts from the top of the stack each time, and a stack may have 200,000
 * levels. Of C there are no more than LUAI_MAXCCALLS (200) and some. */
#define LEVELS_MAX 256

/* The nearest line of Lua on the stack, at most `max` bytes of it in `out`. */
static bool nearest_line(lua_State *L, const char *file, char *out, size_t max)
{
	lua_Debug where;

	for (int level = 0; level < LEVELS_MAX && lua_getstack(L, level, &where);
	     level++) {
		lua_getinfo(L, "Sl", &where);
		if (where.currentline <= 0)
			continue;
		if (file && strcmp(where.short_src, file) != 0)
			continue;
		snprintf(out, max, "%s:%d", where.short_src, where.currentline);
		return true;
	}
	return false;
}

/* Before each allocation, which Lua aligns to 8 bytes. */
struct block {
	struct account *account;
};

static void release(struct script_state *s, struct block *block, size_t bytes)
{
	s->memory_bytes -= bytes;
	if (block)
		block->account->bytes -= bytes;
}

static size_t room_of(const struct script_state *s, const struct account *a)
{
	if (a == &s->own)
		return s->memory_max_bytes - s->memory_bytes;
	return account_room(a, s->memory_bytes, s->memory_max_bytes);
}

static void grant(const struct script_state *s, struct account *a)
{
	if (a->bytes <= account_share(a, s->memory_bytes, s->memory_max_bytes))
		a->granted = a->bytes;
}

/* The block is not counted yet. As for a table that is too large, Lua expects an error
 * here, and has changed nothing. */
static void *refuse_growth(struct script_state *s, struct block *block)
{
	free(block);
	script_fail(
		s->L,
		"a table needs more than the budget of %d ms to grow: too many of its "
		"keys are numbers that share a place. Use texts as keys: tostring(n)",
		(int)watchdog_budget_ms(s->watchdog));
	return NULL;
}

/* A block without a type that is not the stack may be for the keys of a table. */
static bool is_long_growth(struct script_state *s, struct block *block, size_t bytes)
{
	bool is_inside = (s->serial & 1) != 0;

	if (is_inside && rehash_is_long(&s->rehash, s->L, block + 1, bytes,
					watchdog_budget_ms(s->watchdog)))
		return true;
	rehash_add(&s->rehash, block + 1, bytes);
	return false;
}

static void *allocate(void *ctx, void *old, size_t old_size, size_t size)
{
	struct script_state *s = ctx;
	struct block *block = old ? (struct block *)old - 1 : NULL;
	size_t held = old ? old_size : 0; /* for new objects Lua passes their type */
	bool is_string = !old && old_size == LUA_TSTRING;
	/* The first block without a type. */
	bool is_stack = old ? old == s->stack : !s->stack && old_size == 0;

	if (old && rehash_is_keys(held))
		rehash_remove(&s->rehash, old);
	if (size == 0) {
		release(s, block, held);
		if (is_stack)
			s->stack = s; /* Lua 5.4.4 has moved it to a block of its own */
		free(block);
		return NULL;
	}
	/* Lua adds a header to the text itself. */
	bool is_long = is_string && size > SCRIPT_STRING_MAX + 64;
	struct account *payer = size > held ? s->account : block->account;
	bool is_over = is_long || (size > held && size - held > room_of(s, payer));
	struct account *before = block ? block->account : payer;
	struct block *new = is_over ? NULL : realloc(block, sizeof(*new) + size);
	if (!new) {
		s->was_refused |= !is_long;
		s->was_string = is_long;
		/* Lua from 5.4.5 on has offsets for its pointers to the stack while that
		 * grows: a look at it would end the process. */
		if (s->L && !is_stack)
			nearest_line(s->L, NULL, s->refused_at, sizeof(s->refused_at));
		return NULL;
	}
	if (!old && old_size == 0 && !is_stack && rehash_is_keys(size) &&
	    is_long_growth(s, new, size))
		return refuse_growth(s, new);
	if (is_stack)
		s->stack = new + 1;
	s->memory_bytes = s->memory_bytes - held + size;
	before->bytes -= held;
	payer->bytes += size;
	new->account = payer;
	if (size > held) {
		s->grown_bytes += size - held;
		if (payer->bytes > payer->granted)
			grant(s, payer);
	}
	return new + 1;
}

/* Lua begins a cycle when what is in use has doubled; near the ceiling that would be
 * never, and then everything at once. Let it begin when half of what is left has been
 * used, and look again when that has changed by a quarter. */
static void pace(struct script_state *s)
{
	size_t used = s->memory_bytes + 1;
	size_t left = room_of(s, s->account);
	size_t margin = left / 4 < used / 8 ? left / 4 : used / 8;
	size_t pause = left / 2 < used ? 100 + left / 2 * 100 / used : 200;
	bool is_more = used > s->pace_low;

	s->pace_low = used - margin;
	s->pace_span = 2 * margin + s->memory_max_bytes / 256;
	lua_gc(s->L, LUA_GCINC, (int)pause, 0, 0);
	/* The pause is of the next cycle. The one to come was arranged when there was
	 * less, and may be too late: it begins now. */
	if (is_more && pause < 200)
		lua_gc(s->L, LUA_GCSTEP, 0);
}

int script_state_init(struct script_state *s, struct watchdog *watchdog,
		      size_t memory_max_bytes)
{
	*s = (struct script_state){ .watchdog = watchdog,
				    .memory_max_bytes = memory_max_bytes };
	s->own.file = "the framework";
	s->account = &s->own;
	lua_State *L = lua_newstate(allocate, s);
	if (!L)
		return TIDE_ELIMIT;
	s->L = L;
	*(struct script_state **)lua_getextraspace(L) = s;
	return TIDE_OK;
}

void script_state_deinit(struct script_state *s)
{
	if (s->L)
		lua_close(s->L);
	s->L = NULL;
	rehash_deinit(&s->rehash);
	account_free_all(&s->accounts);
}

/* Does the text begin with "<file>.lua:<digits>:"? */
static bool has_place(const char *text)
{
	const char *place = strstr(text, ".lua:");
	const char *space = strchr(text, ' ');

	if (!place || (space && space < place))
		return false;
	place += strlen(".lua:");
	size_t digits = strspn(place, "0123456789");
	return digits > 0 && place[digits] == ':';
}

/* The message handler: an error of any type becomes one line with its place,
 * and with the line of the script that was called when that is another file. */
static int l_message(lua_State *L)
{
	struct script_state *s = script_state_of(L);
	const char *own = s->model ? s->model : s->file;
	char place[SCRIPT_PLACE_MAX];
	const char *text;

	if (!s->traceback[0]) /* else an error of this handler */
		hints_write_traceback(L, s, s->traceback, sizeof(s->traceback));
	if (lua_isstring(L, 1) || luaL_getmetafield(L, 1, "__tostring"))
		luaL_tolstring(L, 1, NULL);
	else
		lua_pushfstring(L, "an error that is not a text but a %s value",
				luaL_typename(L, 1));
	hints_add(L);
	text = lua_tostring(L, -1);
	if (!has_place(text) && nearest_line(L, NULL, place, sizeof(place)))
		text = lua_pushfstring(L, "%s: %s", place, text);
	else if (!has_place(text) && s->place[0])
		text = lua_pushfstring(L, "%s: %s", s->place, text);
	if (strncmp(text, own, strlen(own)) != 0 &&
	    nearest_line(L, own, place, sizeof(place)))
		text = lua_pushfstring(L, "%s (called from %s)", text, place);
	lua_pushstring(L, text);
	return 1;
}

void script_set_place(struct script_state *s, const char *file, int line)
{
	snprintf(s->place, sizeof(s->place), "%s:%d", file, line);
}

int script_raise(lua_State *L)
{
	const struct script_state *s = script_state_of(L);

	if (!s->fault[0])
		return script_fail(L, "ran longer than its budget of %d ms",
				   (int)watchdog_budget_ms(s->watchdog));
	lua_pushstring(L, s->fault);
	return lua_error(L);
}

void script_on_overrun(lua_State *L, lua_Debug *where)
{
	script_raise(L);
}

int script_fail(lua_State *L, const char *format, ...)
{
	struct script_state *s = script_state_of(L);
	char place[SCRIPT_PLACE_MAX], text[ERROR_TEXT_MAX - SCRIPT_PLACE_MAX - 2];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!nearest_line(L, NULL, place, sizeof(place)))
		snprintf(place, sizeof(place), "%s", s->place[0] ? s->place : s->file);
	snprintf(s->fault, sizeof(s->fault), "%s: %s", place, text);
	return script_raise(L);
}

/* The error of a call that found no memory, with whoever holds much of it. */
static void describe_shortage(const struct script_state *s, const char *place,
			      struct error *err)
{
	const struct account *most = account_largest(s->accounts);
	char holder[ERROR_TEXT_MAX / 2] = "";

	if (most && most->bytes > s->memory_max_bytes / 8)
		snprintf(holder, sizeof(holder),
			 "; %s%s%" SLICE_FMT "%s holds %zu KiB, and its share is %zu KiB",
			 most->file, most->vhost.len ? " for vhost '" : "",
			 SLICE_ARG(most->vhost), most->vhost.len ? "'" : "",
			 most->bytes / 1024,
			 account_share(most, s->memory_bytes, s->memory_max_bytes) /
				 1024);
	error_set(err, TIDE_ERULE,
		  "%s: over the rules' memory ceiling of %zu KiB (--rules-memory)%s",
		  place, s->memory_max_bytes / 1024, holder);
}

#define HIDDEN_TEXT "an error whose text has a password or a secret in it"

/* The text of the error on the top. Allocates nothing: what is hidden is replaced by the
 * place alone, in `out`. */
static const char *shown_text(const struct script_state *s, char out[ERROR_TEXT_MAX])
{
	const char *text = lua_tostring(s->L, -1), *place, *end;

	if (!text || !script_hides(s, slice_from(text)))
		return text;
	if (!has_place(text))
		return HIDDEN_TEXT;
	place = strstr(text, ".lua:") + strlen(".lua:");
	end = place + strspn(place, "0123456789");
	snprintf(out, ERROR_TEXT_MAX, "%.*s: " HIDDEN_TEXT, (int)(end - text), text);
	return out;
}

static void describe(struct script_state *s, int rc, const char *file, bool overran,
		     struct error *err)
{
	char hidden[ERROR_TEXT_MAX];
	const char *text = shown_text(s, hidden);

	if (overran && !s->fault[0])
		snprintf(s->fault, sizeof(s->fault),
			 "%s: ran longer than its budget of %d ms",
			 s->refused_at[0] ? s->refused_at : file,
			 (int)watchdog_budget_ms(s->watchdog));
	if (s->fault[0] && !(text && strstr(text, s->fault))) {
		/* Another error took its place on the way out. */
		error_set(err, TIDE_ERULE, "%s%s%s", s->fault, text ? "; then: " : "",
			  text ? text : "");
	} else if (rc == LUA_ERRMEM && s->was_string) {
		error_set(err, TIDE_ERULE,
			  "%s: a text of more than %zu bytes, the limit for scripts",
			  s->refused_at[0] ? s->refused_at : file, SCRIPT_STRING_MAX);
	} else if (rc == LUA_ERRMEM) {
		describe_shortage(s, s->refused_at[0] ? s->refused_at : file, err);
	} else if (text && overran && s->was_refused) {
		error_set(err, TIDE_ERULE,
			  "%s, collecting memory: the rules' memory ceiling of %zu KiB "
			  "is reached (--rules-memory)",
			  text, s->memory_max_bytes / 1024);
	} else if (!text || rc == LUA_ERRERR) {
		error_set(err, TIDE_ERULE, "%s: an error while an error was handled%s%s",
			  file, text ? ": " : "", text ? text : "");
	} else {
		error_set(err, TIDE_ERULE, "%s%s%s", has_place(text) ? "" : file,
			  has_place(text) ? "" : ": ", text);
	}
}

/* An instance runs the code of its model, and errors name the model's file: add the
 * instance. */
static void name_instance(const char *file, struct error *err)
{
	size_t len = strlen(err->text);

	if (!strstr(err->text, file))
		snprintf(err->text + len, sizeof(err->text) - len, " (for %s)", file);
}

/* An allocation was refused. Either this call wanted too much, or the account holds too
 * much from earlier calls. Lua has collected all garbage before it gave up: memory that
 * this call did not allocate is in use. */
static void look_for_room(struct script_state *s, struct account *a)
{
	account_settle(s->accounts);
	size_t limit = a->bytes + room_of(s, a);
	size_t most = limit - limit / 4;

	a->is_exhausted = a->bytes > most && a->bytes - most > s->grown_bytes;
	s->is_exhausted = a->is_exhausted;
}

static void note_longest(struct script_recent *r, const char *file, uint64_t took_ns)
{
	r->longest_ns = took_ns;
	snprintf(r->longest, sizeof(r->longest), "%s", file);
}

static void count_decision(struct script_state *s, const struct script_call *call,
			   int64_t started_ns, bool has_failed)
{
	uint64_t took_ns;

	s->ended_ns = machine_clock_ns(CLOCK_MONOTONIC);
	took_ns = (uint64_t)(s->ended_ns - started_ns);
	call->stats->calls++;
	call->stats->time_ns += took_ns;
	cost_add(&call->stats->cost, took_ns);
	minute_add(&call->stats->minute, started_ns, took_ns, has_failed);
	s->recent.sum_ns += took_ns;
	if (took_ns > s->recent.longest_ns)
		note_longest(&s->recent, call->file, took_ns);
}

/* On one line, as all of the log. */
static void log_traceback(const struct script_state *s, const struct error *err)
{
	char line[SCRIPT_TRACEBACK_MAX];

	if (!s->traceback[0] || !log_is_on(LOG_DEBUG))
		return;
	snprintf(line, sizeof(line), "%s", s->traceback);
	for (char *c = line; (c = strchr(c, '\n')); c++)
		*c = ';';
	log_write_each(LOG_DEBUG, "rules: %s; stack: %s", err->text, line);
}

static void count(struct script_state *s, const struct script_call *call, int rc,
		  bool overran, int64_t started_ns, const struct error *err)
{
	struct script_stats *stats = call->stats;

	if (!stats)
		return;
	if (call->is_decision)
		count_decision(s, call, started_ns, rc != LUA_OK);
	if (rc == LUA_OK)
		return;
	log_traceback(s, err);
	stats->errors++;
	stats->overruns += overran;
	stats->last_error_unix_ms = machine_clock_ms(CLOCK_REALTIME);
	memcpy(stats->last_error, err->text, sizeof(stats->last_error));
	memcpy(stats->last_traceback, s->traceback, sizeof(stats->last_traceback));
}

static int64_t began_ns(const struct script_state *s, const struct script_call *call)
{
	if (!call->is_decision || !call->stats)
		return 0;
	return call->is_next ? s->ended_ns : machine_clock_ns(CLOCK_MONOTONIC);
}

int script_enter(struct script_state *s, const struct script_call *call,
		 struct error *err)
{
	lua_State *L = s->L;
	int64_t started_ns = began_ns(s, call);
	int top = lua_gettop(L);

	struct account *account = call->account;
	if (!account)
		account = account_open(&s->accounts, call->file, call->vhost);
	s->account = account;
	s->file = call->file;
	s->model = call->model;
	s->context = call->context;
	s->is_pure = call->is_pure;
	s->place[0] = '\0';
	s->fault[0] = '\0';
	s->serial++;
	s->was_refused = false;
	s->was_string = false;
	s->refused_at[0] = '\0';
	s->grown_bytes = 0;
	s->password = call->password;
	s->missing_owner = NULL;
	s->traceback[0] = '\0';
	s->vhost = call->is_decision ? call->vhost : (struct slice){ 0 };
	if (call->is_decision && !s->vhost.data)
		s->vhost = SLICE("");
	if (s->memory_bytes - s->pace_low > s->pace_span)
		pace(s);
	/* Light C functions and light userdata: nothing here allocates. */
	lua_pushcfunction(L, l_message);
	lua_pushcfunction(L, call->body);
	lua_pushlightuserdata(L, call->ctx);
	watchdog_enter(s->watchdog, L);
	int rc = lua_pcall(L, 1, 0, top + 1);
	bool overran = watchdog_leave(s->watchdog);
	s->serial++;
	s->context = NULL;
	s->account = &s->own;
	struct error own;
	if (rc != LUA_OK)
		describe(s, rc, s->model ? s->model : call->file, overran, &own);
	if (rc != LUA_OK && s->model)
		name_instance(call->file, &own);
	s->password = (struct slice){ 0 };
	lua_settop(L, top);
	if (rc == LUA_ERRMEM && !s->was_string)
		look_for_room(s, account);
	count(s, call, rc, overran, started_ns, &own);
	if (rc == LUA_OK)
		return TIDE_OK;
	*err = own;
	return TIDE_ERULE;
}
