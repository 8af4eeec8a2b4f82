/* api_time.h: tide.time: dates, weekdays, ISO 8601, time zones. */
#pragma once

#include "api_tide.h"

/* Add tide.time to `tide`, which is on the top. May raise. */
void api_time_add(lua_State *L, struct api_tide *t);

/* The time zone of that name, for what else has zones. Raises when there is none. */
const struct zone *api_time_zone(lua_State *L, struct slice name);
