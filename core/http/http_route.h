/* http_route.h: which handler a method and a path have. */
#pragma once

#include "http_request.h"
#include "ops/operation.h"

/* Like a session function: it finishes `r`, now or later, or returns an error. */
typedef int http_handler_fn(struct http_request *q, struct reply *r, struct error *err);

enum http_feature {
	HTTP_NO_LOGIN = 1,  /* anybody may ask; `r` is NULL, and the handler answers by
			       http_answer.h */
	HTTP_PAGED = 2,     /* the document is an array, r->count the length of all:
			       {"total","items"} */
	HTTP_DECLARES = 4,  /* the vhost of the path is made if a grant names it */
	HTTP_VHOST = 8,     /* the vhost of the session is that of the query */
	HTTP_ANY_HOST = 16, /* whatever name the broker is asked by, and by whose page */
};

struct http_route {
	const char *method; /* "GET", which HEAD is too */
	/* "/api/vhosts/{vhost}/queues/{queue}"; {vhost} is the vhost of the session. */
	const char *path;
	/* The parameters that it takes, "a b c"; others are refused. NULL: none. */
	const char *names;
	unsigned features;
	http_handler_fn *handle;
	const struct operation *operation; /* not NULL: http_api_run does it */
};

#define HTTP_PATH_NAMES_MAX 4

struct http_match {
	const struct http_route *route; /* NULL: no such path, or not by this method */
	struct http_route found;        /* that one */
	const char *allow; /* the methods of the path, "GET, PUT"; NULL: no such path */
	unsigned count;
	/* Of the path, as it came: in the order of the names in the pattern. */
	struct slice values[HTTP_PATH_NAMES_MAX];
};

/* Find the route. @param allow  room for the methods, when the path has others */
#define HTTP_ALLOW_MAX 64
void http_route_find(struct http_match *out, const char *method, struct slice path,
		     char allow[HTTP_ALLOW_MAX]);
/* The row at that place, over all tables, then each operation over HTTP; false: there are
 * no more. */
bool http_route_at(size_t index, struct http_route *out);

/* The tables, each in the file of its name; the last row is all zeros. */
extern const struct http_route http_api_routes[];
extern const struct http_route http_api_events_routes[];
extern const struct http_route http_api_messages_routes[];
extern const struct http_route http_files_routes[];
extern const struct http_route http_health_routes[];
extern const struct http_route http_metrics_routes[];
extern const struct http_route http_websocket_routes[];
