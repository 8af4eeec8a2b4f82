/* Publishing over HTTP, and what would become of a message. */
#include "http_route.h"

#include <jansson.h>

#include "http_batch.h"
#include "http_message.h"

#define EXCHANGE "/api/vhosts/{vhost}/exchanges/{exchange}"

/* A client that gets an answer for each publish is not held back, but refused. */
static int check_blocked(struct http_request *q, struct error *err)
{
	if (!session_publish_is_blocked(http_request_session(q)))
		return TIDE_OK;
	return error_set(err, TIDE_EBUSY,
			 "publishers are held back, since memory or the store is full; "
			 "try again later");
}

static int publish_one(struct http_request *q, struct reply *r, struct error *err)
{
	struct session *s = http_request_session(q);
	struct http_message m;
	struct msg *msg;
	int rc = http_message_read(&m, http_request_json(q),
				   http_request_path(q, "exchange"), err);

	if (rc == TIDE_OK)
		rc = session_publish_prepare(s, &m.spec, &msg, err);
	if (rc == TIDE_OK)
		session_publish_take(s, msg, &m.demand, r);
	http_message_deinit(&m);
	return rc;
}

static int publish(struct http_request *q, struct reply *r, struct error *err)
{
	const json_t *body = http_request_json(q);

	if (check_blocked(q, err) < 0)
		return err->code;
	if (!json_object_get(body, "messages"))
		return publish_one(q, r, err);
	if (json_object_size(body) > 1)
		return error_set(
			err, TIDE_ESYNTAX,
			"beside messages there is nothing else: each message has "
			"its own members");
	return http_batch_start(q, http_request_path(q, "exchange"), r, err);
}

static int explain(struct http_request *q, struct reply *r, struct error *err)
{
	struct http_message m;
	int rc = http_message_read(&m, http_request_json(q),
				   http_request_path(q, "exchange"), err);

	if (rc == TIDE_OK)
		rc = session_explain(http_request_session(q), &m.spec, r, err);
	http_message_deinit(&m);
	return rc;
}

const struct http_route http_api_publish_routes[] = {
	{ "POST", EXCHANGE "/publish", HTTP_MESSAGE_NAMES " messages", 0, publish },
	{ "POST", EXCHANGE "/explain", HTTP_MESSAGE_NAMES, 0, explain },
	{ 0 },
};
