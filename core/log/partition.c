#include "partition.h"

#include "base/container.h"
#include "base/heap.h"
#include "base/mem.h"
#include "host/log.h"
#include "compact.h"
#include "cursor.h"
#include "partition_private.h"

void partition_env_init(struct partition_env *env)
{
	*env = (struct partition_env){ 0 };
	TAILQ_INIT(&env->dirty);
	TAILQ_INIT(&env->unkept);
	TAILQ_INIT(&env->tail);
	TAILQ_INIT(&env->failed);
	TAILQ_INIT(&env->merges);
	TAILQ_INIT(&env->compactions);
	env->compact_key_bytes = COMPACT_KEY_BYTES;
	STAILQ_INIT(&env->later);
	STAILQ_INIT(&env->spare);
	STAILQ_INIT(&env->recovers);
}

void partition_env_deinit(struct partition_env *env)
{
	append_free_spare(env);
}

struct partition *partition_create(struct partition_env *env, void *owner, unsigned index,
				   struct store_log *keys)
{
	struct partition *p = mem_zalloc(sizeof(*p));

	p->env = env;
	p->owner = owner;
	p->index = (uint16_t)index;
	p->keys = keys;
	p->refs = 1;
	STAILQ_INIT(&p->appends);
	return p;
}

void partition_unref(struct partition *p)
{
	if (--p->refs > 0)
		return;
	store_log_destroy(p->keys);
	merge_free(p);
	compact_free(p);
	mem_free(p->days);
	mem_free(p->unsure_days);
	buf_deinit(&p->unsure_seen);
	mem_free(p);
}

void partition_close(struct partition *p)
{
	if (p->is_closed)
		return;
	p->is_closed = true;
	merge_stop(p);
	compact_stop(p);
	tail_clear(p);
	partition_fail(p, TIDE_ENOTFOUND, NULL);
	partition_unref(p);
}

void *partition_owner(const struct partition *p)
{
	return p->owner;
}

unsigned partition_index(const struct partition *p)
{
	return p->index;
}

struct store_log *partition_keys(const struct partition *p)
{
	return p->keys;
}

uint64_t partition_start(const struct partition *p)
{
	return p->start;
}

uint64_t partition_end(const struct partition *p)
{
	return p->end;
}

uint64_t partition_readable(const struct partition *p)
{
	return p->readable;
}

uint64_t partition_bytes(const struct partition *p)
{
	uint64_t bytes =
		p->position > p->first_position ? p->position - p->first_position : 0;

	return compact_bytes(p, bytes);
}

int64_t partition_last_ms(const struct partition *p)
{
	return p->last_ms;
}

int64_t partition_time_at(const struct partition *p, uint64_t offset)
{
	struct record_reader reader;
	struct record record;

	if (offset >= p->readable || p->tail.count == 0 ||
	    offset < tail_first(&p->tail)->base)
		return 0;
	record_read(&reader, tail_at(&p->tail, tail_find(&p->tail, offset)));
	record_skip(&reader, offset);
	return record_next(&reader, &record) ? record.msg.ts_unix_ms : 0;
}

/* ---- days */

static void partition_add_day(struct partition *p, const struct partition_day *day)
{
	p->days = mem_realloc(p->days, (p->day_count + 1u) * sizeof(*p->days));
	p->days[p->day_count++] = *day;
}

/* The last one that no trim removes, or NULL. */
static const struct partition_day *partition_last_day(const struct partition *p)
{
	const struct partition_day *last =
		p->day_count ? &p->days[p->day_count - 1] : NULL;

	return last && !last->is_going ? last : NULL;
}

const struct partition_day *partition_day_of(const struct partition *p, uint64_t offset)
{
	unsigned i = p->day_count;

	while (i > 1 && p->days[i - 1].base > offset)
		i--;
	return i ? &p->days[i - 1] : NULL;
}

uint64_t partition_next_day_base(const struct partition *p, uint32_t day, uint64_t most)
{
	for (unsigned i = p->day_count; i > 0 && p->days[i - 1].day > day; i--)
		if (p->days[i - 1].base < most)
			most = p->days[i - 1].base;
	return most;
}

/* ---- appending */

void partition_set_dirty(struct partition *p, bool is_dirty)
{
	struct partition_list *list = p->keys ? &p->env->dirty : &p->env->unkept;

	if (p->is_dirty == is_dirty)
		return;
	p->is_dirty = is_dirty;
	if (is_dirty)
		TAILQ_INSERT_TAIL(list, p, dirty_link);
	else
		TAILQ_REMOVE(list, p, dirty_link);
}

