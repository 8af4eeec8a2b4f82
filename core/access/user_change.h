/* user_change.h: users are added, changed and deleted, one after the other.
 *
 * A change is checked when its turn comes, then a password is hashed on a thread, then
 * Redis is told, and when Redis has it the table changes: what a client was told is true
 * after a crash, too. */
#pragma once

#include "password.h"
#include "user.h"

struct store;
struct user_change;
STAILQ_HEAD(user_change_list, user_change);

struct user_changes {
	struct users *users;
	struct password_work *work;
	struct store *store;          /* NULL: nothing is kept */
	struct user_change_list list; /* the first is under way */
	bool is_running;
	bool is_closing;      /* nothing else is begun */
	bool must_have_users; /* the last one is not deleted: others reach the broker */
};

enum user_change_kind {
	USER_CHANGE_ADD,
	USER_CHANGE_PASSWORD,
	USER_CHANGE_DELETE,
	USER_CHANGE_GRANT,
	USER_CHANGE_REVOKE,
	USER_CHANGE_SET,
};

/* Slices without data: not given. */
struct user_change_spec {
	enum user_change_kind kind;
	struct slice name;
	struct slice password;
	struct slice tags;
	struct slice vhost;
	struct slice patterns[USER_ACTION_COUNT];
	struct user_limits limits; /* of those in has_limit */
	unsigned has_limit;        /* bits, in the order of user_limit_name */
	struct user *author; /* NULL: nobody, which is right while there is no user */
	/* `user` has changed, or was deleted, unless status < 0. */
	void (*on_done)(void *ctx, struct user *user, int status, const char *text);
	void *ctx;
};

void user_change_init(struct user_changes *cs, struct users *users,
		      struct password_work *work);
/* Changes under way are told TIDE_ESHUTDOWN. Call when neither threads nor Redis
 * answer any more. */
void user_change_deinit(struct user_changes *cs);
/* Redis lacks users that it has confirmed: write again all that there are. */
void user_change_write_all(const struct users *us, struct store *store);
/* on_done may come within the call. */
void user_change_start(struct user_changes *cs, const struct user_change_spec *spec);
