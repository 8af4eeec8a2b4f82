/* Who a session is, and where. */
#include "service_users.h"
#include "session_private.h"

int session_whoami(struct session *s, struct reply *r, struct error *err)
{
	struct session_facts facts = session_facts(s);
	const struct user *u = s->subject.user;
	struct json j;

	reply_json(r, &j);
	json_object_begin(&j);
	json_member_text(&j, "user", s->user ? s->user : "");
	json_member_array(&j, "tags");
	/* While nobody has to log in, whoever comes may do all. */
	if (u ? user_has_tag(u, USER_MONITOR) : subject_is_free(&s->subject))
		json_text(&j, user_tag_name(USER_MONITOR));
	if (u ? user_has_tag(u, USER_ADMIN) : subject_is_free(&s->subject))
		json_text(&j, user_tag_name(USER_ADMIN));
	json_array_end(&j);
	json_member_bool(&j, "open", service_users_is_open(s->service));
	json_member_string(&j, "vhost", facts.vhost);
	json_member_int(&j, "connection", (int64_t)facts.number);
	json_member_text(&j, "version", TIDE_VERSION);
	json_member_int(&j, "node", facts.node);
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}