/* Where the next batch begins is known then. */
void partition_close_append(struct partition *p)
{
	if (p->open)
		p->next_position += append_end_batch(p->open);
	p->open = NULL;
}

/* The one that takes the message, with a batch that has room for it. */
static struct append *open_for(struct partition *p, const struct msg *m, int64_t ms)
{
	struct append *a = p->open;

	if (a && a->writer.count > 0 &&
	    record_bytes_with(&a->writer, m) > RECORD_BATCH_BYTES)
		p->next_position += append_end_batch(a);
	if (a && (append_is_full(a) || ms >= a->day_end_ms)) {
		partition_close_append(p);
		a = NULL;
	}
	if (!a) {
		a = p->open = append_open(p->env, ms);
		a->joint = p->joint;
		STAILQ_INSERT_TAIL(&p->appends, a, link);
		partition_set_dirty(p, true);
	}
	if (a->writer.count == 0)
		record_begin(&a->writer, p->end, p->next_position);
	return a;
}

/* Where the message goes. */
static struct append *add(struct partition *p, const struct msg *m, struct waiter *waiter)
{
	struct append *a;

	if (p->env->now_ms > p->append_ms)
		p->append_ms = p->env->now_ms;
	a = open_for(p, m, p->append_ms);
	append_add(p->env, a, m, p->append_ms, waiter);
	p->env->stats.appended++;
	return a;
}

uint64_t partition_append(struct partition *p, const struct msg *m, struct waiter *waiter)
{
	add(p, m, waiter);
	return p->end++;
}

uint64_t partition_append_seen(struct partition *p, const struct msg *m,
			       struct store_seen *seen, struct waiter *waiter)
{
	struct append *a = add(p, m, waiter);

	seen->has_offset = true;
	seen->offset = p->end;
	if (p->keys)
		append_add_seen(p->env, a, seen);
	return p->end++;
}

/* The first append, as it is to be sent; NULL: there is none. */
static struct append *partition_take_append(struct partition *p)
{
	struct append *a = STAILQ_FIRST(&p->appends);

	if (a && a == p->open)
		partition_close_append(p);
	return a;
}

/* All that has been appended and does not fly. */
static void partition_take_appends(struct partition *p, struct append_list *out)
{
	struct append *first = STAILQ_FIRST(&p->appends);
	bool has_flying = first && first->is_flying;

	if (has_flying)
		STAILQ_REMOVE_HEAD(&p->appends, link);
	partition_close_append(p);
	STAILQ_CONCAT(out, &p->appends);
	if (has_flying)
		STAILQ_INSERT_HEAD(&p->appends, first, link);
	partition_set_dirty(p, false);
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

	partition_take_appends(p, &failed);
	p->end = p->readable;
	p->next_position = p->position;
	tell_failed(p, &failed, status, text);
}

void partition_fail_from(struct partition *p, const struct append *first, int status,
			 const char *text)
{
	struct append_list failed = STAILQ_HEAD_INITIALIZER(failed);
	struct append *a;

	partition_close_append(p);
	STAILQ_CONCAT(&failed, &p->appends);
	while ((a = STAILQ_FIRST(&failed)) != first) {
		STAILQ_REMOVE_HEAD(&failed, link);
		STAILQ_INSERT_TAIL(&p->appends, a, link);
	}
	p->end = first->batches[0]->base;
	p->next_position = first->batches[0]->position;
	tell_failed(p, &failed, status, text);
}

bool partition_is_idle(const struct partition_env *env)
{
	return TAILQ_EMPTY(&env->dirty) && TAILQ_EMPTY(&env->unkept) &&
	       STAILQ_EMPTY(&env->later) && env->flights == 0;
}

int64_t partition_due_ms(const struct partition_env *env)
{
	int64_t due_ms = 0;

	if (!TAILQ_EMPTY(&env->unkept) || !STAILQ_EMPTY(&env->later))
		return env->now_ms;
	if (!TAILQ_EMPTY(&env->dirty) && env->flights == 0)
		due_ms = duration_is_resting(env->now_ms, env->retry_unix_ms,
					     PARTITION_RETRY_MS)
				 ? env->retry_unix_ms
				 : env->now_ms;
	due_ms = heap_earlier(due_ms, merge_due_ms(env));
	due_ms = heap_earlier(due_ms, compact_due_ms(env));
	return heap_earlier(due_ms, cursor_failed_due_ms(env));
}

