#include "schedule.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/duration.h"
#include "base/mem.h"
#include "engine_private.h"
#include "rules/api/api_time.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"
#include "rules/sandbox/source.h"
#include "schedule_spec.h"

#define CRON_MIN_MS 60000

const char *const schedule_spec_fields[SCHEDULE_SPEC_FIELDS] = {
	"every", "cron", "zone", "missed", "jitter", "active", "vhost"
};

static const char *const missed_names[] = {
	[SCHEDULE_SKIP] = "skip",
	[SCHEDULE_ONCE] = "once",
	[SCHEDULE_ALL] = "all",
};

const char *schedule_spec_missed_name(enum schedule_missed missed)
{
	return missed_names[missed];
}

void schedule_spec_free(struct schedule_spec *s)
{
	if (!s)
		return;
	mem_free(s->when);
	mem_free(s->vhost);
	mem_free(s);
}

static void read_when(lua_State *L, int table, struct schedule_spec *out)
{
	struct error err;
	char when[256];
	const char *every = field_text(L, table, "every").data;
	const char *cron = field_text(L, table, "cron").data;
	struct slice zone = field_text(L, table, "zone");

	if (!every == !cron)
		luaL_error(L, "a schedule needs either 'every' or 'cron'");
	if (every && zone.data)
		luaL_error(L, "'zone' is for 'cron': an interval has no time of day");
	if (zone.data)
		out->zone = api_time_zone(L, zone);
	snprintf(when, sizeof(when), "%s %s%s%s", every ? "every" : "cron",
		 every ? every : cron, zone.data ? " " : "", zone.data ? zone.data : "");
	out->when = mem_strdup(when);
	if (cron && cron_parse(slice_from(cron), &out->cron, &err) != TIDE_OK)
		luaL_error(L, "'cron': %s", err.text);
	if (cron)
		return;
	out->every_ms = field_duration(L, table, "every");
	if (out->every_ms < SCHEDULE_EVERY_MIN_MS)
		luaL_error(L, "'every' is %s; it must be at least %dms", every,
			   SCHEDULE_EVERY_MIN_MS);
}

static void read_missed(lua_State *L, int table, struct schedule_spec *out)
{
	const char *missed = field_text(L, table, "missed").data;

	out->missed = SCHEDULE_ONCE;
	for (int i = SCHEDULE_SKIP; missed && i <= SCHEDULE_ALL; i++) {
		if (strcmp(missed, missed_names[i]) == 0) {
			out->missed = (enum schedule_missed)i;
			return;
		}
	}
	if (missed)
		luaL_error(L, "'missed' must be skip, once or all, not '%s'", missed);
}

static void read_vhost(lua_State *L, int table, struct schedule_spec *out)
{
	struct slice vhost = field_text(L, table, "vhost");

	if (vhost.data && !slice_is_name(vhost))
		luaL_error(L, "'vhost' is '%s', which is not a name", vhost.data);
	out->vhost = mem_strdup(vhost.data ? vhost.data : "/");
}

void schedule_spec_read(lua_State *L, struct schedule_spec *out)
{
	int table = lua_gettop(L);

	read_when(L, table, out);
	read_missed(L, table, out);
	read_vhost(L, table, out);
	out->jitter_ms = field_duration(L, table, "jitter");
	if (out->jitter_ms >= (out->every_ms ? out->every_ms : CRON_MIN_MS))
		luaL_error(L, "'jitter' must be less than the time between two ticks");
	out->is_active = field_boolean(L, table, "active", true);
	lua_settop(L, table);
}

int64_t schedule_spec_next(const struct schedule_spec *s, int64_t after_unix_ms)
{
	if (!s->every_ms)
		return cron_next(&s->cron, s->zone, after_unix_ms);
	return (after_unix_ms / s->every_ms + 1) * s->every_ms;
}

