/* connect.h: the scripts of connect/. They are asked once for each login, when the user
 * is known: may the client connect, under which name, to which vhost, with which limits?
 *
 * All scripts that match are asked, in the order of their file names, until one refuses.
 * Each script sees what the scripts before it chose. A script that fails refuses: without
 * its answer a limit might be missing. */
#pragma once

#include "auth.h"

/* What scripts decided for the connection. An empty field changes nothing. */
struct connect_decision {
	const char *file; /* of the script that was asked last, good until the next
			   * reload; NULL: none */
	int line;
	const char *model; /* the file of its function, as long; NULL: its own */
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
