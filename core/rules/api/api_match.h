/* api_match.h: tide.match (topic patterns) and tide.cidr (networks). */
#pragma once

#include <lua.h>

/* Networks in one list. A look goes over them all, a few ns each. */
#define API_MATCH_NETWORKS_MAX 1024
#define API_MATCH_TEXT_MAX 1024

/* Add the functions to `tide`, which is on the top. May raise. */
void api_match_add(lua_State *L);
