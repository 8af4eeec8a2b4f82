#include "base/duration.h"
#include "http_api.h"

#define QUEUES "/api/vhosts/{vhost}/queues"
#define QUEUE QUEUES "/{queue}"

static struct slice queue_of(const struct http_request *q)
{
	return http_request_path(q, "queue");
}

static int list(struct http_request *q, struct reply *r, struct error *err)
{
	return http_api_list(q, LIST_QUEUES, r, err);
}

static int list_consumers(struct http_request *q, struct reply *r, struct error *err)
{
	return http_api_list(q, LIST_CONSUMERS, r, err);
}

static int list_locks(struct http_request *q, struct reply *r, struct error *err)
{
	return http_api_list(q, LIST_LOCKS, r, err);
}

static int get(struct http_request *q, struct reply *r, struct error *err)
{
	return session_report_stats(http_request_session(q), STATS_QUEUE, queue_of(q), r,
				    err);
}

static int declare(struct http_request *q, struct reply *r, struct error *err)
{
	struct declare_spec spec = {
		.kind = DEFINE_QUEUE,
		.name = queue_of(q),
	};

	return http_api_declare(q, &spec, r, err);
}

static int delete (struct http_request *q, struct reply *r, struct error *err)
{
	const struct delete_spec spec = {
		.kind = DEFINE_QUEUE,
		.name = queue_of(q),
		.if_empty = http_request_flag(q, "if-empty"),
		.if_unused = http_request_flag(q, "if-unused"),
	};

	if (http_request_check(q, err) < 0)
		return err->code;
	return session_define_delete(http_request_session(q), &spec, r, err);
}

static int purge(struct http_request *q, struct reply *r, struct error *err)
{
	const struct purge_spec spec = { .queue = queue_of(q), .partition = -1 };

	return session_purge(http_request_session(q), &spec, r, err);
}

static int redrive(struct http_request *q, struct reply *r, struct error *err)
{
	const struct number_limits max = { 1, UINT64_MAX - 1 };
	struct redrive_spec spec = { .queue = queue_of(q) };

	spec.max = http_request_uint(q, "max", max, UINT64_MAX);
	spec.match = http_request_text(q, "match");
	spec.to = http_request_text(q, "to");
	spec.is_routed = http_request_flag(q, "routed");
	if (http_request_check(q, err) < 0)
		return err->code;
	return session_redrive_start(http_request_session(q), &spec, r, err);
}

static int kick(struct http_request *q, struct reply *r, struct error *err)
{
	const struct number_limits limits = { 1, UINT64_MAX - 1 };
	uint64_t max = http_request_uint(q, "max", limits, UINT64_MAX);

	if (http_request_check(q, err) < 0)
		return err->code;
	return session_queue_kick(http_request_session(q), queue_of(q), max, r, err);
}

static int pause_or_resume(struct http_request *q, bool is_resume, struct reply *r,
			   struct error *err)
{
	const struct number_limits limits = { 1, DURATION_MAX_MS };
	struct pause_spec spec = { .queue = queue_of(q), .is_resume = is_resume };
	unsigned which = http_request_choice(q, "direction", "both, in or out");

	spec.in = which != 2;
	spec.out = which != 1;
	if (!is_resume)
		spec.for_ms = http_request_duration(q, "for", limits);
	if (http_request_check(q, err) < 0)
		return err->code;
	return session_pause(http_request_session(q), &spec, r, err);
}

static int pause_queue(struct http_request *q, struct reply *r, struct error *err)
{
	return pause_or_resume(q, false, r, err);
}

static int resume(struct http_request *q, struct reply *r, struct error *err)
{
	return pause_or_resume(q, true, r, err);
}

const struct http_route http_api_queues_routes[] = {
	{ "GET", QUEUES, HTTP_API_PAGE, HTTP_PAGED, list },
	{ "GET", QUEUE, NULL, 0, get },
	{ "PUT", QUEUE, "options update", HTTP_DECLARES, declare },
	{ "DELETE", QUEUE, "if-empty if-unused", 0, delete },
	{ "POST", QUEUE "/purge", NULL, 0, purge },
	{ "POST", QUEUE "/redrive", "max match to routed", 0, redrive },
	{ "POST", QUEUE "/kick", "max", 0, kick },
	{ "POST", QUEUE "/pause", "direction for", 0, pause_queue },
	{ "POST", QUEUE "/resume", "direction", 0, resume },
	{ "GET", "/api/vhosts/{vhost}/consumers", HTTP_API_PAGE " queue", HTTP_PAGED,
	  list_consumers },
	{ "GET", "/api/vhosts/{vhost}/locks", HTTP_API_PAGE, HTTP_PAGED, list_locks },
	{ 0 },
};
