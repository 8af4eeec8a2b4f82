/* http_safety.h: what a page of somebody else may not make a browser ask.
 *
 * A browser shows any page, and lets it send requests to any host. See docs/http.md. */
#pragma once

#include "http_request.h"

/* TIDE_EDENIED: the request is not our own page's, or is made under a name that is not
 * ours, while nobody must log in. */
TIDE_MUST_USE int http_safety_check(const struct http_request *q, struct error *err);
