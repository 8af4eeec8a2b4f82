/* stomp_send.h: SEND: from its head to the publish. */
#pragma once

#include "stomp.h"

/* Its message is made, and its body is to be filled in: base.msg. */
int stomp_send(struct stomp *l, struct stomp_frame *f, size_t body_len);
/* The body is there. */
void stomp_send_publish(struct stomp *l);
