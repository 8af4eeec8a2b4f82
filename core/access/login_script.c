#include "login_script.h"

#include "peer_host.h"

static int make_user(const struct login_spec *spec, const struct auth_identity *identity,
		     struct login_answer *out)
{
	struct slice patterns[USER_ACTION_COUNT];
	struct user *u = user_create(slice_from(identity->name));
	int rc;

	for (int i = 0; i < USER_ACTION_COUNT; i++)
		patterns[i] =
			slice_from(identity->patterns[i] ? identity->patterns[i] : "");
	u->is_from_script = true;
	/* The values are the same. */
	u->tags = identity->tags;
	u->limits = (struct user_limits){
		.connections = identity->limits.connections,
		.channels = identity->limits.channels,
		.publish_rate = identity->limits.publish_rate,
		.publish_bytes = identity->limits.publish_bytes,
	};
	rc = user_grant_set(u, spec->vhost, patterns, &out->why);
	if (rc < 0)
		user_unref(u);
	else
		out->user = u;
	return rc;
}

void login_script_ask(const struct login_spec *spec, struct login_answer *out)
{
	const struct auth_login login = {
		.user = spec->user,
		.password = spec->password,
		.vhost = spec->vhost,
		.name = spec->name,
		.address = peer_host(spec->address),
		.certificate = slice_from(spec->certificate),
		.protocol = spec->protocol,
		.is_tls = spec->is_tls,
		.is_local = spec->is_local,
	};
	struct auth_decision decision;

	*out = (struct login_answer){ .verdict = AUTH_REFUSE };
	if (auth_authenticate(spec->scripts, &login, &decision, &out->why) < 0)
		return;
	out->verdict = decision.verdict;
	if (decision.verdict == AUTH_REFUSE)
		error_set(&out->why, TIDE_EDENIED, "%s: %s", decision.file,
			  decision.reason);
	else if (decision.has_identity && make_user(spec, &decision.identity, out) < 0)
		out->verdict = AUTH_REFUSE;
	auth_decision_deinit(&decision);
}
