/* What a session uses of the allowances of its user and its address. */
#include "base/container.h"
#include "base/decimal.h"
#include "session_private.h"

/* ---- rates */

/* Until what was published is made good. */
static void hold(struct session *s)
{
	int64_t mono_ms = s->broker->mono_ms;
	struct allowance *const all[] = { s->of_user, s->of_address, s->of_connection };
	int64_t wait_ms = 0;

	for (int i = 0; i < 3; i++) {
		int64_t own_ms = allowance_wait_ms(all[i], mono_ms);

		if (own_ms > wait_ms)
			wait_ms = own_ms;
	}
	if (wait_ms)
		heap_set(&s->service->throttled, &s->throttle_node, mono_ms + wait_ms);
	else
		heap_remove(&s->service->throttled, &s->throttle_node);
}

void session_allowance_throttle(struct session *s)
{
	s->is_throttled = true;
}

void session_allowance_note(struct session *s)
{
	s->is_metered = allowance_is_metered(s->of_user) ||
			allowance_is_metered(s->of_address) ||
			allowance_is_metered(s->of_connection);
	if (!heap_has(&s->throttle_node))
		return;
	hold(s);
	if (!heap_has(&s->throttle_node))
		s->ops->on_progress(s->ctx);
}

void session_allowance_turn(struct service *service)
{
	struct heap_node *n;
	struct session *s;

	while ((n = heap_min(&service->throttled)) != NULL &&
	       n->key <= service->broker->mono_ms) {
		heap_remove(&service->throttled, n);
		s = container_of(n, struct session, throttle_node);
		s->ops->on_progress(s->ctx);
	}
}

int64_t session_allowance_due_ms(const struct service *service)
{
	const struct broker *b = service->broker;
	const struct heap_node *n = heap_min(&service->throttled);

	return n ? b->now_ms + (n->key - b->mono_ms) : 0;
}

int session_allowance_publish(struct session *s, size_t bytes, struct error *err)
{
	int64_t mono_ms = s->broker->mono_ms;

	if (!s->is_throttled &&
	    (allowance_check_publish(s->of_user, mono_ms, err) < 0 ||
	     allowance_check_publish(s->of_address, mono_ms, err) < 0 ||
	     allowance_check_publish(s->of_connection, mono_ms, err) < 0))
		return err->code;
	allowance_count_publish(s->of_user, bytes, mono_ms);
	allowance_count_publish(s->of_address, bytes, mono_ms);
	allowance_count_publish(s->of_connection, bytes, mono_ms);
	if (s->is_throttled)
		hold(s);
	return TIDE_OK;
}

/* ---- connections and channels */

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
	    allowance_check_channels(s->of_address, 1, err) < 0 ||
	    allowance_check_channels(s->of_connection, 1, err) < 0)
		return err->code;
	allowance_add_channels(s->of_user, 1);
	allowance_add_channels(s->of_address, 1);
	allowance_add_channels(s->of_connection, 1);
	return TIDE_OK;
}

void session_allowance_close(struct session *s)
{
	allowance_remove_channels(s->of_user, 1);
	allowance_remove_channels(s->of_address, 1);
	allowance_remove_channels(s->of_connection, 1);
}

static void leave_connection(struct session *s)
{
	allowance_remove_channels(s->of_connection, s->channel_count);
	allowance_leave(s->of_connection, s->broker->mono_ms);
	s->of_connection = NULL;
}

void session_allowance_limit(struct session *s, const struct user_limits *limits)
{
	char number[DECIMAL_MAX];
	struct slice name = { number, 0 };
	struct error never;

	leave_connection(s);
	if (limits) {
		name.len = (size_t)(decimal_put(number, s->number) - number);
		if (allowance_enter(&s->service->allowances, ALLOWANCE_CONNECTION, name,
				    limits, &s->of_connection, &never) == TIDE_OK)
			allowance_add_channels(s->of_connection, s->channel_count);
	}
	session_allowance_note(s);
}
