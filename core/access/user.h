/* user.h: a user of the broker: what it may do, and its limits.
 *
 * Kept as JSON text in Redis, by name:
 *   {"password":"$scrypt$ln=14,r=8,p=5$…","tags":["admin"],
 *    "vhosts":{"/":{"configure":".*","write":"^orders","read":""}},
 *    "limits":{"max-connections":100}}
 * Patterns are POSIX extended regular expressions, not anchored (as RabbitMQ's are). An
 * empty one matches nothing.
 *
 * A user is counted: sessions refer to it. What it may do changes in place, so that who
 * refers to it sees the change at once (struct users). */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/table.h"
#include "base/user_pattern.h"
#include "password.h"

enum user_tag { USER_MONITOR = 1 << 0, USER_ADMIN = 1 << 1 }; /* admin implies monitor */
#define USER_TAG_COUNT 2

enum user_action { USER_CONFIGURE, USER_WRITE, USER_READ, USER_ACTION_COUNT };

struct user_grant { /* of a vhost */
	struct user_grant *next;
	char *vhost;
	struct user_pattern patterns[USER_ACTION_COUNT];
};

struct user_limits { /* 0: none */
	uint64_t connections;
	uint64_t channels;      /* of all its connections together */
	uint64_t publish_rate;  /* messages a second */
	uint64_t publish_bytes; /* a second */
};

struct user {
	UT_hash_handle hh; /* of the table, by name */
	unsigned refs;     /* sessions, and the table */
	char *name;
	char *password;            /* as password.h has it; NULL: no password is right (a
				    * certificate or a script lets it in) */
	unsigned tags;             /* enum user_tag */
	struct user_grant *grants; /* in the order of their vhosts */
	struct user_limits limits;
	/* Of the password that was right last: login.h. */
	bool has_proof;
	unsigned char proof[PASSWORD_PROOF_BYTES];
	bool is_deleted;     /* it is no longer in the table */
	bool is_from_script; /* never was: made for one login */
	char *unreadable; /* why it could not be read from Redis; it cannot log in. NULL:
			   * it was */
};

/* With one reference. It has no password, no tags, no grants, no limits. */
struct user *user_create(struct slice name);
struct user *user_ref(struct user *u);
void user_unref(struct user *u); /* accepts NULL */
/* The same user under its name, with one reference. */
struct user *user_copy(const struct user *u);

/* Text as in Redis. An error says what is wrong; `*out` is not set then. */
TIDE_MUST_USE int user_parse(struct slice name, struct slice text, struct user **out,
			     struct error *err);
void user_format(const struct user *u, struct buf *out);
/* The members "tags", "vhosts" and "limits" of an object. */
void user_write(const struct user *u, struct json *j);

const char *user_action_name(enum user_action action); /* "configure", … */
/* "admin,monitor"; empty: none. */
TIDE_MUST_USE int user_parse_tags(struct slice text, unsigned *tags, struct error *err);
const char *user_tag_name(enum user_tag tag);
/* Has the user the tag, or one that implies it? */
bool user_has_tag(const struct user *u, enum user_tag tag);

/* "max-connections", …: where it is kept; NULL: no limit has this name. */
uint64_t *user_limit(struct user_limits *limits, struct slice name);
/* The names in their order; NULL behind the last. */
const char *user_limit_name(unsigned index);

/* NULL: it may not enter the vhost. */
const struct user_grant *user_grant_find(const struct user *u, struct slice vhost);
/* Set, or set anew. */
TIDE_MUST_USE int user_grant_set(struct user *u, struct slice vhost,
				 const struct slice patterns[USER_ACTION_COUNT],
				 struct error *err);
/* false: it had none. */
bool user_grant_remove(struct user *u, struct slice vhost);
bool user_grant_allows(const struct user_grant *g, enum user_action action,
		       struct slice name);

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
/* The readable administrators. */
unsigned users_count_admins(const struct users *us);

/* Add it, or let the one of its name be as this one is. */
void users_put_take(struct users *us, struct user *u);
/* false: there is none. */
bool users_remove(struct users *us, struct slice name);
/* A field of Redis. An error says why it is unreadable: it is in the table then, and
 * cannot log in. Calls no on_change. */
TIDE_MUST_USE int users_restore(struct users *us, struct slice name, struct slice text,
				struct error *err);