void partition_shrink(struct partition_env *env)
{
	tail_shrink(env);
}

void partition_call_later(struct partition *p, struct partition_call *call,
			  void (*run)(struct partition_call *call))
{
	call->partition = partition_ref(p);
	call->run = run;
	STAILQ_INSERT_TAIL(&p->env->later, call, link);
}

struct later_done {
	struct partition_call call;
	store_done_fn on_done;
	void *ctx;
};

static void run_done(struct partition_call *call)
{
	struct later_done *d = container_of(call, struct later_done, call);
	bool is_closed = call->partition->is_closed;

	d->on_done(d->ctx, is_closed ? TIDE_ENOTFOUND : TIDE_OK, NULL);
	mem_free(d);
}

/* Likewise on_done(ctx, TIDE_OK or TIDE_ENOTFOUND, NULL); it may be NULL. */
static void partition_done_later(struct partition *p, store_done_fn on_done, void *ctx)
{
	struct later_done *d;

	if (!on_done)
		return;
	d = mem_alloc(sizeof(*d));
	d->on_done = on_done;
	d->ctx = ctx;
	partition_call_later(p, &d->call, run_done);
}

void partition_commit(struct partition *p, const struct store_log_commit *commit,
		      store_done_fn on_done, void *ctx)
{
	if (p->keys)
		store_log_commit(p->env->store, p->keys, commit, on_done, ctx);
	else
		partition_done_later(p, on_done, ctx);
}

#define FLUSH_BYTES_MAX ((size_t)8 << 20)
#define LARGEST_MIN ((uint64_t)1 << 16)

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

