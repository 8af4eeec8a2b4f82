#include "merge.h"

#include "base/mem.h"
#include "partition_private.h"

/* So many of a tier become one. */
#define MERGE_RUN 16
/* Unless they would be a large part of a whole batch: then more of them gather, so that
 * what comes out is nearly full, and not written yet another time. */
#define MERGE_RUN_BYTES (RECORD_BATCH_BYTES / 4)
#define MERGE_RUN_MAX 64
/* While Redis refuses them: the oldest ones are forgotten. */
#define MERGE_PIECES_MAX 512
/* A batch that is appended with so many bytes is large: what Redis takes besides is 2%.
 */
#define MERGE_SMALL_BYTES 8192
/* What has become so large stays as it is. */
#define MERGE_DONE_BYTES (RECORD_BATCH_BYTES / 2)
/* Merges that are begun in a turn, and that are under way: each has up to 64 KiB. */
#define MERGE_TURN_MAX 8
#define MERGE_FLIGHTS_MAX 32
/* After Redis has refused one. */
#define MERGE_REST_MS 5000

struct merge_piece {
	uint64_t base;
	uint32_t len;
	uint32_t tier; /* it was merged so many times */
};

/* The small batches of a partition, side by side, in order; tiers never grow. Those in
 * front are perhaps of a day that has ended. */
struct merge {
	struct partition *partition;
	TAILQ_ENTRY(merge) link; /* of env->merges */
	struct merge_piece *pieces;
	uint64_t end; /* behind the last one */
	uint32_t count, cap;
	uint32_t past; /* pieces of `past_day` */
	uint32_t past_day, day;
	/* Of the merge that is under way. */
	uint64_t flying_base, flying_end;
	uint32_t flying_count, flying_day, flying_len;
	bool is_flying, is_wanted;
};

/* Neighbours that become one batch. */
struct merge_run {
	uint32_t first, count;
};

/* ---- pieces ------------------------------------------------------------------------
 */

static void drop_pieces(struct merge *m, uint32_t first, uint32_t count)
{
	uint32_t past = first < m->past ? m->past - first : 0;

	m->count -= count;
	m->past -= past < count ? past : count;
	memmove(m->pieces + first, m->pieces + first + count,
		(m->count - first) * sizeof(*m->pieces));
	if (m->count > 0)
		return;
	mem_free(m->pieces);
	m->pieces = NULL;
	m->cap = 0;
}

static void add_piece(struct merge *m, const struct record_batch *b)
{
	if (m->count >= MERGE_PIECES_MAX && !m->is_flying)
		drop_pieces(m, 0, MERGE_PIECES_MAX / 2);
	MEM_GROW(m->pieces, m->count, m->cap, 4);
	m->pieces[m->count++] =
		(struct merge_piece){ .base = b->base, .len = (uint32_t)b->len };
	m->end = b->end;
}

/* What is left of the day before waits for its merge; of a day before that, it stays. */
static void begin_day(struct merge *m, uint32_t day)
{
	if (m->past > 0)
		drop_pieces(m, 0, m->past);
	m->past = m->count;
	m->past_day = m->day;
	m->day = day;
}

static uint64_t end_of(const struct merge *m, uint32_t i)
{
	return i + 1 < m->count ? m->pieces[i + 1].base : m->end;
}

/* How many of these fit in one batch. A merge takes no more bytes than its parts did. */
static uint32_t count_fitting(const struct merge *m, uint32_t first, uint32_t end)
{
	size_t bytes = 0;
	uint32_t i = first;

	while (i < end && (bytes += m->pieces[i].len) <= RECORD_BATCH_BYTES)
		i++;
	return i - first;
}

/* The run of one tier that ends there: it is due. */
static bool is_due(const struct merge *m, uint32_t first, uint32_t end)
{
	size_t bytes = 0;

	for (uint32_t i = first; i < end; i++)
		bytes += m->pieces[i].len;
	return bytes > RECORD_BATCH_BYTES || end - first >= MERGE_RUN_MAX ||
	       (end - first >= MERGE_RUN && bytes <= MERGE_RUN_BYTES);
}

