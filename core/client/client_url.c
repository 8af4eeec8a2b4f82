#include "client_url.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/percent.h"

#define SCHEME_TCP "tide://"
#define SCHEME_UNIX "tide+unix:"

/* The slice up to the first `c`, which is dropped; all of it if there is none. */
static struct slice cut(struct slice *rest, char c)
{
	const char *at = rest->len ? memchr(rest->data, c, rest->len) : NULL;
	struct slice head = *rest;
	if (!at) {
		*rest = slice_skip(*rest, rest->len);
		return head;
	}
	head.len = (size_t)(at - rest->data);
	*rest = slice_skip(*rest, head.len + 1);
	return head;
}

/* A decoded copy, or NULL with `err` filled. */
static char *decode(struct slice s, const char *what, struct tidemq_error *err)
{
	char *text = mem_alloc(s.len + 1);
	size_t len = 0;
	if (percent_decode(s, text, &len) != TIDE_OK || memchr(text, 0, len)) {
		client_fail(err, TIDEMQ_EINVAL,
			    "the URL's %s '%" SLICE_FMT "' is not well percent-encoded",
			    what, SLICE_ARG(s));
		mem_free(text);
		return NULL;
	}
	text[len] = 0;
	return text;
}

/* Decode into `*out`, which is freed first. */
static int decode_into(struct slice s, const char *what, char **out,
		       struct tidemq_error *err)
{
	char *text = decode(s, what, err);
	if (!text)
		return TIDEMQ_EINVAL;
	mem_free(*out);
	*out = text;
	if (!text[0])
		return client_fail(err, TIDEMQ_EINVAL, "the URL's %s is empty", what);
	return TIDEMQ_OK;
}

static int parse_vhost(struct slice s, struct client_url *out, struct tidemq_error *err)
{
	int status = decode_into(s.len > 0 ? s : SLICE("/"), "vhost", &out->vhost, err);
	if (status != TIDEMQ_OK || strcmp(out->vhost, "/") == 0)
		return status;
	if (!slice_is_name(slice_from(out->vhost)) || strpbrk(out->vhost, "/:"))
		return client_fail(err, TIDEMQ_EINVAL,
				   "the URL's vhost '%s' must be / or 1-%d bytes without "
				   "white space, / and :",
				   out->vhost, NAME_LEN_MAX);
	return TIDEMQ_OK;
}

static int parse_user(struct slice s, struct client_url *out, struct tidemq_error *err)
{
	bool has_pass = memchr(s.data, ':', s.len) != NULL;
	int status = decode_into(cut(&s, ':'), "user", &out->user, err);
	if (status == TIDEMQ_OK && has_pass)
		status = decode_into(s, "password", &out->pass, err);
	return status;
}

static int parse_port(struct slice s, struct client_url *out, struct tidemq_error *err)
{
	uint64_t port = 0;
	if (!slice_to_uint(s, 65535, &port) || port == 0)
		return client_fail(err, TIDEMQ_EINVAL,
				   "the URL's port '%" SLICE_FMT "' must be 1-65535",
				   SLICE_ARG(s));
	out->port = (unsigned)port;
	return TIDEMQ_OK;
}

static int parse_host(struct slice s, struct client_url *out, struct tidemq_error *err)
{
	struct slice host;
	bool has_port = false;
	if (s.len > 0 && s.data[0] == '[') {
		s = slice_skip(s, 1);
		if (!memchr(s.data, ']', s.len))
			return client_fail(
				err, TIDEMQ_EINVAL,
				"the URL's IPv6 address lacks its closing bracket");
		host = cut(&s, ']');
		has_port = s.len > 0;
		if (has_port && s.data[0] != ':')
			return client_fail(
				err, TIDEMQ_EINVAL,
				"the URL's host must be followed by :port or /vhost");
		s = has_port ? slice_skip(s, 1) : s;
	} else {
		has_port = s.len > 0 && memchr(s.data, ':', s.len) != NULL;
		host = cut(&s, ':');
	}
	if (host.len == 0)
		return client_fail(err, TIDEMQ_EINVAL, "the URL names no host");
	out->host = mem_strndup(host.data, host.len);
	out->port = CLIENT_URL_PORT_DEFAULT;
	return has_port ? parse_port(s, out, err) : TIDEMQ_OK;
}

