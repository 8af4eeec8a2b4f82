/* Topics and their groups over HTTP. */
#include "http_api.h"

#define VHOST "/api/vhosts/{vhost}"
#define TOPIC VHOST "/topics/{topic}"
#define PARTITIONS_MAX 64

static struct slice topic_of(const struct http_request *q)
{
	return http_request_path(q, "topic");
}

static int64_t read_partition(struct http_request *q)
{
	return http_request_int(q, "partition", 0, PARTITIONS_MAX - 1, -1);
}

static int list(struct http_request *q, struct reply *r, struct error *err)
{
	return http_api_list(q, LIST_TOPICS, r, err);
}

static int list_groups(struct http_request *q, struct reply *r, struct error *err)
{
	return http_api_list(q, LIST_GROUPS, r, err);
}

static int get(struct http_request *q, struct reply *r, struct error *err)
{
	return session_report_stats(http_request_session(q), STATS_TOPIC, topic_of(q), r,
				    err);
}

static int declare(struct http_request *q, struct reply *r, struct error *err)
{
	struct declare_spec spec = {
		.kind = DEFINE_TOPIC,
		.name = topic_of(q),
	};

	return http_api_declare(q, &spec, r, err);
}

static int delete (struct http_request *q, struct reply *r, struct error *err)
{
	const struct delete_spec spec = {
		.kind = DEFINE_TOPIC,
		.name = topic_of(q),
		.if_unused = http_request_flag(q, "if-unused"),
	};

	if (http_request_check(q, err) < 0)
		return err->code;
	return session_define_delete(http_request_session(q), &spec, r, err);
}

static int purge(struct http_request *q, struct reply *r, struct error *err)
{
	struct purge_spec spec = { .queue = topic_of(q) };

	spec.before = http_api_position(q, "before");
	spec.partition = read_partition(q);
	if (http_request_check(q, err) < 0)
		return err->code;
	return session_purge(http_request_session(q), &spec, r, err);
}

static int seek(struct http_request *q, struct reply *r, struct error *err)
{
	struct group_spec spec = { .topic = topic_of(q),
				   .group = http_request_path(q, "group") };

	http_api_need(q, "to", "first, last, an offset or a time");
	spec.to = http_api_position(q, "to");
	if (spec.to.kind == POSITION_COMMITTED)
		http_request_refuse(q, "to", SLICE("committed"),
				    "first, last, an offset or a time");
	spec.partition = read_partition(q);
	if (http_request_check(q, err) < 0)
		return err->code;
	return session_group_seek(http_request_session(q), &spec, r, err);
}

static int delete_group(struct http_request *q, struct reply *r, struct error *err)
{
	const struct group_spec spec = { .topic = topic_of(q),
					 .group = http_request_path(q, "group") };

	return session_group_delete(http_request_session(q), &spec, r, err);
}

const struct http_route http_api_topics_routes[] = {
	{ "GET", VHOST "/topics", HTTP_API_PAGE, HTTP_PAGED, list },
	{ "GET", TOPIC, NULL, 0, get },
	{ "PUT", TOPIC, "options update", HTTP_DECLARES, declare },
	{ "DELETE", TOPIC, "if-unused", 0, delete },
	{ "POST", TOPIC "/purge", "before partition", 0, purge },
	{ "GET", VHOST "/groups", HTTP_API_PAGE, HTTP_PAGED, list_groups },
	{ "POST", TOPIC "/groups/{group}/seek", "to partition", 0, seek },
	{ "DELETE", TOPIC "/groups/{group}", NULL, 0, delete_group },
	{ 0 },
};
