/* http_request_private.h: what a request is made of; for the files of this floor that
 * make one, run it and answer it. */
#pragma once

#include <jansson.h>

#include "http_body.h"
#include "http_conn.h"
#include "http_route.h"
#include "http_stream.h"

struct http_conn;
struct http_parse;

/* Where it is. It waits in some of them; http_exchange_go_on says for what. */
enum http_state {
	HTTP_HEAD,   /* its head is there */
	HTTP_LOGIN,  /* it is being decided who asks */
	HTTP_BODY,   /* its body comes */
	HTTP_PARSE,  /* that is read as JSON */
	HTTP_WORK,   /* its handler was asked */
	HTTP_ANSWER, /* its answer leaves */
};

struct http_text {
	struct http_text *next;
	char bytes[];
};

#define HTTP_QUERY_MAX 32
/* In a body; all of them are freed in one turn. */
#define HTTP_VALUES_MAX 250000

struct http_request {
	struct http_conn *conn;
	enum http_state state;
	char *text; /* the head, in which `head` points */
	struct http_head head;
	struct http_body coming;
	TAILQ_ENTRY(http_request) queue_link; /* of the engine */
	bool is_queued;
	struct reply *reply; /* that its handler was given; NULL: it has come */
	/* Who hears of replies; NULL: they are the answer. */
	void (*on_reply)(void *ctx, struct reply *r);
	void *on_reply_ctx;
	struct http_match match;
	struct slice path, query;                      /* of the target */
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
	/* The answer. */
	unsigned status;           /* 0: there is none yet */
	struct buf headers;        /* "Name: value\r\n" of each */
	struct buf document;       /* its bytes, unless others keep them */
	struct slice left;         /* what is to be written of them */
	struct http_source source; /* of an answer in pieces */
	bool is_in_pieces;
	bool is_source_idle; /* it wakes the request when there is more */
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
void http_request_deinit(struct http_request *q);
/* The parameters that a route takes, each behind a space. */
void http_request_write_names(const struct http_route *r, struct buf *out);
/* Run the operation of the route; in http_api.c. */
TIDE_MUST_USE int http_api_run(struct http_request *q, struct reply *r,
			       struct error *err);
