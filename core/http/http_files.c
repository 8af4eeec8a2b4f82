#include "http_route.h"

#include <stdio.h>

#include "http_answer.h"

/* tools/embed.sh writes the table and the bytes, for the assembler: offsets from its
 * begin. A name is zero-terminated, like the hexadecimal digits of a sum. */
struct http_file {
	uint32_t name, sum, bytes, len;
};
extern const struct http_file http_embedded[];
extern const uint32_t http_embedded_count;

static const char *at(uint32_t offset)
{
	return (const char *)http_embedded + offset;
}

static const char *type_of(struct slice name)
{
	static const struct {
		const char *suffix, *type;
	} rows[] = {
		{ ".html", "text/html; charset=utf-8" },
		{ ".css", "text/css; charset=utf-8" },
		{ ".js", "text/javascript; charset=utf-8" },
		{ ".svg", "image/svg+xml" },
		{ ".json", "application/json" },
		{ ".png", "image/png" },
		{ ".woff2", "font/woff2" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (slice_has_suffix(name, rows[i].suffix))
			return rows[i].type;
	return "text/plain; charset=utf-8";
}

static int answer(struct http_request *q, struct slice name, struct error *err)
{
	for (uint32_t i = 0; i < http_embedded_count; i++) {
		const struct http_file *f = &http_embedded[i];
		char etag[64];
		const struct http_content content = {
			.bytes = { at(f->bytes), f->len },
			.type = type_of(name),
			.etag = etag,
		};

		if (!slice_is(name, at(f->name)))
			continue;
		snprintf(etag, sizeof(etag), "\"%.40s\"", at(f->sum));
		http_answer_content(q, &content);
		return TIDE_OK;
	}
	return error_set(err, TIDE_ENOTFOUND, "there is no file '%" SLICE_FMT "'",
			 SLICE_ARG(name));
}

static int get_index(struct http_request *q, struct reply *r, struct error *err)
{
	return answer(q, SLICE("index.html"), err);
}

static int get_file(struct http_request *q, struct reply *r, struct error *err)
{
	return answer(q, http_request_path(q, "file"), err);
}

static int get_description(struct http_request *q, struct reply *r, struct error *err)
{
	return answer(q, SLICE("openapi.json"), err);
}

const struct http_route http_files_routes[] = {
	{ "GET", "/", NULL, HTTP_NO_LOGIN, get_index, NULL },
	{ "GET", "/page/{file}", NULL, HTTP_NO_LOGIN, get_file, NULL },
	{ "GET", "/api/openapi.json", NULL, HTTP_NO_LOGIN, get_description, NULL },
	{ 0 },
};
