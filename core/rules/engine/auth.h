/* auth.h: the scripts of auth/ and connect/: who somebody is, what he may do, and how he
 * is connected.
 *
 * Scripts are asked in the order of their file names. The first that has an opinion
 * decides. A script that fails refuses, and so does one whose circuit is open. */
#pragma once

#include "engine.h"

#define AUTH_REASON_MAX 300 /* that of struct script_refusal */
#define AUTH_PATTERN_MAX 1024
#define AUTH_LIMIT_MAX UINT32_MAX

enum auth_verdict { AUTH_NONE, AUTH_ALLOW, AUTH_REFUSE };
const char *auth_verdict_name(enum auth_verdict verdict); /* "none", "allow", "refuse" */

enum auth_tag { AUTH_MONITOR = 1 << 0, AUTH_ADMIN = 1 << 1 };

enum auth_pattern { AUTH_CONFIGURE, AUTH_WRITE, AUTH_READ, AUTH_PATTERN_COUNT };

/* A login, as scripts see it. A slice without data is nil there. */
struct auth_login {
	struct slice user, password, vhost;
	struct slice name;        /* that the client gives its connection */
	struct slice address;     /* without the port; a breaker is kept for each */
	struct slice certificate; /* common name of the one that was verified */
	const char *protocol;     /* "line", "stomp", "amqp" */
	bool is_tls;
	bool is_local;                    /* from this machine */
	struct decision_context *context; /* NULL: live */
};

struct auth_limits { /* 0: none */
	uint32_t connections, channels;
	uint32_t publish_rate, publish_bytes; /* a second */
};

/* The user that a script makes for one login. */
struct auth_identity {
	char name[NAME_LEN_MAX + 1];
	unsigned tags; /* enum auth_tag */
	/* POSIX extended regular expressions for the login's vhost, owned. NULL matches
	 * nothing. */
	char *patterns[AUTH_PATTERN_COUNT];
	struct auth_limits limits;
};

struct auth_decision {
	enum auth_verdict verdict;
	const char
		*file; /* of the script that decided, good until the next reload; NULL */
	int line;      /* of its function; of a model, where it is used */
	const char *model; /* the file of its function, as long; NULL: its own */
	char reason[AUTH_REASON_MAX]; /* of AUTH_REFUSE */
	/* A login: the script made the user, who is `identity`. False with AUTH_ALLOW:
	 * it is the user of the table with the login's name, whose password is not asked.
	 */
	bool has_identity;
	struct auth_identity identity;
};
void auth_decision_deinit(struct auth_decision *d);

/* Does any script of the active generation have such a function? */
bool auth_has_authenticate(const struct engine *e);
bool auth_has_authorize(const struct engine *e);

/* Ask who logs in. Nothing of the password comes into `out` or `err`.
 *
 * @param out  auth_decision_deinit it after success
 * @return     TIDE_ERULE: a script failed, and the login is refused. The error is for the
 *             log, not for the client. `out` has the script; there is nothing to deinit
 */
TIDE_MUST_USE int auth_authenticate(struct engine *e, const struct auth_login *l,
				    struct auth_decision *out, struct error *err);

/* The question about a permission. */
struct auth_question {
	struct slice user, vhost, address;
	unsigned tags;      /* enum auth_tag */
	const char *action; /* "configure", "write", "read" */
	const char *kind;   /* "exchange", "queue", "topic", "lock" */
	struct slice name;
	struct decision_context *context; /* NULL: live */
};

/* The same for a permission. The reason is for the client too. */
TIDE_MUST_USE int auth_authorize(struct engine *e, const struct auth_question *q,
				 struct auth_decision *out, struct error *err);

/* The scripts of connect/ are asked once for each login, when the user is known: may the
 * client connect, under which name, to which vhost, with which limits?
 *
 * All scripts that match are asked, in the order of their file names, until one refuses.
 * Each script sees what the scripts before it chose. A script that fails refuses: without
 * its answer a limit might be missing. */

/* The decisions of scripts for the connection. An empty field changes nothing. */
struct connect_decision {
	const char *file; /* of the script that was asked last, good until the next
			   * reload; NULL: none */
	int line;
	const char *model; /* the file of its function, as long; NULL: its own */
	bool is_refused;
	char reason[AUTH_REASON_MAX];
	char name[NAME_LEN_MAX + 1], vhost[NAME_LEN_MAX + 1];
	bool has_limits;
	struct auth_limits limits; /* of the connection: without `connections` */
};

/* @param client  who was let in: with the user that was chosen, else what the client
 * calls itself. Scripts do not see the password
 * @return        TIDE_ERULE: a script failed, and refuses: `out` is as for a refusal. The
 *                error is for the log, not for the client */
TIDE_MUST_USE int auth_connect(struct engine *e, const struct auth_login *client,
			       struct connect_decision *out, struct error *err);
