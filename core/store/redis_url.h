/* redis_url.h: --store as a structure.
 *
 *   embedded | none
 *   redis://[user:password@]host[:port][,host[:port]]…[/db]   an IPv6 address in [ ];
 *                 several are nodes of a Redis Cluster
 *   rediss://…[/db][?ca=FILE][&cert=FILE&key=FILE]   the same with TLS
 *   redis+unix:[user:password@]/path[?db=N]
 *   redis+sentinel://[user:password@]host[:port][,host[:port]]…/name[/db]
 *                 [?sentinel-user=U][&sentinel-password=P]
 *                                   the Redis that these Sentinels call `name`
 *   rediss+sentinel://…               the same with TLS to both, and the files as above
 *
 * All parts but the ports and db are percent-decoded. */
#pragma once

#include "base/percent.h"

enum redis_url_kind {
	REDIS_URL_NONE,
	REDIS_URL_EMBEDDED,
	REDIS_URL_TCP,
	REDIS_URL_UNIX,
	REDIS_URL_SENTINEL,
};

#define REDIS_PORT_DEFAULT 6379
#define SENTINEL_PORT_DEFAULT 26379
#define REDIS_URL_HOSTS_MAX 16
#define REDIS_DB_MAX 1048575

struct redis_url {
	enum redis_url_kind kind;
	/* No user: the user "default" of Redis. With Sentinel there is no host: who
	 * connects writes it here, as the Sentinels name it. */
	struct url at;
	unsigned db;
	char *name; /* what Sentinels call the Redis */
	struct url
		*hosts; /* Sentinels, or the Redis itself, or nodes of a Redis Cluster */
	unsigned host_count;
	char *sentinel_user, *sentinel_password; /* NULL: not given */
	/* Files for TLS; NULL: not given. */
	bool is_tls;
	char *ca, *cert, *key;
};

/* On failure nothing has to be freed, and `err` never shows the password. */
TIDE_MUST_USE int redis_url_parse(const char *text, struct redis_url *out,
				  struct error *err);
/* Set where to connect. */
void redis_url_set_host(struct redis_url *url, const char *host, unsigned port);
void redis_url_deinit(struct redis_url *url);
