/* api_setting.h: tide.setting(name [, default]): what serve --rules-set gave. */
#pragma once

#include <lua.h>

/* What a broker was given, for the processes that it starts. */
#define API_SETTING_VARIABLE "TIDEMQ_RULES_SET"

struct args;

/* Add it to the table on the top. `settings` outlives the state. */
void api_setting_add(lua_State *L, const struct args *settings);
