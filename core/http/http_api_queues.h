/* http_api_queues.h: queues over HTTP. */
#pragma once

#include "http_route.h"

extern const struct http_route http_api_queues_routes[];
