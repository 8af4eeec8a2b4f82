/* http_api_rules.h: rules over HTTP. */
#pragma once

#include "http_route.h"

extern const struct http_route http_api_rules_routes[];
