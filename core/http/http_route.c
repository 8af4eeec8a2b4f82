#include "http_route.h"

#include <stdio.h>

static const struct http_route *const tables[] = {
	http_websocket_routes, http_files_routes,        http_health_routes,
	http_metrics_routes,   http_api_messages_routes, http_api_events_routes,
	http_api_routes,
};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

/* Part by part: a part in braces takes any. */
static bool is_match(const char *pattern, struct slice path, struct http_match *out)
{
	struct slice rest = slice_from(pattern);

	out->count = 0;
	while (rest.len > 0 && path.len > 0) {
		struct slice want = slice_cut(&rest, '/'), part = slice_cut(&path, '/');

		if (slice_has_prefix(want, "{") && part.len > 0)
			out->values[out->count++] = part;
		else if (!slice_is_equal(want, part))
			return false;
	}
	return rest.len == 0 && path.len == 0;
}

static bool is_method(const struct http_route *r, const char *method)
{
	return strcmp(r->method, method) == 0 ||
	       (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

static void allow(struct http_match *out, char text[HTTP_ALLOW_MAX], const char *method)
{
	size_t len = out->allow ? strlen(text) : 0;

	snprintf(text + len, HTTP_ALLOW_MAX - len, "%s%s", len ? ", " : "", method);
	out->allow = text;
}

void http_route_find(struct http_match *out, const char *method, struct slice path,
		     char text[HTTP_ALLOW_MAX])
{
	*out = (struct http_match){ 0 };
	for (size_t i = 0; http_route_at(i, &out->found); i++) {
		if (!is_match(out->found.path, path, out))
			continue;
		if (is_method(&out->found, method)) {
			out->route = &out->found;
			return;
		}
		allow(out, text, out->found.method);
	}
}

bool http_route_at(size_t index, struct http_route *out)
{
	const struct operation *o;

	for (size_t i = 0; i < TABLES; i++)
		for (const struct http_route *r = tables[i]; r->method; r++)
			if (index-- == 0) {
				*out = *r;
				return true;
			}
	for (size_t i = 0; (o = operation_at(i)) != NULL; i++)
		if (o->path && index-- == 0) {
			unsigned features =
				(o->features & OPERATION_PAGED ? HTTP_PAGED : 0u) |
				(o->features & OPERATION_DECLARES ? HTTP_DECLARES : 0u) |
				(o->features & OPERATION_VHOST ? HTTP_VHOST : 0u);

			*out = (struct http_route){ o->method, o->path, NULL,
						    features,  NULL,    o };
			return true;
		}
	return false;
}
