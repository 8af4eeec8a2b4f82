#include "cursor.h"

#include "base/bytes.h"
#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "partition_private.h"

/* The bytes of one read at worst, where batches were small so far. */
#define READ_WORST_BYTES ((uint64_t)8 << 20)
/* A read that fails is tried five times a second, by any number of cursors. */
#define FAILED_LOG_MS 60000
/* All cursors together; above it they read as little as they can. */
#define READING_BYTES_MAX ((size_t)32 << 20)

/* The batches that were read lie in `ahead`, in order. Between `offset` and
 * `read_offset` Redis has no more than that. */
struct cursor {
	struct partition *partition;
	/* The offset that was asked for, and where it is: no record is kept in
	 * between. */
	uint64_t asked, offset;
	struct record_batch *batch; /* that the reader is in; or NULL */
	uint64_t tail_number;       /* of the batch that comes then, in the tail */
	struct record_batch **ahead;
	unsigned ahead_first, ahead_count, ahead_cap;
	size_t ahead_bytes;
	uint64_t read_offset;
	uint64_t seen_base;     /* of the last row that was read, if has_seen */
	uint64_t seen_sum;      /* likewise: its length and its checksum */
	uint64_t seen_position; /* behind it */
	uint32_t read_day;      /* of the last read */
	size_t reserved_bytes;  /* of the read under way */
	size_t mean_bytes;      /* of a batch, by the last read */
	int64_t retry_ms;
	TAILQ_ENTRY(cursor) failed_link;
	bool has_seen, is_reading;
	bool is_stale; /* what is being read is of no use any more */
	bool is_failed, is_dead;
	struct record_reader reader;
	void (*on_ready)(void *ctx); /* NULL: on_news */
	void *ctx;
};

struct cursor *cursor_create(struct partition *p, uint64_t offset)
{
	struct cursor *c = mem_zalloc(sizeof(*c));

	c->partition = partition_ref(p);
	c->asked = c->offset = offset;
	return c;
}

struct cursor *cursor_create_for(struct partition *p, uint64_t offset,
				 void (*on_ready)(void *ctx), void *ctx)
{
	struct cursor *c = cursor_create(p, offset);

	c->on_ready = on_ready;
	c->ctx = ctx;
	return c;
}

/* The callback may destroy the cursor. */
static void tell(struct cursor *c)
{
	struct partition *p = c->partition;

	if (c->on_ready)
		c->on_ready(c->ctx);
	else if (!p->is_closed)
		p->env->ops->on_news(p);
}

static void drop_batch(struct cursor *c)
{
	record_batch_unref(c->batch);
	c->batch = NULL;
}

/* ---- what was read ahead */

static struct record_batch *pop_ahead(struct cursor *c)
{
	struct record_batch *b = c->ahead[c->ahead_first++];

	c->ahead_count--;
	c->ahead_bytes -= b->len;
	c->partition->env->reading_bytes -= b->len;
	return b;
}

static void push_ahead(struct cursor *c, struct record_batch *b)
{
	if (c->ahead_count == 0)
		c->ahead_first = 0;
	if (c->ahead_first + c->ahead_count == c->ahead_cap && c->ahead_first > 0) {
		memmove(c->ahead, c->ahead + c->ahead_first,
			c->ahead_count * sizeof(*c->ahead));
		c->ahead_first = 0;
	}
	MEM_GROW(c->ahead, c->ahead_count, c->ahead_cap, 16);
	c->ahead[c->ahead_first + c->ahead_count++] = b;
	c->ahead_bytes += b->len;
	c->partition->env->reading_bytes += b->len;
}

static void forget_ahead(struct cursor *c)
{
	while (c->ahead_count > 0)
		record_batch_unref(pop_ahead(c));
	c->read_offset = 0;
	c->has_seen = false;
	c->is_stale = c->is_reading;
}

static void set_failed(struct cursor *c, bool is_failed)
{
	struct cursor_list *failed = &c->partition->env->failed;

	if (c->is_failed == is_failed)
		return;
	c->is_failed = is_failed;
	if (is_failed)
		TAILQ_INSERT_TAIL(failed, c, failed_link);
	else
		TAILQ_REMOVE(failed, c, failed_link);
}

static void cursor_free(struct cursor *c)
{
	partition_unref(c->partition);
	mem_free(c->ahead);
	mem_free(c);
}

