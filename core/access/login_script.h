/* login_script.h: the scripts of rules/auth/ with `authenticate` are asked about a login.
 */
#pragma once

#include "login.h"
#include "rules/engine/auth.h"

struct login_answer {
	enum auth_verdict verdict; /* AUTH_NONE: the table of users decides */
	struct user *user;         /* of AUTH_ALLOW: made for this login, a reference;
				    * NULL: that of the table */
	struct error why;          /* of AUTH_REFUSE, for the log */
};

void login_script_ask(const struct login_spec *spec, struct login_answer *out);
