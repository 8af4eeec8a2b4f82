#include "compact.h"

#include <assert.h>

#include "base/bytes.h"
#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "partition_private.h"

#define SLOTS_MIN 1024
#define KEYS_CAP_MIN 4096

/* Open addressing. The keys lie one after the other: a byte, the length, and the key. */
struct key_slot {
	uint32_t at; /* of the key; 0: the slot is free */
	uint32_t hash;
	uint64_t offset;
};

struct key_index {
	struct key_slot *slots;
	uint32_t mask;
	uint32_t count;
	char *keys;
	size_t keys_len, keys_cap, keys_max;
};

struct key_index *key_index_create(uint64_t keys_max, size_t bytes_max)
{
	struct key_index *k = mem_zalloc(sizeof(*k));
	uint64_t slots = SLOTS_MIN;

	/* All at once, so that no turn copies it. What is not used is not touched. */
	while (slots / 4 * 3 < keys_max && slots * 2 * sizeof(*k->slots) <= bytes_max / 2)
		slots *= 2;
	k->slots = mem_zalloc(slots * sizeof(*k->slots));
	k->mask = (uint32_t)(slots - 1);
	k->keys_max = bytes_max / 2 < UINT32_MAX ? bytes_max / 2 : UINT32_MAX;
	k->keys_len = 1;
	return k;
}

void key_index_destroy(struct key_index *k)
{
	if (!k)
		return;
	mem_free(k->slots);
	mem_free(k->keys);
	mem_free(k);
}

static bool is_key(const struct key_index *k, const struct key_slot *slot,
		   struct slice key)
{
	const char *at = k->keys + slot->at;

	return (uint8_t)*at == key.len && bytes_is_equal(at + 1, key.data, key.len);
}

/* The one that has the key, or the free one that it goes to. */
static struct key_slot *slot_of(const struct key_index *k, struct slice key,
				uint32_t hash)
{
	uint32_t i = hash & k->mask;

	while (k->slots[i].at &&
	       (k->slots[i].hash != hash || !is_key(k, &k->slots[i], key)))
		i = (i + 1) & k->mask;
	return &k->slots[i];
}

static bool make_room(struct key_index *k, size_t len)
{
	size_t cap = k->keys_cap ? k->keys_cap : KEYS_CAP_MIN;

	if (k->count >= k->mask / 4 * 3 || k->keys_len + len > k->keys_max)
		return false;
	while (cap < k->keys_len + len)
		cap *= 2;
	if (cap != k->keys_cap)
		k->keys = mem_realloc(k->keys, cap);
	k->keys_cap = cap;
	return true;
}

bool key_index_put(struct key_index *k, struct slice key, uint64_t offset)
{
	uint32_t hash = bytes_hash(key.data, key.len);
	struct key_slot *slot = slot_of(k, key, hash);

	assert(key.len <= NAME_LEN_MAX);
	if (slot->at == 0) {
		if (!make_room(k, 1 + key.len))
			return false;
		slot->at = (uint32_t)k->keys_len;
		slot->hash = hash;
		k->keys[k->keys_len] = (char)key.len;
		memcpy(k->keys + k->keys_len + 1, key.data, key.len);
		k->keys_len += 1 + key.len;
		k->count++;
	}
	slot->offset = offset;
	return true;
}

bool key_index_find(const struct key_index *k, struct slice key, uint64_t *offset)
{
	const struct key_slot *slot = slot_of(k, key, bytes_hash(key.data, key.len));

	*offset = slot->offset;
	return slot->at > 0;
}

/* In the place of batches of a day, one that holds what is to stay of them, or none. */
static void send_replacement(struct partition *p, struct store_log_replace *replace,
			     const struct record_batch *b, store_done_fn on_done,
			     void *ctx)
{
	struct store_log_batch row;

	if (b) {
		row = (struct store_log_batch){ b->base, { b->bytes, b->len } };
		replace->batches = &row;
		replace->count = 1;
	}
	store_log_replace(p->env->store, p->keys, replace, on_done, ctx);
}

