#include "http_answer.h"

#include <stdlib.h>

#include "http_engine.h"
#include "http_request_private.h"
#include "http_safety.h"

/* The page loads nothing from elsewhere, and nobody shows it inside of his. */
#define CONTENT_POLICY                                                                   \
	"default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; " \
	"form-action 'none'; frame-ancestors 'none'"

static const char fixed_headers[] = "X-Content-Type-Options: nosniff\r\n"
				    "X-Frame-Options: DENY\r\n"
				    "Referrer-Policy: no-referrer\r\n"
				    "Content-Security-Policy: " CONTENT_POLICY "\r\n"
				    "Cross-Origin-Resource-Policy: same-origin\r\n";

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
	buf_printf(&q->headers, "%s: %s\r\n", name, value);
}

void http_answer_begin(struct http_request *q, unsigned status)
{
	q->status = status;
	buf_append_text(&q->headers, fixed_headers);
	http_safety_write(q);
}

void http_answer_take(struct http_request *q, unsigned status, struct buf *json)
{
	http_answer_begin(q, status);
	q->document = *json;
	q->left = buf_slice(json);
	q->conn->base.kept = q->left.len;
	session_answer_stand(q->conn->base.session, q->left.len);
	*json = (struct buf){ 0 };
	http_answer_header(q, "Content-Type", "application/json");
	http_answer_header(q, "Cache-Control", "no-store");
}

void http_answer_content(struct http_request *q, const struct http_content *content)
{
	const char *known = http_request_header(q, "If-None-Match");
	bool is_known = known && strstr(known, content->etag);

	http_answer_begin(q, is_known ? 304 : 200);
	if (!is_known)
		q->left = content->bytes;
	http_answer_header(q, "Content-Type", content->type);
	http_answer_header(q, "Cache-Control", "no-cache");
	http_answer_header(q, "ETag", content->etag);
}

static void write_error(struct buf *out, const char *code, const char *text)
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

	write_error(&json, code, text);
	http_answer_take(q, status, &json);
}

void http_answer_error(struct http_request *q, const struct error *err)
{
	http_answer_refuse(q, http_answer_status(err->code), error_wire_code(err->code),
			   err->text);
}

/* ---- as bytes ---- */

/* "200 OK" */
static struct slice status_line(unsigned status)
{
	static const char lines[] =
		"101 Switching Protocols|200 OK|204 No Content|304 Not Modified|400 Bad "
		"Request|"
		"401 Unauthorized|403 Forbidden|404 Not Found|405 Method Not Allowed|"
		"409 Conflict|410 Gone|413 Content Too Large|414 URI Too Long|"
		"415 Unsupported Media Type|422 Unprocessable Content|"
		"426 Upgrade Required|429 Too Many Requests|"
		"431 Request Header Fields Too Large|505 HTTP Version Not Supported";
	struct slice rest = slice_from(lines), line;

	while (rest.len > 0) {
		line = slice_cut(&rest, '|');
		if (strtoul(line.data, NULL, 10) == status)
			return line;
	}
	return SLICE("503 Service Unavailable");
}

/* Where its bytes end, and whether another answer follows. */
static void write_framing(const struct http_request *q, struct buf *out)
{
	if (q->is_in_pieces && !q->head.is_old)
		buf_append_text(out, "Transfer-Encoding: chunked\r\n");
	else if (!q->is_in_pieces && q->status != 304 && q->status != 204 &&
		 q->status != 101)
		buf_printf(out, "Content-Length: %zu\r\n", q->left.len);
	if (q->status == 101)
		buf_append_text(out, "Connection: Upgrade\r\n");
	else if (q->conn->is_leaving)
		buf_append_text(out, "Connection: close\r\n");
	else if (q->head.is_old)
		buf_append_text(out, "Connection: keep-alive\r\n");
	buf_append_text(out, "\r\n");
}

void http_answer_write_head(struct http_request *q)
{
	struct buf text = { 0 };

	buf_printf(&text, "HTTP/1.1 %" SLICE_FMT "\r\nDate: %s\r\n",
		   SLICE_ARG(status_line(q->status)), http_engine_date(q->conn->engine));
	buf_append_slice(&text, buf_slice(&q->headers));
	write_framing(q, &text);
	out_append_slice(q->conn->base.out, buf_slice(&text));
	buf_deinit(&text);
}

void http_answer_whole(struct out *out, unsigned status, const char *code,
		       const char *why)
{
	struct buf body = { 0 }, head = { 0 };

	write_error(&body, code, why);
	buf_printf(&head,
		   "HTTP/1.1 %" SLICE_FMT "\r\nContent-Type: application/json\r\n"
		   "Content-Length: %zu\r\nConnection: close\r\n\r\n",
		   SLICE_ARG(status_line(status)), buf_len(&body));
	out_append_slice(out, buf_slice(&head));
	out_append_slice(out, buf_slice(&body));
	buf_deinit(&head);
	buf_deinit(&body);
}
