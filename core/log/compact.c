#include "compact.h"

#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "key_index.h"
#include "merge.h"
#include "partition_private.h"
#include "rewrite.h"

/* What one read gets, about, and at worst. */
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

/* First the keys are read, from the end of the last pass to `bound`; then all is written
 * again, from the start to `bound`. */
struct compact_pass {
	struct partition *partition;
	struct key_index *keys;
	struct rewrite rewrite;
	uint64_t next; /* the offset from which on it goes on */
	uint64_t bound, bound_position;
	/* What was read and not yet gone through. */
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

/* ---- what is due -------------------------------------------------------------------
 */

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

/* ---- the pass ----------------------------------------------------------------------
 */

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
	rewrite_deinit(&pass->rewrite);
	partition_unref(pass->partition);
	mem_free(pass);
}

/* Nothing is read or written any more; what is under way frees it. */
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
		log_warn("%slog is not compacted now: %s", store_log_prefix(p->keys),
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
		  store_log_prefix(p->keys), (unsigned long long)c->end,
		  (unsigned long long)pass->rewrite.removed);
	set_due(c, pass->is_partial);
	leave_pass(pass);
	compact_note(p);
}

/* A later one of its key is known; or it is a tombstone whose time has come: what was
 * before it has gone, in this pass or in an earlier one. */
static bool keeps(const struct rewrite *w, const struct record *record)
{
	const struct compact_pass *pass = container_of(w, struct compact_pass, rewrite);
	const struct msg *m = &record->msg;
	uint64_t last;

	if (m->key.len == 0)
		return true;
	if (key_index_find(pass->keys, m->key, &last) && last > record->offset)
		return false;
	return m->payload_len > 0 || pass->keeps_tombstones ||
	       w->partition->env->now_ms - m->ts_unix_ms < COMPACT_TOMBSTONE_MS;
}

static void on_landed(struct rewrite *w)
{
	struct compact_pass *pass = container_of(w, struct compact_pass, rewrite);

	if (pass->is_dead)
		free_pass(pass);
	else if (w->status < 0)
		fail_pass(pass, w->status, NULL);
}

static const struct rewrite_ops rewrite_ops = { keeps, on_landed };

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
	pass->rewrite.ops = &rewrite_ops;
	pass->rewrite.partition = p;
	pass->next = from;
	pass->bound = bound;
	pass->bound_position = p->position;
	pass->keys = key_index_create(bound - from, p->env->compact_key_bytes);
	p->env->pass = pass;
}

/* ---- batches -----------------------------------------------------------------------
 */

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

/* Those that are there, until something must be waited for. */
static void go_through(struct compact_pass *pass)
{
	while (pass->done < pass->count && !pass->rewrite.is_flying) {
		struct record_batch *b = pass->batches[pass->done++];

		if (!b) {
			rewrite_end(&pass->rewrite);
		} else if (pass->is_writing) {
			rewrite_add(&pass->rewrite, pass->day, b);
		} else if (!note_keys(pass, b)) {
			pass->is_partial = true;
			set_bound(pass, b);
			forget_batches(pass);
		}
		record_batch_unref(b);
	}
}

/* It stays, and stays apart; what is in it may be an earlier message of any key. */
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
	/* What holds the start may begin before it. */
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
	rewrite_end(&pass->rewrite);
	if (!pass->rewrite.is_flying)
		finish_pass(pass);
}

/* ---- turns -------------------------------------------------------------------------
 */

static bool is_before(const struct partition_env *env, int64_t until_ms)
{
	return partition_is_resting(env, until_ms, COMPACT_REST_MS);
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
