/* http_api_messages.h: messages over HTTP. */
#pragma once

#include "http_route.h"

extern const struct http_route http_api_messages_routes[];