int64_t schedule_spec_prev(const struct schedule_spec *s, int64_t at_unix_ms)
{
	if (!s->every_ms)
		return cron_prev(&s->cron, s->zone, at_unix_ms);
	return at_unix_ms / s->every_ms * s->every_ms;
}

int64_t schedule_spec_due(const struct schedule_spec *s, const char *name,
			  int64_t tick_ms)
{
	struct buf text = { 0 };

	if (s->jitter_ms == 0)
		return tick_ms;
	buf_append_text(&text, name);
	buf_append_uint(&text, (uint64_t)tick_ms);
	uint64_t hash = source_hash(buf_slice(&text).data, buf_len(&text));
	buf_deinit(&text);
	return tick_ms + (int64_t)(hash % (uint64_t)s->jitter_ms);
}

/* Registry key: the table that scripts get as `broker`. */
static const char broker_key;

void schedule_each(const struct engine *e, schedule_fn fn, void *ctx)
{
	const struct generation *g = e->current;

	for (size_t i = 0; i < g->rule_count; i++) {
		if (g->rules[i]->kind == SCRIPT_SCHEDULE)
			fn(ctx, g->rules[i]);
	}
}

/* One table serves all runs: a script that keeps it can do nothing with it. */
static const struct schedule_broker *broker_of(lua_State *L)
{
	const struct engine *e = lua_touserdata(L, lua_upvalueindex(1));

	if (!e->scheduled)
		luaL_error(L, "'broker' has expired: it was good for one run only");
	return e->scheduled;
}

/* The field's text, which stays on the stack. A number is one too. */
static struct slice message_text(lua_State *L, const char *name)
{
	struct slice text;

	if (lua_getfield(L, 1, name) == LUA_TNUMBER)
		text.data = lua_tolstring(L, -1, &text.len);
	else
		text = field_text(L, 1, name);
	return text.data ? text : (struct slice){ "", 0 };
}

/* '-' is the empty one, as on the wire. */
static struct slice address(lua_State *L, const char *name)
{
	struct slice text = message_text(L, name);

	return slice_is(text, "-") ? (struct slice){ "", 0 } : text;
}

static void read_address(lua_State *L, struct msg *m)
{
	struct slice payload;

	m->exchange = address(L, "exchange");
	if (m->exchange.len && !slice_is_name(m->exchange))
		luaL_error(L, "'exchange' is not a name");
	m->key = address(L, "key");
	if (m->key.len && !slice_is_name(m->key))
		luaL_error(L, "'key' must be 1 to %d bytes without white space",
			   NAME_LEN_MAX);
	payload = message_text(L, "payload");
	if (payload.len > SCHEDULE_PAYLOAD_MAX)
		luaL_error(L, "'payload' has at most %d KiB",
			   (int)(SCHEDULE_PAYLOAD_MAX / 1024));
	m->payload = payload.data;
	m->payload_len = payload.len;
}

static void read_numbers(lua_State *L, struct msg *m)
{
	double delay_ms = 0;

	if (lua_getfield(L, 1, "delay") == LUA_TSTRING) {
		delay_ms = (double)field_duration(L, 1, "delay");
	} else if (!lua_isnil(L, -1)) {
		delay_ms = lua_tonumber(L, -1);
		if (lua_type(L, -1) != LUA_TNUMBER || !(delay_ms >= 0) ||
		    delay_ms > (double)DURATION_MAX_MS)
			luaL_error(
				L,
				"'delay' must be a duration, or milliseconds from 0 on");
	}
	m->due_unix_ms = (int64_t)delay_ms;
	int is_integer = 1;
	lua_Integer priority = 0;
	if (lua_getfield(L, 1, "priority") != LUA_TNIL)
		priority = lua_tointegerx(L, -1, &is_integer);
	if (!is_integer || priority < 0 || priority > MSG_PRIORITY_MAX)
		luaL_error(L, "'priority' must be an integer from 0 to %d",
			   MSG_PRIORITY_MAX);
	m->priority = (uint8_t)priority;
}

/* A header's name and value must stay where they are: numbers are converted in
 * copies, which stay on the stack. */
