/* http_api_stats.h: figures over HTTP. */
#pragma once

#include "http_route.h"

extern const struct http_route http_api_stats_routes[];