void cursor_destroy(struct cursor *c)
{
	if (!c)
		return;
	drop_batch(c);
	forget_ahead(c);
	set_failed(c, false);
	c->is_dead = true;
	if (!c->is_reading)
		cursor_free(c);
}

/* ---- reading from Redis */

/* The end of what only Redis has. */
static uint64_t tail_begin(const struct partition *p)
{
	const struct record_batch *first = tail_first(&p->tail);

	return first ? first->base : p->readable;
}

/* The day that was read has no more batches. */
static void end_day(struct cursor *c)
{
	const struct partition *p = c->partition;
	uint64_t next = partition_next_day_base(p, c->read_day, tail_begin(p));

	if (c->read_offset < next)
		c->read_offset = next;
}

static void log_corrupt(const struct cursor *c, uint64_t base, const struct error *err)
{
	log_error(
		"%slog:%08u: the batch at offset %llu cannot be read and is left out: %s",
		store_shard_prefix(c->partition->keys), c->read_day,
		(unsigned long long)base, err->text);
}

static int open_row(const struct cursor *c, const struct store_log_batch *row,
		    struct record_batch **out)
{
	struct error err;
	int rc = record_open_at(row->bytes, row->base, out, &err);

	if (rc == TIDE_ESTORE)
		log_corrupt(c, row->base, &err);
	return rc;
}

static void take_batch(struct cursor *c, struct record_batch *b)
{
	if (b->end > c->read_offset)
		c->read_offset = b->end;
	c->seen_position = b->position + b->len;
	c->partition->env->stats.read_batches++;
	if (b->end > c->offset)
		push_ahead(c, b);
	else
		record_batch_unref(b);
}

/* Tells a batch from another one of the same offset. */
static uint64_t row_sum(const struct store_log_batch *row)
{
	size_t head = row->bytes.len < RECORD_HEAD_MIN ? row->bytes.len : RECORD_HEAD_MIN;

	return bytes_hash_wide(row->bytes.data, head) ^ row->bytes.len;
}

/* Does the row end before what was read? Batches that were merged since then have the
 * offset of their first one. */
static bool is_known(const struct cursor *c, const struct store_log_batch *row)
{
	struct record_batch head;

	if (!c->has_seen || row->base > c->seen_base)
		return false;
	if (row->base == c->seen_base && row_sum(row) == c->seen_sum)
		return true;
	return !record_peek(row->bytes, &head) || head.end <= c->read_offset;
}

/* Take rows. Batches that are not confirmed may yet be replaced: they are left out,
 * as are those of the tail. The first row may lie before what was asked for, and may
 * be known. */
static int take_rows(struct cursor *c, const struct store_log_batch *rows, size_t count)
{
	uint64_t end = tail_begin(c->partition);
	size_t taken = 0, bytes = 0;

	for (size_t i = 0; i < count && rows[i].base < end; i++) {
		struct record_batch *b;
		int rc;

		if (is_known(c, &rows[i]))
			continue;
		rc = open_row(c, &rows[i], &b);
		if (rc < 0 && rc != TIDE_ESTORE)
			return rc;
		c->has_seen = true;
		c->seen_base = rows[i].base;
		c->seen_sum = row_sum(&rows[i]);
		taken++;
		bytes += rows[i].bytes.len;
		if (rc == TIDE_OK)
			take_batch(c, b);
		else if (c->read_offset <= rows[i].base)
			c->read_offset = rows[i].base + 1;
	}
	if (taken > 0)
		c->mean_bytes = bytes / taken + 1;
	else
		end_day(c);
	return TIDE_OK;
}

static void fail(struct cursor *c, int status, const char *text)
{
	struct partition *p = c->partition;

	if (status != TIDE_ESHUTDOWN &&
	    log_is_due(&p->env->read_logged_ms, p->env->now_ms, FAILED_LOG_MS))
		log_error("%slog:%08u: offset %llu cannot be read now: %s",
			  store_shard_prefix(p->keys), c->read_day,
			  (unsigned long long)c->read_offset,
			  text ? text : error_text(status));
	c->retry_ms = p->env->now_ms + PARTITION_RETRY_MS;
	set_failed(c, true);
}

static void on_rows(void *ctx, int status, const char *text,
		    const struct store_log_batch *rows, size_t count)
{
	struct cursor *c = ctx;
	struct partition *p = c->partition;

	c->is_reading = false;
	p->env->reading_bytes -= c->reserved_bytes;
	if (c->is_dead) {
		cursor_free(c);
		return;
	}
	if (c->is_stale || p->is_closed)
		c->is_stale = false;
	else if (status == TIDE_OK)
		status = take_rows(c, rows, count);
	if (status < 0 && !p->is_closed)
		fail(c, status, text);
	tell(c);
}

