#include "append.h"

#include <time.h>

#include "base/mem.h"
#include "joint.h"
#include "store/store.h"

/* Of one flush, and so of one append. */
#define APPEND_BYTES_MAX ((size_t)8 << 20)

#define SPARE_MAX 64
#define SPARE_WAITERS_MAX 65536
#define SPARE_SEEN_MAX ((size_t)64 << 10)

/* As a number: 20261123. */
static uint32_t day_of(int64_t ms)
{
	time_t second = (time_t)(ms / 1000);
	struct tm tm = { 0 };

	gmtime_r(&second, &tm);
	return (uint32_t)((tm.tm_year + 1900) * 10000 + (tm.tm_mon + 1) * 100 +
			  tm.tm_mday);
}

int64_t append_day_end_ms(int64_t ms)
{
	const int64_t day_ms = 24 * 3600 * 1000;

	return ms - ms % day_ms + day_ms;
}

struct append *append_open(struct partition_env *env, int64_t ms)
{
	struct append *a = STAILQ_FIRST(&env->spare);

	if (a) {
		STAILQ_REMOVE_HEAD(&env->spare, link);
		env->spare_count--;
	} else {
		a = mem_zalloc(sizeof(*a));
	}
	a->day_end_ms = append_day_end_ms(ms);
	a->day = day_of(ms);
	return a;
}

static void append_free(struct append *a)
{
	record_writer_deinit(&a->writer);
	mem_free(a->waiters);
	buf_deinit(&a->seen);
	mem_free(a);
}

static void append_release(struct partition_env *env, struct append *a)
{
	for (unsigned i = 0; i < a->batch_count; i++)
		record_batch_unref(a->batches[i]);
	env->unstored_bytes -= a->bytes;
	a->batch_count = 0;
	a->waiter_count = 0;
	a->messages = 0;
	a->bytes = a->largest = 0;
	a->is_flying = false;
	a->joint = NULL;
	buf_clear(&a->seen);
	a->seen_count = 0;
	if (env->spare_count >= SPARE_MAX || a->waiter_cap > SPARE_WAITERS_MAX ||
	    a->seen.cap > SPARE_SEEN_MAX) {
		append_free(a);
		return;
	}
	STAILQ_INSERT_HEAD(&env->spare, a, link);
	env->spare_count++;
}

void append_free_spare(struct partition_env *env)
{
	struct append *a;

	while ((a = STAILQ_FIRST(&env->spare)) != NULL) {
		STAILQ_REMOVE_HEAD(&env->spare, link);
		append_free(a);
	}
	env->spare_count = 0;
}

bool append_is_full(const struct append *a)
{
	return a->batch_count == STORE_LOG_BATCHES_MAX || a->bytes >= APPEND_BYTES_MAX;
}

size_t append_end_batch(struct append *a)
{
	struct record_batch *b;

	if (a->writer.count == 0)
		return 0;
	b = record_finish(&a->writer, a->writer.next);
	a->batches[a->batch_count++] = b;
	if (b->len > a->largest)
		a->largest = b->len;
	return b->len;
}

static void add_waiter(struct append *a, struct waiter *waiter)
{
	MEM_GROW(a->waiters, a->waiter_count, a->waiter_cap, 16);
	a->waiters[a->waiter_count++] = waiter;
	waiter_add(waiter);
}

void append_add(struct partition_env *env, struct append *a, const struct msg *m,
		int64_t ms, struct waiter *waiter)
{
	size_t before = buf_len(&a->writer.bytes), bytes;

	record_add(&a->writer, a->writer.next, m, ms);
	bytes = buf_len(&a->writer.bytes) - before;
	a->messages++;
	a->bytes += bytes;
	env->unstored_bytes += bytes;
	if (waiter)
		add_waiter(a, waiter);
}

void append_add_seen(struct partition_env *env, struct append *a,
		     const struct store_seen *seen)
{
	size_t before = buf_len(&a->seen), bytes;

	store_dedupe_add_words(&a->seen, seen);
	bytes = buf_len(&a->seen) - before;
	a->bytes += bytes;
	env->unstored_bytes += bytes;
	a->seen_count++;
}

void append_tell(struct partition_env *env, struct append *a, int status,
		 const char *text)
{
	if (a->joint && status < 0)
		a->joint->status = status;
	for (size_t i = 0; i < a->waiter_count; i++)
		waiter_done(a->waiters[i], status, text);
	append_release(env, a);
}
