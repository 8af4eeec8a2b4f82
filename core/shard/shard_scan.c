#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "journal.h"
#include "shard.h"

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
				   .deliveries = e->deliveries,
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
	if (i > 0 && rows[i - 1].row.id == e->id)
		return true;
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
				      const struct entry *e)
{
	for (; e && scan->count < scan->max; e = window_next(w, e))
		set_row(&scan->rows[scan->count++], scan, e);
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

	scan->is_end = !add_window(scan, &scan->shard->held, first);
	/* Entries held for a moment are in the order of delivery. */
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

/* The first parked one from there on, when all are in memory. */
static const struct entry *seek_parked(const struct shard_scan *scan, struct place from)
{
	bool is_any = scan->state == ENTRY_READY && shard_parked(scan->shard) > 0;

	return is_any ? order_seek(scan->shard->order, from) : NULL;
}

/* From an entry of the window on, and the parked ones between. */
static void add_stage(struct shard_scan *scan, const struct stage *st,
		      const struct entry *next, size_t bytes)
{
	const struct entry *parked = seek_parked(scan, scan->from), *e = NULL;

	while ((next || parked) && scan->count < scan->max) {
		bool is_parked = parked && (!next || place_is_before(window_place(parked),
								     window_place(next)));

		e = is_parked ? parked : next;
		set_row(&scan->rows[scan->count++], scan, e);
		if (is_parked)
			parked = seek_parked(scan, (struct place){ e->rank, e->id + 1 });
		else
			next = window_next(&st->window, e);
		if (e->msg->bytes >= bytes)
			break;
		bytes -= e->msg->bytes;
	}
	scan->is_end = !next && !parked && (!scan->shard->keys || st->beyond == 0);
}

/* ---- what Redis has --------------------------------------------------------------
 *
 * Its set is the truth but for what memory is about to change, or has changed since Redis
 * was asked: those entries are dirty or in flight, or they are in hands. Their rows are
 * passed by. Those that are in the state come from memory. */

struct row_mark {
	uint64_t id;
	bool is_memory;
};

struct overlay {
	struct shard_scan *scan;
	struct row_mark *marks; /* of the rows, by id */
	size_t count;
	unsigned extra; /* rows of memory: the second half of the scan's */
};

static struct row_mark *find_mark(const struct overlay *o, uint64_t id)
{
	struct row_mark wanted = { id, false };

	if (o->count == 0 || id < o->marks[0].id || id > o->marks[o->count - 1].id)
		return NULL;
	return bsearch(&wanted, o->marks, o->count, sizeof(wanted), id_compare);
}

static void lay(void *ctx, const struct entry *e)
{
	struct overlay *o = ctx;
	struct shard_scan *scan = o->scan;
	struct row_mark *mark = find_mark(o, e->id);

	if (mark)
		mark->is_memory = true;
	if (e->msg && e->state == scan->state)
		(void)insert(scan->rows + scan->max, &o->extra, scan, e);
}

static void lay_all(struct overlay *o, const struct store_row *rows, size_t count)
{
	const struct shard *sh = o->scan->shard;
	const struct entry *e;

	o->marks = mem_alloc((count + 1) * sizeof(*o->marks));
	for (; o->count < count; o->count++)
		o->marks[o->count] = (struct row_mark){ rows[o->count].id, false };
	qsort(o->marks, count, sizeof(*o->marks), id_compare);
	TAILQ_FOREACH (e, &sh->young, link)
		lay(o, e);
	TAILQ_FOREACH (e, &sh->moving, link)
		lay(o, e);
	TAILQ_FOREACH (e, &sh->dirty, dirty_link)
		lay(o, e);
	journal_each_flying(sh, lay, o);
}

/* Put both in order. Those of memory behind the last row come with the next read, or
 * Redis has them by then. */
static void merge(struct overlay *o, const struct store_row *rows, size_t count)
{
	struct shard_scan *scan = o->scan;
	struct shard_row *extra = scan->rows + scan->max;
	unsigned k = 0;
	size_t i = 0;

	while (scan->count < scan->max && (i < count || (k < o->extra && count == 0))) {
		bool is_extra =
			k < o->extra &&
			(i == count || place_is_before(place_of_row(&extra[k].row),
						       place_of_row(&rows[i])));

		if (is_extra) {
			extra[k].entry = NULL;
			scan->from = behind(&extra[k]);
			scan->rows[scan->count++] = extra[k++];
			continue;
		}
		scan->from = (struct place){ rows[i].score, rows[i].id + 1 };
		if (!find_mark(o, rows[i].id)->is_memory) {
			scan->rows[scan->count++] = (struct shard_row){ rows[i], NULL };
			if (rows[i].msg)
				msg_ref(rows[i].msg);
		}
		i++;
	}
	for (; k < o->extra; k++)
		msg_unref(extra[k].row.msg);
}

static void on_scan_rows(void *ctx, int status, const char *text, struct store_row *rows,
			 size_t count)
{
	struct shard_scan *scan = ctx;
	struct overlay o = { .scan = scan };

	scan->is_asking = false;
	if (status < 0)
		error_set(&scan->err, status, "%s", text ? text : error_text(status));
	if (status == TIDE_OK && !scan->shard->is_closed) {
		lay_all(&o, rows, count);
		merge(&o, rows, count);
		mem_free(o.marks);
	}
	scan->is_end = scan->count == 0 && (status < 0 || count == 0);
	scan->on_filled(scan);
}

/* Entries in the window, parked in memory alone, or held need no question. */
static bool is_in_memory(const struct shard_scan *scan)
{
	const struct shard *sh = scan->shard;

	return scan->state != ENTRY_READY || !sh->keys || shard_parked(sh) == 0;
}

static enum shard_scan_result ask(struct shard_scan *scan, size_t bytes)
{
	const struct shard *sh = scan->shard;
	const struct stage *st = &sh->stages[scan->state];
	struct store_read read = {
		.set = st->set, .count = scan->max, .max_bytes = bytes, .has_place = true
	};

	if (is_in_memory(scan) && place_is_before(scan->from, st->edge))
		scan->from = st->edge;
	read.score = scan->from.score;
	read.id = scan->from.id;
	scan->is_asking = true;
	store_read(sh->env->store, sh->keys, &read, on_scan_rows, scan);
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
	if (!is_in_memory(scan))
		return ask(scan, bytes);
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

static struct entry *find_match(const struct shard *sh, struct entry *e,
				const struct shard_look *look)
{
	unsigned left = look->messages;
	size_t bytes = look->bytes;

	for (; e && left > 0; left--) {
		bool is_live =
			!e->expires_unix_ms || e->expires_unix_ms > sh->env->now_ms;

		if (is_live && (!sh->order || order_offers(sh->order, e)) &&
		    msg_match_has(look->match, e->msg, e->failures + 1))
			return e;
		if (msg_match_is_spent(look->match, sh->env->now_ms))
			return NULL;
		if (e->msg->bytes >= bytes)
			return NULL;
		bytes -= e->msg->bytes;
		e = window_next(&sh->stages[ENTRY_READY].window, e);
	}
	return NULL;
}

struct entry *shard_scan_match(struct shard *sh, const struct shard_look *look)
{
	struct entry *e = find_match(sh, shard_next(sh), look);

	if (sh->order)
		order_offers_end(sh->order);
	return e;
}

bool shard_tail_is_far(const struct shard *sh, enum entry_state state)
{
	return sh->keys && (sh->stages[state].beyond > 0 ||
			    (state == ENTRY_READY && shard_parked(sh) > 0));
}

struct entry *shard_tail_entry(const struct shard *sh, enum entry_state state)
{
	struct entry *last = window_last(&sh->stages[state].window);
	struct entry *parked =
		state == ENTRY_READY && sh->order ? order_last(sh->order) : NULL;

	if (!last || !parked)
		return last ? last : parked;
	return place_is_before(window_place(last), window_place(parked)) ? parked : last;
}

static bool is_unsettled(const struct entry *e, enum entry_state state)
{
	return e->state == state && !(e->flags & LIES_UNSTORED) &&
	       (e->home != state || e->flags & OWED_SCORE);
}

const struct entry *shard_tail_next_unsettled(const struct shard *sh,
					      enum entry_state state,
					      const struct entry *e)
{
	e = e ? TAILQ_NEXT(e, dirty_link) : TAILQ_FIRST(&sh->dirty);
	while (e && !is_unsettled(e, state))
		e = TAILQ_NEXT(e, dirty_link);
	return e;
}

void shard_tail_read(struct shard *sh, enum entry_state state, unsigned count,
		     store_rows_fn on_rows, void *ctx)
{
	store_read(sh->env->store, sh->keys,
		   &(struct store_read){ .set = sh->stages[state].set,
					 .start = -(int64_t)count,
					 .count = count,
					 .ids_only = true },
		   on_rows, ctx);
}
