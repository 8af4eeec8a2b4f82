/* stomp_connect.h: CONNECT, STOMP and DISCONNECT. */
#pragma once

#include "stomp_channel.h"

int stomp_connect(struct stomp *l, struct stomp_frame *f);
int stomp_connect_end(struct stomp *l, struct stomp_frame *f);
