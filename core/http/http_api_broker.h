/* http_api_broker.h: broker over HTTP. */
#pragma once

#include "http_route.h"

extern const struct http_route http_api_broker_routes[];
