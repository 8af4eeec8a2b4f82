#include "partition_private.h"

#include <time.h>

#include "base/mem.h"
#include "compact.h"

/* Of one flush, and so of one append. */
#define APPEND_BYTES_MAX ((size_t)8 << 20)
#define LARGEST_MIN ((uint64_t)1 << 16)

#define SPARE_MAX 64
#define SPARE_WAITERS_MAX 65536
#define SPARE_SEEN_MAX ((size_t)64 << 10)

/* The record batches of one day that have gathered for a partition and are written at
 * once, and the waiters for them. A partition opens one with its first message and
 * fills it; it flies, and lands or is refused. Their memory is used again:
 * env->spare. */
struct append {
	STAILQ_ENTRY(append) link; /* of the partition, or of env->spare */
	uint32_t day;
	int64_t day_end_ms; /* the first time of the next day */
	struct record_writer writer;
	struct record_batch *batches[STORE_LOG_BATCHES_MAX];
	unsigned batch_count;
	struct waiter **waiters;
	size_t waiter_count, waiter_cap;
	uint64_t messages;
	size_t bytes;    /* of the records: they count in env->unstored_bytes */
	size_t largest;  /* of the batches */
	struct buf seen; /* the publish ids that are written with it */
	unsigned seen_count;
	bool is_flying;
	struct partition_lane *lane; /* while it flies, and is no joint's */
	struct joint *joint;         /* that it is a part of; NULL: none */
};

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

static struct append *append_open(struct partition_env *env, int64_t ms)
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

/* The batch that is open, if one is, is done. Gives its bytes. */
static size_t append_end_batch(struct append *a)
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

/* Tell those who wait; the append is gone then. The text may be NULL. */
static void append_tell(struct partition_env *env, struct append *a, int status,
			const char *text)
{
	if (a->joint && status < 0)
		a->joint->status = status;
	for (size_t i = 0; i < a->waiter_count; i++)
		waiter_done(a->waiters[i], status, text);
	append_release(env, a);
}

/* ---- the tail */

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

static void tail_push(struct partition *p, struct record_batch *b)
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

/* ---- gathering */

/* The lane that writes the partition now. */
static uint16_t lane_now(const struct partition *p)
{
	struct partition_env *env = p->env;
	unsigned lane = store_lane(env->store, p->keys);

	while (lane >= env->lane_count) {
		struct partition_lane *fresh = mem_zalloc(sizeof(*fresh));

		TAILQ_INIT(&fresh->dirty);
		TAILQ_INIT(&fresh->flying);
		MEM_GROW(env->lanes, env->lane_count, env->lane_cap, 1);
		env->lanes[env->lane_count++] = fresh;
	}
	return (uint16_t)lane;
}

static struct partition_lane *lane_of(const struct partition *p)
{
	uint16_t lane = lane_now(p); /* it may move the array */

	return p->env->lanes[lane];
}

/* Put the partition into the list of those that have something to send, or take it
 * out. */
static void set_dirty(struct partition *p, bool is_dirty)
{
	struct partition_list *list;

	is_dirty = is_dirty && !p->is_held;
	if (p->is_dirty == is_dirty)
		return;
	p->is_dirty = is_dirty;
	if (is_dirty && p->keys)
		p->lane = lane_now(p);
	list = p->keys ? &p->env->lanes[p->lane]->dirty : &p->env->unkept;
	if (is_dirty)
		TAILQ_INSERT_TAIL(list, p, dirty_link);
	else
		TAILQ_REMOVE(list, p, dirty_link);
}

void partition_hold(struct partition *p, bool is_held)
{
	p->is_held = is_held;
	if (!is_held)
		partition_send_held(p);
	if (!is_held && !STAILQ_EMPTY(&p->appends) && !append_is_flying(p))
		set_dirty(p, true);
}

/* The open append, if there is one, takes no more: where the next batch begins is known
 * then. */
static void close_append(struct partition *p)
{
	if (p->open)
		p->next_position += append_end_batch(p->open);
	p->open = NULL;
}

static bool is_full(const struct append *a)
{
	return a->batch_count == STORE_LOG_BATCHES_MAX || a->bytes >= APPEND_BYTES_MAX;
}

/* The one that takes the message, with a batch that has room for it. */
static struct append *open_for(struct partition *p, const struct msg *m, int64_t ms)
{
	struct append *a = p->open;

	if (a && a->writer.count > 0 &&
	    record_bytes_with(&a->writer, m) > RECORD_BATCH_BYTES)
		p->next_position += append_end_batch(a);
	if (a && (is_full(a) || ms >= a->day_end_ms)) {
		close_append(p);
		a = NULL;
	}
	if (!a) {
		a = p->open = append_open(p->env, ms);
		a->joint = p->joint;
		STAILQ_INSERT_TAIL(&p->appends, a, link);
		set_dirty(p, true);
	}
	if (a->writer.count == 0)
		record_begin(&a->writer, p->end, p->next_position);
	return a;
}

