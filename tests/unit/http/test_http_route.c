#include "check.h"

#include "http/http_request.h"

static void expect_route(const char *method, const char *path, const char *found)
{
	struct http_match m;
	char allow[HTTP_ALLOW_MAX];

	http_route_find(&m, method, slice_from(path), allow);
	if (!found) {
		assert_null(m.route);
		return;
	}
	assert_non_null(m.route);
	assert_string_equal(m.route->path, found);
}

TEST_THAT(a_path_finds_its_route)
{
	struct http_match m;
	char allow[HTTP_ALLOW_MAX];

	expect_route("GET", "/", "/");
	expect_route("GET", "/page/app.js", "/page/{file}");
	expect_route("HEAD", "/api/stats", "/api/stats");
	expect_route("GET", "", NULL);
	expect_route("GET", "/page/", NULL);
	expect_route("GET", "/page/a/b", NULL);
	expect_route("GET", "/api/statsx", NULL);
	expect_route("get", "/api/stats", NULL);
	http_route_find(&m, "PATCH", SLICE("/api/stats"), allow);
	assert_string_equal(m.allow, "GET");
	http_route_find(&m, "PATCH", SLICE("/api/nothing"), allow);
	assert_null(m.allow);
}

TEST_THAT(every_row_is_sound)
{
	struct http_route r, other;

	for (size_t i = 0; http_route_at(i, &r); i++) {
		assert_true(r.handle || r.operation);
		assert_true(r.path[0] == '/');
		/* Two rows of one method and path would hide one of them. */
		for (size_t k = 0; k < i && http_route_at(k, &other); k++)
			assert_false(strcmp(other.path, r.path) == 0 &&
				     strcmp(other.method, r.method) == 0);
	}
}

RUN_TESTS()
