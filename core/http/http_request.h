/* http_request.h: one request over HTTP, and what its handler may ask.
 *
 * It lives until its answer has been given, and so does every slice that it gives. Names
 * and values in the path and in the query are decoded. A parameter is a member of the
 * body, a JSON object, or else of the query. The first one that is wrong is kept in the
 * request: a handler reads all that it needs, then returns if http_request_check says
 * so. */
#pragma once

#include <jansson.h>

#include "http.h"
#include "http_head.h"
#include "ops/operation.h"

struct http_engine;
struct http_leases;
struct http_parse;
struct http_request;
struct http_websocket;

/* Like a session function: it finishes `r`, now or later, or returns an error. */
typedef int http_handler_fn(struct http_request *q, struct reply *r, struct error *err);

/* ---- which handler a method and a path have ---- */

#define HTTP_PATH_NAMES_MAX 4
enum http_feature {
	HTTP_NO_LOGIN = 1,  /* anybody may ask; `r` is NULL, and the handler answers by
			       http_answer_* */
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

/* ---- a request, its connection, and what all of them share ---- */

/* An answer in pieces, for what is long or never ends: the peer takes them as fast as it
 * can. A handler that answers so leaves its reply alone. */
struct http_stream {
	const char *content_type;
	/* Write some `room` bytes, in 5 ms at most. TIDE_OK: more follows. TIDE_EMPTY:
	 * that was all. TIDE_AGAIN: more follows after http_stream_wake. Another error
	 * cuts the answer off. */
	int (*next)(void *ctx, struct buf *out, size_t room);
	/* The answer has left, or the peer has; once. The session may be gone. */
	void (*end)(void *ctx);
	void *ctx;
	bool is_endless; /* it ends when the broker stops */
};

struct http_text {
	struct http_text *next;
	char bytes[];
};

#define HTTP_QUERY_MAX 32
/* In a body; all of them are freed in one turn. */
#define HTTP_VALUES_MAX 250000

/* Where it is. It waits in some of them; http_exchange_go_on says for what. */
enum http_state {
	HTTP_HEAD,   /* its head is there */
	HTTP_LOGIN,  /* it is being decided who asks */
	HTTP_BODY,   /* its body comes */
	HTTP_PARSE,  /* that is read as JSON */
	HTTP_WORK,   /* its handler was asked */
	HTTP_ANSWER, /* its answer leaves */
};

/* The answer to a request. */
struct http_answer {
	unsigned status;           /* 0: there is none yet */
	struct buf headers;        /* "Name: value\r\n" of each */
	struct buf document;       /* its bytes, unless others keep them */
	struct slice left;         /* what is to be written of them */
	struct http_stream source; /* of an answer in pieces */
	bool is_in_pieces;
	bool is_source_idle; /* it wakes the request when there is more */
};

struct http_request {
	struct http_conn *conn;
	enum http_state state;
	char *text; /* the head, in which `head` points */
	struct http_head head;
	struct http_body coming;
	TAILQ_ENTRY(http_request) queue_link; /* of the engine */
	bool is_queued;
	struct reply *reply; /* that its handler was given; NULL: it has come */
	/* The receiver of replies; NULL: they are the answer. */
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
	struct http_answer answer;
};

/* The output that waits for the peer at most before more is written, or a little more
 * than that. */
#define HTTP_OUTPUT_MAX ((size_t)256 << 10)

struct http_conn {
	struct protocol base;
	struct protocol_spec spec; /* of the sessions that follow the first */
	const struct session_ops *session_ops;
	struct http_engine *engine;
	struct http_scan scan;            /* of the head that is coming */
	struct http_request *request;     /* whose head has come; NULL: none */
	struct http_websocket *websocket; /* whose session is ours; NULL: none */
	/* Of the session: who it is, as the request said it, and where. */
	struct buf authorization;
	struct buf vhost;
	struct error
		refusal; /* of the login of this request; its code is TIDE_OK: none */
	/* When the first byte of the request came that is not there whole, by the clock
	 * of the loop; 0: there is none. */
	int64_t receiving_ms;
	int64_t idle_ms;  /* since when there was no request, likewise */
	bool is_shut_out; /* by the last refusal: the user is known */
	bool is_deciding; /* who the request is of */
	bool is_in;       /* the session has been logged in, or need not */
	bool is_used;     /* that has been tried */
	bool is_leaving;  /* no request follows this one */
};

struct http_engine {
	uv_loop_t *loop;
	struct http_config config;
	struct http_leases *leases;
	uv_idle_t idle; /* active while requests are in the queue */
	TAILQ_HEAD(http_queue, http_request) queue;
	uint64_t turn_ms; /* of the loop's clock */
	uint64_t turn_ns; /* when requests had their first time in it */
	int64_t date_s;
	char date[32]; /* at that time, as in a header */
	unsigned handles;
	void (*on_closed)(void *ctx);
	void *ctx;
};

/* The tables, each in the file of its name; the last row is all zeros. */
extern const struct http_route http_api_routes[];
extern const struct http_route http_message_routes[];
extern const struct http_route http_websocket_routes[];

/* The session of the request: logged in, in the vhost of the path ("/" where the path
 * has none). */
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

/* The value of a parameter of a row, of the path or of those above: for operation_run. */
struct slice http_request_value(void *ctx, const struct parameter *p, struct error *err);
/* Read the parameters of rows: operation_read. */
TIDE_MUST_USE int http_request_read(struct http_request *q, const struct parameter *rows,
				    void *into, struct error *err);
/* {"options":{"max-length":1000}}, for a member "options". `out` holds nothing before,
 * and is the caller's. */
void http_request_args(struct http_request *q, const char *member, struct args *out);

/* From now on replies of the session come here, and none is the answer: for a handler
 * that asks the session more than once. The reply that it was given is
 * finished by this; it makes others on http_request_channel, and answers by
 * http_answer_*. */
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

/* Has this turn no time left for requests? */
bool http_engine_is_late(struct http_engine *e);
/* The request goes on in the next turn. Harmless when it is to do so already. */
void http_engine_queue(struct http_request *q);
void http_engine_forget(struct http_request *q);
/* The time, as a header has it. */
const char *http_engine_date(struct http_engine *e);

/* ---- one request after the other, from its head to its answer ----
 *
 * A request is read until its head is there, then goes from state to state: who asks,
 * the body, the work, the answer. Where it waits, for a password to be checked, for a
 * reply, for room to write, or for the next turn, whatever it waits for queues it in the
 * engine. The next one is read when its answer has been written. */

/* Take some of what has come: gives how much. 0: more must come. */
size_t http_exchange_feed(struct http_conn *c, char *data, size_t len);
/* Can input be taken? */
bool http_exchange_can_take(const struct http_conn *c);
/* The request goes on, as far as it can now. It may be gone afterwards. */
void http_exchange_go_on(struct http_request *q);
/* A reply of the session. */
void http_exchange_reply(struct http_conn *c, struct reply *r);
/* Some of the output has left. */
void http_exchange_sent(struct http_conn *c);
/* Take no more requests; endless answers end. */
void http_exchange_stop(struct http_conn *c);
/* The connection has ended: nobody waits for the answer. */
void http_exchange_drop(struct http_conn *c);

/* ---- STOMP in a WebSocket: GET /stomp ----
 *
 * From the answer 101 on what comes is taken out of its frames and given to a protocol
 * inside, whose session is that of the connection. What that protocol writes goes into
 * frames: text where it is UTF-8, else binary. */

/* The answer 101 is written: what follows it are frames. */
void http_websocket_start(struct http_conn *c);

/* ---- the answer: a document, a file, or an error ----
 *
 * It is kept in the request, and leaves as the peer takes it. A handler of a route
 * without a login answers by these; others finish their reply. */

/* A JSON document; the buffer is taken. */
void http_answer_take(struct http_request *q, unsigned status, struct buf *json);
/* Bytes that last. A peer that has them, by their ETag ("\"…\""), is told so alone. */
struct http_content {
	struct slice bytes;
	const char *type;
	const char *etag;
};
void http_answer_content(struct http_request *q, const struct http_content *content);
/* Likewise, with another status, or code. */
void http_answer_refuse(struct http_request *q, unsigned status, const char *code,
			const char *text);
/* Begin one that is nothing of these: its status, and the headers that all have. */
void http_answer_begin(struct http_request *q, unsigned status);
/* Of an answer that has begun. No part of it is a peer's word. */
void http_answer_header(struct http_request *q, const char *name, const char *value);

/* The members of what a publish has led to. */
void http_answer_published(struct json *j, const struct reply *r);
/* The member "error" of an object. */
void http_answer_member_error(struct json *j, int code, const char *text);

void http_stream_start(struct http_request *q, const struct http_stream *source);
/* The source has more. Harmless when it is not waited for. */
void http_stream_wake(struct http_request *q);

/* ---- a message to publish, or that was given out, as a JSON object ----
 *
 *   {"key":"orders.eu","payload":"text","headers":{"tenant":"acme"},"delay":"30s"}
 *
 * `payload_base64` stands for a payload that is not text. */

#define HTTP_MESSAGE_NAMES                                                              \
	"key payload payload_base64 headers priority delay ttl ack-timeout durable id " \
	"must expect"

struct http_message {
	struct publish_spec spec;
	struct publish_demand demand;
	struct msg_header headers[MSG_HEADERS_MAX];
	char *room; /* a payload that was base64; NULL: none */
};

/* @param object  a json_t *, in which `out` points; NULL: an empty one
 * @param exchange  "-": the default one
 * @return  TIDE_ESYNTAX or TIDE_ETOOLONG with a sentence; call deinit in every case */
TIDE_MUST_USE int http_message_read(struct http_message *out, const void *object,
				    struct slice exchange, struct error *err);
void http_message_deinit(struct http_message *m);
/* A message that was given out, as an object.
 *
 * @param receipt  NULL: it need not be settled */
void http_message_write(const struct delivery *d, const char *receipt, struct json *j);

/* ---- who holds the messages that were given out over HTTP ----
 *
 * A connection over HTTP may end after each request, so it cannot hold them. A session of
 * the broker does, one for each user and vhost (session_beside_create). Each message that
 * a GET gives out has a receipt, by which any connection of the same user settles it. The
 * session ends when it holds nothing and was not used for a minute.
 *
 * A receipt is "<session>.<tag>.<signature>". The signature covers the queue and has the
 * key of this process: nobody can guess the receipt of a message that he was not given.
 */

#define HTTP_RECEIPT_SIZE 64

struct http_receipt {
	uint64_t session; /* the number of that which holds the message */
	uint64_t tag;
};

#define HTTP_LEASE_MAX 1000          /* sessions at a time */
#define HTTP_LEASE_RECEIPTS_MAX 1000 /* in a request */

void http_receipt_format(const struct http_receipt *r, const uint64_t key[2],
			 struct slice queue, char out[HTTP_RECEIPT_SIZE]);
enum http_receipt_verdict {
	HTTP_RECEIPT_GOOD,
	HTTP_RECEIPT_FOREIGN,   /* of another queue or process, or made up */
	HTTP_RECEIPT_MALFORMED, /* it has another form */
};
enum http_receipt_verdict http_receipt_parse(struct slice text, const uint64_t key[2],
					     struct slice queue,
					     struct http_receipt *out);

struct http_leases *http_lease_open(uv_loop_t *loop);
/* All of them end: what they hold goes back. on_closed comes later. */
void http_lease_close(struct http_leases *all, void (*on_closed)(void *ctx), void *ctx);

/* A GET of spec->queues[0]. Answered with messages that have receipts, unless they are
 * acknowledged by that. If the client has gone when it comes to that, they go back as if
 * they had not been taken. */
TIDE_MUST_USE int http_lease_get(struct http_leases *all, struct http_request *q,
				 const struct get_spec *spec, struct reply *r,
				 struct error *err);
/* Settle by receipts of a queue: all of them, or none.
 *
 * @param spec  without its ranges */
struct http_settle {
	struct slice queue;
	const struct slice *receipts;
	size_t count;
	struct settle_spec spec;
};
TIDE_MUST_USE int http_lease_settle(struct http_leases *all, struct http_request *q,
				    const struct http_settle *what, struct reply *r,
				    struct error *err);
