/* http_login.h: who sends a request: a user by HTTP Basic, or a token.
 *
 * The session of a connection stays for as long as its requests say the same. */
#pragma once

#include "http_conn.h"

/* The session is one that the request may use: TIDE_OK. TIDE_AGAIN: that is being
 * decided, and login->on_done comes, unless the connection ends before. Another error is
 * the refusal. */
TIDE_MUST_USE int http_login_start(struct http_conn *c, const struct http_login *login,
				   struct error *err);
