/* partition_find.c: where a partition is at a time, or at a position: first the day, then
 * the batch, by halving, then the record. */
#include "base/container.h"
#include "base/mem.h"
#include "partition_private.h"

struct log_find {
	struct partition_call call;
	struct partition *partition;
	partition_found_fn on_found;
	void *ctx;
	/* What is looked for: a position, or a time. */
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

/* It does not, or it cannot be read: rather a message again than none. */
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
