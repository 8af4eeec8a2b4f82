/* redis_url.h: --store as a structure.
 *
 *   embedded | none
 *   redis://[user:password@]host[:port][/db]     an IPv6 address in [ ]
 *   rediss://…[/db][?ca=FILE][&cert=FILE&key=FILE]   the same with TLS
 *   redis+unix:[user:password@]/path[?db=N]
 *
 * User, password, host, path and files are percent-decoded. */
#pragma once

#include "base/percent.h"

enum redis_url_kind { REDIS_URL_NONE, REDIS_URL_EMBEDDED, REDIS_URL_TCP, REDIS_URL_UNIX };

#define REDIS_PORT_DEFAULT 6379
#define REDIS_DB_MAX 1048575

struct redis_url {
	enum redis_url_kind kind;
	struct url at; /* no user: the user "default" of Redis */
	unsigned db;
	/* Files for TLS; NULL: not given. */
	bool is_tls;
	char *ca, *cert, *key;
};

/* On failure nothing has to be freed, and `err` never shows the password. */
TIDE_MUST_USE int redis_url_parse(const char *text, struct redis_url *out,
				  struct error *err);
void redis_url_deinit(struct redis_url *url);