/* Of the day, from the lowest tier on. */
static bool find_due(const struct merge *m, struct merge_run *out)
{
	for (uint32_t end = m->count, first = end; end > m->past; end = first) {
		uint32_t tier = m->pieces[end - 1].tier;

		while (first > m->past && m->pieces[first - 1].tier == tier)
			first--;
		if (!is_due(m, first, end))
			continue;
		*out = (struct merge_run){ first, count_fitting(m, first, end) };
		return true;
	}
	return false;
}

/* All pieces are less than half a batch: two fit at least. */
static bool find_run(struct merge *m, struct merge_run *out)
{
	while (m->count > 0 && m->pieces[0].base < m->partition->start)
		drop_pieces(m, 0, 1);
	if (m->past == 1)
		drop_pieces(m, 0, 1);
	if (m->past == 0)
		return find_due(m, out);
	*out = (struct merge_run){ 0, count_fitting(m, 0, m->past) };
	return true;
}

/* ---- merging -----------------------------------------------------------------------
 */

static void set_wanted(struct merge *m, bool is_wanted)
{
	struct partition_env *env = m->partition->env;

	if (m->is_wanted == is_wanted)
		return;
	m->is_wanted = is_wanted;
	if (is_wanted)
		TAILQ_INSERT_TAIL(&env->merges, m, link);
	else
		TAILQ_REMOVE(&env->merges, m, link);
}

static void look_for_more(struct merge *m)
{
	struct merge_run run;

	if (!m->is_flying && !m->partition->is_closed)
		set_wanted(m, find_run(m, &run));
}

/* What has flown is still there: the first of its pieces; m->count: it is not. */
static uint32_t find_flown(const struct merge *m)
{
	uint32_t i = 0;

	while (i < m->count && m->pieces[i].base != m->flying_base)
		i++;
	return i;
}

static void end_flight(struct merge *m)
{
	struct partition *p = m->partition;

	m->is_flying = false;
	p->env->merge_flights--;
	look_for_more(m);
	partition_unref(p);
}

static void land_merge(struct merge *m)
{
	uint32_t i = find_flown(m), first;
	bool is_done;

	m->partition->env->stats.merged += m->flying_count;
	if (i == m->count)
		return;
	drop_pieces(m, i + 1, m->flying_count - 1);
	m->pieces[i].len = m->flying_len;
	m->pieces[i].tier++;
	is_done = m->flying_len >= MERGE_DONE_BYTES || (i == 0 && m->past > 0);
	if (!is_done)
		return;
	/* What lies before it will have no neighbours to be merged with. */
	first = i < m->past ? 0 : m->past;
	drop_pieces(m, first, i + 1 - first);
}

static void on_replaced(void *ctx, int status, const char *text)
{
	struct merge *m = ctx;
	struct partition_env *env = m->partition->env;

	if (status == TIDE_OK)
		land_merge(m);
	else
		env->merge_retry_ms = env->now_ms + MERGE_REST_MS;
	end_flight(m);
}

/* Some of them cannot be read, or are not what is known of them: they stay. */
static void give_up(struct merge *m)
{
	uint32_t i = find_flown(m);

	if (i < m->count)
		drop_pieces(m, i, m->flying_count);
	end_flight(m);
}

static void write_merged(struct merge *m, struct record_writer *w, uint64_t last)
{
	struct partition *p = m->partition;
	struct record_batch *merged = record_finish(w, m->flying_end);
	const struct store_log_batch row = { merged->base,
					     { merged->bytes, merged->len } };
	const struct store_log_replace replace = { .day = m->flying_day,
						   .from = merged->base,
						   .to = last,
						   .batches = &row,
						   .count = 1 };

	m->flying_len = (uint32_t)merged->len;
	store_log_replace(p->env->store, p->keys, &replace, on_replaced, m);
	record_batch_unref(merged);
	record_writer_deinit(w);
}

static void add_records(struct record_writer *w, const struct record_batch *b)
{
	struct record_reader r;
	struct record record;

	record_read(&r, b);
	while (record_next(&r, &record))
		record_add(w, record.offset, &record.msg, record.msg.ts_unix_ms);
}

static void merge_tail(struct merge *m, uint64_t last)
{
	const struct tail *t = &m->partition->tail;
	uint64_t number = tail_find(t, m->flying_base);
	const struct record_batch *b = tail_at(t, number);
	struct record_writer w = { 0 };

	record_begin(&w, b->base, b->position);
	for (; b && b->base < m->flying_end; b = tail_at(t, ++number))
		add_records(&w, b);
	write_merged(m, &w, last);
}

