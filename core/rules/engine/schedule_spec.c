#include "schedule_spec.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "rules/api/api_time.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/source.h"

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
