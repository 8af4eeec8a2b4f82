#include "redis_url.h"

#include <string.h>
#include <sys/un.h>

#include "base/mem.h"

static int parse_db(struct slice text, struct redis_url *out, struct error *err)
{
	uint64_t db;

	if (!slice_to_uint(text, REDIS_DB_MAX, &db))
		return error_set(err, TIDE_ESYNTAX,
				 "the database must be a number, not '%" SLICE_FMT "'",
				 SLICE_ARG(text));
	out->db = (unsigned)db;
	return TIDE_OK;
}

/* Redis has no user without a password. */
static int check_user(struct url *at, struct error *err)
{
	if (at->user && !at->password)
		return error_set(err, TIDE_ESYNTAX,
				 "expected user:password or :password before the @");
	if (at->user && !at->user[0]) {
		mem_free(at->user);
		at->user = NULL;
	}
	return TIDE_OK;
}

/* User and password are those of Redis. They stand before the first host. */
static int parse_hosts(struct slice hosts, unsigned port_default, struct redis_url *out,
		       struct error *err)
{
	const char *at = memrchr(hosts.data, '@', hosts.len);
	size_t skip = at ? (size_t)(at - hosts.data) : 0;
	struct slice rest = slice_skip(hosts, skip);
	struct slice host = { hosts.data, skip + slice_cut(&rest, ',').len };
	struct url *first = out->hosts =
		mem_zalloc(REDIS_URL_HOSTS_MAX * sizeof(*out->hosts));
	struct slice none;
	int rc;

	for (;;) {
		rc = url_parse_host(host, port_default, &out->hosts[out->host_count++],
				    &none, err);
		if (rc < 0 || rest.len == 0)
			break;
		if (out->host_count == REDIS_URL_HOSTS_MAX)
			return error_set(err, TIDE_ETOOLONG, "at most %d hosts",
					 REDIS_URL_HOSTS_MAX);
		host = slice_cut(&rest, ',');
	}
	out->at.user = first->user;
	out->at.password = first->password;
	first->user = first->password = NULL;
	return rc < 0 ? rc : check_user(&out->at, err);
}

void redis_url_set_host(struct redis_url *url, const char *host, unsigned port)
{
	mem_free(url->at.host);
	url->at.host = mem_strdup(host);
	url->at.port = port;
}

static int parse_tcp(struct slice text, struct redis_url *out, struct error *err)
{
	struct slice hosts = slice_cut(&text, '/');
	int rc = parse_hosts(hosts, REDIS_PORT_DEFAULT, out, err);

	if (rc < 0)
		return rc;
	redis_url_set_host(out, out->hosts[0].host, out->hosts[0].port);
	return text.len == 0 ? rc : parse_db(text, out, err);
}

static int parse_option(struct slice option, struct redis_url *out, struct error *err)
{
	struct slice name = slice_cut(&option, '=');
	bool is_sentinel = out->kind == REDIS_URL_SENTINEL;
	const struct {
		const char *name, *what;
		char **to;
		bool is_known;
	} options[] = {
		{ "ca", "path of ca", &out->ca, out->is_tls },
		{ "cert", "path of cert", &out->cert, out->is_tls },
		{ "key", "path of key", &out->key, out->is_tls },
		{ "sentinel-user", "sentinel-user", &out->sentinel_user, is_sentinel },
		{ "sentinel-password", "sentinel-password", &out->sentinel_password,
		  is_sentinel },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (!options[i].is_known || !slice_is(name, options[i].name))
			continue;
		if (option.len == 0)
			return error_set(err, TIDE_ESYNTAX, "the option '%s' needs %s",
					 options[i].name,
					 i < 3 ? "the path of a file" : "a value");
		return url_decode(option, options[i].what, options[i].to, err);
	}
	return error_set(err, TIDE_ESYNTAX,
			 "the option '%" SLICE_FMT "' is not one of %s%s%s",
			 SLICE_ARG(name), out->is_tls ? "ca, cert, key" : "",
			 out->is_tls && is_sentinel ? ", " : "",
			 is_sentinel ? "sentinel-user, sentinel-password" : "");
}

static int parse_options(struct slice query, struct redis_url *out, struct error *err)
{
	int rc = TIDE_OK;

	while (rc == TIDE_OK && query.len > 0)
		rc = parse_option(slice_cut(&query, '&'), out, err);
	if (rc == TIDE_OK && !out->cert != !out->key)
		rc = error_set(err, TIDE_ESYNTAX, "cert and key belong together");
	if (rc == TIDE_OK && out->sentinel_user && !out->sentinel_password)
		rc = error_set(err, TIDE_ESYNTAX,
			       "sentinel-user needs sentinel-password");
	return rc;
}

