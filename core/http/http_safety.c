#include "http_safety.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <strings.h>

#include "session/service_users.h"
#include "http_engine.h"
#include "http_request_private.h"

/* "https://HOST:PORT" is a page of the host. */
static bool is_own(const char *origin, const char *host)
{
	const char *at = strstr(origin, "://");

	return at && host && strcasecmp(at + 3, host) == 0;
}

bool http_safety_is_origin(const char *text)
{
	const char *at = strstr(text, "://");

	return strcmp(text, "*") == 0 ||
	       (at && at > text && at[3] && !strpbrk(at + 3, "/?#@ \t\"'*,"));
}

/* --http-origin that lets it ask; NULL: none does. */
static const char *find_origin(const struct http_request *q, const char *origin)
{
	const struct http_config *config = &q->conn->engine->config;

	const char *any = NULL;

	for (unsigned i = 0; i < config->origin_count; i++)
		if (strcasecmp(config->origins[i], origin) == 0)
			return config->origins[i];
		else if (strcmp(config->origins[i], "*") == 0)
			any = config->origins[i];
	return any;
}

/* Without the port, and without the brackets of an IPv6 address. */
static void cut_name(const char *host, char *name, size_t size)
{
	const char *end = host[0] == '[' ? strchr(host, ']') : NULL;

	if (end && (!end[1] || end[1] == ':'))
		snprintf(name, size, "%.*s", (int)(end - host - 1), host + 1);
	else
		snprintf(name, size, "%.*s", (int)strcspn(host, ":"), host);
}

static bool is_address(const char *name)
{
	unsigned char bytes[16];

	return inet_pton(AF_INET, name, bytes) == 1 ||
	       inet_pton(AF_INET6, name, bytes) == 1;
}

static bool is_known(const char *name, const struct http_config *config)
{
	if (strcasecmp(name, "localhost") == 0 || is_address(name))
		return true;
	for (unsigned i = 0; i < config->host_count; i++)
		if (strcasecmp(name, config->hosts[i]) == 0)
			return true;
	return false;
}

int http_safety_check(const struct http_request *q, struct error *err)
{
	const char *host = q->head.host, *origin = http_request_header(q, "Origin");
	char name[256];

	/* Probes know the broker by all sorts of names. */
	if (q->match.route && q->match.route->features & HTTP_ANY_HOST)
		return TIDE_OK;
	if (origin && !is_own(origin, host) && !find_origin(q, origin))
		return error_set(err, TIDE_EDENIED,
				 "a page of %.200s may not ask this broker: only its own "
				 "pages may, and those of serve --http-origin",
				 origin);
	/* A name may be made to lead here by whoever owns it: then his page is our own,
	 * for a browser. With a login he would need a password. */
	if (!host || !service_users_is_open(q->conn->spec.service))
		return TIDE_OK;
	cut_name(host, name, sizeof(name));
	if (is_known(name, &q->conn->engine->config))
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED,
			 "this broker is not known as '%.200s': start it with "
			 "--http-host %.200s, or define users",
			 name, name);
}

bool http_safety_is_preflight(const struct http_request *q)
{
	const char *origin = http_request_header(q, "Origin");

	return origin && strcmp(q->head.method, "OPTIONS") == 0 &&
	       http_request_header(q, "Access-Control-Request-Method") &&
	       find_origin(q, origin);
}

/* The password that a browser has stored goes along for a page of an origin that is
 * named; for any page it does not: that one must know a password. */
void http_safety_write(struct http_request *q)
{
	const char *origin = http_request_header(q, "Origin"), *allowed;

	if (q->conn->engine->config.origin_count == 0)
		return;
	buf_append_text(&q->headers, "Vary: Origin\r\n");
	allowed = origin ? find_origin(q, origin) : NULL;
	if (!allowed)
		return;
	if (strcmp(allowed, "*") == 0)
		buf_append_text(&q->headers, "Access-Control-Allow-Origin: *\r\n");
	else
		buf_printf(&q->headers,
			   "Access-Control-Allow-Origin: %s\r\n"
			   "Access-Control-Allow-Credentials: true\r\n",
			   origin);
}
