/* stomp_reply.h: what the broker says: CONNECTED, MESSAGE, RECEIPT and ERROR. */
#pragma once

#include "stomp.h"

extern const struct session_ops stomp_reply_ops;

/* Refuse a frame that has no reply yet: ERROR, after the answers that channel 0 owes. No
 * further frame is read. @param f  NULL: what came is no frame */
void stomp_reply_error(struct stomp *l, const struct stomp_frame *f,
		       const struct error *err);
/* ERROR now, and the end. @param words  "<code> <text>" */
void stomp_reply_closed(struct stomp *l, const char *words);
/* When all is answered, say the last thing, if there is one. */
void stomp_reply_leave(struct stomp *l);
