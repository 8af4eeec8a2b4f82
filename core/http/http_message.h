/* http_message.h: a message to publish, as a JSON object.
 *
 *   {"key":"orders.eu","payload":"text","headers":{"tenant":"acme"},"delay":"30s"}
 *
 * `payload_base64` stands for a payload that is not text. */
#pragma once

#include "session/session.h"

#define HTTP_MESSAGE_NAMES                                                           \
	"key payload payload_base64 headers priority delay ttl ack-timeout id must " \
	"expect"

struct http_message {
	struct publish_spec spec;
	struct publish_demand demand;
	struct msg_header headers[MSG_HEADERS_MAX];
	char *room; /* a payload that was base64; NULL: none */
};

/* @param object  a json_t *, in which `out` points; NULL: an empty one
 * @param exchange  "-": the default one
 * @return  TIDE_ESYNTAX or TIDE_ETOOLONG with a sentence; call deinit in every case */
TIDE_MUST_USE int http_message_read(struct http_message *out, const void *object,
				    struct slice exchange, struct error *err);
void http_message_deinit(struct http_message *m);
/* A message that was given out, as an object.
 *
 * @param receipt  NULL: it need not be settled */
void http_message_write(const struct delivery *d, const char *receipt, struct json *j);
