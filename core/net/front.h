/* front.h: a broker that does not own the store, or a cell of it: it passes clients
 * through to the one that does. There is a front for each cell of another owner.
 *
 * A client's connection is joined to one of its own to the owner (uplink.h), and its
 * bytes go through unchanged. While no owner can be reached a client waits, unread, for
 * FRONT_PATIENCE_MS at most. The front is told to the owner by a connection of its own.
 * When the owner is another one, the joined clients are closed: the sessions they had are
 * gone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Below the time that our client libraries and the command line wait: they see why. */
#define FRONT_PATIENCE_MS 8000

struct conn;
struct front;
struct relay; /* of one client */
struct server;

struct front *front_create(struct server *s, unsigned cell);
/* This broker owns the cell from now on: clients that wait are its own, and the others
 * are closed. */
void front_end(struct front *f);
/* Tell the owner anew who this broker is. */
void front_announce(struct front *f);
/* The end of a turn. Accepts NULL. */
void front_turn(struct front *f);
/* Once a second. Accepts NULL. */
void front_tick(struct front *f);
/* Leave: the owner tells the clients. */
void front_drain(struct front *f);

struct relay *relay_create(struct front *f, struct conn *c);
/* The connection ends. Accepts NULL. */
void relay_destroy(struct relay *r);
/* Bytes of the client. Gives how many were taken: all, or none while it is held. */
size_t relay_feed(struct relay *r, const char *data, size_t len);
/* The client is not read now. */
bool relay_is_held(const struct relay *r);
/* The client sends no more. */
void relay_end(struct relay *r);
/* The client has taken its output. */
void relay_drained(struct relay *r);
