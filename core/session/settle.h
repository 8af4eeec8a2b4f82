/* settle.h: ACK, NACK and TOUCH: what channels hold is settled.
 *
 * A request may name any number of tags, and each may cost a call of a script.
 * What does not fit into a slice of the turn goes on in the next ones; until it
 * is done its session is sent no further request (session_is_saturated). */
#ifndef TIDE_SESSION_SETTLE_H
#define TIDE_SESSION_SETTLE_H

#include "session.h"

/* Go on with the requests that were left. */
void settle_turn(struct service *service);
/* The session ends and has returned what it holds: the reply completes unseen. */
void settle_cancel(struct session *s);

#endif
