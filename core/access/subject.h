/* subject.h: who acts: a user in a vhost, asked before anything is done for it.
 *
 * Each session has one. What the broker does by itself (schedules, dead letters) has
 * none: a NULL subject may do all. So may one without a user, while nobody must log in.
 *
 * The scripts of rules/auth/ that have `authorize` are asked first, then the patterns of
 * the user's grant. What was allowed is remembered for a number of names, until
 * subject_env.version changes. */
#pragma once

#include "user.h"

struct engine;

enum subject_kind { SUBJECT_EXCHANGE, SUBJECT_QUEUE, SUBJECT_TOPIC, SUBJECT_LOCK };

/* The environment of all subjects. */
struct subject_env {
	/* Raised when anything has changed that decisions depend on. */
	uint64_t version;
	bool must_log_in;
	struct engine *scripts; /* that has `authorize`; NULL: there is none */
};

struct subject {
	const struct subject_env *env;
	struct user *user; /* a reference; NULL: nobody has logged in */
	char *vhost;
	char *address;                 /* for scripts, without the port; may be NULL */
	struct subject_memory *memory; /* of what was allowed; NULL: nothing yet */
};

/* A subject without a user, in a vhost. */
void subject_init(struct subject *s, const struct subject_env *env, struct slice vhost);
void subject_deinit(struct subject *s);
/* The same one, for work that may outlive it. */
void subject_copy(struct subject *to, const struct subject *from);
void subject_set_vhost(struct subject *s, struct slice vhost);
/* @param user  a reference is taken; NULL: nobody */
void subject_set_user(struct subject *s, struct user *user);
/* @param address  "127.0.0.1:50412", "[::1]:50412"; "unix" and NULL: none */
void subject_set_address(struct subject *s, const char *address);

/* May the subject do all, without a question? Accepts NULL. */
static inline bool subject_is_free(const struct subject *s)
{
	return !s || (!s->user && !s->env->must_log_in);
}
/* Likewise of one action: no name makes a difference. */
bool subject_may_all(const struct subject *s, enum user_action action);

int subject_ask(struct subject *s, enum user_action action, enum subject_kind kind,
		struct slice name, struct error *err);
/* TIDE_EDENIED: "user 'bob' may not write to exchange 'orders' in vhost '/'", and what a
 * script says about it. Of the default exchange ask for the queue that the key
 * names. */
TIDE_MUST_USE static inline int subject_check(struct subject *s, enum user_action action,
					      enum subject_kind kind, struct slice name,
					      struct error *err)
{
	return subject_is_free(s) ? TIDE_OK : subject_ask(s, action, kind, name, err);
}
/* TIDE_EDENIED: "RULES needs a user with the tag admin, and user 'bob' has not". */
TIDE_MUST_USE int subject_check_tag(const struct subject *s, enum user_tag tag,
				    const char *what, struct error *err);
