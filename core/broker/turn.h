/* turn.h: what the model does in each turn of the loop, and when it needs one.
 *
 * A turn is: broker_begin, turn_tick, turn_deal, turn_flush. Who drives it does its own
 * work in between. */
#pragma once

#include "broker.h"

/* Do the work of time: delayed messages become ready, leases end, publish ids go. */
void turn_tick(struct broker *b);
/* Deal ready messages out, answer GETs whose time is over, drop what is unneeded. */
void turn_deal(struct broker *b);
/* Send what has changed to Redis. */
void turn_flush(struct broker *b);

/* When it needs a turn; 0 = not by itself. */
int64_t turn_due_ms(const struct broker *b);
/* Does the broker need a turn at once? */
bool turn_is_busy(const struct broker *b);
