/* http_api_topics.h: topics over HTTP. */
#pragma once

#include "http_route.h"

extern const struct http_route http_api_topics_routes[];
