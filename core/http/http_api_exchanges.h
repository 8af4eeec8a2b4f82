/* http_api_exchanges.h: exchanges over HTTP. */
#pragma once

#include "http_route.h"

extern const struct http_route http_api_exchanges_routes[];
