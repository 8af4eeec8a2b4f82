/* partition_flush.c: what has gathered is sent, and lands. */
#include "base/mem.h"
#include "compact.h"
#include "cursor.h"
#include "merge.h"
#include "partition_private.h"

#define FLUSH_BYTES_MAX ((size_t)8 << 20)
#define LARGEST_MIN ((uint64_t)1 << 16)

/* ---- landing -------------------------------------------------------------------- */

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

/* ---- sending -------------------------------------------------------------------- */

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
	    partition_is_resting(env, env->retry_unix_ms, PARTITION_RETRY_MS))
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