/* Each row is the piece that it should be. */
static bool add_rows(struct merge *m, struct record_writer *w,
		     const struct store_log_batch *rows, size_t count)
{
	uint32_t first = find_flown(m);

	if (first == m->count || count != m->flying_count)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct record_batch *b;
		bool is_good;

		if (record_open_at(rows[i].bytes, rows[i].base, &b, NULL) < 0)
			return false;
		is_good = b->base == m->pieces[first + i].base;
		if (is_good && i == 0)
			record_begin(w, b->base, b->position);
		if (is_good)
			add_records(w, b);
		record_batch_unref(b);
		if (!is_good)
			return false;
	}
	return true;
}

static void on_merge_rows(void *ctx, int status, const char *text,
			  const struct store_log_batch *rows, size_t count)
{
	struct merge *m = ctx;
	struct record_writer w = { 0 };

	if (status < 0) {
		on_replaced(m, status, text);
		return;
	}
	if (m->partition->is_closed || m->flying_base < m->partition->start ||
	    !add_rows(m, &w, rows, count)) {
		record_writer_deinit(&w);
		give_up(m);
		return;
	}
	write_merged(m, &w, rows[count - 1].base);
}

static void begin_merge(struct merge *m, const struct merge_run *run)
{
	struct partition *p = partition_ref(m->partition);
	uint32_t last = run->first + run->count - 1;
	const struct record_batch *first = tail_first(&p->tail);

	m->is_flying = true;
	p->env->merge_flights++;
	m->flying_base = m->pieces[run->first].base;
	m->flying_end = end_of(m, last);
	m->flying_count = run->count;
	m->flying_day = run->first < m->past ? m->past_day : m->day;
	if (first && first->base <= m->flying_base)
		merge_tail(m, m->pieces[last].base);
	else
		store_log_read(p->env->store, p->keys, m->flying_day, m->flying_base,
			       run->count, on_merge_rows, m);
}

/* ---- of the partition --------------------------------------------------------------
 */

static struct merge *merge_of(struct partition *p)
{
	if (!p->merge) {
		p->merge = mem_zalloc(sizeof(*p->merge));
		p->merge->partition = p;
	}
	return p->merge;
}

void merge_note(struct partition *p, uint32_t day, const struct record_batch *b)
{
	bool is_small = b->len < MERGE_SMALL_BYTES;
	struct merge *m;

	if (!is_small && (!p->merge || p->merge->count == 0))
		return;
	m = merge_of(p);
	if (m->day != day || (m->count > 0 && m->end != b->base))
		begin_day(m, day);
	if (is_small)
		add_piece(m, b);
	else if (m->count > m->past)
		drop_pieces(m, m->past, m->count - m->past);
	look_for_more(m);
}

void merge_stop(struct partition *p)
{
	if (p->merge)
		set_wanted(p->merge, false);
}

void merge_free(struct partition *p)
{
	if (!p->merge)
		return;
	mem_free(p->merge->pieces);
	mem_free(p->merge);
}

uint64_t merge_begin(const struct partition *p)
{
	return p->merge && p->merge->count ? p->merge->pieces[0].base : p->readable;
}

static bool is_resting(const struct partition_env *env)
{
	return partition_is_resting(env, env->merge_retry_ms, MERGE_REST_MS);
}

void merge_flush(struct partition_env *env)
{
	struct merge *m;

	if (is_resting(env))
		return;
	for (unsigned i = 0; i < MERGE_TURN_MAX && env->merge_flights < MERGE_FLIGHTS_MAX;
	     i++) {
		struct merge_run run;

		m = TAILQ_FIRST(&env->merges);
		if (!m)
			return;
		set_wanted(m, false);
		if (find_run(m, &run))
			begin_merge(m, &run);
	}
}

int64_t merge_due_ms(const struct partition_env *env)
{
	if (TAILQ_EMPTY(&env->merges) || env->merge_flights == MERGE_FLIGHTS_MAX)
		return 0;
	return is_resting(env) ? env->merge_retry_ms : env->now_ms;
}
