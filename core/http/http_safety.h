/* http_safety.h: what a page of somebody else may not make a browser ask.
 *
 * A browser shows any page, and lets it send requests to any host. See docs/http.md. */
#pragma once

#include "http_request.h"

/* TIDE_EDENIED: the request is not our own page's, or is made under a name that is not
 * ours, while nobody must log in. */
TIDE_MUST_USE int http_safety_check(const struct http_request *q, struct error *err);
/* A browser asks whether a page of another origin may send a request. */
bool http_safety_is_preflight(const struct http_request *q);
/* The headers by which a browser lets a page read the answer, if it is one that may. */
void http_safety_write(struct http_request *q);
/* "https://HOST[:PORT]" without a path, or "*". */
bool http_safety_is_origin(const char *text);
