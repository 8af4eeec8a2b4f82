/* gate.h: the owner's side of a connection that a front makes (link.h): of one of its
 * clients, or of the front itself.
 *
 * A connection with a gate has no protocol before the front has shown that it knows the
 * secret. That of a front itself never has one. */
#pragma once

#include "link.h"
#include "session/service_net.h"
#include "session/session.h"

struct conn;

struct gate {
	struct conn *conn;
	char nonce[LINK_NONCE_MAX]; /* "": the hello was taken */
	struct link_hello hello;
	struct net_member member; /* of a front itself, which has joined */
};

/* Greet whoever has connected. */
struct gate *gate_create(struct conn *c);
void gate_destroy(struct gate *g); /* accepts NULL */
/* Take in lines; gives how many bytes that was. The rest belongs to the protocol, if the
 * connection has one then. */
size_t gate_feed(struct gate *g, const char *data, size_t len);
/* Once a second, while the connection has no protocol. */
void gate_tick(struct gate *g, int64_t now_ms);
/* Of a client, as the front has told. */
void gate_describe(const struct gate *g, struct json *out);
void gate_facts(const struct gate *g, struct session_peer *out);
