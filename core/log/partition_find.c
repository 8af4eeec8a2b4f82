/* partition_find.c: where a partition is at a time: first the day, then the batch, by
 * halving, then the record. */
#include "base/container.h"
#include "base/mem.h"
#include "partition_private.h"

struct log_find {
	struct partition_call call;
	struct partition *partition;
	partition_found_fn on_found;
	void *ctx;
	int64_t unix_ms;
	uint64_t offset; /* the answer, by what is known so far */
	/* Of a day in Redis: batches at places below `low` begin before the time, those
	 * from `high` on do not. */
	uint32_t day;
	uint64_t low, high;
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

/* The first record of that time or later, or the end of the batch. */
static uint64_t find_in_batch(const struct record_batch *b, int64_t unix_ms)
{
	struct record_reader r;
	struct record record;

	record_read(&r, b);
	while (record_next(&r, &record))
		if (record.msg.ts_unix_ms >= unix_ms)
			return record.offset;
	return b->end;
}

static void find_step(struct log_find *f);

static uint64_t middle_of(const struct log_find *f)
{
	return f->low + (f->high - f->low) / 2;
}

/* One that cannot be read counts as too late: rather a message again than none. */
static void on_batch(void *ctx, int status, const char *text,
		     const struct store_log_batch *rows, size_t count)
{
	struct log_find *f = ctx;
	struct record_batch *b = NULL;

	if (status < 0) {
		find_end(f, status, text);
		return;
	}
	if (count > 0 && record_open(rows[0].bytes, &b, NULL) == TIDE_OK &&
	    b->first_ms < f->unix_ms) {
		f->offset = find_in_batch(b, f->unix_ms);
		f->low = middle_of(f) + 1;
	} else {
		f->high = middle_of(f);
		if (f->low == 0 && count > 0)
			f->offset = rows[0].base;
	}
	record_batch_unref(b);
	find_step(f);
}

static void find_step(struct log_find *f)
{
	struct partition *p = f->partition;

	if (f->low < f->high && !p->is_closed)
		store_log_read_at(p->env->store, p->keys, f->day, (int64_t)middle_of(f),
				  on_batch, f);
	else
		find_end(f, TIDE_OK, NULL);
}

static void on_count(void *ctx, int status, const char *text, uint64_t count)
{
	struct log_find *f = ctx;

	if (status < 0) {
		find_end(f, status, text);
		return;
	}
	f->high = count;
	find_step(f);
}

/* False: Redis must be asked. */
static bool find_in_memory(struct log_find *f)
{
	const struct partition *p = f->partition;
	const struct tail *t = &p->tail;
	unsigned i = p->day_count;

	f->offset = p->readable;
	if (p->start == p->readable || (p->last_ms && f->unix_ms > p->last_ms))
		return true;
	if (t->count > 0 && (!p->keys || tail_first(t)->first_ms < f->unix_ms)) {
		f->offset = find_in_batch(tail_at(t, tail_find_time(t, f->unix_ms)),
					  f->unix_ms);
		return true;
	}
	while (i > 0 && p->days[i - 1].first_ms >= f->unix_ms)
		f->offset = p->days[--i].base;
	if (i == 0)
		return true;
	f->day = p->days[i - 1].day;
	return false;
}

void partition_find_time(struct partition *p, int64_t unix_ms,
			 partition_found_fn on_found, void *ctx)
{
	struct log_find *f = mem_zalloc(sizeof(*f));

	f->partition = partition_ref(p);
	f->on_found = on_found;
	f->ctx = ctx;
	f->unix_ms = unix_ms;
	if (p->is_closed || find_in_memory(f))
		partition_call_later(p, &f->call, run_end);
	else
		store_log_count(p->env->store, p->keys, f->day, on_count, f);
}
