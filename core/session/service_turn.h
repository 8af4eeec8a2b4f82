/* service_turn.h: the turns of the loop: who works in them, and when the next comes. */
#ifndef TIDE_SESSION_SERVICE_TURN_H
#define TIDE_SESSION_SERVICE_TURN_H

#include "service.h"

/* Set up the handles that drive the turns. */
void service_turn_start(struct service *s);
/* Turns come no more. */
void service_turn_stop(struct service *s);
/* Close the handles, then call on_closed, which may free the service. */
void service_turn_close(struct service *s, void (*on_closed)(struct service *s));

/* Take the time, and do what the turn has gathered. */
void service_turn(struct service *s);

#endif
