#include "http_answer.h"

#include <microhttpd.h>

#include "base/mem.h"
#include "http_request_private.h"

/* The page loads nothing from elsewhere, and nobody shows it inside of his. */
#define CONTENT_POLICY                                                                   \
	"default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; " \
	"form-action 'none'; frame-ancestors 'none'"

static const struct {
	const char *name, *value;
} fixed_headers[] = {
	{ "X-Content-Type-Options", "nosniff" },
	{ "X-Frame-Options", "DENY" },
	{ "Referrer-Policy", "no-referrer" },
	{ "Content-Security-Policy", CONTENT_POLICY },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
};

unsigned http_answer_status(int code)
{
	static const struct {
		int code;
		unsigned status;
	} rows[] = {
		{ TIDE_ESYNTAX, 400 },     { TIDE_EVERB, 400 },
		{ TIDE_ETOOLONG, 400 },    { TIDE_EDENIED, 403 },
		{ TIDE_ENOTFOUND, 404 },   { TIDE_EMISMATCH, 409 },
		{ TIDE_EEXISTS, 409 },     { TIDE_EABORTED, 409 },
		{ TIDE_ELEASE, 410 },      { TIDE_ETOOLARGE, 413 },
		{ TIDE_EUNROUTABLE, 422 }, { TIDE_EREJECTED, 422 },
		{ TIDE_ERULE, 422 },       { TIDE_ELIMIT, 429 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].code == code)
			return rows[i].status;
	return 503; /* busy, store, shutdown, full; and libuv's */
}

void http_answer_header(struct http_request *q, const char *name, const char *value)
{
	MHD_add_response_header(q->response, name, value);
}

void http_answer_set(struct http_request *q, unsigned status,
		     struct MHD_Response *response)
{
	q->status = status;
	q->response = response;
	for (size_t i = 0; i < sizeof(fixed_headers) / sizeof(fixed_headers[0]); i++)
		http_answer_header(q, fixed_headers[i].name, fixed_headers[i].value);
}

void http_answer_take(struct http_request *q, unsigned status, struct buf *json)
{
	http_answer_set(
		q, status,
		MHD_create_response_from_buffer_with_free_callback_cls(
			buf_len(json), json->data + json->start, mem_free, json->data));
	*json = (struct buf){ 0 };
	http_answer_header(q, "Content-Type", "application/json");
	http_answer_header(q, "Cache-Control", "no-store");
}

void http_answer_content(struct http_request *q, const struct http_content *content)
{
	const char *known = MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND,
							"If-None-Match");
	bool is_known = known && strstr(known, content->etag);

	http_answer_set(q, is_known ? 304 : 200,
			MHD_create_response_from_buffer(is_known ? 0 : content->bytes.len,
							(void *)content->bytes.data,
							MHD_RESPMEM_PERSISTENT));
	http_answer_header(q, "Content-Type", content->type);
	http_answer_header(q, "Cache-Control", "no-cache");
	http_answer_header(q, "ETag", content->etag);
}

void http_answer_write_error(struct buf *out, const char *code, const char *text)
{
	struct json j = { .out = out };

	json_object_begin(&j);
	json_member_object(&j, "error");
	json_member_text(&j, "code", code);
	json_member_text(&j, "text", text);
	json_object_end(&j);
	json_object_end(&j);
	buf_append_char(out, '\n');
}

void http_answer_refuse(struct http_request *q, unsigned status, const char *code,
			const char *text)
{
	struct buf json = { 0 };

	http_answer_write_error(&json, code, text);
	http_answer_take(q, status, &json);
}

void http_answer_error(struct http_request *q, const struct error *err)
{
	http_answer_refuse(q, http_answer_status(err->code), error_wire_code(err->code),
			   err->text);
}
