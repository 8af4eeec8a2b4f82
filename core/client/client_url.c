#include "client_url.h"

#include "base/mem.h"

#define SCHEME_TCP "tide://"
#define SCHEME_TLS "tides://"
#define SCHEME_UNIX "tide+unix:"

static int parse_vhost(struct slice text, struct client_url *out, struct error *err)
{
	int rc = url_decode(text.len > 0 ? text : SLICE("/"), "vhost", &out->vhost, err);

	if (rc < 0 || strcmp(out->vhost, "/") == 0)
		return rc;
	if (!slice_is_name(slice_from(out->vhost)) || strpbrk(out->vhost, "/:"))
		return error_set(err, TIDE_ESYNTAX,
				 "the vhost '%s' must be / or 1-%d bytes without white "
				 "space, / and :",
				 out->vhost, NAME_LEN_MAX);
	return TIDE_OK;
}

static int parse_query(struct slice query, struct client_url *out, struct error *err)
{
	int rc = parse_vhost(SLICE("/"), out, err);

	while (query.len > 0 && rc == TIDE_OK) {
		struct slice value = slice_cut(&query, '&');
		struct slice name = slice_cut(&value, '=');

		if (slice_is(name, "vhost"))
			rc = parse_vhost(value, out, err);
		else if (slice_is(name, "user"))
			rc = url_decode(value, "user", &out->at.user, err);
		else if (slice_is(name, "pass"))
			rc = url_decode(value, "password", &out->at.password, err);
		else
			rc = error_set(err, TIDE_ESYNTAX,
				       "the option '%.*s' is not one of vhost, user, "
				       "pass",
				       SLICE_HEAD(name, 100));
	}
	return rc;
}

static int parse_unix(struct slice text, struct client_url *out, struct error *err)
{
	struct slice path;
	int rc;

	/* Both tide+unix:/path and tide+unix:///path are written. */
	if (slice_has_prefix(text, "///"))
		text = slice_skip(text, 2);
	path = slice_cut(&text, '?');
	if (path.len == 0)
		return error_set(err, TIDE_ESYNTAX, "no socket");
	rc = url_decode(path, "path", &out->at.path, err);
	return rc < 0 ? rc : parse_query(text, out, err);
}

static int parse_host(struct slice text, struct client_url *out, struct error *err)
{
	struct slice vhost;
	int rc = url_parse_host(text, CLIENT_URL_PORT_DEFAULT, &out->at, &vhost, err);

	return rc < 0 ? rc : parse_vhost(vhost, out, err);
}

static int parse(struct slice text, struct client_url *out, struct error *err)
{
	int rc;

	if (slice_has_prefix(text, SCHEME_UNIX)) {
		rc = parse_unix(slice_skip(text, strlen(SCHEME_UNIX)), out, err);
	} else if (slice_has_prefix(text, SCHEME_TCP)) {
		rc = parse_host(slice_skip(text, strlen(SCHEME_TCP)), out, err);
	} else if (slice_has_prefix(text, SCHEME_TLS)) {
		out->is_tls = true;
		rc = parse_host(slice_skip(text, strlen(SCHEME_TLS)), out, err);
	} else {
		/* What follows the scheme may be a password. */
		text.len = slice_find(text, ':');
		rc = error_set(err, TIDE_ESYNTAX,
			       "'%.*s' must begin with " SCHEME_TCP ", " SCHEME_TLS
			       " or " SCHEME_UNIX,
			       SLICE_HEAD(text, 100));
	}
	if (rc == TIDE_OK && out->at.user && !out->at.user[0])
		rc = error_set(err, TIDE_ESYNTAX, "the user is empty");
	if (rc == TIDE_OK && out->at.password && !out->at.password[0])
		rc = error_set(err, TIDE_ESYNTAX, "the password is empty");
	return rc;
}

static bool has_scheme(struct slice text)
{
	return slice_has_prefix(text, SCHEME_TCP) || slice_has_prefix(text, SCHEME_TLS) ||
	       slice_has_prefix(text, SCHEME_UNIX);
}

/* Take the next URL off the list. */
static struct slice take_url(struct slice *rest)
{
	struct slice all = *rest;
	size_t at = 0;

	do {
		at += slice_find(slice_skip(all, at), ',');
		*rest = slice_skip(all, at < all.len ? at + 1 : at);
		at++;
	} while (rest->len > 0 && !has_scheme(*rest));
	return (struct slice){ all.data, at - 1 };
}

void client_url_free(struct client_url *urls, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		url_deinit(&urls[i].at);
		mem_free(urls[i].vhost);
	}
	mem_free(urls);
}

int client_url_parse(const char *text, struct client_url **out, size_t *count,
		     struct tidemq_error *err)
{
	struct slice rest = slice_from(text);
	struct client_url *urls = NULL;
	struct error why;
	size_t n = 0;
	int rc;

	do {
		urls = mem_realloc(urls, (n + 1) * sizeof(*urls));
		urls[n] = (struct client_url){ 0 };
		rc = parse(take_url(&rest), &urls[n++], &why);
	} while (rest.len > 0 && rc == TIDE_OK);
	*out = urls;
	*count = n;
	if (rc == TIDE_OK)
		return TIDEMQ_OK;
	client_url_free(urls, n);
	*out = NULL;
	*count = 0;
	return client_fail(err, TIDEMQ_EINVAL, "the URL is wrong: %s", why.text);
}
