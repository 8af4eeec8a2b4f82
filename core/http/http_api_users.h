/* http_api_users.h: users over HTTP. */
#pragma once

#include "http_route.h"

extern const struct http_route http_api_users_routes[];