static void add_bytes(struct partition *p, struct append *a, size_t bytes)
{
	a->bytes += bytes;
	p->env->unstored_bytes += bytes;
}

static struct append *add_message(struct partition *p, const struct msg *m,
				  struct waiter *waiter)
{
	struct append *a;
	size_t before;

	if (p->env->now_ms > p->append_ms)
		p->append_ms = p->env->now_ms;
	a = open_for(p, m, p->append_ms);
	before = buf_len(&a->writer.bytes);
	record_add(&a->writer, a->writer.next, m, p->append_ms);
	add_bytes(p, a, buf_len(&a->writer.bytes) - before);
	a->messages++;
	p->env->stats.appended++;
	if (!waiter)
		return a;
	MEM_GROW(a->waiters, a->waiter_count, a->waiter_cap, 16);
	a->waiters[a->waiter_count++] = waiter;
	waiter_add(waiter);
	return a;
}

uint64_t partition_append(struct partition *p, const struct msg *m, struct waiter *waiter)
{
	add_message(p, m, waiter);
	return p->end++;
}

uint64_t partition_append_seen(struct partition *p, const struct msg *m,
			       struct store_seen *seen, struct waiter *waiter)
{
	struct append *a = add_message(p, m, waiter);
	size_t before = buf_len(&a->seen);

	seen->has_offset = true;
	seen->offset = p->end;
	if (p->keys) {
		store_dedupe_add_words(&a->seen, seen);
		add_bytes(p, a, buf_len(&a->seen) - before);
		a->seen_count++;
	}
	return p->end++;
}

/* All that has been appended and does not fly. */
static void take_appends(struct partition *p, struct append_list *out)
{
	struct append *first = STAILQ_FIRST(&p->appends);
	bool has_flying = first && first->is_flying;

	if (has_flying)
		STAILQ_REMOVE_HEAD(&p->appends, link);
	close_append(p);
	STAILQ_CONCAT(out, &p->appends);
	if (has_flying)
		STAILQ_INSERT_HEAD(&p->appends, first, link);
	set_dirty(p, false);
}

static void tell_failed(struct partition *p, struct append_list *failed, int status,
			const char *text)
{
	struct append *a;

	while ((a = STAILQ_FIRST(failed)) != NULL) {
		STAILQ_REMOVE_HEAD(failed, link);
		p->env->stats.refused += a->messages;
		append_tell(p->env, a, status, text);
	}
}

void partition_fail(struct partition *p, int status, const char *text)
{
	struct append_list failed = STAILQ_HEAD_INITIALIZER(failed);

	take_appends(p, &failed);
	p->end = p->readable;
	p->next_position = p->position;
	tell_failed(p, &failed, status, text);
}

/* The same for one that does not fly, and all behind it. */
static void fail_from(struct partition *p, const struct append *first, int status,
		      const char *text)
{
	struct append_list failed = STAILQ_HEAD_INITIALIZER(failed);
	struct append *a;

	close_append(p);
	STAILQ_CONCAT(&failed, &p->appends);
	while ((a = STAILQ_FIRST(&failed)) != first) {
		STAILQ_REMOVE_HEAD(&failed, link);
		STAILQ_INSERT_TAIL(&p->appends, a, link);
	}
	p->end = first->batches[0]->base;
	p->next_position = first->batches[0]->position;
	tell_failed(p, &failed, status, text);
}

bool append_is_flying(const struct partition *p)
{
	return !STAILQ_EMPTY(&p->appends) && STAILQ_FIRST(&p->appends)->is_flying;
}

/* ---- landing */

static uint64_t round_up(uint64_t n)
{
	uint64_t power = LARGEST_MIN;

	while (power < n)
		power *= 2;
	return power;
}

static bool is_new_day(const struct partition *p, const struct append *a)
{
	const struct partition_day *last = partition_last_day(p);

	return !last || last->day != a->day;
}

static void note_day(struct partition *p, const struct append *a)
{
	const struct record_batch *b = a->batches[0];
	const struct partition_day day = { .day = a->day,
					   .base = b->base,
					   .position = b->position,
					   .first_ms = b->first_ms };

	if (is_new_day(p, a))
		partition_add_day(p, &day);
	if (a->largest > p->largest)
		p->largest = round_up(a->largest);
}

