/* What answers take until their clients have read them. */
#include "session_private.h"

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
