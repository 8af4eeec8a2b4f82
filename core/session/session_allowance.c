/* What a session uses of the allowances of its user and its address. */
#include "session_private.h"

void session_allowance_note(struct session *s)
{
	s->is_metered =
		allowance_is_metered(s->of_user) || allowance_is_metered(s->of_address);
}

void session_allowance_set_address(struct session *s, struct allowance *a)
{
	s->of_address = a;
	session_allowance_note(s);
}

void session_allowance_logout(struct session *s)
{
	allowance_remove_channels(s->of_user, s->channel_count);
	allowance_leave(s->of_user, s->broker->mono_ms);
	s->of_user = NULL;
	session_allowance_note(s);
}

int session_allowance_login(struct session *s, const struct user *u, struct error *err)
{
	int rc;

	session_allowance_logout(s);
	rc = allowance_enter(&s->service->allowances, ALLOWANCE_USER, slice_from(u->name),
			     &u->limits, &s->of_user, err);
	if (rc < 0)
		return rc;
	rc = allowance_check_channels(s->of_user, s->channel_count, err);
	allowance_add_channels(s->of_user, s->channel_count);
	if (rc < 0)
		session_allowance_logout(s);
	session_allowance_note(s);
	return rc;
}

int session_allowance_open(struct session *s, struct error *err)
{
	if (allowance_check_channels(s->of_user, 1, err) < 0 ||
	    allowance_check_channels(s->of_address, 1, err) < 0)
		return err->code;
	allowance_add_channels(s->of_user, 1);
	allowance_add_channels(s->of_address, 1);
	return TIDE_OK;
}

void session_allowance_close(struct session *s)
{
	allowance_remove_channels(s->of_user, 1);
	allowance_remove_channels(s->of_address, 1);
}

int session_allowance_publish(struct session *s, size_t bytes, struct error *err)
{
	int64_t mono_ms = s->broker->mono_ms;

	if (allowance_check_publish(s->of_user, mono_ms, err) < 0 ||
	    allowance_check_publish(s->of_address, mono_ms, err) < 0)
		return err->code;
	allowance_count_publish(s->of_user, bytes);
	allowance_count_publish(s->of_address, bytes);
	return TIDE_OK;
}
