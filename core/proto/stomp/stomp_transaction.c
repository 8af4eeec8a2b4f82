#include "stomp_transaction.h"

#include "base/mem.h"

#define NAME_MAX_BYTES 255

typedef int transaction_fn(struct channel *ch, struct slice name, struct reply *r,
			   struct error *err);

/* ---- receipts that wait for a COMMIT ------------------------------------------------
 */

static struct stomp_kept *find_kept(const struct stomp *l, struct slice name)
{
	struct stomp_kept *k;

	HASH_FIND(hh, l->kept, name.data, name.len, k);
	return k;
}

void stomp_transaction_keep(struct stomp *l, const struct stomp_frame *f)
{
	struct slice name = stomp_frame_header(f, STOMP_H_TRANSACTION),
		     receipt = stomp_frame_header(f, STOMP_H_RECEIPT);
	struct stomp_kept *k = find_kept(l, name);

	if (!receipt.data)
		return;
	if (!k) {
		k = mem_zalloc(sizeof(*k) + name.len);
		memcpy(k->name, name.data, name.len);
		HASH_ADD_KEYPTR(hh, l->kept, k->name, name.len, k);
	}
	buf_append_slice(&k->receipts, receipt);
	buf_append_char(&k->receipts, '\0');
}

/* Accepts NULL. */
static void forget_kept(struct stomp *l, struct stomp_kept *k)
{
	if (!k)
		return;
	HASH_DEL(l->kept, k);
	buf_deinit(&k->receipts);
	mem_free(k);
}

void stomp_transaction_deinit(struct stomp *l)
{
	while (l->kept)
		forget_kept(l, l->kept);
}

/* ---- the frames ---------------------------------------------------------------------
 */

/* @param fn  of the session */
static int run(struct stomp *l, struct stomp_frame *f, transaction_fn *fn)
{
	struct slice name = stomp_frame_need(f, STOMP_H_TRANSACTION);
	struct stomp_channel *zero = stomp_channel_zero(l);
	struct stomp_owed owed = { .verb = f->verb };
	struct stomp_kept *kept;
	struct reply *r;

	if (name.len > NAME_MAX_BYTES)
		stomp_frame_refuse(f, STOMP_H_TRANSACTION, "%d bytes at most",
				   NAME_MAX_BYTES);
	if (f->rc < 0)
		return f->rc;
	kept = find_kept(l, name);
	owed.receipt = stomp_frame_header(f, STOMP_H_RECEIPT);
	if (kept && f->verb == STOMP_COMMIT)
		owed.kept = buf_slice(&kept->receipts);
	stomp_channel_owe(zero, &owed);
	if (f->verb != STOMP_BEGIN)
		forget_kept(l, kept);
	r = reply_create(stomp_channel_session(l, zero), false);
	f->rc = fn(stomp_channel_session(l, zero), name, r, f->err);
	if (f->rc == TIDE_ENOTFOUND || f->rc == TIDE_EEXISTS)
		stomp_frame_explain(f, "Bad transaction", NULL);
	return f->rc < 0 ? stomp_channel_fail(zero, f, r) : TIDE_OK;
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
	f->rc = error_set(f->err, TIDE_ENOTFOUND,
			  "there is no transaction '%.*s': send BEGIN first",
			  SLICE_HEAD(name, 64));
	return stomp_frame_explain(f, "Bad transaction", NULL);
}
