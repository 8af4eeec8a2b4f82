#include "http_reply.h"

#include "base/id.h"
#include "http_answer.h"
#include "http_request_private.h"

static void write_id(struct json *j, const char *key, uint64_t id)
{
	json_member_hex(j, key, id);
}

static void write_published(const struct reply *r, struct json *j)
{
	write_id(j, "id", r->id);
	json_member_int(j, "queues", (int64_t)r->count);
	json_member_bool(j, "duplicate", r->is_duplicate);
	if (!r->has_offset)
		return;
	json_member_int(j, "partition", r->partition);
	json_member_int(j, "offset", (int64_t)r->offset);
}

static void write_message(const struct delivery *d, struct json *j)
{
	const struct msg *m = d->msg;

	json_object_begin(j);
	write_id(j, "id", m->id);
	json_member_string(j, "exchange", msg_exchange_word(m));
	json_member_string(j, "key", m->key);
	json_member_int(j, "priority", m->priority);
	json_member_int(j, "ts", m->ts_unix_ms);
	json_member_int(j, "attempt", d->attempt);
	json_member_bool(j, "redelivered", d->is_redelivered);
	if (d->tag)
		json_member_int(j, "receipt", (int64_t)d->tag);
	if (d->has_offset) {
		json_member_int(j, "partition", d->partition);
		json_member_int(j, "offset", (int64_t)d->offset);
	}
	msg_write_headers(m, j);
	session_peek_write_payload(j, m);
	json_object_end(j);
}

static void write_members(const struct reply *r, struct json *j)
{
	if (r->kind == REPLY_OK)
		json_member_bool(j, "ok", true);
	if (r->kind == REPLY_COUNT || r->kind == REPLY_COUNTS)
		json_member_int(j, "count", (int64_t)r->count);
	if (r->kind == REPLY_COUNTS)
		json_member_int(j, "second", (int64_t)r->id);
	if (r->kind == REPLY_TEXT)
		json_member_text(j, "text", r->text);
	if (r->kind == REPLY_PUBLISHED)
		write_published(r, j);
	if (r->kind != REPLY_MESSAGES)
		return;
	json_member_array(j, "messages");
	for (uint64_t i = 0; i < r->count; i++)
		write_message(&r->deliveries[i], j);
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
	http_answer_take(q, features & HTTP_CREATED ? 201 : 200, &text);
}
