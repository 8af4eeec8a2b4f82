#include "partition_private.h"

#include <time.h>

#include "base/mem.h"
#include "store/store.h"
#include "partition.h"

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

/* Of the allocator, for each of two blocks; and the place in the ring. */
#define COST_BESIDE (sizeof(struct tail_batch) + 2 * 16 + sizeof(void *))

static size_t tail_cost(const struct record_batch *b)
{
	return sizeof(*b) + b->len + COST_BESIDE;
}

static void grow(struct tail *t)
{
	uint32_t cap = t->cap ? t->cap * 2 : 4;
	struct tail_batch **ring = mem_alloc(cap * sizeof(struct tail_batch *));

	for (uint64_t n = t->first; n < t->first + t->count; n++)
		ring[n & (cap - 1)] = t->ring[n & (t->cap - 1)];
	mem_free(t->ring);
	t->ring = ring;
	t->cap = cap;
}

static void account(struct partition *p, const struct record_batch *b, bool is_added)
{
	size_t *total = p->keys ? &p->env->tail_bytes : &p->env->memory_bytes;
	size_t cost = is_added ? tail_cost(b) : -tail_cost(b);

	*total += cost;
	p->tail.bytes += cost;
}

void tail_push(struct partition *p, struct record_batch *b)
{
	struct tail *t = &p->tail;
	struct tail_batch *item = mem_alloc(sizeof(*item));

	if (t->count == t->cap)
		grow(t);
	item->partition = p;
	item->batch = record_batch_ref(b);
	t->ring[(t->first + t->count++) & (t->cap - 1)] = item;
	if (p->keys)
		TAILQ_INSERT_TAIL(&p->env->tail, item, link);
	account(p, b, true);
}

void tail_drop_first(struct partition *p)
{
	struct tail *t = &p->tail;
	struct tail_batch *item = t->ring[t->first & (t->cap - 1)];

	if (p->keys)
		TAILQ_REMOVE(&p->env->tail, item, link);
	account(p, item->batch, false);
	record_batch_unref(item->batch);
	mem_free(item);
	t->first++;
	if (--t->count > 0)
		return;
	mem_free(t->ring);
	t->ring = NULL;
	t->cap = 0;
}

void tail_clear(struct partition *p)
{
	while (p->tail.count > 0)
		tail_drop_first(p);
}

void tail_shrink(struct partition_env *env)
{
	while (env->tail_bytes > env->tail_max_bytes && !TAILQ_EMPTY(&env->tail))
		tail_drop_first(TAILQ_FIRST(&env->tail)->partition);
}

uint64_t tail_find(const struct tail *t, uint64_t offset)
{
	uint64_t low = t->first, high = t->first + t->count - 1;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (tail_at(t, middle)->end > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

struct joint *joint_create(struct partition *p)
{
	struct joint *j = mem_zalloc(sizeof(*j));

	j->partition = partition_ref(p);
	partition_close_append(p);
	p->joint = j;
	return j;
}

static void keep(struct joint *j, struct msg *m)
{
	MEM_GROW(j->messages, j->count, j->cap, 4);
	j->messages[j->count++] = msg_ref(m);
}

void joint_append(struct joint *j, struct msg *m)
{
	if (j->partition->keys)
		partition_append(j->partition, m, NULL);
	else
		keep(j, m);
}

void joint_seal(struct joint *j)
{
	partition_close_append(j->partition);
	j->partition->joint = NULL;
}

/* The first append of the partition, if it is the joint's. */
static struct append *first_of(const struct joint *j)
{
	struct append *a = STAILQ_FIRST(&j->partition->appends);

	return a && a->joint == j ? a : NULL;
}

int joint_status(const struct joint *j)
{
	return j->partition->is_closed ? TIDE_OK : j->status;
}

bool joint_is_ready(const struct joint *j)
{
	const struct partition *p = j->partition;

	return p->is_closed || !p->keys || first_of(j);
}

size_t joint_send(struct joint *j, struct store_transaction *t)
{
	struct partition *p = j->partition;
	struct store_log_batch batches[STORE_LOG_BATCHES_MAX];
	struct append *a = first_of(j), *before = NULL;
	size_t bytes = 0;

	for (; a && a->joint == j; before = a, a = STAILQ_NEXT(a, link)) {
		struct store_log_append append =
			partition_flush_form(p, a, batches, before);

		/* An upper bound of all of them. */
		if (before && before->largest > a->largest) {
			a->largest = before->largest;
			append.largest = 0;
		}
		a->is_flying = true;
		store_log_join(t, p->keys, &append);
		bytes += a->bytes;
	}
	return bytes;
}

/* Its appends, wherever they are, and all behind them. */
static void fail(struct joint *j, int status, const char *text)
{
	struct partition *p = j->partition;
	struct append *a;

	STAILQ_FOREACH (a, &p->appends, link)
		if (a->joint == j)
			break;
	if (a)
		partition_fail_from(p, a, status, text);
}

static void end_kept(struct joint *j, int status, const char *text)
{
	struct partition *p = j->partition;
	struct append *first = first_of(j);
	bool was_sent = first && first->is_flying;

	for (struct append *a = first; a && a->joint == j; a = STAILQ_NEXT(a, link))
		a->is_flying = false;
	if (p->is_closed)
		partition_fail(p, TIDE_ENOTFOUND, NULL);
	else if (status < 0 && was_sent)
		partition_flush_refuse(p, status, text, true);
	else if (status < 0)
		fail(j, status, text);
	else
		while (first_of(j))
			partition_flush_land(p);
	first = STAILQ_FIRST(&p->appends);
	partition_set_dirty(p, first && (!first->is_flying || STAILQ_NEXT(first, link)));
}

static void end_unkept(struct joint *j, int status)
{
	for (size_t i = 0; i < j->count; i++) {
		if (status == TIDE_OK && !j->partition->is_closed)
			partition_append(j->partition, j->messages[i], NULL);
		msg_unref(j->messages[i]);
	}
}

void joint_end_take(struct joint *j, int status, const char *text)
{
	if (j->partition->keys)
		end_kept(j, status, text);
	else
		end_unkept(j, status);
	partition_unref(j->partition);
	mem_free(j->messages);
	mem_free(j);
}
