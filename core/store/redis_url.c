#include "redis_url.h"

#include <string.h>
#include <sys/un.h>

#include "base/mem.h"
#include "base/percent.h"

static struct slice take_prefix(struct slice *s, size_t len)
{
	struct slice prefix = { s->data, len };
	*s = slice_skip(*s, len);
	return prefix;
}

static const char *find(struct slice s, char c)
{
	return s.len ? memchr(s.data, c, s.len) : NULL;
}

/* The decoded text, or NULL: a '%' without two digits, or a zero byte. */
static char *decode(struct slice s)
{
	size_t len;
	char *text = mem_strndup(s.data, s.len);
	if (percent_decode((struct slice){ text, s.len }, text, &len) != TIDE_OK ||
	    memchr(text, '\0', len)) {
		mem_free(text);
		return NULL;
	}
	text[len] = '\0';
	return text;
}

/* "user:password@" at the front of `rest`, when there is one. */
static int parse_userinfo(struct slice *rest, struct redis_url *out, struct error *err)
{
	const char *slash = find(*rest, '/');
	struct slice authority = { rest->data,
				   slash ? (size_t)(slash - rest->data) : rest->len };
	const char *at =
		authority.len ? memrchr(authority.data, '@', authority.len) : NULL;
	if (!at)
		return TIDE_OK;
	struct slice user = take_prefix(rest, (size_t)(at - rest->data));
	*rest = slice_skip(*rest, 1);
	const char *colon = find(user, ':');
	if (!colon)
		return error_set(
			err, TIDE_ESYNTAX,
			"--store: before the @ stands user:password or :password");
	struct slice password = user;
	user = take_prefix(&password, (size_t)(colon - user.data));
	password = slice_skip(password, 1);
	out->user = user.len ? decode(user) : NULL;
	out->password = decode(password);
	if ((user.len && !out->user) || !out->password)
		return error_set(
			err, TIDE_ESYNTAX,
			"--store: user or password has a %% that is not followed "
			"by two hex digits");
	return TIDE_OK;
}

static int parse_db(struct slice text, struct redis_url *out, struct error *err)
{
	uint64_t db;
	if (!slice_to_uint(text, REDIS_DB_MAX, &db))
		return error_set(err, TIDE_ESYNTAX,
				 "--store: the database is a number, not \"%" SLICE_FMT
				 "\"",
				 SLICE_ARG(text));
	out->db = (unsigned)db;
	return TIDE_OK;
}

static int parse_port(struct slice text, struct redis_url *out, struct error *err)
{
	uint64_t port;
	if (!slice_to_uint(text, 65535, &port) || port == 0)
		return error_set(err, TIDE_ESYNTAX,
				 "--store: the port is a number from 1 to 65535, not "
				 "\"%" SLICE_FMT "\"",
				 SLICE_ARG(text));
	out->port = (unsigned)port;
	return TIDE_OK;
}

/* host, host:port, [v6], [v6]:port */
static int parse_host(struct slice text, struct redis_url *out, struct error *err)
{
	struct slice host = text;
	struct slice port = { "", 0 };
	bool has_port = false;
	bool is_bracketed = text.len > 0 && text.data[0] == '[';
	const char *end = is_bracketed ? find(text, ']') : find(text, ':');
	if (is_bracketed && !end)
		return error_set(err, TIDE_ESYNTAX, "--store: the host's [ has no ]");
	if (end) {
		host.len = (size_t)(end - text.data);
		port = slice_skip(text, host.len + (is_bracketed ? 1 : 0));
		has_port = port.len > 0;
	}
	if (is_bracketed)
		host = slice_skip(host, 1);
	if (host.len == 0)
		return error_set(err, TIDE_ESYNTAX,
				 "--store: no host; write redis://host:port/db");
	if (has_port && port.data[0] != ':')
		return error_set(err, TIDE_ESYNTAX,
				 "--store: after the host comes :port");
	out->host = decode(host);
	if (!out->host)
		return error_set(err, TIDE_ESYNTAX, "--store: the host is not readable");
	out->port = REDIS_PORT_DEFAULT;
	return has_port ? parse_port(slice_skip(port, 1), out, err) : TIDE_OK;
}

static int parse_tcp(struct slice rest, struct redis_url *out, struct error *err)
{
	int status = parse_userinfo(&rest, out, err);
	if (status < 0)
		return status;
	const char *slash = find(rest, '/');
	size_t host_len = slash ? (size_t)(slash - rest.data) : rest.len;
	status = parse_host((struct slice){ rest.data, host_len }, out, err);
	if (status < 0 || !slash || host_len + 1 == rest.len)
		return status;
	return parse_db(slice_skip(rest, host_len + 1), out, err);
}

static int parse_unix(struct slice rest, struct redis_url *out, struct error *err)
{
	if (slice_has_prefix(rest, "//"))
		rest = slice_skip(rest, 2);
	int status = parse_userinfo(&rest, out, err);
	if (status < 0)
		return status;
	const char *question = find(rest, '?');
	struct slice path = { rest.data,
			      question ? (size_t)(question - rest.data) : rest.len };
	if (path.len == 0 || path.data[0] != '/')
		return error_set(err, TIDE_ESYNTAX,
				 "--store: redis+unix: needs an absolute path, as in "
				 "redis+unix:/run/redis/redis.sock");
	out->path = decode(path);
	if (!out->path)
		return error_set(err, TIDE_ESYNTAX, "--store: the path is not readable");
	size_t max = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
	if (strlen(out->path) > max)
		return error_set(err, TIDE_ETOOLONG,
				 "--store: a socket's path has at most %zu bytes", max);
	if (!question)
		return TIDE_OK;
	struct slice query = slice_skip(rest, path.len + 1);
	if (!slice_has_prefix(query, "db="))
		return error_set(err, TIDE_ESYNTAX, "--store: after the ? comes db=N");
	return parse_db(slice_skip(query, 3), out, err);
}

static int parse(struct slice text, struct redis_url *out, struct error *err)
{
	if (slice_is(text, "none") || slice_is(text, "embedded")) {
		out->kind = slice_is(text, "none") ? REDIS_URL_NONE : REDIS_URL_EMBEDDED;
		return TIDE_OK;
	}
	if (slice_has_prefix(text, "redis://")) {
		out->kind = REDIS_URL_TCP;
		return parse_tcp(slice_skip(text, strlen("redis://")), out, err);
	}
	if (slice_has_prefix(text, "redis+unix:")) {
		out->kind = REDIS_URL_UNIX;
		return parse_unix(slice_skip(text, strlen("redis+unix:")), out, err);
	}
	if (slice_has_prefix(text, "rediss:"))
		return error_set(err, TIDE_ESYNTAX,
				 "--store: TLS to Redis (rediss:) is not supported");
	return error_set(
		err, TIDE_ESYNTAX,
		"--store is embedded, none, redis://[user:password@]host[:port][/db] "
		"or redis+unix:[user:password@]/path[?db=N]");
}

int redis_url_parse(const char *text, struct redis_url *out, struct error *err)
{
	*out = (struct redis_url){ .kind = REDIS_URL_NONE };
	int status = parse(slice_from(text), out, err);
	if (status < 0)
		redis_url_deinit(out);
	return status;
}

void redis_url_deinit(struct redis_url *url)
{
	mem_free(url->host);
	mem_free(url->path);
	mem_free(url->user);
	if (url->password)
		explicit_bzero(url->password, strlen(url->password));
	mem_free(url->password);
	*url = (struct redis_url){ .kind = REDIS_URL_NONE };
}
