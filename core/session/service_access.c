#include "service_access.h"

#include "rules/engine/auth.h"
#include "session_private.h"

/* What a script has allowed holds no longer than this: it may go by the time of day. */
#define SCRIPTS_MS 10000

static void begin(struct service *s)
{
	s->broker->subjects.version++;
	s->recheck_ms = s->broker->now_ms;
	s->recheck = TAILQ_FIRST(&s->sessions);
}

void service_access_recheck(struct service *s)
{
	struct engine *e = s->broker->engine;

	s->broker->subjects.scripts = e && auth_has_authorize(e) ? e : NULL;
	/* No publish goes by what was found before. */
	s->broker->route_version++;
	begin(s);
}

static bool is_due(const struct service *s)
{
	int64_t age_ms = s->broker->now_ms - s->recheck_ms;

	/* Or the clock was set back. */
	return s->broker->subjects.scripts && (age_ms >= SCRIPTS_MS || age_ms < 0);
}

void service_access_turn(struct service *s)
{
	struct session *session;

	if (!s->recheck && is_due(s))
		begin(s);
	while ((session = s->recheck) != NULL) {
		s->recheck = TAILQ_NEXT(session, link);
		session_recheck(session);
		if (pace_is_spent(&s->broker->pace, false))
			return;
	}
}

int64_t service_access_due_ms(const struct service *s)
{
	if (s->recheck)
		return s->broker->now_ms;
	return s->broker->subjects.scripts ? s->recheck_ms + SCRIPTS_MS : 0;
}
