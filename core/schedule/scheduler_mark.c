/* scheduler_mark.c: what schedules have done, as tide:rules:schedule keeps it by their
 * names: "<done>", or "<done> <begun> <missed> <id>,<id>..." while a tick is under way,
 * where an id may be followed by those of the message's copies: "<id>+<id>+<id>".
 */
#include <inttypes.h>

#include "base/mem.h"
#include "host/log.h"
#include "scheduler.h"

#define DOC_SCHEDULE "rules:schedule"

/* ---- writing ------------------------------------------------------------------- */

static void on_mark_written(void *ctx, int status, const char *text)
{
	struct broker *b = ctx;

	if (status == TIDE_OK || status == TIDE_ESHUTDOWN)
		return;
	if (!b->scheduler->has_failed)
		log_error(
			"a schedule's last tick cannot be written to Redis, and is tried "
			"again: %s",
			text ? text : error_text(status));
	b->scheduler->has_failed = true;
}

static void write_field(struct broker *b, const struct store_field *change,
			struct waiter *waiter)
{
	if (!b->env.store || b->is_closing)
		return;
	if (waiter)
		waiter_add(waiter);
	store_document_change(b->store, DOC_SCHEDULE, change, 1,
			      waiter ? waiter_store_done : on_mark_written,
			      waiter ? (void *)waiter : b);
}

static void write_ids(const struct schedule *s, struct buf *out)
{
	char id[ID_HEX_LEN];

	for (unsigned i = 0; i < s->id_count; i++) {
		bool is_copy = i > 0 && s->ids[i].message == s->ids[i - 1].message;

		buf_append_char(out, i == 0 ? ' ' : is_copy ? '+' : ',');
		id_format(s->ids[i].id, id);
		buf_append(out, id, sizeof(id));
	}
}

void schedule_write_mark(struct schedule *s, struct waiter *waiter)
{
	struct store_field change = { slice_from(s->name), { NULL, 0 } };
	struct buf text;

	buf_init(&text);
	buf_printf(&text, "%" PRId64, s->done_ms);
	if (s->begun_ms)
		buf_printf(&text, " %" PRId64 " %" PRIu64, s->begun_ms, s->begun_missed);
	if (s->begun_ms)
		write_ids(s, &text);
	change.value = buf_slice(&text);
	write_field(s->broker, &change, waiter);
	buf_deinit(&text);
}

void schedule_remove_mark(struct schedule *s)
{
	struct store_field change = { slice_from(s->name), { NULL, 0 } };

	write_field(s->broker, &change, NULL);
}

void scheduler_write_marks_again(struct broker *b)
{
	struct schedule *s;

	b->scheduler->has_failed = false;
	TAILQ_FOREACH (s, &b->scheduler->schedules, link)
		if (!s->is_busy)
			schedule_write_mark(s, NULL);
}

/* ---- reading ------------------------------------------------------------------- */

/* Cut a word off the text. */
static struct slice take_word(struct slice *text, char separator)
{
	const char *end = text->len ? memchr(text->data, separator, text->len) : NULL;
	struct slice word = { text->data, end ? (size_t)(end - text->data) : text->len };

	*text = slice_skip(*text, end ? word.len + 1 : word.len);
	return word;
}

static bool take_number(struct slice *text, uint64_t *out)
{
	return slice_to_uint(take_word(text, ' '), INT64_MAX, out);
}

static bool read_ids(struct schedule *s, struct slice text)
{
	for (unsigned n = 0; text.len && n < SCHEDULE_MESSAGES_MAX; n++) {
		struct slice ids = take_word(&text, ',');

		do {
			uint64_t id;

			if (id_parse(take_word(&ids, '+'), &id) != TIDE_OK)
				return false;
			schedule_add_id(s, id, n);
		} while (ids.len);
	}
	return s->id_count > 0;
}

static bool read_mark(struct schedule *s, struct slice text)
{
	uint64_t done, begun;

	if (!take_number(&text, &done))
		return false;
	s->done_ms = (int64_t)done;
	s->last_tick_ms = s->done_ms;
	if (text.len == 0)
		return true;
	if (!take_number(&text, &begun) || !take_number(&text, &s->begun_missed) ||
	    !read_ids(s, text)) {
		schedule_forget_ids(s);
		return false;
	}
	s->begun_ms = (int64_t)begun;
	return true;
}

static void on_fields(void *ctx, int status, const char *text,
		      const struct store_field *fields, size_t count)
{
	struct broker *b = ctx;

	for (size_t i = 0; i < count; i++) {
		struct schedule *s = schedule_create(b, fields[i].name);

		if (!read_mark(s, fields[i].value))
			log_error("tide:rules:schedule: '%" SLICE_FMT
				  "' of '%s' cannot be read",
				  SLICE_ARG(fields[i].value), s->name);
		s->is_starting = true;
	}
	b->scheduler->on_loaded(b, status, text);
}

void scheduler_load(struct broker *b,
		    void (*on_loaded)(struct broker *b, int status, const char *text))
{
	b->scheduler->on_loaded = on_loaded;
	store_document_read(b->store, DOC_SCHEDULE, on_fields, b);
}