static int parse_tcp(struct slice s, struct client_url *out, struct tidemq_error *err)
{
	struct slice authority = cut(&s, '/');
	int status = parse_vhost(s, out, err);

	/* A password may contain '@', a host may not: the last one separates. */
	const char *at =
		authority.len ? memrchr(authority.data, '@', authority.len) : NULL;
	if (status == TIDEMQ_OK && at) {
		size_t len = (size_t)(at - authority.data);
		status = parse_user((struct slice){ authority.data, len }, out, err);
		authority = slice_skip(authority, len + 1);
	}
	return status == TIDEMQ_OK ? parse_host(authority, out, err) : status;
}

static int parse_query(struct slice query, struct client_url *out,
		       struct tidemq_error *err)
{
	int status = TIDEMQ_OK;
	while (query.len > 0 && status == TIDEMQ_OK) {
		struct slice value = cut(&query, '&');
		struct slice name = cut(&value, '=');
		if (slice_is(name, "vhost"))
			status = parse_vhost(value, out, err);
		else if (slice_is(name, "user"))
			status = decode_into(value, "user", &out->user, err);
		else if (slice_is(name, "pass"))
			status = decode_into(value, "password", &out->pass, err);
		else
			status = client_fail(err, TIDEMQ_EINVAL,
					     "the URL's option '%" SLICE_FMT
					     "' is none of vhost, user, pass",
					     SLICE_ARG(name));
	}
	return status;
}

static int parse_unix(struct slice s, struct client_url *out, struct tidemq_error *err)
{
	struct slice path = cut(&s, '?');
	/* Both tide+unix:/path and tide+unix:///path are written. */
	if (slice_has_prefix(path, "///"))
		path = slice_skip(path, 2);
	if (path.len == 0)
		return client_fail(err, TIDEMQ_EINVAL, "the URL names no socket");
	out->path = decode(path, "path", err);
	if (!out->path)
		return TIDEMQ_EINVAL;
	int status = parse_query(s, out, err);
	if (status == TIDEMQ_OK && !out->vhost)
		out->vhost = mem_strdup("/");
	return status;
}

int client_url_parse(const char *text, struct client_url *out, struct tidemq_error *err)
{
	memset(out, 0, sizeof(*out));
	struct slice s = slice_from(text);
	int status;
	if (slice_has_prefix(s, SCHEME_TCP))
		status = parse_tcp(slice_skip(s, strlen(SCHEME_TCP)), out, err);
	else if (slice_has_prefix(s, SCHEME_UNIX))
		status = parse_unix(slice_skip(s, strlen(SCHEME_UNIX)), out, err);
	else
		status = client_fail(err, TIDEMQ_EINVAL,
				     "the URL '%.100s' must begin with " SCHEME_TCP
				     " or " SCHEME_UNIX,
				     text ? text : "");
	if (status != TIDEMQ_OK)
		client_url_deinit(out);
	return status;
}

void client_url_deinit(struct client_url *u)
{
	mem_free(u->host);
	mem_free(u->path);
	mem_free(u->user);
	mem_free(u->pass);
	mem_free(u->vhost);
	memset(u, 0, sizeof(*u));
}

char *client_url_address(const struct client_url *u)
{
	if (u->path)
		return mem_strdup(u->path);
	struct buf b;
	buf_init(&b);
	buf_printf(&b, strchr(u->host, ':') ? "[%s]:%u" : "%s:%u", u->host, u->port);
	char *text = mem_strdup(buf_cstr(&b));
	buf_deinit(&b);
	return text;
}
