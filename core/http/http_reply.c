#include "http_reply.h"

#include "http_answer.h"
#include "http_message.h"
#include "http_request_private.h"

void http_reply_published(struct json *j, const struct reply *r)
{
	json_member_hex(j, "id", r->id);
	json_member_int(j, "queues", (int64_t)r->count);
	json_member_bool(j, "duplicate", r->is_duplicate);
	if (!r->has_offset)
		return;
	json_member_int(j, "topics", r->topics);
	json_member_int(j, "partition", r->partition);
	json_member_int(j, "offset", (int64_t)r->offset);
}

void http_reply_error(struct json *j, int code, const char *text)
{
	json_member_object(j, "error");
	json_member_text(j, "code", error_wire_code(code));
	json_member_text(j, "text", text);
	json_object_end(j);
}

static void write_members(const struct reply *r, struct json *j)
{
	if (r->kind == REPLY_OK)
		json_member_bool(j, "ok", true);
	if (r->kind == REPLY_COUNT || r->kind == REPLY_COUNTS)
		json_member_int(j, "count", (int64_t)r->count);
	if (r->kind == REPLY_COUNTS)
		json_member_int(j, "left", (int64_t)r->id);
	if (r->kind == REPLY_TEXT)
		json_member_text(j, "text", r->text);
	if (r->kind == REPLY_PUBLISHED)
		http_reply_published(j, r);
	if (r->kind != REPLY_MESSAGES)
		return;
	json_member_array(j, "messages");
	for (uint64_t i = 0; i < r->count; i++)
		http_message_write(&r->deliveries[i], NULL, j);
	json_array_end(j);
}

/* The document of a list: what was asked for of it, and how long all of it is. */
static void write_page(const struct reply *r, struct buf *out)
{
	buf_printf(out, "{\"total\":%llu,\"items\":", (unsigned long long)r->count);
	buf_append_slice(out, buf_slice(&r->data));
	buf_append_char(out, '}');
}

void http_reply_write(struct http_request *q, struct reply *r)
{
	unsigned features = q->match.route->features;
	struct buf text = { 0 };
	struct json j = { .out = &text };

	if (r->kind == REPLY_ERROR) {
		http_answer_refuse(q, http_answer_status(r->error),
				   error_wire_code(r->error), r->text);
		return;
	}
	if (r->kind == REPLY_DATA && !(features & HTTP_PAGED)) {
		text = r->data;
		r->data = (struct buf){ 0 };
	} else if (r->kind == REPLY_DATA) {
		write_page(r, &text);
	} else {
		json_object_begin(&j);
		write_members(r, &j);
		json_object_end(&j);
	}
	buf_append_char(&text, '\n');
	http_answer_take(q, 200, &text);
}
