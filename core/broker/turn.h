/* turn.h: what the broker does in each turn of the loop, and when it needs one.
 *
 * broker_begin, broker_turn, broker_activate and broker_check_pressure, which
 * broker.h declares, are here too. */
#ifndef TIDE_BROKER_TURN_H
#define TIDE_BROKER_TURN_H

#include "broker.h"

/* Set up the handles that drive the turns; broker_close closes them. */
void turn_start(struct broker *b);

#endif
