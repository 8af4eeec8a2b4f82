/* PEEK of a topic. */
#include <inttypes.h>

#include "base/mem.h"
#include "broker/topic.h"
#include "log/cursor.h"
#include "session_private.h"

/* What one request looks at; of payloads one is looked at in any case. */
#define SEARCH_MAX 10000
#define SEARCH_BYTES_MAX ((size_t)8 << 20)
#define UNREADABLE "the partition cannot be read now; the broker's log says why"

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
		end_topic(p, rc, UNREADABLE);
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

/* PEEK newest: the last messages of all partitions, or of one, the newest first.
 *
 * A log is read forwards. So each partition is read in pieces, the last one first, and
 * what the pieces have is merged by time. A piece is small: what it has and the page has
 * no room for is read in vain. */

#define PIECE_MIN 4
/* Records that wait for their turn, of all partitions; each has one in any case. */
#define PIECES_BYTES_MAX ((size_t)1 << 20)

struct newest_record {
	uint64_t offset;
	int64_t ms;
	char *json; /* owned; NULL: it does not match, or is too large to be kept */
	size_t bytes;
	bool is_match;
};

struct newest_part {
	struct cursor *cursor;
	unsigned index; /* of the partition */
	uint64_t start; /* it is not read before this */
	uint64_t low;   /* what lies before this is not in a piece yet */
	uint64_t from;  /* where the piece begins that is being read */
	uint64_t span;  /* how many offsets a piece has */
	bool is_reading;
	bool is_single; /* the next piece is one message that is shown now, however large
			 */
	struct newest_record *records; /* of the piece, with `first` to `count` in use */
	size_t first, count, cap;
	size_t bytes;
};

struct newest {
	struct reply *reply;
	struct json json;
	struct msg_match match;
	struct newest_part *parts;
	unsigned part_count;
	uint64_t searched;
	size_t bytes, piece_bytes, counted;
	unsigned left;
	bool has_moved;
};

static void free_first(struct newest_part *part)
{
	struct newest_record *r = &part->records[part->first++];

	part->bytes -= r->bytes;
	mem_free(r->json);
}

static void newest_free(struct newest *n)
{
	for (unsigned i = 0; i < n->part_count; i++) {
		struct newest_part *part = &n->parts[i];

		while (part->first < part->count)
			free_first(part);
		cursor_destroy(part->cursor);
		mem_free(part->records);
	}
	msg_match_deinit(&n->match);
	mem_free(n->parts);
	mem_free(n);
}

static void newest_end(struct newest *n, int status, const char *text)
{
	struct error err;

	session_answer_written(n->reply, n->counted);
	if (status < 0) {
		error_set(&err, status, "%s", text);
		reply_error(n->reply, &err);
	} else {
		reply_data_bounded(n->reply);
	}
	newest_free(n);
}

/* "@<offset>,<offset>…": where each partition goes on. */
static void newest_finish(struct newest *n, bool has_more)
{
	struct buf next = { 0 };

	for (unsigned i = 0; i < n->part_count; i++) {
		const struct newest_part *part = &n->parts[i];
		uint64_t low = part->first < part->count
				       ? part->records[part->count - 1].offset + 1
				       : part->low;

		buf_printf(&next, "%c%" PRIu64, i ? ',' : '@', low);
	}
	json_array_end(&n->json);
	json_member_int(&n->json, "searched", (int64_t)n->searched);
	if (has_more)
		json_member_string(&n->json, "next", buf_slice(&next));
	json_object_end(&n->json);
	buf_deinit(&next);
	newest_end(n, TIDE_OK, NULL);
}

static void keep_record(struct newest *n, struct newest_part *part,
			const struct record *record)
{
	struct newest_record r = { .offset = record->offset,
				   .ms = record->msg.ts_unix_ms,
				   .bytes = record->msg.payload_len + sizeof(r) };
	struct buf text = { 0 };
	struct json j = { .out = &text };

	/* One that is read again was counted. */
	n->searched += !part->is_single;
	n->bytes += part->is_single ? 0 : record->msg.payload_len;
	r.is_match = msg_match_has(&n->match, &record->msg, 0);
	if (r.is_match && (part->is_single || r.bytes <= n->piece_bytes)) {
		show_record(&j, part->index, record);
		r.json = mem_strndup(buf_cstr(&text), buf_len(&text));
		buf_deinit(&text);
	}
	MEM_GROW(part->records, part->count, part->cap, PIECE_MIN);
	part->records[part->count++] = r;
	part->bytes += r.bytes;
	while (part->bytes > n->piece_bytes && part->first + 1 < part->count)
		free_first(part);
}