/* A password may have a ? of its own. */
static struct slice cut_query(struct slice *text)
{
	const char *at = memrchr(text->data, '@', text->len);
	size_t skip = at ? (size_t)(at - text->data) : 0;
	struct slice query = slice_skip(*text, skip);
	struct slice before = slice_cut(&query, '?');

	text->len = skip + before.len;
	return query;
}

static int parse_tls(struct slice text, struct redis_url *out, struct error *err)
{
	struct slice query = cut_query(&text);
	int rc = parse_tcp(text, out, err);

	return rc < 0 ? rc : parse_options(query, out, err);
}

static int parse_sentinel(struct slice text, struct redis_url *out, struct error *err)
{
	struct slice query = cut_query(&text);
	struct slice hosts = slice_cut(&text, '/'), name = slice_cut(&text, '/');
	int rc = parse_hosts(hosts, SENTINEL_PORT_DEFAULT, out, err);

	if (rc == TIDE_OK && name.len == 0)
		rc = error_set(err, TIDE_ESYNTAX,
			       "the name that the Sentinels give the Redis is missing: "
			       "host1,host2,host3/name");
	if (rc == TIDE_OK)
		rc = url_decode(name, "name", &out->name, err);
	if (rc == TIDE_OK && text.len > 0)
		rc = parse_db(text, out, err);
	return rc < 0 ? rc : parse_options(query, out, err);
}

static int parse_unix(struct slice text, struct redis_url *out, struct error *err)
{
	size_t path_max = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
	struct slice query;
	int rc;

	if (slice_has_prefix(text, "//"))
		text = slice_skip(text, 2);
	rc = url_parse_path(text, &out->at, &query, err);
	if (rc == TIDE_OK)
		rc = check_user(&out->at, err);
	if (rc < 0)
		return rc;
	if (out->at.path[0] != '/')
		return error_set(err, TIDE_ESYNTAX,
				 "redis+unix: needs an absolute path, as in "
				 "redis+unix:/run/redis/redis.sock");
	if (strlen(out->at.path) > path_max)
		return error_set(err, TIDE_ETOOLONG,
				 "the path of a socket has at most %zu bytes", path_max);
	if (query.len == 0)
		return TIDE_OK;
	if (!slice_has_prefix(query, "db="))
		return error_set(err, TIDE_ESYNTAX, "expected db=N after the ?");
	return parse_db(slice_skip(query, 3), out, err);
}

static int parse(struct slice text, struct redis_url *out, struct error *err)
{
	static const struct {
		const char *prefix;
		enum redis_url_kind kind;
		bool is_tls;
		int (*parse)(struct slice text, struct redis_url *out, struct error *err);
	} schemes[] = {
		{ "redis://", REDIS_URL_TCP, false, parse_tcp },
		{ "rediss://", REDIS_URL_TCP, true, parse_tls },
		{ "redis+unix:", REDIS_URL_UNIX, false, parse_unix },
		{ "redis+sentinel://", REDIS_URL_SENTINEL, false, parse_sentinel },
		{ "rediss+sentinel://", REDIS_URL_SENTINEL, true, parse_sentinel },
	};

	if (slice_is(text, "none"))
		return TIDE_OK;
	if (slice_is(text, "embedded")) {
		out->kind = REDIS_URL_EMBEDDED;
		return TIDE_OK;
	}
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		if (!slice_has_prefix(text, schemes[i].prefix))
			continue;
		out->kind = schemes[i].kind;
		out->is_tls = schemes[i].is_tls;
		text = slice_skip(text, strlen(schemes[i].prefix));
		return schemes[i].parse(text, out, err);
	}
	return error_set(
		err, TIDE_ESYNTAX,
		"give embedded, none, redis://[user:password@]host[:port][/db] (of a "
		"Redis Cluster several, with commas between), "
		"redis+unix:[user:password@]/path[?db=N] or "
		"redis+sentinel://[user:password@]host,host,host/name[/db]; with TLS "
		"rediss:// or rediss+sentinel://");
}

int redis_url_parse(const char *text, struct redis_url *out, struct error *err)
{
	struct error why;
	int rc;

	*out = (struct redis_url){ .kind = REDIS_URL_NONE };
	rc = parse(slice_from(text), out, &why);
	if (rc == TIDE_OK)
		return rc;
	redis_url_deinit(out);
	return error_set(err, rc, "--store: %s", why.text);
}

void redis_url_deinit(struct redis_url *url)
{
	url_deinit(&url->at);
	for (unsigned i = 0; i < url->host_count; i++)
		url_deinit(&url->hosts[i]);
	mem_free(url->hosts);
	mem_free(url->name);
	mem_free(url->sentinel_user);
	if (url->sentinel_password)
		explicit_bzero(url->sentinel_password, strlen(url->sentinel_password));
	mem_free(url->sentinel_password);
	mem_free(url->ca);
	mem_free(url->cert);
	mem_free(url->key);
	*url = (struct redis_url){ .kind = REDIS_URL_NONE };
}
