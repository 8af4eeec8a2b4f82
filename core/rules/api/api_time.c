#include "api_time.h"

#include <ctype.h>
#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/calendar.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"

#define DAY_MS INT64_C(86400000)
#define YEAR_MAX 9999
#define FIELD_MAX 1000000

/* Registry key: the api_tide, as a light userdata. */
static const char tide_key;

const struct zone *api_time_zone(lua_State *L, struct slice name)
{
	struct error err;

	lua_rawgetp(L, LUA_REGISTRYINDEX, &tide_key);
	struct api_tide *t = lua_touserdata(L, -1);
	lua_pop(L, 1);
	const struct zone *zone = zones_get(&t->zones, name, &err);
	if (!zone)
		luaL_error(L, "%s", err.text);
	return zone;
}

/* The zone named by argument `arg`; UTC without one. */
static const struct zone *check_zone(lua_State *L, int arg)
{
	if (lua_isnoneornil(L, arg))
		return api_time_zone(L, SLICE("UTC"));
	luaL_checkstring(L, arg);
	return api_time_zone(L, field_slice(L, arg));
}

/* The time as clocks show it. */
struct shown {
	struct calendar_date date;
	int64_t day; /* since 1970 */
	int hour, minute, second, ms;
	struct zone_offset offset;
};

static bool is_in_range(int64_t ms)
{
	int64_t first = calendar_day((struct calendar_date){ 1, 1, 1 }) * DAY_MS;
	int64_t end = calendar_day((struct calendar_date){ YEAR_MAX + 1, 1, 1 }) * DAY_MS;

	return ms >= first && ms < end;
}

static int64_t check_in_range(lua_State *L, int64_t ms)
{
	if (!is_in_range(ms))
		luaL_error(L, "a time must be in the years 1 to %d", YEAR_MAX);
	return ms;
}

/* The time in ms that is argument 1. It may be a fraction, as a computed one. */
static struct shown check_time(lua_State *L, const struct zone *zone)
{
	lua_Number n = luaL_checknumber(L, 1);
	struct shown s;
	int64_t rest;

	luaL_argcheck(L, n > -1e15 && n < 1e15, 1, "expected milliseconds since 1970");
	int64_t ms = check_in_range(L, lua_isinteger(L, 1) ? lua_tointeger(L, 1)
							   : (int64_t)floor(n));
	s.offset = zone_offset_at(zone, calendar_floor(ms, 1000, &rest));
	s.day = calendar_floor(check_in_range(L, ms + s.offset.seconds * INT64_C(1000)),
			       DAY_MS, &rest);
	s.date = calendar_date_of(s.day);
	s.hour = (int)(rest / 3600000);
	s.minute = (int)(rest / 60000 % 60);
	s.second = (int)(rest / 1000 % 60);
	s.ms = (int)(rest % 1000);
	return s;
}

/* fields (ms [, zone]) -> table */
static int l_fields(lua_State *L)
{
	const struct shown s = check_time(L, check_zone(L, 2));
	const int64_t first = calendar_day((struct calendar_date){ s.date.year, 1, 1 });
	const struct {
		const char *name;
		int64_t value;
	} fields[] = {
		{ "year", s.date.year },
		{ "month", s.date.month },
		{ "day", s.date.day },
		{ "hour", s.hour },
		{ "min", s.minute },
		{ "sec", s.second },
		{ "ms", s.ms },
		{ "weekday", calendar_weekday(s.day) },
		{ "yearday", s.day - first + 1 },
		{ "offset_ms", s.offset.seconds * INT64_C(1000) },
	};

	lua_createtable(L, 0, sizeof(fields) / sizeof(fields[0]) + 1);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		lua_pushinteger(L, fields[i].value);
		lua_setfield(L, -2, fields[i].name);
	}
	lua_pushboolean(L, s.offset.is_dst);
	lua_setfield(L, -2, "dst");
	return 1;
}

/* The field of the table at 1; `preset` when it has none, an error if that is negative.
 */
static int64_t field(lua_State *L, const char *name, int64_t preset)
{
	int is_integer = 1;
	int64_t n = preset;

	if (lua_getfield(L, 1, name) != LUA_TNIL)
		n = lua_tointegerx(L, -1, &is_integer);
	else if (preset < 0)
		luaL_error(L, "'%s' is missing", name);
	if (!is_integer || n > FIELD_MAX || n < -FIELD_MAX)
		luaL_error(L, "'%s' must be an integer, at most %d", name, FIELD_MAX);
	lua_pop(L, 1);
	return n;
}

/* of (fields [, zone]) -> ms */
static int l_of(lua_State *L)
{
	/* The last four are accepted because fields() gives them. They are not read. */
	static const char *const names[] = { "year",    "month",     "day", "hour",
					     "min",     "sec",       "ms",  "weekday",
					     "yearday", "offset_ms", "dst", NULL };
	const struct zone *zone = check_zone(L, 2);

	luaL_checktype(L, 1, LUA_TTABLE);
	field_check_names(L, 1, "a time", names);
	struct calendar_date date = { field(L, "year", -1), (int)field(L, "month", -1),
				      (int)field(L, "day", -1) };
	int64_t seconds = calendar_day(date) * (DAY_MS / 1000) +
			  field(L, "hour", 0) * 3600 + field(L, "min", 0) * 60 +
			  field(L, "sec", 0);
	int64_t ms = field(L, "ms", 0);
	check_in_range(L, seconds * 1000);
	lua_pushinteger(L, check_in_range(L, zone_utc_of(zone, seconds) * 1000 + ms));
	return 1;
}

