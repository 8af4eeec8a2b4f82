/* http_request_private.h: what a request is made of; for the files of this floor that
 * make one, run it and answer it. */
#pragma once

#include <jansson.h>

#include "http_route.h"
#include "http_stream.h"

struct MHD_Connection;
struct MHD_Response;
struct http_conn;
struct http_parse;
struct http_engine;

enum http_state {
	HTTP_HEAD,     /* its head is there */
	HTTP_LOGIN,    /* it is being decided who asks */
	HTTP_BODY,     /* more may come */
	HTTP_WORK,     /* a reply is waited for */
	HTTP_ANSWERED, /* the engine has the answer, or will be given it */
};

struct http_text {
	struct http_text *next;
	char bytes[];
};

#define HTTP_QUERY_MAX 32
/* In a body; all of them are freed in one turn. */
#define HTTP_VALUES_MAX 250000

struct http_request {
	struct MHD_Connection *connection;
	struct http_conn *conn; /* NULL: it has ended, and nobody waits for the answer */
	enum http_state state;
	struct http_engine *engine;
	bool is_suspended;
	struct reply *reply; /* that its handler was given; NULL: it has come */
	struct http_engine
		*queue; /* where it waits for the next run; NULL: it does not */
	TAILQ_ENTRY(http_request) waiting_link;
	/* Who hears of replies; NULL: they are the answer. */
	void (*on_reply)(void *ctx, struct reply *r);
	void *on_reply_ctx;
	struct http_source source; /* of an answer in pieces */
	struct buf piece;          /* the one that is being sent */
	struct http_match match;
	char *host;   /* of an absolute target, in place of the header's; NULL: none */
	char *target; /* behind the host; the path and the query are parts of it */
	struct slice path, query;
	struct slice path_values[HTTP_PATH_NAMES_MAX]; /* decoded */
	struct {
		struct slice name, value; /* decoded */
	} pairs[HTTP_QUERY_MAX];
	unsigned pair_count;
	struct http_text *texts; /* what was made on the way */
	struct buf body;
	json_t *json;             /* NULL: there is none */
	struct http_parse *parse; /* under way; NULL: none */
	bool is_parsed;
	struct error err;
	int rc; /* of the first wrong parameter */
	struct MHD_Response *response;
	unsigned status;
};

/* Room for a text of that length and a zero, for as long as the request. */
char *http_request_room(struct http_request *q, size_t len);
/* Decode the path and the query of `target`, and look at the names. The match is there.
 */
TIDE_MUST_USE int http_request_decode(struct http_request *q, struct error *err);
/* Read a body as JSON. Touches nothing else: for any thread. */
TIDE_MUST_USE int http_request_parse(struct slice body, json_t **out, struct error *err);
/* Read the body as JSON, unless that was done, and look at its names. */
TIDE_MUST_USE int http_request_read_body(struct http_request *q, struct error *err);
/* Its head or its body has not come whole, and the engine waits for it. */
static inline bool http_request_is_partial(const struct http_request *q)
{
	return !q->is_suspended && (q->state == HTTP_HEAD || q->state == HTTP_BODY);
}
void http_request_deinit(struct http_request *q);