/* As many as there is room for. How many that are is known where little is left; else it
 * is guessed by the last ones, within what would come at worst. */
static unsigned rows_to_read(const struct cursor *c, const struct partition_day *day)
{
	const struct partition *p = c->partition;
	uint64_t room = CURSOR_BYTES - c->ahead_bytes;
	uint64_t largest = p->largest ? p->largest : READ_WORST_BYTES, rows, guess;
	uint64_t from = c->has_seen ? c->seen_position : day->position;
	unsigned least = c->has_seen ? 2 : 1;

	if (p->env->reading_bytes > READING_BYTES_MAX)
		return least;
	if (from <= p->position && p->position - from <= room)
		return STORE_LOG_READ_MAX;
	rows = room / largest;
	guess = c->mean_bytes ? room / c->mean_bytes : 0;
	if (guess > READ_WORST_BYTES / largest)
		guess = READ_WORST_BYTES / largest;
	if (guess > rows)
		rows = guess;
	return rows < least                ? least
	       : rows > STORE_LOG_READ_MAX ? STORE_LOG_READ_MAX
					   : (unsigned)rows;
}

/* Read what comes next, unless the tail has it. */
static void read_more(struct cursor *c)
{
	struct partition *p = c->partition;
	const struct partition_day *day;
	unsigned count;

	if (c->read_offset < c->offset)
		c->read_offset = c->offset;
	if (c->read_offset >= tail_begin(p))
		return;
	day = partition_day_of(p, c->read_offset);
	if (!day) {
		c->read_offset = tail_begin(p);
		return;
	}
	count = rows_to_read(c, day);
	c->read_day = day->day;
	c->is_reading = true;
	c->reserved_bytes = CURSOR_BYTES - c->ahead_bytes;
	if (c->reserved_bytes > count * p->largest)
		c->reserved_bytes = count * p->largest;
	p->env->reading_bytes += c->reserved_bytes;
	store_log_read(p->env->store, p->keys, c->read_day, c->read_offset, count,
		       on_rows, c);
}

/* ---- the next record */

/* The reader is at `offset`, or behind it, in this batch, whose reference is taken. */
static void enter_take(struct cursor *c, struct record_batch *b)
{
	c->batch = b;
	record_read(&c->reader, b);
	if (c->offset > b->base)
		record_skip(&c->reader, c->offset);
}

static bool enter_tail(struct cursor *c)
{
	const struct tail *t = &c->partition->tail;
	const struct record_batch *first = tail_first(t);
	struct record_batch *b;

	if (!first || c->offset < first->base)
		return false;
	b = tail_at(t, c->tail_number);
	if (!b || c->offset < b->base || c->offset >= b->end) {
		c->tail_number = tail_find(t, c->offset);
		b = tail_at(t, c->tail_number);
	}
	forget_ahead(c);
	enter_take(c, record_batch_ref(b));
	c->tail_number++;
	return true;
}

static bool enter_ahead(struct cursor *c)
{
	while (c->ahead_count > 0) {
		struct record_batch *b = pop_ahead(c);

		if (b->end > c->offset) {
			enter_take(c, b);
			if (!c->is_reading && !c->is_failed &&
			    c->ahead_bytes <= CURSOR_BYTES / 2)
				read_more(c);
			return true;
		}
		record_batch_unref(b);
	}
	return false;
}

/* Into the batch that has the offset, or comes behind it. */
static int enter(struct cursor *c)
{
	struct partition *p = c->partition;

	for (;;) {
		if (c->offset < p->start)
			c->offset = p->start;
		if (p->is_closed || c->offset >= p->readable)
			return TIDE_EMPTY;
		if (enter_tail(c) || enter_ahead(c))
			return TIDE_OK;
		if (c->offset < c->read_offset) {
			c->offset = c->read_offset;
			continue;
		}
		if (c->is_reading)
			return TIDE_AGAIN;
		if (c->is_failed &&
		    duration_is_resting(p->env->now_ms, c->retry_ms, PARTITION_RETRY_MS))
			return TIDE_ESTORE;
		set_failed(c, false);
		read_more(c);
	}
}