/* The newest that there is room for. */
static void bound_memory(struct partition *p)
{
	while (p->tail.bytes > PARTITION_MEMORY_BYTES && p->tail.count > 1)
		tail_drop_first(p);
	if (tail_first(&p->tail)->base > p->start)
		p->start = tail_first(&p->tail)->base;
	p->first_position = tail_first(&p->tail)->position;
}

static void land(struct partition *p, struct append *a)
{
	for (unsigned i = 0; i < a->batch_count; i++) {
		struct record_batch *b = a->batches[i];

		tail_push(p, b);
		p->readable = b->end;
		p->position = b->position + b->len;
		p->last_ms = b->last_ms;
		if (p->keys)
			merge_note(p, a->day, b);
	}
	if (!p->keys)
		bound_memory(p);
	compact_note(p);
	p->env->stats.batches += a->batch_count;
	p->env->ops->on_news(p);
	if (p->env->ops->on_growth)
		p->env->ops->on_growth(p);
	append_tell(p->env, a, TIDE_OK, NULL);
}

static void add_unsure_day(struct partition *p, uint32_t day)
{
	for (unsigned i = 0; i < p->unsure_count; i++)
		if (p->unsure_days[i] == day)
			return;
	p->unsure_days = mem_realloc(p->unsure_days,
				     (p->unsure_count + 1u) * sizeof(*p->unsure_days));
	p->unsure_days[p->unsure_count++] = day;
}

/* Redis has the first append. */
static void land_first(struct partition *p)
{
	struct append *a = STAILQ_FIRST(&p->appends);

	STAILQ_REMOVE_HEAD(&p->appends, link);
	p->unsure_count = 0;
	p->unsure_seen_count = 0;
	buf_deinit(&p->unsure_seen);
	note_day(p, a);
	land(p, a);
}

/* Redis has refused the first append: it fails, and all behind it. */
static void refuse_first(struct partition *p, int status, const char *text,
			 bool is_unsure)
{
	const struct append *a = STAILQ_FIRST(&p->appends);

	if (is_unsure) {
		add_unsure_day(p, a->day);
		buf_append_slice(&p->unsure_seen, buf_slice(&a->seen));
		p->unsure_seen_count += a->seen_count;
	}
	lane_of(p)->retry_unix_ms = p->env->now_ms + PARTITION_RETRY_MS;
	partition_fail(p, status, text);
}

static void on_append(void *ctx, int status, const char *text, bool is_unsure)
{
	struct partition *p = ctx;
	struct append *a = STAILQ_FIRST(&p->appends);

	TAILQ_REMOVE(&a->lane->flying, p, flying_link);
	a->is_flying = false;
	if (p->is_closed)
		partition_fail(p, TIDE_ENOTFOUND, NULL);
	else if (status < 0)
		refuse_first(p, status, text, is_unsure);
	else
		land_first(p);
	partition_unref(p);
}

/* ---- sending */

/* Form the request of an append. `before` is the one that is sent with it, in front
 * of it; or NULL. */
static struct store_log_append form_append(const struct partition *p,
					   const struct append *a,
					   struct store_log_batch *batches,
					   const struct append *before)
{
	struct store_log_append append = {
		.day = a->day,
		.batches = batches,
		.count = a->batch_count,
		.is_new_day = is_new_day(p, a) && !(before && before->day == a->day),
		.position = a->batches[0]->position,
		.first_ms = a->batches[0]->first_ms,
		.largest = a->largest > p->largest ? round_up(a->largest) : 0,
		.seen = buf_slice(&a->seen),
		.seen_count = a->seen_count,
	};

	for (unsigned i = 0; i < a->batch_count; i++)
		batches[i] = (struct store_log_batch){
			a->batches[i]->base, { a->batches[i]->bytes, a->batches[i]->len }
		};
	if (before)
		return append;
	append.truncate_days = p->unsure_days;
	append.truncate_count = p->unsure_count;
	append.unsure_seen = buf_slice(&p->unsure_seen);
	append.unsure_seen_count = p->unsure_seen_count;
	return append;
}

static size_t send_append(struct partition *p)
{
	struct append *a = STAILQ_FIRST(&p->appends);
	struct store_log_batch batches[STORE_LOG_BATCHES_MAX];
	struct store_log_append append;

	if (a == p->open)
		close_append(p);
	append = form_append(p, a, batches, NULL);
	a->is_flying = true;
	a->lane = lane_of(p);
	TAILQ_INSERT_TAIL(&a->lane->flying, p, flying_link);
	store_log_append(p->env->store, p->keys, &append, on_append, partition_ref(p));
	return a->bytes;
}

