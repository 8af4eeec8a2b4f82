/* service_users.h: who may come to the broker: users, logins, and what their changes lead
 * to.
 *
 * The broker is open as long as there is no user and no script that decides who logs in,
 * unless others reach it
 * (config.must_log_in): whoever comes may do all. Otherwise a session must log in first.
 */
#pragma once

#include "service.h"

void service_users_init(struct service *s);
/* Begin no new work. on_closed comes when the last thread has ended, perhaps within
 * the call. */
void service_users_close(struct service *s, void (*on_closed)(void *ctx));
void service_users_deinit(struct service *s);

/* Somebody can log in: a user is defined, or a script decides. */
bool service_users_has_any(const struct service *s);
/* Is no login required? */
bool service_users_is_open(const struct service *s);
/* Whose scripts have `authenticate`; NULL: there are none. */
struct engine *service_users_scripts(const struct service *s);
/* Users or rules have changed: it may be open no more. */
void service_users_check_open(struct service *s);
/* End the session if it came while no login was required, and now one is. */
void service_users_end_stranger(struct session *s);
/* Logins that waited, and rules that have changed. */
/* Once a turn: with cells, what other owners have changed. */
void service_users_follow(struct service *s);
void service_users_turn(struct service *s);
/* When that is, wall clock; 0: never. */
int64_t service_users_due_ms(const struct service *s);

/* The permissions of sessions change while they work. */

/* Users or rules have changed. From now on each request is asked about anew. Sessions of
 * users that were deleted end; so does, at the end of this turn or in the next ones, what
 * was begun by a right that is no longer there: see session_recheck. */
void service_users_recheck(struct service *s);
/* Go on with it. What scripts have allowed is asked about again every 10 s. */
void service_users_recheck_turn(struct service *s);
/* When that is, wall clock; 0: never. */
int64_t service_users_recheck_due_ms(const struct service *s);
