/* stomp_subscribe.h: SUBSCRIBE and UNSUBSCRIBE, and queues of a connection alone. */
#pragma once

#include "stomp.h"

int stomp_subscribe(struct stomp *l, struct stomp_frame *f);
int stomp_subscribe_end(struct stomp *l, struct stomp_frame *f);

/* The queue of this connection behind /temp-queue/<name>, and a subscription to it whose
 * id is that destination. */
TIDE_MUST_USE int stomp_subscribe_temp(struct stomp *l, struct stomp_frame *f,
				       struct slice destination, struct slice *queue);
/* The connection ends. */
void stomp_subscribe_deinit(struct stomp *l);
