/* stranger.h: connections that must log in and have not.
 *
 * They have a limit of their own and a time (server_config): who says nothing does not
 * keep out who has a password. TLS that is not agreed upon yet counts too, but has
 * another time. */
#pragma once

#include "conn.h"

/* It was accepted. Over the limit the one that came first is ended. */
void stranger_add(struct conn *c);
/* Its time begins anew: TLS is agreed upon. */
void stranger_renew(struct conn *c);
/* It may have logged in: then it is none. */
void stranger_check(struct conn *c);
/* It ends. Harmless if it is none. */
void stranger_remove(struct conn *c);
/* End those whose time is over. */
void stranger_tick(struct server *s, int64_t now_ms);