bool append_is_busy(const struct partition_env *env, const struct partition_lane *lane)
{
	const struct partition *p;

	if (TAILQ_EMPTY(&lane->flying))
		return false;
	if (!store_holds_any(env->store))
		return true;
	TAILQ_FOREACH (p, &lane->flying, flying_link)
		if (!store_is_held(env->store, p->keys))
			return true;
	return false;
}

static void flush_lane(struct partition_env *env, struct partition_lane *lane)
{
	struct partition *last = TAILQ_LAST(&lane->dirty, partition_list), *p;
	size_t bytes = 0;

	if (append_is_busy(env, lane) ||
	    duration_is_resting(env->now_ms, lane->retry_unix_ms, PARTITION_RETRY_MS))
		return;
	lane->retry_unix_ms = 0;
	while (bytes < APPEND_BYTES_MAX && (p = TAILQ_FIRST(&lane->dirty)) != NULL) {
		const struct append *a = STAILQ_FIRST(&p->appends);

		set_dirty(p, false);
		/* An append is under way by the lane that had the slot before. */
		if (a->is_flying && !a->joint)
			set_dirty(p, true);
		/* Until the joint has ended, nothing goes. */
		else if (!a->joint) {
			bytes += send_append(p);
			/* Behind the others, so that a busy partition starves none. */
			set_dirty(p, STAILQ_NEXT(STAILQ_FIRST(&p->appends), link));
		}
		if (p == last)
			return;
	}
}

size_t partition_waiting_bytes(const struct partition_env *env, unsigned lane)
{
	const struct partition *p;
	const struct append *a;
	size_t bytes = 0;

	if (lane < env->lane_count)
		TAILQ_FOREACH (p, &env->lanes[lane]->dirty, dirty_link)
			STAILQ_FOREACH (a, &p->appends, link)
				bytes += a->bytes;
	return bytes;
}

/* Without keys everything lands at once. */
static void flush_unkept(struct partition *p)
{
	struct append_list landing = STAILQ_HEAD_INITIALIZER(landing);
	struct append *a;

	partition_ref(p);
	take_appends(p, &landing);
	while ((a = STAILQ_FIRST(&landing)) != NULL) {
		STAILQ_REMOVE_HEAD(&landing, link);
		if (p->is_closed)
			append_tell(p->env, a, TIDE_ENOTFOUND, NULL);
		else
			land(p, a);
	}
	partition_unref(p);
}

/* A callback may append, and ask for more: that waits for the next turn. */
static void flush_all_unkept(struct partition_env *env)
{
	struct partition *p;
	size_t left = 0;

	TAILQ_FOREACH (p, &env->unkept, dirty_link)
		left++;
	for (; left > 0 && (p = TAILQ_FIRST(&env->unkept)) != NULL; left--)
		flush_unkept(p);
}

void append_flush(struct partition_env *env)
{
	flush_all_unkept(env);
	for (size_t i = 0; i < env->lane_count; i++)
		flush_lane(env, env->lanes[i]);
}

/* ---- appends that are part of a transaction */

struct joint *joint_create(struct partition *p)
{
	struct joint *j = mem_zalloc(sizeof(*j));

	j->partition = partition_ref(p);
	close_append(p);
	p->joint = j;
	return j;
}

static void keep_message(struct joint *j, struct msg *m)
{
	MEM_GROW(j->messages, j->count, j->cap, 4);
	j->messages[j->count++] = msg_ref(m);
}

void joint_append(struct joint *j, struct msg *m)
{
	if (j->partition->keys)
		partition_append(j->partition, m, NULL);
	else
		keep_message(j, m);
}

void joint_seal(struct joint *j)
{
	close_append(j->partition);
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

	return p->is_closed || !p->keys || (!p->is_held && first_of(j));
}

size_t joint_send(struct joint *j, struct store_transaction *t)
{
	struct partition *p = j->partition;
	struct store_log_batch batches[STORE_LOG_BATCHES_MAX];
	struct append *a = first_of(j), *before = NULL;
	size_t bytes = 0;

	for (; a && a->joint == j; before = a, a = STAILQ_NEXT(a, link)) {
		struct store_log_append append = form_append(p, a, batches, before);

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

/* Fail the appends of a joint, wherever they are, and all behind them. */
static void fail_joint(struct joint *j, int status, const char *text)
{
	struct partition *p = j->partition;
	struct append *a;

	STAILQ_FOREACH (a, &p->appends, link)
		if (a->joint == j)
			break;
	if (a)
		fail_from(p, a, status, text);
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
		refuse_first(p, status, text, true);
	else if (status < 0)
		fail_joint(j, status, text);
	else
		while (first_of(j))
			land_first(p);
	first = STAILQ_FIRST(&p->appends);
	set_dirty(p, first && (!first->is_flying || STAILQ_NEXT(first, link)));
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