/* Jump to the next kept record: the batch is no longer kept, or not as a whole. */
static void jump(struct cursor *c)
{
	c->offset = c->partition->start;
	if (!c->batch)
		return;
	if (c->offset < c->batch->end)
		record_skip(&c->reader, c->offset);
	else
		drop_batch(c);
}

int cursor_next(struct cursor *c, struct record *out, struct record_batch **batch)
{
	const struct partition *p = c->partition;
	int rc;

	if (p->is_closed)
		return TIDE_EMPTY;
	if (c->offset < p->start)
		jump(c);
	for (;;) {
		if (c->batch) {
			if (record_next(&c->reader, out)) {
				c->asked = c->offset = out->offset + 1;
				*batch = c->batch;
				return TIDE_OK;
			}
			c->offset = c->batch->end;
			drop_batch(c);
		}
		rc = enter(c);
		if (rc < 0)
			return rc;
	}
}

uint64_t cursor_offset(const struct cursor *c)
{
	return c->offset;
}

bool cursor_is_at_end(const struct cursor *c)
{
	return c->partition->is_closed || c->offset >= c->partition->readable;
}

void cursor_seek(struct cursor *c, uint64_t offset)
{
	struct record_batch *b = c->batch;
	bool is_back = offset < c->offset;

	if (offset >= c->asked && offset <= c->offset)
		return;
	c->asked = c->offset = offset;
	if (b && offset >= b->base && offset < b->end) {
		if (is_back)
			record_read(&c->reader, b);
		record_skip(&c->reader, offset);
		return;
	}
	drop_batch(c);
	if (is_back)
		forget_ahead(c);
}

/* ---- after a failure */

void cursor_wake_failed(struct partition_env *env)
{
	struct cursor *c;

	while ((c = TAILQ_FIRST(&env->failed)) != NULL &&
	       !duration_is_resting(env->now_ms, c->retry_ms, PARTITION_RETRY_MS)) {
		set_failed(c, false);
		tell(c);
	}
}

int64_t cursor_failed_due_ms(const struct partition_env *env)
{
	const struct cursor *c = TAILQ_FIRST(&env->failed);

	if (!c)
		return 0;
	return duration_is_resting(env->now_ms, c->retry_ms, PARTITION_RETRY_MS)
		       ? c->retry_ms
		       : env->now_ms;
}

struct log_find {
	struct partition_call call;
	struct partition *partition;
	partition_found_fn on_found;
	void *ctx;
	/* The aim of the search: a position, or a time. */
	bool is_position;
	uint64_t position;
	int64_t unix_ms;
	uint64_t offset; /* the answer, by what is known so far */
	/* Of a day in Redis: batches that begin below `low` lie before it, those that
	 * begin at `high` or later do not. Offsets, and no places: batches are merged and
	 * removed meanwhile. */
	uint32_t day;
	uint64_t low, high;
	bool has_before; /* one that lies before it was seen */
};

static void find_end(struct log_find *f, int status, const char *text)
{
	struct partition *p = f->partition;
	uint64_t offset = f->offset;

	if (p->is_closed)
		status = TIDE_ENOTFOUND;
	if (offset < p->start)
		offset = p->start;
	if (offset > p->readable)
		offset = p->readable;
	f->on_found(f->ctx, status, text, status == TIDE_OK ? offset : 0);
	partition_unref(p);
	mem_free(f);
}

static void run_end(struct partition_call *call)
{
	find_end(container_of(call, struct log_find, call), TIDE_OK, NULL);
}

/* Something that begins there is the answer, or lies before it. */
static bool is_before(const struct log_find *f, uint64_t position, int64_t first_ms)
{
	return f->is_position ? position <= f->position : first_ms < f->unix_ms;
}

/* The answer in the last batch before it: the batch, by position; else its first record
 * of that time or later, or its end. */
static uint64_t find_in_batch(const struct log_find *f, const struct record_batch *b)
{
	struct record_reader r;
	struct record record;

	if (f->is_position)
		return b->base;
	record_read(&r, b);
	while (record_next(&r, &record))
		if (record.msg.ts_unix_ms >= f->unix_ms)
			return record.offset;
	return b->end;
}

static void find_step(struct log_find *f);

static uint64_t middle_of(const struct log_find *f)
{
	return f->low + (f->high - f->low) / 2;
}

