/* stomp_settle.h: ACK and NACK. */
#pragma once

#include "stomp_channel.h"

int stomp_settle(struct stomp *l, struct stomp_frame *f);
