/* http_login.h: who sends a request: a user by HTTP Basic, or a token.
 *
 * The session of a connection stays for as long as its requests say the same. */
#pragma once

#include "http_conn.h"

struct http_login {
	struct slice authorization; /* the header; data == NULL: none */
	struct slice vhost;         /* data == NULL: the path has none */
	bool must_exist;            /* the vhost, also if a grant names it */
};

/* The session becomes one that the request may use, or `refusal` says why not. While that
 * `is_deciding` the request waits; then it is queued. */
void http_login_start(struct http_conn *c, const struct http_login *login);