static void begin_piece(struct newest_part *part)
{
	uint64_t kept = part->low - part->start;

	part->is_reading = true;
	part->first = part->count = 0;
	part->from = part->low - (part->is_single     ? 1
				  : part->span < kept ? part->span
						      : kept);
	cursor_seek(part->cursor, part->from);
}

/* False: it waits. */
static bool read_piece(struct newest *n, struct newest_part *part, int *rc)
{
	struct record_batch *batch;
	struct record record;

	if (!part->is_reading)
		begin_piece(part);
	*rc = TIDE_OK;
	while (*rc == TIDE_OK && cursor_offset(part->cursor) < part->low) {
		*rc = cursor_next(part->cursor, &record, &batch);
		if (*rc == TIDE_OK && record.offset < part->low)
			keep_record(n, part, &record);
	}
	if (*rc == TIDE_AGAIN || *rc == TIDE_ESTORE)
		return false;
	part->is_reading = part->is_single = false;
	part->low = part->from;
	/* Compaction has left little here: a larger piece has something, and does not fit
	 * less than this one. */
	if (part->count == 0)
		part->span *= 2;
	else if (part->first > 0)
		part->low = part->records[part->first].offset;
	cursor_seek(part->cursor, part->start);
	return true;
}

/* The partition whose next message is the newest; NULL: there is none. */
static struct newest_part *choose_newest(struct newest *n)
{
	struct newest_part *best = NULL;
	int64_t best_ms = 0;

	for (unsigned i = 0; i < n->part_count; i++) {
		struct newest_part *part = &n->parts[i];

		if (part->first == part->count)
			continue;
		if (!best || part->records[part->count - 1].ms > best_ms) {
			best = part;
			best_ms = part->records[part->count - 1].ms;
		}
	}
	return best;
}

/* One of which nothing is known, though there is something; first the one that is being
 * read, so that it is one at a time. NULL: there is none. */
static struct newest_part *choose_unread(struct newest *n)
{
	struct newest_part *unread = NULL;

	for (unsigned i = 0; i < n->part_count; i++) {
		struct newest_part *part = &n->parts[i];

		if (part->is_reading)
			return part;
		if (part->first == part->count && part->low > part->start)
			unread = part;
	}
	return unread;
}

/* One large message of each partition would be much memory: it is read when it is shown.
 */
static void read_again(struct newest_part *part, uint64_t offset)
{
	while (part->first < part->count)
		free_first(part);
	part->low = offset + 1;
	part->is_single = true;
}

static void show_newest(struct newest *n, struct newest_part *part)
{
	struct newest_record *r = &part->records[--part->count];

	n->has_moved = true;
	part->bytes -= r->bytes;
	if (r->is_match && !r->json)
		read_again(part, r->offset);
	if (!r->json)
		return;
	json_written(&n->json, slice_from(r->json));
	mem_free(r->json);
	n->left--;
	session_answer_write(n->reply, &n->counted);
	if (session_answer_is_enough(n->reply))
		n->left = 0;
}

/* Not before the page has got somewhere, or the next one would begin at the same place.
 */
static bool has_looked_enough(struct newest *n)
{
	return n->has_moved &&
	       (n->searched >= SEARCH_MAX || n->bytes >= SEARCH_BYTES_MAX ||
		msg_match_is_spent(&n->match, n->reply->service->broker->now_ms));
}

static void newest_go_on(void *ctx)
{
	struct newest *n = ctx;
	const struct error *failure;
	struct newest_part *part;
	int rc;

	while (n->left > 0) {
		part = choose_unread(n);
		if (part && !part->is_reading && !part->is_single && has_looked_enough(n))
			break;
		if (part && !read_piece(n, part, &rc)) {
			if (rc == TIDE_ESTORE)
				newest_end(n, rc, UNREADABLE);
			return;
		}
		failure = msg_match_error(&n->match);
		if (failure) {
			newest_end(n, failure->code, failure->text);
			return;
		}
		if (part)
			continue;
		part = choose_newest(n);
		if (!part)
			break;
		show_newest(n, part);
	}
	newest_finish(n, choose_unread(n) || choose_newest(n));
}

