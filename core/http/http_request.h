/* http_request.h: one request over HTTP, and what its handler may ask.
 *
 * It lives until its answer has been given, and so does every slice that it gives. Names
 * and values in the path and in the query are decoded. A parameter is a member of the
 * body, a JSON object, or else of the query. The first one that is wrong is kept in the
 * request: a handler reads all that it needs, then returns if http_request_check says
 * so. */
#pragma once

#include "session/session.h"

struct http_request;

/* Who asks: logged in, in the vhost of the path ("/" where the path has none). */
struct session *http_request_session(struct http_request *q);
struct channel *http_request_channel(struct http_request *q); /* channel 0 */

/* The value of `{name}` in the path of the route: 1-255 bytes as in any name; it is
 * zero-terminated. */
struct slice http_request_path(const struct http_request *q, const char *name);

/* A parameter; data == NULL: not given. Numbers are given as JSON has them, booleans as
 * "1" and "0". */
struct slice http_request_text(struct http_request *q, const char *name);
/* Likewise; what is given must be a name as everywhere. */
struct slice http_request_name(struct http_request *q, const char *name);

/* `fallback` when it is not given. */
uint64_t http_request_uint(struct http_request *q, const char *name,
			   struct number_limits limits, uint64_t fallback);
int64_t http_request_int(struct http_request *q, const char *name, int64_t min,
			 int64_t max, int64_t fallback);
/* "30s", or a number of ms; 0 when it is not given. */
int64_t http_request_duration(struct http_request *q, const char *name,
			      struct number_limits limits);
/* true, 1 or "1"; false when it is not given. */
bool http_request_flag(struct http_request *q, const char *name);
/* One of "this, that or other": its index; 0 when it is not given. */
unsigned http_request_choice(struct http_request *q, const char *name,
			     const char *choices);
/* {"options":{"max-length":1000}}, for a member "options". `out` holds nothing before,
 * and is the caller's. */
void http_request_args(struct http_request *q, const char *member, struct args *out);

/* From now on replies of the session come here, and none is the answer: for a handler
 * that asks the session more than once. The reply that it was given is
 * finished by this; it makes others on http_request_channel, and answers by
 * http_answer.h. */
void http_request_listen(struct http_request *q,
			 void (*on_reply)(void *ctx, struct reply *r), void *ctx);

/* A header, by its name in any case; NULL: there is none. */
const char *http_request_header(const struct http_request *q, const char *name);
/* The body as it came, zero-terminated. */
struct slice http_request_body(const struct http_request *q);
/* The body, a json_t *; NULL: there is none. */
const void *http_request_json(const struct http_request *q);

/* Refuse a parameter: "<name>: expected <expected>, not '<value>'". */
void http_request_refuse(struct http_request *q, const char *name, struct slice value,
			 const char *expected, ...) TIDE_PRINTF(4, 5);
/* The first error of the parameters that were read, in `err`; TIDE_OK: there is none. */
TIDE_MUST_USE int http_request_check(const struct http_request *q, struct error *err);
