/* http_health.h: /health: may it be left alone, may it be given work. */
#pragma once

#include "http_route.h"

extern const struct http_route http_health_routes[];