static void read_headers(lua_State *L, struct msg *m, struct msg_header *out)
{
	int type = lua_getfield(L, 1, "headers");
	int headers = lua_gettop(L);

	if (type == LUA_TNIL)
		return;
	if (type != LUA_TTABLE)
		luaL_error(L, "'headers' must be a table, not a %s",
			   luaL_typename(L, -1));
	read_only_see_through(L, headers);
	luaL_checkstack(L, MSG_HEADERS_MAX + 8, NULL);
	lua_pushnil(L);
	while (lua_next(L, headers) != 0) {
		int value = lua_type(L, -1);
		if (lua_type(L, -2) != LUA_TSTRING ||
		    (value != LUA_TSTRING && value != LUA_TNUMBER))
			luaL_error(L, "headers must be texts by name");
		if (m->header_count == MSG_HEADERS_MAX)
			luaL_error(L, "a message has at most %d headers",
				   MSG_HEADERS_MAX);
		struct msg_header *h = &out[m->header_count++];
		h->name.data = lua_tolstring(L, -2, &h->name.len);
		h->value.data = lua_tolstring(L, -1, &h->value.len);
		if (!slice_is_name(h->name) || memchr(h->name.data, '=', h->name.len))
			luaL_error(L, "'%s' is not a name of a header", h->name.data);
		if (msg_header_is_death(h->name))
			luaL_error(L, "the header '%s' is the broker's", h->name.data);
		lua_insert(L, -2); /* the value stays below the name */
	}
}

static int l_publish(lua_State *L)
{
	static const char *const fields[] = { "exchange", "key",   "payload",
					      "headers",  "delay", "priority",
					      NULL };
	const struct schedule_broker *broker = broker_of(L);
	struct msg_header headers[MSG_HEADERS_MAX];
	struct msg m = { .headers = headers };
	struct error err;

	luaL_checktype(L, 1, LUA_TTABLE);
	field_check_names(L, 1, "a message", fields);
	read_address(L, &m);
	read_numbers(L, &m);
	read_headers(L, &m, headers);
	if (broker->publish(broker->ctx, &m, &err) != TIDE_OK)
		luaL_error(L, "%s", err.text);
	return 0;
}

/* Set a field of the table on the top. */
static void set_integer(lua_State *L, const char *name, lua_Integer n)
{
	lua_pushinteger(L, n);
	lua_setfield(L, -2, name);
}

void schedule_open(lua_State *L, struct engine *e)
{
	static const luaL_Reg functions[] = { { "publish", l_publish }, { NULL, NULL } };

	lua_newtable(L);
	lua_pushlightuserdata(L, e);
	luaL_setfuncs(L, functions, 1);
	queue_facts_push(L, &e->tide.queues);
	lua_setfield(L, -2, "queue");
	read_only_protect(L);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &broker_key);
}

static void push_broker(lua_State *L, const void *ctx)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &broker_key);
}

/* { ms =, missed = } */
static void push_tick(lua_State *L, const void *ctx)
{
	const struct schedule_tick *tick = ctx;

	lua_createtable(L, 0, 2);
	set_integer(L, "ms", tick->ms);
	set_integer(L, "missed", (lua_Integer)tick->missed);
}

int schedule_run(struct engine *e, struct slice name, const struct schedule_tick *tick,
		 const struct schedule_broker *broker, struct error *err)
{
	struct rule *rule;
	int rc = generation_get(e->current, SCRIPT_SCHEDULE, name, &rule, err);

	if (rc != TIDE_OK)
		return rc;
	const struct script_value to = { push_broker, NULL }, when = { push_tick, tick };
	const struct use_call call = { .use = &rule->own,
				       .vhost = broker->vhost,
				       .given = { &to, &when } };
	if (e->former)
		carry_own(e, rule);
	e->scheduled = broker;
	rc = use_decide(e, &call, err);
	e->scheduled = NULL;
	return rc;
}
