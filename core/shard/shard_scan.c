#include "shard_scan.h"

#include <stdio.h>

#include "base/mem.h"

void shard_scan_init(struct shard_scan *scan, struct shard *sh, enum entry_state state,
		     unsigned max)
{
	scan->shard = shard_ref(sh);
	scan->state = state;
	scan->max = max;
	scan->rows = mem_alloc(2 * max * sizeof(*scan->rows));
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

static void set_row(struct shard_row *out, const struct shard_scan *scan,
		    const struct entry *e)
{
	struct store_row *row = &out->row;

	out->entry = e;
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

/* Insert by place into rows of which the first `max` are kept. Most come in order, or
 * behind those. False: one has been left out. */
static bool insert(struct shard_row *rows, unsigned *count, const struct shard_scan *scan,
		   const struct entry *e)
{
	struct place place = { score_of(scan, e), e->id };
	bool is_full = *count == scan->max;
	unsigned i = *count;

	if (place_is_before(place, scan->from))
		return true;
	while (i > 0 && place_is_before(place, place_of_row(&rows[i - 1].row)))
		i--;
	if (i == scan->max)
		return false;
	if (is_full)
		msg_unref(rows[--*count].row.msg);
	memmove(&rows[i + 1], &rows[i], (*count - i) * sizeof(rows[0]));
	++*count;
	set_row(&rows[i], scan, e);
	return !is_full;
}

/* From an entry of a window on. Gives the one behind the last. */
static const struct entry *add_window(struct shard_scan *scan, const struct window *w,
				      const struct entry *e, size_t bytes)
{
	while (e && scan->count < scan->max) {
		size_t size = e->msg->bytes;

		set_row(&scan->rows[scan->count++], scan, e);
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

static void add_held(struct shard_scan *scan, const struct entry *first, size_t bytes)
{
	const struct entry *e;

	scan->is_end = !add_window(scan, &scan->shard->held, first, SIZE_MAX);
	/* Those held for a moment are in the order of delivery. */
	TAILQ_FOREACH (e, &scan->shard->young, link)
		if (!insert(scan->rows, &scan->count, scan, e))
			scan->is_end = false;
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

/* Those on their way to Redis, which it was asked before: the second half of the rows. */
static void capture_outside(struct shard_scan *scan, const struct stage *st)
{
	const struct entry *e;

	scan->captured = 0;
	TAILQ_FOREACH (e, &st->outside, link)
		if (e->msg && e->home != st->set)
			(void)insert(scan->rows + scan->max, &scan->captured, scan, e);
}

/* Put both in order. Captured ones behind the last row are captured again, or Redis has
 * them by then. */
static void merge(struct shard_scan *scan, const struct store_row *rows, size_t count)
{
	struct shard_row *captured = scan->rows + scan->max;
	bool has_rows = count > 0;
	unsigned k = 0;

	for (size_t i = 0;
	     scan->count < scan->max && (i < count || k < scan->captured);) {
		bool is_captured =
			k < scan->captured &&
			(i == count || place_is_before(place_of_row(&captured[k].row),
						       place_of_row(&rows[i])));

		if (is_captured && i == count && has_rows)
			break;
		if (is_captured) {
			captured[k].entry = NULL;
			scan->rows[scan->count++] = captured[k++];
			continue;
		}
		scan->rows[scan->count++] = (struct shard_row){ rows[i], NULL };
		if (rows[i].msg)
			msg_ref(rows[i].msg);
		i++;
	}
	for (; k < scan->captured; k++)
		msg_unref(captured[k].row.msg);
}

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	struct shard_scan *scan = ctx;

	scan->is_asking = false;
	if (status < 0)
		error_set(&scan->err, status, "%s", text ? text : error_text(status));
	merge(scan, rows, count);
	scan->is_end = scan->count == 0;
	if (scan->count > 0)
		scan->from = behind(&scan->rows[scan->count - 1]);
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
	capture_outside(scan, st);
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
