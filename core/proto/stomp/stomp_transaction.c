#include "stomp_transaction.h"

#define NAME_MAX_BYTES 255

typedef int transaction_fn(struct channel *ch, struct slice name, struct reply *r,
			   struct error *err);

static int run(struct stomp *l, struct stomp_frame *f, transaction_fn *fn)
{
	struct slice name = stomp_frame_need(f, STOMP_H_TRANSACTION);
	struct stomp_channel *zero = stomp_channel_zero(l);
	struct reply *r;

	if (name.len > NAME_MAX_BYTES)
		stomp_frame_refuse(f, STOMP_H_TRANSACTION, "%d bytes at most",
				   NAME_MAX_BYTES);
	if (f->rc < 0)
		return f->rc;
	r = stomp_channel_reply(l, zero, f);
	f->rc = fn(stomp_channel_session(l, zero), name, r, f->err);
	return f->rc < 0 ? stomp_channel_fail(f, r) : TIDE_OK;
}

int stomp_transaction_begin(struct stomp *l, struct stomp_frame *f)
{
	return run(l, f, session_transaction_begin);
}

int stomp_transaction_commit(struct stomp *l, struct stomp_frame *f)
{
	return run(l, f, session_transaction_commit);
}

int stomp_transaction_abort(struct stomp *l, struct stomp_frame *f)
{
	return run(l, f, session_transaction_rollback);
}

int stomp_transaction_find(struct stomp *l, struct stomp_frame *f,
			   struct session_transaction **out)
{
	struct slice name = stomp_frame_header(f, STOMP_H_TRANSACTION);

	*out = NULL;
	if (!name.data)
		return TIDE_OK;
	*out = session_transaction_find(l->base.session, name);
	if (*out)
		return TIDE_OK;
	return f->rc = error_set(f->err, TIDE_ENOTFOUND,
				 "there is no transaction '%.*s': send BEGIN first",
				 SLICE_HEAD(name, 64));
}
