/* http_api_publish.h: publish over HTTP. */
#pragma once

#include "http_route.h"

extern const struct http_route http_api_publish_routes[];
