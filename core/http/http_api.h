/* http_api.h: what the handlers of the API share. */
#pragma once

#include "http_route.h"

/* A parameter that must be given; `what` follows "expected". */
struct slice http_api_need(struct http_request *q, const char *name, const char *what);
/* Likewise a name. */
struct slice http_api_need_name(struct http_request *q, const char *name);
/* The session's function that a route stands for, with the queue, topic or exchange of
 * the path. "-" is an empty name. */
struct slice http_api_word(struct http_request *q, const char *name);
/* The id of a message in the path. */
uint64_t http_api_id(struct http_request *q);
/* A position in a topic; of kind POSITION_NONE when it is not given. */
struct position http_api_position(struct http_request *q, const char *name);
/* Above 0 and up to 1: 10, "10" or "10%" of a hundred. 0 when it is not given. */
double http_api_share(struct http_request *q, const char *name);

/* The parameters of a list. */
#define HTTP_API_PAGE "sort order max offset match"
int http_api_list(struct http_request *q, enum list_what what, struct reply *r,
		  struct error *err);

/* Declare it with the options of the body. */
int http_api_declare(struct http_request *q, struct declare_spec *spec, struct reply *r,
		     struct error *err);