/* Does a record stay, with a pass of a compaction? */
typedef bool (*keeps_fn)(const struct compact_pass *pass, const struct record *record);

/* Add the records of a batch that stay; with `keeps` NULL all of them do. Gives how many
 * do not. */
static uint64_t copy_records(struct record_writer *w, const struct record_batch *b,
			     keeps_fn keeps, const struct compact_pass *pass)
{
	struct record_reader r;
	struct record record;
	uint64_t removed = 0;

	record_read(&r, b);
	while (record_next(&r, &record))
		if (!keeps || keeps(pass, &record))
			record_add(w, record.offset, &record.msg, record.msg.ts_unix_ms);
		else
			removed++;
	return removed;
}

/* ---- merging */

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
/* A batch that has become so large stays as it is. */
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

/* ---- pieces */

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

/* The rest of the day before waits for its merge; of a day before that, it stays. */
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

/* ---- merging */

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

/* The first piece of the merge that has flown; m->count: it is gone. */
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
	/* Pieces before it will have no neighbours to be merged with. */
	first = i < m->past ? 0 : m->past;
	drop_pieces(m, first, i + 1 - first);
}

static void on_merged(void *ctx, int status, const char *text)
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
	struct store_log_replace replace = { .day = m->flying_day,
					     .from = merged->base,
					     .to = last };

	m->flying_len = (uint32_t)merged->len;
	send_replacement(p, &replace, merged, on_merged, m);
	record_batch_unref(merged);
	record_writer_deinit(w);
}

