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

static int parse_tcp(struct slice text, struct redis_url *out, struct error *err)
{
	struct slice db;
	int rc = url_parse_host(text, REDIS_PORT_DEFAULT, &out->at, &db, err);

	if (rc == TIDE_OK)
		rc = check_user(&out->at, err);
	return rc < 0 || db.len == 0 ? rc : parse_db(db, out, err);
}

static int parse_file(struct slice option, struct redis_url *out, struct error *err)
{
	struct slice name = slice_cut(&option, '=');

	if (option.len == 0)
		return error_set(err, TIDE_ESYNTAX,
				 "the option '%" SLICE_FMT "' needs the path of a file",
				 SLICE_ARG(name));
	if (slice_is(name, "ca"))
		return url_decode(option, "path of ca", &out->ca, err);
	if (slice_is(name, "cert"))
		return url_decode(option, "path of cert", &out->cert, err);
	if (slice_is(name, "key"))
		return url_decode(option, "path of key", &out->key, err);
	return error_set(err, TIDE_ESYNTAX,
			 "the option '%" SLICE_FMT "' is not one of ca, cert, key",
			 SLICE_ARG(name));
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

	out->is_tls = true;
	while (rc == TIDE_OK && query.len > 0)
		rc = parse_file(slice_cut(&query, '&'), out, err);
	if (rc == TIDE_OK && !out->cert != !out->key)
		rc = error_set(err, TIDE_ESYNTAX, "cert and key belong together");
	return rc;
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
	static const char tcp[] = "redis://", tls[] = "rediss://";
	static const char unix_scheme[] = "redis+unix:";

	if (slice_is(text, "none"))
		return TIDE_OK;
	if (slice_is(text, "embedded")) {
		out->kind = REDIS_URL_EMBEDDED;
		return TIDE_OK;
	}
	if (slice_has_prefix(text, tcp)) {
		out->kind = REDIS_URL_TCP;
		return parse_tcp(slice_skip(text, strlen(tcp)), out, err);
	}
	if (slice_has_prefix(text, unix_scheme)) {
		out->kind = REDIS_URL_UNIX;
		return parse_unix(slice_skip(text, strlen(unix_scheme)), out, err);
	}
	if (slice_has_prefix(text, tls)) {
		out->kind = REDIS_URL_TCP;
		return parse_tls(slice_skip(text, strlen(tls)), out, err);
	}
	return error_set(
		err, TIDE_ESYNTAX,
		"give embedded, none, redis://[user:password@]host[:port][/db], "
		"rediss:// (with TLS) or redis+unix:[user:password@]/path[?db=N]");
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
	mem_free(url->ca);
	mem_free(url->cert);
	mem_free(url->key);
	*url = (struct redis_url){ .kind = REDIS_URL_NONE };
}
