#include "rewrite.h"

#include <assert.h>

#include "partition_private.h"

/* A batch of that length that loses nothing stays as it is. */
#define REWRITE_LARGE_BYTES (RECORD_BATCH_BYTES / 2)
/* Of a head, and names of the first record. */
#define REWRITE_BESIDE_BYTES 640
/* The fields that a record may need when the one before it goes, besides names. */
#define REWRITE_GAP_BYTES 36

void rewrite_deinit(struct rewrite *w)
{
	record_writer_deinit(&w->writer);
}

/* Give up what has gathered. */
static void clear(struct rewrite *w)
{
	record_writer_deinit(&w->writer);
	w->count = 0;
	w->is_changed = false;
	w->bytes = 0;
}

static void on_replaced(void *ctx, int status, const char *text)
{
	struct rewrite *w = ctx;
	struct partition *p = w->partition;

	w->is_flying = false;
	w->status = status;
	w->ops->on_landed(w);
	partition_unref(p);
}

/* A trim has taken them meanwhile, or will. */
static bool is_gone(const struct rewrite *w)
{
	const struct partition *p = w->partition;
	const struct partition_day *day = partition_day_of(p, w->from);

	return p->is_closed || w->end <= p->start || !day || day->day != w->day ||
	       day->is_going;
}

static void replace(struct rewrite *w)
{
	struct partition *p = partition_ref(w->partition);
	struct store_log_replace replace = { .day = w->day,
					     .from = w->from,
					     .to = w->to };
	struct record_batch *b = NULL;
	struct store_log_batch row;

	if (w->writer.count > 0) {
		b = record_finish(&w->writer, w->end);
		row = (struct store_log_batch){ b->base, { b->bytes, b->len } };
		replace.batches = &row;
		replace.count = 1;
		w->kept_bytes += b->len;
	}
	w->is_flying = true;
	store_log_replace(p->env->store, p->keys, &replace, on_replaced, w);
	record_batch_unref(b);
}

void rewrite_end(struct rewrite *w)
{
	assert(!w->is_flying);
	if (w->count == 0)
		return;
	if (is_gone(w))
		;
	else if (w->count == 1 && !w->is_changed)
		w->kept_bytes += w->bytes;
	else
		replace(w);
	clear(w);
}

/* An upper bound of the bytes of the records that stay. True: all of them do. */
static bool measure(const struct rewrite *w, const struct record_batch *b, size_t *bytes)
{
	struct record_reader r;
	struct record record;
	bool is_whole = true, is_behind_gap = false;

	*bytes = REWRITE_BESIDE_BYTES;
	record_read(&r, b);
	for (const char *at = r.at; record_next(&r, &record); at = r.at) {
		bool stays = w->ops->keeps(w, &record);

		if (stays)
			*bytes += (size_t)(r.at - at);
		if (stays && is_behind_gap)
			*bytes += record.msg.exchange.len + record.msg.key.len +
				  REWRITE_GAP_BYTES;
		is_behind_gap = !stays;
		is_whole &= stays;
	}
	return is_whole;
}

static void add_records(struct rewrite *w, const struct record_batch *b)
{
	struct record_reader r;
	struct record record;

	record_read(&r, b);
	while (record_next(&r, &record)) {
		if (w->ops->keeps(w, &record))
			record_add(&w->writer, record.offset, &record.msg,
				   record.msg.ts_unix_ms);
		else
			w->removed++;
	}
}

void rewrite_add(struct rewrite *w, uint32_t day, const struct record_batch *b)
{
	size_t bytes;
	bool is_whole = measure(w, b, &bytes);

	assert(!w->is_flying);
	if (w->count > 0 &&
	    (day != w->day || buf_len(&w->writer.bytes) + bytes > RECORD_BATCH_BYTES))
		rewrite_end(w);
	if (is_whole && w->count == 0 && b->len >= REWRITE_LARGE_BYTES) {
		w->kept_bytes += b->len;
		return;
	}
	if (w->count == 0) {
		w->day = day;
		w->from = b->base;
		record_begin(&w->writer, b->base, b->position);
	}
	add_records(w, b);
	w->to = b->base;
	w->end = b->end;
	w->bytes += b->len;
	w->count++;
	w->is_changed |= !is_whole;
}
