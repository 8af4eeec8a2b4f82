#include "partition.h"

#include "base/container.h"
#include "base/heap.h"
#include "base/mem.h"
#include "compact.h"
#include "cursor.h"
#include "merge.h"
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

/* ---- days ----------------------------------------------------------------------- */

void partition_add_day(struct partition *p, const struct partition_day *day)
{
	p->days = mem_realloc(p->days, (p->day_count + 1u) * sizeof(*p->days));
	p->days[p->day_count++] = *day;
}

const struct partition_day *partition_last_day(const struct partition *p)
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

/* ---- appending ------------------------------------------------------------------ */

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

struct append *partition_take_append(struct partition *p)
{
	struct append *a = STAILQ_FIRST(&p->appends);

	if (a && a == p->open)
		partition_close_append(p);
	return a;
}

void partition_take_appends(struct partition *p, struct append_list *out)
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

bool partition_is_resting(const struct partition_env *env, int64_t until_ms,
			  int64_t most_ms)
{
	int64_t rest_ms = until_ms - env->now_ms;

	return rest_ms > 0 && rest_ms <= most_ms;
}

int64_t partition_due_ms(const struct partition_env *env)
{
	int64_t due_ms = 0;

	if (!TAILQ_EMPTY(&env->unkept) || !STAILQ_EMPTY(&env->later))
		return env->now_ms;
	if (!TAILQ_EMPTY(&env->dirty) && env->flights == 0)
		due_ms = partition_is_resting(env, env->retry_unix_ms, PARTITION_RETRY_MS)
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

void partition_done_later(struct partition *p, store_done_fn on_done, void *ctx)
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
