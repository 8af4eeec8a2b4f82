/* BEGIN, COMMIT and ROLLBACK. */
#include "line.h"
#include "verb.h"

COMMAND(transaction_begin)
{
	return session_transaction_begin(session_channel(l->base.session, q->channel),
					 SLICE(""), r, q->err);
}

COMMAND(transaction_commit)
{
	return session_transaction_commit(session_channel(l->base.session, q->channel),
					  SLICE(""), r, q->err);
}

COMMAND(transaction_rollback)
{
	return session_transaction_rollback(session_channel(l->base.session, q->channel),
					    SLICE(""), r, q->err);
}