static void add_unsure_seen(struct partition *p, const struct append *a)
{
	buf_append_slice(&p->unsure_seen, buf_slice(&a->seen));
	p->unsure_seen_count += a->seen_count;
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

void partition_flush_land(struct partition *p)
{
	struct append *a = STAILQ_FIRST(&p->appends);

	STAILQ_REMOVE_HEAD(&p->appends, link);
	p->unsure_count = 0;
	p->unsure_seen_count = 0;
	buf_deinit(&p->unsure_seen);
	note_day(p, a);
	land(p, a);
}

void partition_flush_refuse(struct partition *p, int status, const char *text,
			    bool is_unsure)
{
	struct partition_env *env = p->env;
	const struct append *a = STAILQ_FIRST(&p->appends);

	if (is_unsure) {
		add_unsure_day(p, a->day);
		add_unsure_seen(p, a);
	}
	env->retry_unix_ms = env->now_ms + PARTITION_RETRY_MS;
	partition_fail(p, status, text);
}

static void on_append(void *ctx, int status, const char *text, bool is_unsure)
{
	struct partition *p = ctx;
	struct append *a = STAILQ_FIRST(&p->appends);

	p->env->flights--;
	a->is_flying = false;
	if (p->is_closed)
		partition_fail(p, TIDE_ENOTFOUND, NULL);
	else if (status < 0)
		partition_flush_refuse(p, status, text, is_unsure);
	else
		partition_flush_land(p);
	partition_unref(p);
}

/* ---- sending */

struct store_log_append partition_flush_form(const struct partition *p,
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
	struct append *a = partition_take_append(p);
	struct store_log_batch batches[STORE_LOG_BATCHES_MAX];
	const struct store_log_append append = partition_flush_form(p, a, batches, NULL);

	a->is_flying = true;
	p->env->flights++;
	store_log_append(p->env->store, p->keys, &append, on_append, partition_ref(p));
	return a->bytes;
}

static void flush_dirty(struct partition_env *env)
{
	struct partition *last = TAILQ_LAST(&env->dirty, partition_list), *p;
	size_t bytes = 0;

	if (env->flights > 0 ||
	    duration_is_resting(env->now_ms, env->retry_unix_ms, PARTITION_RETRY_MS))
		return;
	env->retry_unix_ms = 0;
	while (bytes < FLUSH_BYTES_MAX && (p = TAILQ_FIRST(&env->dirty)) != NULL) {
		partition_set_dirty(p, false);
		/* Until the joint has ended, nothing goes. */
		if (!STAILQ_FIRST(&p->appends)->joint) {
			bytes += send_append(p);
			/* Behind the others, so that a busy partition starves none. */
			partition_set_dirty(p,
					    STAILQ_NEXT(STAILQ_FIRST(&p->appends), link));
		}
		if (p == last)
			return;
	}
}

/* Without keys everything lands at once. */
static void flush_unkept(struct partition *p)
{
	struct append_list landing = STAILQ_HEAD_INITIALIZER(landing);
	struct append *a;

	partition_ref(p);
	partition_take_appends(p, &landing);
	while ((a = STAILQ_FIRST(&landing)) != NULL) {
		STAILQ_REMOVE_HEAD(&landing, link);
		if (p->is_closed)
			append_tell(p->env, a, TIDE_ENOTFOUND, NULL);
		else
			land(p, a);
	}
	partition_unref(p);
}

/* Who is told may append, and ask for more: that waits for the next turn. */
static void flush_all_unkept(struct partition_env *env)
{
	struct partition *p;
	size_t left = 0;

	TAILQ_FOREACH (p, &env->unkept, dirty_link)
		left++;
	for (; left > 0 && (p = TAILQ_FIRST(&env->unkept)) != NULL; left--)
		flush_unkept(p);
}

static void make_calls(struct partition_env *env)
{
	struct partition_calls calls = STAILQ_HEAD_INITIALIZER(calls);
	struct partition_call *call;

	STAILQ_CONCAT(&calls, &env->later);
	while ((call = STAILQ_FIRST(&calls)) != NULL) {
		struct partition *p = call->partition;

		STAILQ_REMOVE_HEAD(&calls, link);
		call->run(call);
		partition_unref(p);
	}
}

void partition_flush(struct partition_env *env)
{
	flush_all_unkept(env);
	flush_dirty(env);
	merge_flush(env);
	compact_flush(env);
	make_calls(env);
	cursor_wake_failed(env);
	tail_shrink(env);
}

/* ---- how many bytes are left */

struct log_measure {
	struct partition *partition;
	store_done_fn on_done;
	void *ctx;
};

static void on_first(void *ctx, int status, const char *text,
		     const struct store_log_batch *rows, size_t count)
{
	struct log_measure *m = ctx;
	struct partition *p = m->partition;
	struct record_batch head;

	if (count > 0 && record_peek(rows[0].bytes, &head) && head.end > p->start)
		p->first_position = head.position;
	if (m->on_done)
		m->on_done(m->ctx, status, text);
	partition_unref(p);
	mem_free(m);
}

static void read_first(struct partition *p, uint32_t day, store_done_fn on_done,
		       void *ctx)
{
	struct log_measure *m = mem_alloc(sizeof(*m));

	*m = (struct log_measure){ partition_ref(p), on_done, ctx };
	store_log_read(p->env->store, p->keys, day, p->start, 1, on_first, m);
}

/* Find first_position, which may take a read. on_done may come before the return. */
static void partition_trim_measure(struct partition *p, store_done_fn on_done, void *ctx)
{
	const struct partition_day *day = partition_day_of(p, p->start);
	const struct record_batch *first = tail_first(&p->tail);

	if (first && first->base <= p->start) {
		p->first_position =
			tail_at(&p->tail, tail_find(&p->tail, p->start))->position;
	} else if (p->start == p->readable || !day) {
		p->first_position = p->position;
	} else if (day->base >= p->start) {
		p->first_position = day->position;
	} else {
		p->first_position = day->position;
		if (!p->is_closed) {
			read_first(p, day->day, on_done, ctx);
			return;
		}
	}
	if (on_done)
		on_done(ctx, TIDE_OK, NULL);
}

/* ---- trimming */

struct log_trim {
	struct partition *partition;
	store_done_fn on_done;
	void *ctx;
	uint32_t *days; /* that are removed whole */
	unsigned day_count;
};

static bool is_named(const struct log_trim *t, uint32_t day)
{
	for (unsigned i = 0; i < t->day_count; i++)
		if (t->days[i] == day)
			return true;
	return false;
}

/* They are gone; or they stay, and the next trim names them again. */
static void settle_days(const struct log_trim *t, bool is_done)
{
	struct partition *p = t->partition;
	unsigned kept = 0;

	for (unsigned i = 0; i < p->day_count; i++) {
		struct partition_day *day = &p->days[i];
		bool is_ours = day->is_going && is_named(t, day->day);

		if (is_ours && is_done)
			continue;
		if (is_ours)
			day->is_going = false;
		p->days[kept++] = *day;
	}
	p->day_count = (uint16_t)kept;
}

static void send_trim(struct partition *p, store_done_fn on_done, void *ctx);

/* `left`: batches that another trim has to remove. */
static void on_trimmed(void *ctx, int status, const char *text, uint64_t left)
{
	struct log_trim *t = ctx;
	struct partition *p = t->partition;

	settle_days(t, status == TIDE_OK);
	if (status < 0)
		p->is_trim_refused = true;
	if (status < 0 && !t->on_done && status != TIDE_ESHUTDOWN)
		log_warn("%slog cannot be trimmed: %s", store_log_prefix(p->keys), text);
	if (status == TIDE_OK && left > 0 && !p->is_closed)
		send_trim(p, t->on_done, t->ctx);
	else if (status == TIDE_OK)
		partition_trim_measure(p, t->on_done, t->ctx);
	else if (t->on_done)
		t->on_done(t->ctx, status, text);
	partition_unref(p);
	mem_free(t->days);
	mem_free(t);
}

/* Nothing is left in the last day, and nothing is on its way there. */
static bool is_emptied(const struct partition *p)
{
	const struct append *first = STAILQ_FIRST(&p->appends);

	return p->start == p->readable && !(first && first->is_flying);
}

/* Days that end before the start. */
static void name_days(struct log_trim *t)
{
	struct partition *p = t->partition;

	t->days = mem_alloc((p->day_count + 1u) * sizeof(*t->days));
	for (unsigned i = 0; i < p->day_count; i++) {
		bool is_last = i + 1 == p->day_count;
		bool is_below = is_last ? is_emptied(p) : p->days[i + 1].base <= p->start;

		if (!is_below || p->days[i].is_going)
			continue;
		p->days[i].is_going = true;
		t->days[t->day_count++] = p->days[i].day;
	}
}

static void send_trim(struct partition *p, store_done_fn on_done, void *ctx)
{
	struct log_trim *t = mem_zalloc(sizeof(*t));
	const struct partition_day *day = partition_day_of(p, p->start);
	struct store_log_trim trim = { .start = p->start };

	*t = (struct log_trim){ partition_ref(p), on_done, ctx, NULL, 0 };
	name_days(t);
	p->is_trim_refused = false;
	trim.days = t->days;
	trim.day_count = t->day_count;
	if (day && !day->is_going && day->base < p->start)
		trim.day = day->day;
	store_log_trim(p->env->store, p->keys, &trim, on_trimmed, t);
}

bool partition_trim_failed(const struct partition *p)
{
	return p->is_trim_refused;
}

static void move_start(struct partition *p, uint64_t start)
{
	const struct record_batch *first;

	p->start = start;
	while ((first = tail_first(&p->tail)) != NULL && first->end <= start)
		tail_drop_first(p);
	if (!p->keys)
		p->first_position = first ? first->position : p->position;
	p->env->ops->on_news(p);
}

void partition_trim(struct partition *p, uint64_t start, store_done_fn on_done, void *ctx)
{
	bool has_more;

	if (start > p->readable)
		start = p->readable;
	has_more = start > p->start && !p->is_closed;
	if (has_more)
		move_start(p, start);
	if (p->keys && !p->is_closed && (has_more || p->is_trim_refused))
		send_trim(p, on_done, ctx);
	else
		partition_done_later(p, on_done, ctx);
}

/* At a time, of all partitions: each reads a batch, and Redis has them all in its memory
 * until they are sent. */
#define RECOVERING_MAX 256

struct log_recover {
	STAILQ_ENTRY(log_recover) link; /* of env->recovers */
	struct partition *partition;
	partition_group_fn on_group;
	struct waiter *waiter;
};

static void recover_tell(struct log_recover *r, int status, const char *text)
{
	struct waiter *waiter = r->waiter;

	partition_unref(r->partition);
	mem_free(r);
	waiter_done(waiter, status, text);
}

static void recover_begin(struct log_recover *r);

/* Those that wait go on, unless the store is being closed. */
static void recover_end(struct log_recover *r, int status, const char *text)
{
	struct partition_env *env = r->partition->env;
	struct log_recover *next;

	env->recovering--;
	while ((next = STAILQ_FIRST(&env->recovers)) != NULL &&
	       (env->recovering < RECOVERING_MAX || status == TIDE_ESHUTDOWN)) {
		STAILQ_REMOVE_HEAD(&env->recovers, link);
		if (status == TIDE_ESHUTDOWN)
			recover_tell(next, status, NULL);
		else
			recover_begin(next);
	}
	recover_tell(r, status, text);
}

/* Where the last batch ends is known by its head, even if its records are damaged. */
static int recover_damaged(struct partition *p, const struct store_log_batch *last,
			   const struct error *why, struct error *err)
{
	struct record_batch head;

	if (!record_peek(last->bytes, &head) || head.base != last->base)
		return error_set(
			err, TIDE_ESTORE,
			"the last batch of %slog:%08u, at offset %llu, cannot be "
			"read: %s",
			store_log_prefix(p->keys), partition_last_day(p)->day,
			(unsigned long long)last->base, why->text);
	log_error("%slog:%08u: the last batch, at offset %llu, cannot be read; the log "
		  "goes "
		  "on at offset %llu: %s",
		  store_log_prefix(p->keys), partition_last_day(p)->day,
		  (unsigned long long)last->base, (unsigned long long)head.end,
		  why->text);
	p->readable = head.end;
	p->position = head.position + last->bytes.len;
	return TIDE_OK;
}

static int recover_last(struct partition *p, const struct store_log_batch *last,
			struct error *err)
{
	struct record_batch *b;
	struct error why;
	int rc = record_open_at(last->bytes, last->base, &b, &why);

	if (rc == TIDE_ESTORE)
		return recover_damaged(p, last, &why, err);
	if (rc < 0)
		return error_set(err, rc, "%s", why.text);
	p->readable = b->end;
	p->position = b->position + b->len;
	p->last_ms = p->append_ms = b->last_ms;
	record_batch_unref(b);
	return TIDE_OK;
}

static void recover_days(struct partition *p, const struct store_log_state *state)
{
	for (size_t i = 0; i < state->day_count; i++) {
		const struct store_log_day *d = &state->days[i];
		const struct partition_day day = { .day = d->day,
						   .base = d->base,
						   .position = d->position,
						   .first_ms = d->first_ms };

		partition_add_day(p, &day);
	}
}

static int recover_state(struct partition *p, const struct store_log_state *state,
			 struct error *err)
{
	int rc = TIDE_OK;

	recover_days(p, state);
	p->start = p->readable = state->start;
	p->largest = state->largest;
	if (p->day_count > 0) {
		p->first_position = p->days[0].position;
		p->position = partition_last_day(p)->position;
		p->append_ms = partition_last_day(p)->first_ms;
	}
	if (state->last.bytes.data)
		rc = recover_last(p, &state->last, err);
	/* A log that was trimmed to its end. */
	if (p->readable < p->start)
		p->readable = p->start;
	p->end = p->readable;
	p->next_position = p->position;
	return rc;
}

static void recover_measured(void *ctx, int status, const char *text)
{
	struct log_recover *r = ctx;

	if (status == TIDE_OK)
		compact_note(r->partition);
	recover_end(r, status, text);
}

static void on_state(void *ctx, int status, const char *text,
		     const struct store_log_state *state)
{
	struct log_recover *r = ctx;
	struct partition *p = r->partition;
	struct error err = { 0 };

	if (status == TIDE_OK && !p->is_closed) {
		status = recover_state(p, state, &err);
		text = err.text;
	}
	if (status < 0 || p->is_closed) {
		recover_end(r, status, text);
		return;
	}
	for (size_t i = 0; i < state->group_count && !p->is_closed; i++)
		r->on_group(p, state->groups[i].name, state->groups[i].committed);
	partition_trim_measure(p, recover_measured, r);
}

static void recover_begin(struct log_recover *r)
{
	struct partition *p = r->partition;

	p->env->recovering++;
	store_log_recover(p->env->store, p->keys, on_state, r);
}

void partition_recover(struct partition *p, partition_group_fn on_group,
		       struct waiter *waiter)
{
	struct log_recover *r;

	if (!p->keys)
		return;
	r = mem_zalloc(sizeof(*r));
	r->partition = partition_ref(p);
	r->on_group = on_group;
	r->waiter = waiter;
	waiter_add(waiter);
	if (p->env->recovering < RECOVERING_MAX)
		recover_begin(r);
	else
		STAILQ_INSERT_TAIL(&p->env->recovers, r, link);
}
