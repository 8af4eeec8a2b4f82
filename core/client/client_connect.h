/* client_connect.h: a client's connection: attempts, HELLO, heartbeats, loss. */
#pragma once

#include "client.h"

/* Read the files for TLS. On a failure the client keeps what it had. */
TIDE_MUST_USE int client_connect_read_tls(struct tidemq_client *c,
					  struct tidemq_error *err);

/* Begin to connect to the present URL. */
void client_connect_start(struct tidemq_client *c);

/* The connection has ended, or could not be made, for the reason in c->loss: try again,
 * or end the client. Fails what is in flight and cannot be sent again, and tells the
 * owner. */
void client_connect_lose(struct tidemq_client *c);

/* What was declared is there again: requests may be sent. */
void client_connect_resume(struct tidemq_client *c);
