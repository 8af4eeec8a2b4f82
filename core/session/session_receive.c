/* Payloads on their way, and the memory that they may take.
 *
 * They have a share of memory of their own, so that half a payload never holds back a
 * whole one. Up to half of that share all of them are read. Above it memory is short, and
 * a payload is read that has a place: what is missing of it is promised to it. Places are
 * given in the order in which the payloads began, while what has come of all and what is
 * promised fit the share. A few can always have a place. So those that have one come to
 * their end, or are given up (net/conn_tick.c), and then the next ones do.
 *
 * While publishers are held back (service_pressure.h) places are only for those who are
 * not: a payload that ends is a message more. */
#include "session_private.h"

/* A place is there for so many, whatever they have sent already. */
#define PLACES_MIN 4

/* Beside the memory for messages. */
static size_t share(const struct service *service)
{
	return service->broker->config.memory_max_bytes / 4;
}

/* Publishers are held back, and it is one of them. What a transaction keeps has a limit
 * of its own, and its end gives messages back. */
static bool is_blocked(const struct session *s)
{
	return s->service->is_blocked && !s->transactions && !s->is_never_held;
}

bool session_receive_may_go_on(const struct session *s)
{
	return !s->is_in_line || !(s->service->receiving.is_short || is_blocked(s));
}

bool session_receive_is_waited_for(const struct session *s)
{
	return s->service->receiving.is_short || s->service->is_blocked;
}

static void leave_line(struct session *s)
{
	if (s->is_in_line)
		TAILQ_REMOVE(&s->service->receiving.line, s, receiving_link);
	s->is_in_line = false;
}

static bool has_room(const struct service *service, size_t missing)
{
	const struct receiving *r = &service->receiving;

	return r->places < PLACES_MIN ||
	       r->bytes + r->promised_bytes + missing <= share(service);
}

/* The first that may have a place; NULL: there is none, or no room. */
static struct session *next_in_line(const struct service *service)
{
	struct session *s;

	if (!has_room(service, 0))
		return NULL;
	TAILQ_FOREACH (s, &service->receiving.line, receiving_link)
		if (!is_blocked(s))
			return has_room(service, s->missing_bytes) ? s : NULL;
	return NULL;
}

static void give_places(struct service *service)
{
	struct receiving *r = &service->receiving;
	struct session *s;

	while (r->is_short && (s = next_in_line(service)) != NULL) {
		leave_line(s);
		s->has_place = true;
		r->places++;
		r->promised_bytes += s->missing_bytes;
		s->ops->on_progress(s->ctx);
	}
}

static void wake_line(struct service *service)
{
	struct session *s;

	TAILQ_FOREACH (s, &service->receiving.line, receiving_link)
		s->ops->on_progress(s->ctx);
}

static void update(struct service *service)
{
	struct receiving *r = &service->receiving;
	bool was_short = r->is_short;

	r->is_short = r->bytes > share(service) / (was_short ? 4 : 2);
	if (was_short && !r->is_short)
		wake_line(service);
	give_places(service);
}

void session_receive_add(struct session *s, size_t bytes, size_t missing)
{
	struct receiving *r = &s->service->receiving;
	bool must_queue = !s->has_place && missing > SESSION_RECEIVE_SMALL;

	r->bytes += bytes;
	s->receiving_bytes += bytes;
	if (s->has_place)
		r->promised_bytes -= s->missing_bytes - missing;
	s->missing_bytes = missing;
	if (must_queue && !s->is_in_line)
		TAILQ_INSERT_TAIL(&r->line, s, receiving_link);
	else if (!must_queue)
		leave_line(s);
	s->is_in_line = must_queue;
	update(s->service);
}

void session_receive_end(struct session *s)
{
	struct receiving *r = &s->service->receiving;

	leave_line(s);
	if (s->has_place) {
		r->places--;
		r->promised_bytes -= s->missing_bytes;
	}
	r->bytes -= s->receiving_bytes;
	s->receiving_bytes = s->missing_bytes = 0;
	s->has_place = false;
	update(s->service);
}

void session_receive_resume(struct service *service)
{
	wake_line(service);
	give_places(service);
}
