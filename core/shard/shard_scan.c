#include "shard_scan.h"

#include <stdio.h>

#include "base/mem.h"

void shard_scan_init(struct shard_scan *scan, struct shard *sh, enum entry_state state,
		     struct place from, unsigned max)
{
	scan->shard = shard_ref(sh);
	scan->state = state;
	scan->from = from;
	scan->max = max;
	scan->rows = mem_alloc(max * sizeof(*scan->rows));
}

void shard_scan_take(struct shard_scan *scan)
{
	msg_unref(scan->rows[scan->taken++].row.msg);
}

void shard_scan_deinit(struct shard_scan *scan)
{
	while (shard_scan_row(scan))
		shard_scan_take(scan);
	shard_unref(scan->shard);
	mem_free(scan->rows);
}

void shard_scan_renew(struct shard_scan *scan)
{
	const struct shard_row *next = shard_scan_row(scan);

	if (!next || !next->entry)
		return;
	scan->from = place_of_row(&next->row);
	scan->is_end = false;
	while (shard_scan_row(scan))
		shard_scan_take(scan);
}

static struct place behind(const struct shard_row *row)
{
	return (struct place){ row->row.score, row->row.id + 1 };
}

static double score_of(const struct shard_scan *scan, const struct entry *e)
{
	return scan->state == ENTRY_READY ? e->rank : (double)e->at_unix_ms;
}

static void set_row(struct shard_scan *scan, unsigned i, const struct entry *e)
{
	struct store_row *row = &scan->rows[i].row;

	scan->rows[i].entry = e;
	*row = (struct store_row){ .id = e->id,
				   .score = score_of(scan, e),
				   .rank = e->rank,
				   .expires_unix_ms = e->expires_unix_ms,
				   .msg = msg_ref(e->msg),
				   .attempts = e->attempts,
				   .failures = e->failures };
	if (e->reason)
		snprintf(row->reason, sizeof(row->reason), "%s", e->reason);
}

/* From an entry of a window on. Gives the one behind the last. */
static const struct entry *add_window(struct shard_scan *scan, const struct window *w,
				      const struct entry *e, size_t bytes)
{
	while (e && scan->count < scan->max) {
		size_t size = e->msg->bytes;

		set_row(scan, scan->count++, e);
		e = window_next(w, e);
		if (size >= bytes)
			break;
		bytes -= size;
	}
	return e;
}

static void drop_last(struct shard_scan *scan)
{
	msg_unref(scan->rows[--scan->count].row.msg);
	scan->is_end = false;
}

static void insert_row(struct shard_scan *scan, unsigned i, const struct entry *e)
{
	memmove(&scan->rows[i + 1], &scan->rows[i],
		(scan->count++ - i) * sizeof(scan->rows[0]));
	set_row(scan, i, e);
}

/* Those held for a moment are in the order of delivery. Most come with rising deadlines,
 * so that the row for one is found near the end. */
static void add_young(struct shard_scan *scan)
{
	const struct entry *e;

	TAILQ_FOREACH (e, &scan->shard->young, link) {
		struct place place = { score_of(scan, e), e->id };
		unsigned i = scan->count;

		if (place_is_before(place, scan->from))
			continue;
		while (i > 0 &&
		       place_is_before(place, place_of_row(&scan->rows[i - 1].row)))
			i--;
		if (i == scan->max) {
			scan->is_end = false;
			continue;
		}
		if (scan->count == scan->max)
			drop_last(scan);
		insert_row(scan, i, e);
	}
}

static void add_held(struct shard_scan *scan, const struct entry *first, size_t bytes)
{
	scan->is_end = !add_window(scan, &scan->shard->held, first, SIZE_MAX);
	add_young(scan);
	for (unsigned i = 0; i < scan->count; i++) {
		size_t size = scan->rows[i].row.msg->bytes;

		while (size >= bytes && scan->count > i + 1)
			drop_last(scan);
		bytes -= size < bytes ? size : bytes;
	}
}

static void add_stage(struct shard_scan *scan, const struct stage *st,
		      const struct entry *first, size_t bytes)
{
	scan->is_end = !add_window(scan, &st->window, first, bytes) &&
		       (!scan->shard->keys || st->beyond == 0);
}

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	struct shard_scan *scan = ctx;

	scan->is_asking = false;
	scan->is_end = count == 0;
	if (status < 0)
		error_set(&scan->err, status, "%s", text ? text : error_text(status));
	for (size_t i = 0; i < count && i < scan->max; i++) {
		scan->rows[scan->count] = (struct shard_row){ rows[i], NULL };
		if (rows[i].msg)
			msg_ref(rows[i].msg);
		scan->from = behind(&scan->rows[scan->count++]);
	}
	scan->on_filled(scan);
}

/* For what is behind the window. */
static enum shard_scan_result ask(struct shard_scan *scan, size_t bytes)
{
	const struct shard *sh = scan->shard;
	const struct stage *st = &sh->stages[scan->state];
	struct store_from from = { .set = st->set,
				   .count = scan->max,
				   .max_bytes = bytes };

	if (place_is_before(scan->from, st->edge))
		scan->from = st->edge;
	from.score = scan->from.score;
	from.id = scan->from.id;
	scan->is_asking = true;
	store_read_from(sh->env->store, sh->keys, &from, on_rows, scan);
	return SHARD_SCAN_ASKED;
}

enum shard_scan_result shard_scan_fill(struct shard_scan *scan, size_t bytes)
{
	struct shard *sh = scan->shard;
	bool is_held = scan->state == ENTRY_UNACKED;
	struct window *w = is_held ? &sh->held : &sh->stages[scan->state].window;
	struct entry *first;

	scan->count = scan->taken = 0;
	if (sh->is_closed || scan->is_end)
		return SHARD_SCAN_END;
	if (!window_seek(w, scan->from, &first))
		return SHARD_SCAN_AGAIN;
	if (is_held)
		add_held(scan, first, bytes);
	else
		add_stage(scan, &sh->stages[scan->state], first, bytes);
	if (scan->count > 0) {
		scan->from = behind(&scan->rows[scan->count - 1]);
		return SHARD_SCAN_ROWS;
	}
	return scan->is_end ? SHARD_SCAN_END : ask(scan, bytes);
}

struct entry *shard_scan_match(struct shard *sh, const struct shard_look *look)
{
	struct entry *e = shard_next(sh);
	unsigned left = look->messages;
	size_t bytes = look->bytes;

	for (; e && left > 0; left--) {
		bool is_live =
			!e->expires_unix_ms || e->expires_unix_ms > sh->env->now_ms;

		if (is_live && msg_match_has(look->match, e->msg))
			return e;
		if (e->msg->bytes >= bytes)
			return NULL;
		bytes -= e->msg->bytes;
		e = window_next(&sh->stages[ENTRY_READY].window, e);
	}
	return NULL;
}
