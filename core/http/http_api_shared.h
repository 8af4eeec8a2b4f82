/* http_api_shared.h: tide.shared over HTTP. */
#pragma once

#include "http_route.h"

extern const struct http_route http_api_shared_routes[];
