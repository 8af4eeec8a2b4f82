/* stomp_transaction.h: BEGIN, COMMIT and ABORT: transactions of the connection, by name.
 */
#pragma once

#include "stomp_channel.h"

int stomp_transaction_begin(struct stomp *l, struct stomp_frame *f);
int stomp_transaction_commit(struct stomp *l, struct stomp_frame *f);
int stomp_transaction_abort(struct stomp *l, struct stomp_frame *f);
/* The one that a SEND, ACK or NACK names; NULL when it names none. Gives f->rc. */
TIDE_MUST_USE int stomp_transaction_find(struct stomp *l, struct stomp_frame *f,
					 struct session_transaction **out);
/* The receipt of a SEND in a transaction waits for its end. */
void stomp_transaction_keep(struct stomp *l, const struct stomp_frame *f);
/* The connection ends. */
void stomp_transaction_deinit(struct stomp *l);
