/* amqp_message.h: the properties of AMQP and the headers of a message.
 *
 * A message that came by AMQP has its properties twice: as headers by name, for rules and
 * for other protocols, and byte for byte in MSG_AMQP_HEADER, which nobody else is shown.
 * A consumer of AMQP gets these bytes, unless the headers are others by now: because a
 * filter wrote them, or because the message died. */
#pragma once

#include "amqp_codec.h"
#include "base/msg.h"

/* Of the texts of the headers in all. */
#define AMQP_HEADERS_BYTES_MAX 32768

struct amqp_message {
	struct msg_header items[MSG_HEADERS_MAX];
	unsigned count;
	char room[MSG_HEADERS_MAX * AMQP_TEXT_MAX];
};

/* The headers that these properties are, and `bytes`, which they came as. They point into
 * the properties, and into `out`. */
void amqp_message_read(struct amqp_message *out, const struct amqp_properties *p,
		       struct slice bytes);
/* Append the properties of a delivery.
 *
 * @param m         the message
 * @param head      its headers for this delivery
 * @param failures  how often it has failed: the header x-delivery-count; 0: it is left
 *                  out */
void amqp_message_write(struct buf *out, const struct msg *m, const struct msg *head,
			uint32_t failures);
