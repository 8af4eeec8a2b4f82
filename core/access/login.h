/* login.h: attempts to log in: scripts are asked, then the table of users.
 *
 * A password is verified on a thread, and then remembered by a keyed hash that dies with
 * the process: who comes back with it costs next to nothing. What is wrong is told late,
 * and from an address that has just failed the next attempt waits (login_delays). An
 * unknown user costs what a known one costs, and is told the same. */
#pragma once

#include <sys/queue.h>

#include "base/buf.h"
#include "base/heap.h"
#include "base/table.h"
#include "password.h"
#include "rules/engine/auth.h"
#include "user.h"

#define LOGIN_DELAY_FIRST_MS 250
#define LOGIN_DELAY_MAX_MS 8000
#define LOGIN_DELAY_FORGET_MS 60000
#define LOGIN_DELAY_ENTRIES_MAX 20000

struct login_delay_entry;
TAILQ_HEAD(login_delay_list, login_delay_entry);

struct login_delays {
	struct login_delay_entry *by_key; /* uthash */
	struct login_delay_list list;     /* by their last failure */
};

/* The key of a client that tries: network.h. Programs on this machine share an
 * address: each user is one of its own. */
void login_delay_key(struct buf *out, const char *address, bool is_local,
		     struct slice user);

void login_delay_init(struct login_delays *d);
void login_delay_deinit(struct login_delays *d);
/* An attempt has failed. Gives how much later that is to be said. */
int64_t login_delay_add(struct login_delays *d, struct slice key, int64_t mono_ms);
/* Until then the next attempt waits; 0: it need not. */
int64_t login_delay_until_ms(const struct login_delays *d, struct slice key,
			     int64_t mono_ms);

struct login_answer {
	enum auth_verdict verdict; /* AUTH_NONE: the table of users decides */
	struct user *user;         /* of AUTH_ALLOW: made for this login, a reference;
				    * NULL: that of the table */
	struct error why;          /* of AUTH_REFUSE, for the log */
};

struct engine;
struct login_attempt;
TAILQ_HEAD(login_list, login_attempt);

#define LOGIN_KEY_BYTES 32

struct login_counters {
	uint64_t accepted;
	uint64_t remembered; /* of these, those whose password was known to be right */
	uint64_t refused;
};

struct login {
	const struct users *users;
	struct password_work *work;
	struct login_delays delays;
	struct login_list waiting; /* not yet begun */
	struct login_list running; /* their passwords are being verified */
	unsigned running_count;
	struct heap late; /* refused, to be told later; by mono_ms */
	int64_t now_ms;   /* of the last call */
	int64_t due_ms;   /* when login_turn has something to do; 0: never */
	struct login_counters counters;
	unsigned char key[LOGIN_KEY_BYTES]; /* of what is remembered */
	bool has_key;
};

/* The client that logs in, and from where. Slices without data: not given. */
struct login_spec {
	struct slice user, password, vhost, name;
	const char *address; /* "127.0.0.1:50412"; NULL: not known */
	const char *protocol;
	const char *certificate;  /* the name in it, verified */
	bool is_certificate_user; /* that user needs no password */
	bool is_local, is_tls;
	struct engine *scripts; /* with `authenticate`; NULL: there are none */
	/* `user` is a reference that is the callee's; NULL: refused, as `err` says. It
	 * may come within login_start. */
	void (*on_done)(void *ctx, struct user *user, const struct error *err);
	void *ctx;
};

void login_init(struct login *l, const struct users *users, struct password_work *work);
/* No attempt is under way. */
void login_deinit(struct login *l);
/* NULL: it is done already. */
struct login_attempt *login_start(struct login *l, const struct login_spec *spec,
				  int64_t mono_ms);
/* on_done will not come. */
void login_cancel(struct login_attempt *a);
/* Begin what need not wait any more, and tell what is due. */
void login_turn(struct login *l, int64_t mono_ms);
/* When that is; 0: never. */
int64_t login_due_ms(const struct login *l);
