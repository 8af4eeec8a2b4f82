/* http_api_events.h: live figures over HTTP. */
#pragma once

#include "http_route.h"

extern const struct http_route http_api_events_routes[];
