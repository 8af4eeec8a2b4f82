/* users.h: the users of the broker, as Redis has them (store table STORE_USERS).
 *
 * struct broker has one, `users`. A change keeps the struct user that sessions refer to,
 * and changes what is in it. Then it raises the version and calls on_change once. */
#pragma once

#include "user.h"

struct users {
	struct user *by_name; /* uthash */
	uint64_t version;     /* rises with each change */
	/* `changed` has been added, changed, or deleted (is_deleted). */
	void (*on_change)(void *ctx, struct user *changed);
	void *ctx;
};

void users_deinit(struct users *us);

/* NULL: there is none. One that is unreadable is found too. */
struct user *users_find(const struct users *us, struct slice name);
/* With those that are unreadable: as long as there is one, all must log in. */
unsigned users_count(const struct users *us);
/* Those that can be read. */
unsigned users_count_admins(const struct users *us);

/* Add it, or let the one of its name be as this one is. */
void users_put_take(struct users *us, struct user *u);
/* false: there is none. */
bool users_remove(struct users *us, struct slice name);
/* A field of Redis. An error says why it is unreadable: it is in the table then, and
 * cannot log in. Calls no on_change. */
TIDE_MUST_USE int users_restore(struct users *us, struct slice name, struct slice text,
				struct error *err);