/* Where a partition goes on, from the `next` of an answer. */
static int read_after(struct slice after, struct newest *n, struct error *err)
{
	struct slice rest = slice_skip(after, 1);
	uint64_t low;

	for (unsigned i = 0; i < n->part_count; i++) {
		struct newest_part *part = &n->parts[i];

		if (after.len == 0 || after.data[0] != '@' || rest.len == 0 ||
		    !slice_to_uint(slice_cut(&rest, ','), UINT64_MAX, &low))
			return error_set(err, TIDE_ESYNTAX,
					 "after=%.*s: expected the next of an answer to "
					 "the same PEEK",
					 SLICE_HEAD(after, 64));
		if (low < part->low)
			part->low = low > part->start ? low : part->start;
	}
	return TIDE_OK;
}

static void open_part(struct newest *n, unsigned index, const struct queue *q,
		      const struct peek_spec *spec)
{
	struct partition *p = topic_partition(q->topic, index);
	struct newest_part *part = &n->parts[n->part_count++];
	uint64_t start = partition_start(p), end = partition_readable(p);
	uint64_t mean = partition_bytes(p) / (end - start + 1) + 1;
	unsigned count = spec->partition < 0 ? q->config.shards : 1;
	uint64_t share = count == 1 ? spec->max : 2 * spec->max / count;

	*part = (struct newest_part){ .index = index, .start = start, .low = end };
	part->cursor = cursor_create_for(p, start, newest_go_on, n);
	part->span = share > PIECE_MIN ? share : PIECE_MIN;
	if (part->span > n->piece_bytes / mean + 1)
		part->span = n->piece_bytes / mean + 1;
}

static int peek_newest(struct queue *q, const struct peek_spec *spec, struct reply *r,
		       struct error *err)
{
	unsigned count = spec->partition < 0 ? q->config.shards : 1;
	struct newest *n = mem_zalloc(sizeof(*n));

	n->reply = r;
	n->left = (unsigned)spec->max;
	n->piece_bytes = PIECES_BYTES_MAX / count;
	n->parts = mem_zalloc(count * sizeof(*n->parts));
	for (unsigned i = 0; i < count; i++)
		open_part(n, spec->partition < 0 ? i : (unsigned)spec->partition, q,
			  spec);
	if ((spec->after.data && read_after(spec->after, n, err) < 0) ||
	    session_match_init(q->vhost->broker, &n->match, spec->match, err) < 0) {
		newest_free(n);
		return err->code;
	}
	reply_json(r, &n->json);
	json_object_begin(&n->json);
	json_member_array(&n->json, "messages");
	newest_go_on(n);
	return TIDE_OK;
}

static int check_topic(const struct queue *q, const struct peek_spec *spec,
		       struct error *err)
{
	unsigned count = q->config.shards;

	if (spec->state != PEEK_ANY || (spec->after.data && !spec->is_newest))
		return error_set(err, TIDE_ESYNTAX,
				 "'%s' is a topic: PEEK takes newest, or partition= and "
				 "offset= for it, and no state=; after= goes with newest",
				 q->name);
	if (spec->is_newest && spec->from.kind != POSITION_NONE)
		return error_set(err, TIDE_ESYNTAX,
				 "newest begins at the end: it takes after= and no "
				 "offset=");
	if (spec->from.kind == POSITION_COMMITTED)
		return error_set(err, TIDE_ESYNTAX,
				 "PEEK reads for no group: expected offset=first, last, "
				 "an offset or a time");
	if (spec->partition < 0 && count > 1 && !spec->is_newest)
		return error_set(err, TIDE_ESYNTAX,
				 "PEEK of a topic needs partition=, or newest: '%s' has "
				 "0-%u",
				 q->name, count - 1);
	return session_topic_check_partition(q, spec->partition, err);
}

int session_peek_topic(struct queue *q, const struct peek_spec *spec, struct reply *r,
		       struct error *err)
{
	unsigned index = spec->partition < 0 ? 0 : (unsigned)spec->partition;
	struct msg_match match;
	struct peek_topic *p;

	if (check_topic(q, spec, err) < 0)
		return err->code;
	if (spec->is_newest)
		return peek_newest(q, spec, r, err);
	if (session_match_init(q->vhost->broker, &match, spec->match, err) < 0)
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
