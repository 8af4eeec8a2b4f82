/* The memory of payloads on their way and of answers that are not taken, and who
 * waits for it. */
#include "session_private.h"

/* Payloads. */

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

/* Answers. */

/* Of a document that can end earlier: what is written of a message may be six times as
 * long as the message. */
#define DOCUMENT_MAX ((size_t)16 << 20)
/* There is room for one of this size in any case. */
#define DOCUMENT_SMALL ((size_t)1 << 20)
/* Of answers that the peer has not taken, when the next document begins. */
#define STANDING_MAX ((size_t)256 << 10)
/* All answers together have this part of the memory for messages, and so much at least.
 * Above it documents end early, or are refused. */
#define SHARE 16
#define SHARE_MIN ((size_t)1 << 20)

static bool is_too_much(const struct service *s, size_t bytes)
{
	size_t share = s->broker->config.memory_max_bytes / SHARE;

	return bytes >= (share > SHARE_MIN ? share : SHARE_MIN);
}

bool session_answer_is_late(const struct session *s)
{
	return s->written > 0 || s->standing_bytes > STANDING_MAX;
}

bool session_answer_may_begin(struct session *s)
{
	s->wants_document = session_answer_is_late(s);
	return !s->wants_document;
}

void session_answer_keep(struct session *s, size_t bytes)
{
	s->kept_bytes += bytes;
	s->service->answer_bytes += bytes;
}

void session_answer_give(struct session *s, size_t bytes)
{
	s->kept_bytes -= bytes;
	s->service->answer_bytes -= bytes;
}

void session_answer_write(struct reply *r, size_t *counted)
{
	size_t bytes = buf_len(&r->data);

	r->service->answer_bytes += bytes - *counted;
	*counted = bytes;
}

bool session_answer_is_enough(const struct reply *r)
{
	return buf_len(&r->data) >= DOCUMENT_MAX ||
	       is_too_much(r->service, r->service->answer_bytes);
}

int session_answer_check(const struct reply *r, size_t counted, struct error *err)
{
	size_t others = r->service->answer_bytes - counted;

	if (buf_len(&r->data) <= DOCUMENT_SMALL || !is_too_much(r->service, others))
		return TIDE_OK;
	return error_set(err, TIDE_EBUSY,
			 "answers that clients do not read fill %zu MiB of memory: ask "
			 "again later, or for less",
			 others >> 20);
}

void session_answer_written(struct reply *r, size_t counted)
{
	r->service->answer_bytes -= counted;
}

void session_answer_stand(struct session *s, size_t bytes)
{
	s->standing_bytes += bytes;
	s->service->answer_bytes += bytes;
}

void session_answer_leave(struct session *s, size_t left)
{
	if (s->standing_bytes <= left)
		return;
	s->service->answer_bytes -= s->standing_bytes - left;
	s->standing_bytes = left;
	if (s->wants_document && !s->is_closed)
		s->ops->on_progress(s->ctx);
}
