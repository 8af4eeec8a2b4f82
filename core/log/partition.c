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
	for (size_t i = 0; i < env->lane_count; i++)
		mem_free(env->lanes[i]);
	mem_free(env->lanes);
}

struct partition *partition_create(struct partition_env *env, void *owner, unsigned index,
				   struct store_shard *keys)
{
	struct partition *p = mem_zalloc(sizeof(*p));

	p->env = env;
	p->owner = owner;
	p->index = (uint16_t)index;
	p->keys = keys;
	p->refs = 1;
	STAILQ_INIT(&p->appends);
	STAILQ_INIT(&p->held);
	return p;
}

void partition_unref(struct partition *p)
{
	if (--p->refs > 0)
		return;
	store_shard_destroy(p->keys);
	merge_free(p);
	compact_free(p);
	mem_free(p->days);
	mem_free(p->unsure_days);
	buf_deinit(&p->unsure_seen);
	mem_free(p);
}

/* A commit that waits for the definition of its topic. */
struct held_commit {
	STAILQ_ENTRY(held_commit) link;
	store_done_fn on_done; /* may be NULL */
	void *ctx;
	struct store_log_commit commit;
	struct buf names;
	struct store_log_group groups[];
};

static void hold_commit(struct partition *p, const struct store_log_commit *commit,
			store_done_fn on_done, void *ctx)
{
	struct held_commit *h =
		mem_zalloc(sizeof(*h) + commit->count * sizeof(*h->groups));
	size_t at = 0;

	h->on_done = on_done;
	h->ctx = ctx;
	h->commit = *commit;
	h->commit.groups = h->groups;
	for (size_t i = 0; i < commit->count; i++)
		buf_append_slice(&h->names, commit->groups[i].name);
	for (size_t i = 0; i < commit->count; i++) {
		h->groups[i] = commit->groups[i];
		h->groups[i].name.data = buf_slice(&h->names).data + at;
		at += h->groups[i].name.len;
	}
	STAILQ_INSERT_TAIL(&p->held, h, link);
}

static struct held_commit *take_held(struct partition *p)
{
	struct held_commit *h = STAILQ_FIRST(&p->held);

	if (h)
		STAILQ_REMOVE_HEAD(&p->held, link);
	return h;
}

static void free_held(struct held_commit *h)
{
	buf_deinit(&h->names);
	mem_free(h);
}

void partition_send_held(struct partition *p)
{
	struct held_commit *h;

	while ((h = take_held(p)) != NULL) {
		store_log_commit(p->env->store, p->keys, &h->commit, h->on_done, h->ctx);
		free_held(h);
	}
}