static void merge_tail(struct merge *m, uint64_t last)
{
	const struct tail *t = &m->partition->tail;
	uint64_t number = tail_find(t, m->flying_base);
	const struct record_batch *b = tail_at(t, number);
	struct record_writer w = { 0 };

	record_begin(&w, b->base, b->position);
	for (; b && b->base < m->flying_end; b = tail_at(t, ++number))
		copy_records(&w, b, NULL, NULL);
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
			copy_records(w, b, NULL, NULL);
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
		on_merged(m, status, text);
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

/* ---- of the partition */

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

/* The first offset that a merge may yet move; `readable` if there is none. */
static uint64_t merge_begin(const struct partition *p)
{
	return p->merge && p->merge->count ? p->merge->pieces[0].base : p->readable;
}

static bool is_resting(const struct partition_env *env)
{
	return duration_is_resting(env->now_ms, env->merge_retry_ms, MERGE_REST_MS);
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

/* The bytes of one read, about, and at worst. */
#define READ_BYTES ((size_t)256 << 10)
#define READ_WORST_BYTES ((uint64_t)4 << 20)
/* After a failure. */
#define COMPACT_REST_MS 30000

struct compact {
	struct partition *partition;
	TAILQ_ENTRY(compact) link; /* of env->compactions */
	bool is_due;
	/* Of the last pass: where it ended, as an offset and as a position; and the bytes
	 * that it has kept below. */
	uint64_t end, end_position, kept_bytes;
};

/* Batches are written again without some of their records.
 *
 * Neighbours that become small become one batch. What loses nothing is left alone, unless
 * it is small and beside others. Offsets, ids and times stay; where records are missing
 * the offsets have gaps. One replacement is under way at most. */
struct rewrite {
	struct record_writer writer;
	/* The batches that are to become one. */
	uint32_t day;
	unsigned count;
	bool is_changed;
	uint64_t from, to; /* their first offsets */
	uint64_t end;
	size_t bytes;
	bool is_flying;
	uint64_t kept_bytes, removed; /* so far: of batches, and records */
};

/* First the keys are read, from the end of the last pass to `bound`; then all is written
 * again, from the start to `bound`. */
struct compact_pass {
	struct partition *partition;
	struct key_index *keys;
	struct rewrite rewrite;
	uint64_t next; /* the offset from which on it goes on */
	uint64_t bound, bound_position;
	/* Batches that were read and not yet gone through. */
	struct record_batch **batches;
	size_t count, done;
	uint32_t day;
	size_t mean_bytes; /* of a batch, by the last read */
	int64_t due_ms;    /* the next read */
	bool is_writing, is_reading;
	bool is_partial; /* there were too many keys */
	/* A batch cannot be read. */
	bool keeps_tombstones;
	bool is_dead;
};

/* ---- what is due */

static void set_due(struct compact *c, bool is_due)
{
	struct compact_list *list = &c->partition->env->compactions;

	if (c->is_due == is_due)
		return;
	c->is_due = is_due;
	if (is_due)
		TAILQ_INSERT_TAIL(list, c, link);
	else
		TAILQ_REMOVE(list, c, link);
}

static bool is_passing(const struct partition *p)
{
	return p->env->pass && p->env->pass->partition == p;
}

static uint64_t appended_bytes(const struct compact *c)
{
	const struct partition *p = c->partition;
	uint64_t from = c->end > p->start ? c->end_position : p->first_position;

	return p->position > from ? p->position - from : 0;
}

void compact_note(struct partition *p)
{
	struct compact *c = p->compact;
	uint64_t bytes;

	if (!c || c->is_due || is_passing(p))
		return;
	bytes = appended_bytes(c);
	set_due(c, bytes >= COMPACT_LEAST_BYTES && bytes >= c->kept_bytes);
}

void compact_enable(struct partition *p)
{
	if (!p->keys || p->compact)
		return;
	p->compact = mem_zalloc(sizeof(*p->compact));
	p->compact->partition = p;
}

uint64_t compact_end(const struct partition *p)
{
	return p->compact ? p->compact->end : 0;
}

uint64_t compact_bytes(const struct partition *p, uint64_t bytes)
{
	const struct compact *c = p->compact;
	uint64_t kept;

	if (!c || c->end <= p->start)
		return bytes;
	kept = c->kept_bytes + appended_bytes(c);
	return kept < bytes ? kept : bytes;
}

void compact_free(struct partition *p)
{
	mem_free(p->compact);
}

/* ---- the pass */

static void forget_batches(struct compact_pass *pass)
{
	while (pass->done < pass->count)
		record_batch_unref(pass->batches[pass->done++]);
	pass->done = pass->count = 0;
}

static void free_pass(struct compact_pass *pass)
{
	forget_batches(pass);
	mem_free(pass->batches);
	key_index_destroy(pass->keys);
	record_writer_deinit(&pass->rewrite.writer);
	partition_unref(pass->partition);
	mem_free(pass);
}

/* End the reading and writing of a pass; requests under way free it. */
static void leave_pass(struct compact_pass *pass)
{
	pass->partition->env->pass = NULL;
	pass->is_dead = true;
	if (!pass->is_reading && !pass->rewrite.is_flying)
		free_pass(pass);
}

static void fail_pass(struct compact_pass *pass, int status, const char *text)
{
	struct partition *p = pass->partition;

	if (status != TIDE_ESHUTDOWN)
		log_warn("%slog is not compacted now: %s", store_shard_prefix(p->keys),
			 text ? text : error_text(status));
	p->env->compact_retry_ms = p->env->now_ms + COMPACT_REST_MS;
	set_due(p->compact, true);
	leave_pass(pass);
}

static void finish_pass(struct compact_pass *pass)
{
	struct partition *p = pass->partition;
	struct compact *c = p->compact;

	c->end = pass->bound;
	c->end_position = pass->bound_position;
	c->kept_bytes = pass->rewrite.kept_bytes;
	p->env->stats.compacted += pass->rewrite.removed;
	log_debug("%slog is compacted up to offset %llu: %llu messages removed",
		  store_shard_prefix(p->keys), (unsigned long long)c->end,
		  (unsigned long long)pass->rewrite.removed);
	set_due(c, pass->is_partial);
	leave_pass(pass);
	compact_note(p);
}

/* A later one of its key is known; or it is a tombstone whose time has come: what was
 * before it has gone, in this pass or in an earlier one. */
static bool keeps_record(const struct compact_pass *pass, const struct record *record)
{
	const struct msg *m = &record->msg;
	uint64_t last;

	if (m->key.len == 0)
		return true;
	if (key_index_find(pass->keys, m->key, &last) && last > record->offset)
		return false;
	return m->payload_len > 0 || pass->keeps_tombstones ||
	       pass->partition->env->now_ms - m->ts_unix_ms < COMPACT_TOMBSTONE_MS;
}

static void begin_pass(struct compact *c)
{
	struct partition *p = c->partition;
	uint64_t from = c->end > p->start ? c->end : p->start;
	/* The last batch tells where the log ends. */
	uint64_t bound = merge_begin(p) < p->readable ? merge_begin(p) : p->readable - 1;
	struct compact_pass *pass;

	set_due(c, false);
	if (bound <= from) {
		/* Small batches are merged first, unless all has gone meanwhile. */
		compact_note(p);
		if (c->is_due)
			p->env->compact_retry_ms = p->env->now_ms + COMPACT_REST_MS;
		return;
	}
	pass = mem_zalloc(sizeof(*pass));
	pass->partition = partition_ref(p);
	pass->next = from;
	pass->bound = bound;
	pass->bound_position = p->position;
	pass->keys = key_index_create(bound - from, p->env->compact_key_bytes);
	p->env->pass = pass;
}

/* A batch of that length that loses nothing stays as it is. */
#define REWRITE_LARGE_BYTES (RECORD_BATCH_BYTES / 2)
/* Of a head, and names of the first record. */
#define REWRITE_BESIDE_BYTES 640
/* The fields that a record may need when the one before it goes, besides names. */
#define REWRITE_GAP_BYTES 36

static void on_rewritten(void *ctx, int status, const char *text)
{
	struct compact_pass *pass = ctx;
	struct partition *p = pass->partition;

	pass->rewrite.is_flying = false;
	if (pass->is_dead)
		free_pass(pass);
	else if (status < 0)
		fail_pass(pass, status, NULL);
	partition_unref(p);
}

/* A trim has taken them meanwhile, or will. */
static bool is_gone(const struct partition *p, const struct rewrite *w)
{
	const struct partition_day *day = partition_day_of(p, w->from);

	return p->is_closed || w->end <= p->start || !day || day->day != w->day ||
	       day->is_going;
}

static void replace_gathered(struct compact_pass *pass)
{
	struct rewrite *w = &pass->rewrite;
	struct store_log_replace replace = { .day = w->day,
					     .from = w->from,
					     .to = w->to };
	struct record_batch *b = NULL;

	if (w->writer.count > 0) {
		b = record_finish(&w->writer, w->end);
		w->kept_bytes += b->len;
	}
	w->is_flying = true;
	send_replacement(partition_ref(pass->partition), &replace, b, on_rewritten, pass);
	record_batch_unref(b);
}

/* The gathered records are replaced. No append flies before. */
static void end_rewrite(struct compact_pass *pass)
{
	struct rewrite *w = &pass->rewrite;

	assert(!w->is_flying);
	if (w->count == 0)
		return;
	if (w->count == 1 && !w->is_changed && !is_gone(pass->partition, w))
		w->kept_bytes += w->bytes;
	else if (!is_gone(pass->partition, w))
		replace_gathered(pass);
	record_writer_deinit(&w->writer);
	w->count = 0;
	w->is_changed = false;
	w->bytes = 0;
}

/* An upper bound of the bytes of the records that stay. True: all of them do. */
static bool measure(const struct compact_pass *pass, const struct record_batch *b,
		    size_t *bytes)
{
	struct record_reader r;
	struct record record;
	bool is_whole = true, is_behind_gap = false;

	*bytes = REWRITE_BESIDE_BYTES;
	record_read(&r, b);
	for (const char *at = r.at; record_next(&r, &record); at = r.at) {
		bool stays = keeps_record(pass, &record);

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

/* The next batch of the day. Perhaps a replacement flies now; nothing flies before. */
static void rewrite_batch(struct compact_pass *pass, const struct record_batch *b)
{
	struct rewrite *w = &pass->rewrite;
	size_t bytes;
	bool is_whole = measure(pass, b, &bytes);

	assert(!w->is_flying);
	if (w->count > 0 && (pass->day != w->day ||
			     buf_len(&w->writer.bytes) + bytes > RECORD_BATCH_BYTES))
		end_rewrite(pass);
	if (is_whole && w->count == 0 && b->len >= REWRITE_LARGE_BYTES) {
		w->kept_bytes += b->len;
		return;
	}
	if (w->count == 0) {
		w->day = pass->day;
		w->from = b->base;
		record_begin(&w->writer, b->base, b->position);
	}
	w->removed += copy_records(&w->writer, b, keeps_record, pass);
	w->to = b->base;
	w->end = b->end;
	w->bytes += b->len;
	w->count++;
	w->is_changed |= !is_whole;
}

/* ---- batches */

/* False: there are too many keys. */
static bool note_keys(struct compact_pass *pass, const struct record_batch *b)
{
	struct record_reader r;
	struct record record;

	record_read(&r, b);
	while (record_next(&r, &record))
		if (record.msg.key.len > 0 &&
		    !key_index_put(pass->keys, record.msg.key, record.offset))
			return false;
	return true;
}

/* The pass comes to this batch, and no further. */
static void set_bound(struct compact_pass *pass, const struct record_batch *b)
{
	pass->next = pass->bound = b->base;
	pass->bound_position = b->position;
}

/* Go through the batches that are there, until something must be waited for. */
static void go_through(struct compact_pass *pass)
{
	while (pass->done < pass->count && !pass->rewrite.is_flying) {
		struct record_batch *b = pass->batches[pass->done++];

		if (!b) {
			end_rewrite(pass);
		} else if (pass->is_writing) {
			rewrite_batch(pass, b);
		} else if (!note_keys(pass, b)) {
			pass->is_partial = true;
			set_bound(pass, b);
			forget_batches(pass);
		}
		record_batch_unref(b);
	}
}

/* Leave a batch as it is, and apart; its records may be earlier messages of any key. */
static void leave_row(struct compact_pass *pass, uint64_t end)
{
	pass->keeps_tombstones = true;
	if (pass->next < end)
		pass->next = end;
	if (pass->is_writing)
		pass->batches[pass->count++] = NULL;
}

/* False: the bound is there. */
static bool take_row(struct compact_pass *pass, const struct store_log_batch *row)
{
	struct record_batch head, *b;

	if (!record_peek(row->bytes, &head) || head.base != row->base) {
		leave_row(pass, row->base + 1);
		return true;
	}
	if (head.end <= pass->next)
		return true;
	if (head.end > pass->bound) {
		if (!pass->is_writing)
			set_bound(pass, &head);
		pass->next = pass->bound;
		return false;
	}
	/* The batch with the start may begin before it. */
	if (pass->is_writing && head.base < pass->next &&
	    head.base > pass->partition->start) {
		leave_row(pass, head.end);
	} else if (record_open(row->bytes, &b, NULL) < 0) {
		leave_row(pass, head.end);
	} else {
		pass->batches[pass->count++] = b;
		pass->next = head.end;
	}
	return true;
}

static void next_day(struct compact_pass *pass)
{
	uint64_t next = partition_next_day_base(pass->partition, pass->day, pass->bound);

	if (pass->next < next)
		pass->next = next;
}

static void take_rows(struct compact_pass *pass, const struct store_log_batch *rows,
		      size_t count)
{
	struct partition_env *env = pass->partition->env;
	uint64_t from = pass->next;
	size_t bytes = 0;

	forget_batches(pass);
	pass->batches = mem_realloc(pass->batches, (count + 1) * sizeof(*pass->batches));
	for (size_t i = 0; i < count; i++) {
		bytes += rows[i].bytes.len;
		if (!take_row(pass, &rows[i]))
			break;
	}
	if (pass->next == from)
		next_day(pass);
	if (count > 0)
		pass->mean_bytes = bytes / count + 1;
	pass->due_ms = env->now_ms + (int64_t)(bytes * 1000 / COMPACT_BYTES_PER_S) + 1;
	go_through(pass);
}

static void on_rows(void *ctx, int status, const char *text,
		    const struct store_log_batch *rows, size_t count)
{
	struct compact_pass *pass = ctx;

	pass->is_reading = false;
	if (pass->is_dead)
		free_pass(pass);
	else if (status < 0)
		fail_pass(pass, status, text);
	else
		take_rows(pass, rows, count);
}

/* The row that was read last comes again. */
static unsigned rows_to_read(const struct compact_pass *pass)
{
	uint64_t largest = pass->partition->largest, rows;

	rows = READ_BYTES / (pass->mean_bytes ? pass->mean_bytes : RECORD_BATCH_BYTES);
	if (largest > 0 && rows > READ_WORST_BYTES / largest)
		rows = READ_WORST_BYTES / largest;
	return rows < 2                    ? 2
	       : rows > STORE_LOG_READ_MAX ? STORE_LOG_READ_MAX
					   : (unsigned)rows;
}

static void read_rows(struct compact_pass *pass, const struct partition_day *day)
{
	struct partition *p = pass->partition;

	/* Batches that become one lie side by side in one day. */
	pass->day = day->day;
	pass->is_reading = true;
	store_log_read(p->env->store, p->keys, day->day, pass->next, rows_to_read(pass),
		       on_rows, pass);
}

/* All that is kept was gone through: of the keys, or of everything. */
static void end_phase(struct compact_pass *pass)
{
	if (!pass->is_writing) {
		pass->is_writing = true;
		pass->next = pass->partition->start;
		return;
	}
	end_rewrite(pass);
	if (!pass->rewrite.is_flying)
		finish_pass(pass);
}

/* ---- turns */

static bool is_before(const struct partition_env *env, int64_t until_ms)
{
	return duration_is_resting(env->now_ms, until_ms, COMPACT_REST_MS);
}

static void go_on(struct compact_pass *pass)
{
	struct partition *p = pass->partition;
	const struct partition_day *day;

	go_through(pass);
	if (pass->rewrite.is_flying || pass->done < pass->count ||
	    is_before(p->env, pass->due_ms))
		return;
	if (pass->next < p->start)
		pass->next = p->start;
	day = partition_day_of(p, pass->next);
	if (pass->next < pass->bound && day)
		read_rows(pass, day);
	else
		end_phase(pass);
}

void compact_flush(struct partition_env *env)
{
	struct compact *first = TAILQ_FIRST(&env->compactions);

	if (!env->pass && first && !is_before(env, env->compact_retry_ms))
		begin_pass(first);
	if (env->pass && !env->pass->is_reading && !env->pass->rewrite.is_flying)
		go_on(env->pass);
}

int64_t compact_due_ms(const struct partition_env *env)
{
	const struct compact_pass *pass = env->pass;
	int64_t due_ms = pass ? pass->due_ms : env->compact_retry_ms;

	if (pass ? pass->is_reading || pass->rewrite.is_flying
		 : TAILQ_EMPTY(&env->compactions))
		return 0;
	if (pass && pass->done < pass->count)
		return env->now_ms;
	return is_before(env, due_ms) ? due_ms : env->now_ms;
}

void compact_stop(struct partition *p)
{
	if (!p->compact)
		return;
	set_due(p->compact, false);
	if (is_passing(p))
		leave_pass(p->env->pass);
}
