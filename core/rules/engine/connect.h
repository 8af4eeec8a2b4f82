/* connect.h: the scripts of connect/: asked once for each login, when it is known who it
 * is: is it let in, under which name, into which vhost, with which limits?
 *
 * All that match are asked, in the order of their file names, until one refuses. Each
 * sees what the ones before it chose. One that fails refuses: a limit that is not set
 * would be none. */
#pragma once

#include "auth.h"

/* What is so for this connection. Empty: as it is. */
struct connect_decision {
	const char *file; /* of the script that was asked last, good until the next
			   * reload; NULL: none */
	int line;
	bool is_refused;
	char reason[AUTH_REASON_MAX];
	char name[NAME_LEN_MAX + 1], vhost[NAME_LEN_MAX + 1];
	bool has_limits;
	struct auth_limits limits; /* of the connection: without `connections` */
};

/* @param client  who was let in: with the user that was chosen, else what the client
 * calls itself. Scripts do not see the password
 * @return        TIDE_ERULE: a script failed, and refuses: `out` is as for a refusal. The
 *                error is for the log, not for the client */
TIDE_MUST_USE int connect_ask(struct engine *e, const struct auth_login *client,
			      struct connect_decision *out, struct error *err);