static void fail_held(struct partition *p)
{
	struct held_commit *h;

	while ((h = take_held(p)) != NULL) {
		if (h->on_done)
			h->on_done(h->ctx, TIDE_ENOTFOUND, NULL);
		free_held(h);
	}
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
	fail_held(p);
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

struct store_shard *partition_keys(const struct partition *p)
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

uint64_t partition_last(const struct partition *p, uint64_t count)
{
	uint64_t start = partition_start(p);

	return p->readable > start && p->readable - start > count ? p->readable - count
								  : start;
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

bool partition_is_idle(const struct partition_env *env)
{
	for (size_t i = 0; i < env->lane_count; i++)
		if (!TAILQ_EMPTY(&env->lanes[i]->dirty) ||
		    !TAILQ_EMPTY(&env->lanes[i]->flying))
			return false;
	return TAILQ_EMPTY(&env->unkept) && STAILQ_EMPTY(&env->later);
}

static int64_t lane_due_ms(const struct partition_env *env,
			   const struct partition_lane *lane)
{
	if (TAILQ_EMPTY(&lane->dirty) || append_is_busy(env, lane))
		return 0;
	return duration_is_resting(env->now_ms, lane->retry_unix_ms, PARTITION_RETRY_MS)
		       ? lane->retry_unix_ms
		       : env->now_ms;
}

int64_t partition_due_ms(const struct partition_env *env)
{
	int64_t due_ms = 0;

	if (!TAILQ_EMPTY(&env->unkept) || !STAILQ_EMPTY(&env->later))
		return env->now_ms;
	for (size_t i = 0; i < env->lane_count; i++)
		due_ms = heap_earlier(due_ms, lane_due_ms(env, env->lanes[i]));
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

/* Something that is asked of a partition, and takes a while. */
struct log_task {
	struct partition_call call; /* its partition is referenced */
	store_done_fn on_done;      /* may be NULL */
	void *ctx;
	uint32_t *days; /* of a trim: that are removed whole */
	unsigned day_count;
};

static struct log_task *task_create(struct partition *p, store_done_fn on_done, void *ctx)
{
	struct log_task *t = mem_zalloc(sizeof(*t));

	t->call.partition = partition_ref(p);
	t->on_done = on_done;
	t->ctx = ctx;
	return t;
}

static void task_end(struct log_task *t, int status, const char *text)
{
	struct partition *p = t->call.partition;

	if (t->on_done)
		t->on_done(t->ctx, status, text);
	mem_free(t->days);
	mem_free(t);
	partition_unref(p);
}

static void run_done(struct partition_call *call)
{
	struct log_task *t = container_of(call, struct log_task, call);

	task_end(t, call->partition->is_closed ? TIDE_ENOTFOUND : TIDE_OK, NULL);
}

/* Likewise on_done(ctx, TIDE_OK or TIDE_ENOTFOUND, NULL); it may be NULL. */
static void partition_done_later(struct partition *p, store_done_fn on_done, void *ctx)
{
	if (on_done)
		partition_call_later(p, &task_create(p, on_done, ctx)->call, run_done);
}

void partition_commit(struct partition *p, const struct store_log_commit *commit,
		      store_done_fn on_done, void *ctx)
{
	if (p->keys && p->is_held)
		hold_commit(p, commit, on_done, ctx);
	else if (p->keys)
		store_log_commit(p->env->store, p->keys, commit, on_done, ctx);
	else
		partition_done_later(p, on_done, ctx);
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
	append_flush(env);
	merge_flush(env);
	compact_flush(env);
	make_calls(env);
	cursor_wake_failed(env);
	tail_shrink(env);
}

/* ---- how many bytes are left */

static void on_first(void *ctx, int status, const char *text,
		     const struct store_log_batch *rows, size_t count)
{
	struct log_task *t = ctx;
	struct partition *p = t->call.partition;
	struct record_batch head;

	if (count > 0 && record_peek(rows[0].bytes, &head) && head.end > p->start)
		p->first_position = head.position;
	task_end(t, status, text);
}

/* Find first_position, which may take a read; then the task has ended. */
static void measure(struct log_task *t)
{
	struct partition *p = t->call.partition;
	const struct partition_day *day = partition_day_of(p, p->start);
	const struct record_batch *first = tail_first(&p->tail);

	if (first && first->base <= p->start)
		p->first_position =
			tail_at(&p->tail, tail_find(&p->tail, p->start))->position;
	else if (p->start == p->readable || !day)
		p->first_position = p->position;
	else
		p->first_position = day->position;
	if (p->first_position == p->position || (first && first->base <= p->start) ||
	    day->base >= p->start || p->is_closed)
		task_end(t, TIDE_OK, NULL);
	else
		store_log_read(p->env->store, p->keys, day->day, p->start, 1, on_first,
			       t);
}

/* ---- trimming */

static bool is_named(const struct log_task *t, uint32_t day)
{
	for (unsigned i = 0; i < t->day_count; i++)
		if (t->days[i] == day)
			return true;
	return false;
}

/* The days are gone; or they stay, and the next trim names them again. */
static void settle_days(struct log_task *t, bool is_done)
{
	struct partition *p = t->call.partition;
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
	mem_free(t->days);
	t->days = NULL;
	t->day_count = 0;
}

static void send_trim(struct log_task *t);

/* `left`: batches that another trim has to remove. */
static void on_trimmed(void *ctx, int status, const char *text, uint64_t left)
{
	struct log_task *t = ctx;
	struct partition *p = t->call.partition;

	settle_days(t, status == TIDE_OK);
	if (status < 0) {
		p->is_trim_refused = true;
		if (!t->on_done && status != TIDE_ESHUTDOWN)
			log_warn("%slog cannot be trimmed: %s",
				 store_shard_prefix(p->keys), text);
		task_end(t, status, text);
	} else if (left > 0 && !p->is_closed) {
		send_trim(t);
	} else {
		measure(t);
	}
}

/* Is the last day empty, and no append on its way there? */
static bool is_emptied(const struct partition *p)
{
	return p->start == p->readable && !append_is_flying(p);
}

/* Days that end before the start. */
static void name_days(struct log_task *t)
{
	struct partition *p = t->call.partition;

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

static void send_trim(struct log_task *t)
{
	struct partition *p = t->call.partition;
	const struct partition_day *day = partition_day_of(p, p->start);
	struct store_log_trim trim = { .start = p->start };

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
		send_trim(task_create(p, on_done, ctx));
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

/* Waiters go on, unless the store is being closed. */
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
			store_shard_prefix(p->keys), partition_last_day(p)->day,
			(unsigned long long)last->base, why->text);
	log_error("%slog:%08u: the last batch, at offset %llu, cannot be read; the log "
		  "goes "
		  "on at offset %llu: %s",
		  store_shard_prefix(p->keys), partition_last_day(p)->day,
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
	measure(task_create(p, recover_measured, r));
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