/* The batch that has the middle, or comes before it, lies before what is looked for. */
static void go_up(struct log_find *f, const struct record_batch *b)
{
	uint64_t middle = middle_of(f);

	f->has_before = true;
	f->offset = find_in_batch(f, b);
	f->low = b->end > middle ? b->end : middle + 1;
	if (!f->is_position && f->offset < b->end)
		f->low = f->high; /* that is it */
}

/* The batch does not have it, or cannot be read: rather a message again than none. */
static void go_down(struct log_find *f, uint64_t base)
{
	f->high = base;
	if (!f->has_before)
		f->offset = base;
}

static void on_batch(void *ctx, int status, const char *text,
		     const struct store_log_batch *rows, size_t count)
{
	struct log_find *f = ctx;
	struct record_batch *b = NULL;

	if (status < 0) {
		find_end(f, status, text);
		return;
	}
	if (count == 0)
		f->low = middle_of(f) + 1;
	else if (record_open(rows[0].bytes, &b, NULL) == TIDE_OK &&
		 is_before(f, b->position, b->first_ms))
		go_up(f, b);
	else
		go_down(f, rows[0].base);
	record_batch_unref(b);
	find_step(f);
}

static void find_step(struct log_find *f)
{
	struct partition *p = f->partition;

	if (f->low < f->high && !p->is_closed)
		store_log_read(p->env->store, p->keys, f->day, middle_of(f), 1, on_batch,
			       f);
	else
		find_end(f, TIDE_OK, NULL);
}

/* In the tail, the first batch of which lies before it, or is the partition's first. */
static uint64_t find_in_tail(const struct log_find *f, const struct tail *t)
{
	uint64_t low = t->first, high = t->first + t->count - 1;

	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;
		const struct record_batch *b = tail_at(t, middle);

		if (is_before(f, b->position, b->first_ms))
			low = middle;
		else
			high = middle - 1;
	}
	return find_in_batch(f, tail_at(t, low));
}

/* False: Redis must be asked. */
static bool find_in_memory(struct log_find *f)
{
	const struct partition *p = f->partition;
	const struct record_batch *first = tail_first(&p->tail);
	unsigned i = p->day_count;

	f->offset = p->readable;
	if (p->start == p->readable)
		return true;
	if (!f->is_position && p->last_ms && f->unix_ms > p->last_ms)
		return true;
	if (first && (!p->keys || is_before(f, first->position, first->first_ms))) {
		f->offset = find_in_tail(f, &p->tail);
		return true;
	}
	while (i > 0 && !is_before(f, p->days[i - 1].position, p->days[i - 1].first_ms))
		f->offset = p->days[--i].base;
	if (i == 0)
		return true;
	f->day = p->days[i - 1].day;
	f->low = p->days[i - 1].base;
	f->high = f->offset;
	return false;
}

static void find_start(struct log_find *f)
{
	struct partition *p = f->partition;

	if (p->is_closed || find_in_memory(f))
		partition_call_later(p, &f->call, run_end);
	else
		find_step(f);
}

static struct log_find *find_create(struct partition *p, partition_found_fn on_found,
				    void *ctx)
{
	struct log_find *f = mem_zalloc(sizeof(*f));

	f->partition = partition_ref(p);
	f->on_found = on_found;
	f->ctx = ctx;
	return f;
}

void partition_find_time(struct partition *p, int64_t unix_ms,
			 partition_found_fn on_found, void *ctx)
{
	struct log_find *f = find_create(p, on_found, ctx);

	f->unix_ms = unix_ms;
	find_start(f);
}

void partition_find_bytes(struct partition *p, uint64_t bytes,
			  partition_found_fn on_found, void *ctx)
{
	struct log_find *f = find_create(p, on_found, ctx);

	f->is_position = true;
	f->position = p->position > bytes ? p->position - bytes : 0;
	find_start(f);
}

uint64_t partition_find_age(const struct partition *p, int64_t unix_ms)
{
	const struct record_batch *b;
	unsigned i = 0;

	if (p->start == p->readable || (p->last_ms && p->last_ms < unix_ms))
		return p->readable;
	for (uint64_t n = p->tail.first; !p->keys; n++) {
		b = tail_at(&p->tail, n);
		if (b->last_ms >= unix_ms)
			return b->base > p->start ? b->base : p->start;
	}
	while (i + 1 < p->day_count && append_day_end_ms(p->days[i].first_ms) <= unix_ms)
		i++;
	return i > 0 && p->days[i].base > p->start ? p->days[i].base : p->start;
}
