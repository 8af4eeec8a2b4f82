/* session_late.h: ACKs that come after the lease has ended.
 *
 * The work was done. If the message is back in its queue, or with the same channel by
 * another tag, it is acknowledged. If somebody else has it, or has settled it, the ACK is
 * refused: TIDE_ELEASE. */
#pragma once

#include "session.h"

struct lapsed_item;

/* The first of the range that the channel has lost, NULL: none. */
struct lapsed_item *session_late_first(struct channel *ch, const struct tag_range *range);
/* An ACK that has settled `count` messages: the rest of its ranges may be late. Answers
 * it. */
void session_late_ack(struct channel *ch, const struct settle_spec *spec, uint64_t count,
		      struct reply *r);
