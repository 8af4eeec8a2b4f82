/* PEEK of a topic. */
#include <inttypes.h>

#include "base/mem.h"
#include "broker/topic.h"
#include "log/cursor.h"
#include "session_private.h"

/* What one request looks at; of payloads one is looked at in any case. */
#define SEARCH_MAX 10000
#define SEARCH_BYTES_MAX ((size_t)8 << 20)

struct peek_topic {
	struct reply *reply;
	struct json json;
	struct msg_match match;
	struct partition *partition; /* until there is a cursor */
	struct cursor *cursor;
	uint64_t searched;
	size_t bytes;   /* looked at */
	size_t counted; /* of the document, as memory */
	unsigned left;
};

static void show_record(struct json *j, unsigned partition, const struct record *record)
{
	const struct msg *m = &record->msg;

	json_object_begin(j);
	json_member_hex(j, "id", m->id);
	json_member_int(j, "partition", partition);
	json_member_int(j, "offset", (int64_t)record->offset);
	session_peek_write_address(j, m);
	json_member_int(j, "ts", m->ts_unix_ms);
	session_peek_end(j, m, NULL);
}

static void end_topic(struct peek_topic *p, int status, const char *text)
{
	struct error err;

	session_answer_written(p->reply, p->counted);
	if (status < 0) {
		error_set(&err, status, "%s", text ? text : error_text(status));
		reply_error(p->reply, &err);
	} else {
		reply_data_bounded(p->reply);
	}
	cursor_destroy(p->cursor);
	msg_match_deinit(&p->match);
	mem_free(p);
}

static void finish_topic(struct peek_topic *p, bool has_more)
{
	char next[32];

	json_array_end(&p->json);
	json_member_int(&p->json, "searched", (int64_t)p->searched);
	if (has_more) {
		snprintf(next, sizeof(next), "%" PRIu64, cursor_offset(p->cursor));
		json_member_text(&p->json, "next", next);
	}
	json_object_end(&p->json);
	end_topic(p, TIDE_OK, NULL);
}

/* Is the page full? */
static bool is_full(const struct peek_topic *p)
{
	return p->left == 0 || p->searched >= SEARCH_MAX ||
	       p->bytes >= SEARCH_BYTES_MAX ||
	       msg_match_is_spent(&p->match, p->reply->service->broker->now_ms);
}

static void read_topic(void *ctx)
{
	struct peek_topic *p = ctx;
	unsigned index = partition_index(p->partition);
	const struct error *failure;
	struct record_batch *batch;
	struct record record;
	int rc = TIDE_OK;

	while (!is_full(p)) {
		rc = cursor_next(p->cursor, &record, &batch);
		if (rc < 0)
			break;
		p->searched++;
		p->bytes += record.msg.payload_len;
		if (!msg_match_has(&p->match, &record.msg, 0))
			continue;
		show_record(&p->json, index, &record);
		p->left--;
		session_answer_write(p->reply, &p->counted);
		if (session_answer_is_enough(p->reply))
			p->left = 0;
	}
	failure = msg_match_error(&p->match);
	if (failure)
		end_topic(p, failure->code, failure->text);
	else if (rc == TIDE_ESTORE)
		end_topic(p, rc,
			  "the partition cannot be read now; the broker's log says why");
	else if (rc != TIDE_AGAIN)
		finish_topic(p, rc == TIDE_OK && !cursor_is_at_end(p->cursor));
}

static void begin_topic_at(struct peek_topic *p, uint64_t offset)
{
	p->cursor = cursor_create_for(p->partition, offset, read_topic, p);
	read_topic(p);
}

static void on_offset(void *ctx, int status, const char *text, uint64_t offset)
{
	struct peek_topic *p = ctx;

	if (status < 0)
		end_topic(p, status, text);
	else
		begin_topic_at(p, offset);
}

static void begin_topic(struct peek_topic *p, const struct position *from, int64_t now_ms)
{
	switch (from->kind) {
	case POSITION_NONE:
	case POSITION_COMMITTED:
	case POSITION_FIRST:
		begin_topic_at(p, partition_start(p->partition));
		return;
	case POSITION_LAST:
		begin_topic_at(p, partition_last(p->partition, from->offset));
		return;
	case POSITION_OFFSET:
		begin_topic_at(p, from->offset);
		return;
	case POSITION_TIME:
	case POSITION_AGO:
		partition_find_time(p->partition, position_time(from, now_ms), on_offset,
				    p);
		return;
	}
}

static int check_topic(const struct queue *q, const struct peek_spec *spec,
		       struct error *err)
{
	unsigned count = q->config.shards;

	if (spec->state != PEEK_ANY || spec->after.data)
		return error_set(err, TIDE_ESYNTAX,
				 "'%s' is a topic: PEEK takes partition= and offset= for "
				 "it, and no state= and after=",
				 q->name);
	if (spec->from.kind == POSITION_COMMITTED)
		return error_set(err, TIDE_ESYNTAX,
				 "PEEK reads for no group: expected offset=first, last, "
				 "an offset or a time");
	if (spec->partition < 0 && count > 1)
		return error_set(err, TIDE_ESYNTAX,
				 "PEEK of a topic needs partition=: '%s' has 0-%u",
				 q->name, count - 1);
	return session_topic_check_partition(q, spec->partition, err);
}

int session_peek_topic(struct queue *q, const struct peek_spec *spec, struct reply *r,
		       struct error *err)
{
	unsigned index = spec->partition < 0 ? 0 : (unsigned)spec->partition;
	struct msg_match match;
	struct peek_topic *p;

	if (check_topic(q, spec, err) < 0 ||
	    session_match_init(q->vhost->broker, &match, spec->match, err) < 0)
		return err->code;
	p = mem_zalloc(sizeof(*p));
	p->reply = r;
	p->match = match;
	p->left = spec->max;
	p->partition = topic_partition(q->topic, index);
	reply_json(r, &p->json);
	json_object_begin(&p->json);
	json_member_array(&p->json, "messages");
	begin_topic(p, &spec->from, q->vhost->broker->now_ms);
	return TIDE_OK;
}