/* format (ms [, zone]) -> "2026-11-23T12:30:00.000+01:00" */
static int l_format(lua_State *L)
{
	const struct shown s = check_time(L, check_zone(L, 2));
	int minutes = abs(s.offset.seconds) / 60;
	char text[64], offset[16] = "Z";

	if (s.offset.seconds != 0)
		snprintf(offset, sizeof(offset), "%c%02d:%02d",
			 s.offset.seconds < 0 ? '-' : '+', minutes / 60, minutes % 60);
	snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03d%s",
		 (int)s.date.year, s.date.month, s.date.day, s.hour, s.minute, s.second,
		 s.ms, offset);
	lua_pushstring(L, text);
	return 1;
}

/* Exactly `digits` digits, from `min` to `max`. */
static bool take_digits(struct slice *text, size_t digits, int min, int max, int *out)
{
	uint64_t n;

	if (text->len < digits ||
	    !slice_to_uint((struct slice){ text->data, digits }, (uint64_t)max, &n))
		return false;
	*text = slice_skip(*text, digits);
	*out = (int)n;
	return *out >= min;
}

static bool take_one_of(struct slice *text, const char *characters)
{
	if (text->len == 0 || !text->data[0] || !strchr(characters, text->data[0]))
		return false;
	*text = slice_skip(*text, 1);
	return true;
}

/* ".123456": milliseconds; what is finer is left out. */
static bool take_fraction(struct slice *text, int *ms)
{
	int unit = 100;

	*ms = 0;
	if (!take_one_of(text, "."))
		return true;
	if (text->len == 0 || !isdigit((unsigned char)text->data[0]))
		return false;
	for (; text->len && isdigit((unsigned char)text->data[0]); unit /= 10) {
		*ms += (text->data[0] - '0') * unit;
		*text = slice_skip(*text, 1);
	}
	return true;
}

/* "Z", "+01:00"; `has_offset` is false when the text ends here. */
static bool take_offset(struct slice *text, bool *has_offset, int *seconds)
{
	int hours, minutes;

	*seconds = 0;
	*has_offset = text->len > 0;
	if (!*has_offset || take_one_of(text, "Zz"))
		return true;
	bool is_west = text->data[0] == '-';
	if (!take_one_of(text, "+-") || !take_digits(text, 2, 0, 23, &hours) ||
	    !take_one_of(text, ":") || !take_digits(text, 2, 0, 59, &minutes))
		return false;
	*seconds = (hours * 3600 + minutes * 60) * (is_west ? -1 : 1);
	return true;
}

/* RFC 3339, where time and offset may be left out. A second 60 is the next minute. */
static bool read_time(struct slice text, const struct zone *zone, int64_t *out)
{
	int year, month, day, hour = 0, minute = 0, second = 0, ms = 0, offset;
	bool has_offset = false;

	if (!take_digits(&text, 4, 1, YEAR_MAX, &year) || !take_one_of(&text, "-") ||
	    !take_digits(&text, 2, 1, 12, &month) || !take_one_of(&text, "-") ||
	    !take_digits(&text, 2, 1, 31, &day))
		return false;
	int64_t days = calendar_day((struct calendar_date){ year, month, day });
	if (calendar_date_of(days).month != month)
		return false; /* the 30th of February */
	if (text.len > 0 &&
	    (!take_one_of(&text, "Tt ") || !take_digits(&text, 2, 0, 23, &hour) ||
	     !take_one_of(&text, ":") || !take_digits(&text, 2, 0, 59, &minute) ||
	     !take_one_of(&text, ":") || !take_digits(&text, 2, 0, 60, &second) ||
	     !take_fraction(&text, &ms) || !take_offset(&text, &has_offset, &offset)))
		return false;
	int64_t local = days * (DAY_MS / 1000) + hour * 3600 + minute * 60 + second;
	*out = (has_offset ? local - offset : zone_utc_of(zone, local)) * 1000 + ms;
	return text.len == 0 && is_in_range(*out);
}

/* parse (text [, zone]) -> ms, or nil and a message */
static int l_parse(lua_State *L)
{
	const struct zone *zone = check_zone(L, 2);
	const char *text = luaL_checkstring(L, 1);
	int64_t ms;

	if (read_time(field_slice(L, 1), zone, &ms)) {
		lua_pushinteger(L, ms);
		return 1;
	}
	lua_pushnil(L);
	lua_pushfstring(L, "'%s' is not a time; write 2026-11-23T12:30:00Z", text);
	return 2;
}

void api_time_add(lua_State *L, struct api_tide *t)
{
	static const luaL_Reg functions[] = {
		{ "fields", l_fields }, { "of", l_of }, { "format", l_format },
		{ "parse", l_parse },   { NULL, NULL },
	};

	lua_pushlightuserdata(L, t);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &tide_key);
	lua_newtable(L);
	luaL_setfuncs(L, functions, 0);
	read_only_protect(L);
	lua_setfield(L, -2, "time");
}
