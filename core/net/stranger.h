/* stranger.h: connections that must log in and have not.
 *
 * They have a limit of their own and a time (server_config): who says nothing does not
 * keep out who has a password. TLS that is not agreed upon yet counts too, but has
 * another time. */
#pragma once

#include <stdint.h>

struct conn;
struct server;

/* The connection is one. Above the limit the first of them is closed. */
void stranger_add(struct conn *c);
/* Its time begins now. */
void stranger_renew(struct conn *c);
/* Is it still one? */
void stranger_check(struct conn *c);
void stranger_remove(struct conn *c);
/* End those whose time is over. */
void stranger_tick(struct server *s, int64_t now_ms);
