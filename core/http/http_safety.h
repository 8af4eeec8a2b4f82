/* http_safety.h: what a page of somebody else may not make a browser ask.
 *
 * A browser shows any page, and lets it send requests to any host. See docs/http.md. */
#pragma once

#include "http.h"

struct http_safety {
	const char *host;   /* the header; NULL: none */
	const char *origin; /* likewise */
	bool is_open;       /* nobody must log in */
};

/* TIDE_EDENIED: the request is not our own page's, or is made under a name that is not
 * ours. */
TIDE_MUST_USE int http_safety_check(const struct http_safety *s,
				    const struct http_config *config, struct error *err);
