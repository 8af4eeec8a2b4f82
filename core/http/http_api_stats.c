#include "http_api_stats.h"

static int get_stats(struct http_request *q, struct reply *r, struct error *err)
{
	return session_report_stats(http_request_session(q), STATS_ANY,
				    (struct slice){ NULL, 0 }, r, err);
}

const struct http_route http_api_stats_routes[] = {
	{ "GET", "/api/stats", NULL, 0, get_stats },
	{ 0 },
};
