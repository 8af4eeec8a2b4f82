#include <math.h>

#include "samples.h"
#include "past.h"
#include "base/mem.h"
#include "service.h"
#include "list_walk.h"
#include "broker/queue.h"

/* The backlog of all queues of the broker together.
 *
 * Nobody counts that as messages come and go: it is summed up, a slice at a time, and
 * what was summed up last is what there is. */

struct backlog_sum {
	uint64_t ready, delayed, unacked, buried;
	int64_t since_ms; /* of the oldest ready message, wall clock; 0: there is none */
};

struct backlog {
	struct broker *broker;
	struct list_walk walk;
	bool is_walking;
	bool is_noting; /* what it meets has rows in the past */
	struct past_set *past;
	struct backlog_sum sum; /* of the last round that has ended */
	struct backlog_sum next;
	int64_t ended_ms; /* when that was, by the clock that nobody sets; 0: never */
	uint64_t spent_us, cost_us; /* of this round, and of the last one */
};

#define STEPS 16 /* from one look at the clock to the next */

static void backlog_init(struct backlog *l, struct broker *b)
{
	*l = (struct backlog){ .broker = b, .past = past_create() };
}

static void backlog_deinit(struct backlog *l)
{
	list_walk_deinit(&l->walk);
	past_destroy(l->past);
}

static void add(struct backlog_sum *sum, const struct queue *q)
{
	for (unsigned i = 0; i < q->shard_count; i++) {
		const struct shard *sh = q->shards[i];
		uint64_t ready = shard_count(sh, ENTRY_READY);

		sum->ready += ready;
		sum->delayed += shard_count(sh, ENTRY_DELAYED);
		sum->unacked += shard_count(sh, ENTRY_UNACKED);
		sum->buried += shard_count(sh, ENTRY_BURIED);
		if (ready)
			sum->since_ms = heap_earlier(sum->since_ms, shard_age_ready(sh));
	}
}

static void begin_round(struct backlog *l)
{
	list_walk_deinit(&l->walk);
	list_walk_init(&l->walk, l->broker, &list_walk_vhosts, &list_walk_queues);
	l->next = (struct backlog_sum){ 0 };
	l->spent_us = 0;
	l->is_walking = true;
	l->is_noting = past_begin(l->past, l->broker);
}

static void meet(struct backlog *l, const struct queue *q)
{
	add(&l->next, q);
	if (l->is_noting)
		past_note(l->past, q);
}

static void end(struct backlog *l)
{
	l->is_walking = false;
	l->sum = l->next;
	l->ended_ms = l->broker->mono_ms;
	l->cost_us = l->spent_us;
}

static bool backlog_go_on(struct backlog *l, uint64_t us)
{
	enum list_step step = LIST_STEP_END;
	struct pace slice;
	void *item;

	if (!l->is_walking)
		begin_round(l);
	pace_begin(&slice);
	while ((++slice.steps % STEPS != 0 || pace_taken_us(&slice) < us) &&
	       (step = list_walk_next(&l->walk, &item)) != LIST_STEP_END)
		if (step == LIST_STEP_ITEM)
			meet(l, item);
	l->spent_us += pace_taken_us(&slice);
	if (step == LIST_STEP_END)
		end(l);
	else
		list_walk_keep(&l->walk);
	return !l->is_walking;
}

#define EVERY_MS 5000
#define SAMPLES_MAX 720
#define SLICE_US 1000
#define BUDGET_US 4000 /* of a sample, for the sum: less than 0.1 % of a core */
#define NEWEST_MS 1000
/* Unknown: JSON has null for it. */
#define NONE NAN

enum column {
	AT, /* wall clock */
	PUBLISHED,
	DELIVERED,
	ACKED,
	FAILED,
	UNROUTABLE,
	READY,
	UNACKED,
	DELAYED,
	BURIED,
	OLDEST,
	CONNECTIONS,
	MEMORY,
	UNSTORED,
	STORE,
	LOOP,
	COLUMNS
};

/* How they are named, and the digits behind the point that are shown. */
static const struct {
	const char *name;
	double scale;
} columns[COLUMNS] = {
	[AT] = { "t", 1 },
	[PUBLISHED] = { "published", 10 },
	[DELIVERED] = { "delivered", 10 },
	[ACKED] = { "acked", 10 },
	[FAILED] = { "failed", 10 },
	[UNROUTABLE] = { "unroutable", 10 },
	[READY] = { "ready", 1 },
	[UNACKED] = { "unacked", 1 },
	[DELAYED] = { "delayed", 1 },
	[BURIED] = { "buried", 1 },
	[OLDEST] = { "oldest_ready_ms", 1 },
	[CONNECTIONS] = { "connections", 1 },
	[MEMORY] = { "memory_bytes", 1 },
	[UNSTORED] = { "unstored_bytes", 1 },
	[STORE] = { "store_ms", 1000 },
	[LOOP] = { "loop_busy", 10000 },
};

struct samples_row {
	double values[COLUMNS];
};

/* The counters of the last sample, from which rates are made. */
struct samples_counts {
	int64_t mono_ms;
	struct broker_counters broker;
	uint64_t store_count, store_ns;
	uint64_t busy_ns;
};

struct samples {
	struct service *service;
	struct backlog backlog;
	struct samples_counts last; /* at the last sample */
	struct samples_row newest;
	int64_t due_ms;    /* by mono_ms */
	bool is_summing;   /* for the sample that is due */
	uint64_t spent_us; /* for it */
	size_t count;      /* that were taken */
	struct samples_row items[SAMPLES_MAX];
};

struct samples *samples_create(struct service *s)
{
	struct samples *all = mem_zalloc(sizeof(*all));

	all->service = s;
	backlog_init(&all->backlog, s->broker);
	return all;
}

void samples_destroy(struct samples *all)
{
	backlog_deinit(&all->backlog);
	mem_free(all);
}

static struct samples_counts count_now(const struct broker *b)
{
	struct samples_counts now = { .mono_ms = b->mono_ms,
				      .broker = b->counters,
				      .busy_ns = b->turn_time.busy.sum };
	struct store_stats st = { 0 };

	if (b->store) /* a model has none */
		store_stats(b->store, &st);
	now.store_count = st.round_trip.count;
	now.store_ns = st.round_trip.sum;
	return now;
}

static unsigned count_connections(const struct service *s)
{
	unsigned count = 0;

	for (unsigned i = 0; i < NET_PROTOCOLS_MAX; i++)
		count += s->protocols[i].open;
	return count;
}

static void set_rates(double *v, const struct samples_counts *from,
		      const struct samples_counts *to)
{
	double seconds = (double)(to->mono_ms - from->mono_ms) / 1000;
	uint64_t trips = to->store_count - from->store_count;

#define RATE(member) ((double)(to->broker.member - from->broker.member) / seconds)
	v[PUBLISHED] = RATE(published);
	v[DELIVERED] = RATE(delivered);
	v[ACKED] = RATE(acked);
	v[FAILED] = RATE(failed);
	v[UNROUTABLE] = RATE(unroutable);
#undef RATE
	v[STORE] = trips ? (double)(to->store_ns - from->store_ns) / 1e6 / (double)trips
			 : NONE;
	v[LOOP] = (double)(to->busy_ns - from->busy_ns) / 1e9 / seconds;
}

static void set_gauges(double *v, const struct samples *all)
{
	const struct service *s = all->service;
	const struct broker *b = s->broker;
	const struct backlog_sum *sum = &all->backlog.sum;

	v[AT] = (double)b->now_ms;
	v[READY] = (double)sum->ready;
	v[UNACKED] = (double)sum->unacked;
	v[DELAYED] = (double)sum->delayed;
	v[BURIED] = (double)sum->buried;
	v[OLDEST] = sum->since_ms ? (double)(b->now_ms - sum->since_ms) : NONE;
	v[CONNECTIONS] = count_connections(s);
	v[MEMORY] = (double)service_pressure_memory(s);
	v[UNSTORED] = (double)(b->env.unstored_bytes + b->partitions.unstored_bytes);
}

static void take(struct samples *all)
{
	struct samples_counts now = count_now(all->service->broker);

	set_rates(all->newest.values, &all->last, &now);
	set_gauges(all->newest.values, all);
	all->items[all->count++ % SAMPLES_MAX] = all->newest;
	all->last = now;
	all->is_summing = false;
	all->due_ms += EVERY_MS;
	if (all->due_ms <= now.mono_ms) /* the process was stopped */
		all->due_ms = now.mono_ms + EVERY_MS;
}

static void begin(struct samples *all)
{
	all->last = count_now(all->service->broker);
	all->due_ms = all->last.mono_ms + EVERY_MS;
}

/* The sum is of less than a budget's worth of queues, or else goes on at the next
 * sample. */
static bool is_summed(struct samples *all)
{
	uint64_t before = all->backlog.is_walking ? all->backlog.spent_us : 0;

	if (!all->is_summing) {
		all->is_summing = true;
		all->spent_us = 0;
	}
	if (backlog_go_on(&all->backlog, SLICE_US))
		return true;
	all->spent_us += all->backlog.spent_us - before;
	/* The first round is never cut short: until it has ended nothing is known. */
	return all->backlog.ended_ms && all->spent_us >= BUDGET_US;
}

void samples_turn(struct samples *all)
{
	const struct broker *b = all->service->broker;

	if (!b->is_started || b->mono_ms < all->due_ms)
		return;
	if (!all->due_ms)
		begin(all);
	else if (is_summed(all))
		take(all);
}

int64_t samples_due_ms(const struct samples *all)
{
	const struct broker *b = all->service->broker;

	return b->is_started ? b->now_ms + (all->due_ms - b->mono_ms) : 0;
}

static void write_value(struct json *j, const struct samples_row *sample, enum column c)
{
	double value = round(sample->values[c] * columns[c].scale);

	if (isnan(value))
		json_nil(j);
	else if (columns[c].scale == 1 || fmod(value, columns[c].scale) == 0)
		json_int(j, (int64_t)(value / columns[c].scale));
	else
		json_number(j, value / columns[c].scale);
}

static void write_row(struct json *j, const struct samples_row *sample)
{
	json_array_begin(j);
	for (int c = 0; c < COLUMNS; c++)
		write_value(j, sample, (enum column)c);
	json_array_end(j);
}

void samples_write(const struct samples *all, uint64_t max, struct json *j)
{
	size_t kept = all->count < SAMPLES_MAX ? all->count : SAMPLES_MAX;
	size_t shown = max && max < kept ? (size_t)max : kept;

	json_object_begin(j);
	json_member_int(j, "every_ms", EVERY_MS);
	json_member_array(j, "columns");
	for (int c = 0; c < COLUMNS; c++)
		json_text(j, columns[c].name);
	json_array_end(j);
	json_member_array(j, "rows");
	for (size_t i = all->count - shown; i < all->count; i++)
		write_row(j, &all->items[i % SAMPLES_MAX]);
	json_array_end(j);
	json_object_end(j);
}

void samples_write_of(const struct samples *all, const struct queue *q,
		      const struct topic_group *g, uint64_t max, struct json *j)
{
	past_write(all->backlog.past, q, g, max, j);
}

/* Of a Redis Cluster: how many there are, and answer. */
static void write_masters(const struct store *store, struct json *j)
{
	struct store_master one;
	unsigned place = 0, count = 0, up = 0;

	while (store && store_master_next(store, &place, &one)) {
		count++;
		up += one.is_up;
	}
	if (count < 2)
		return;
	json_member_int(j, "masters", count);
	json_member_int(j, "masters_up", up);
}

void samples_write_newest(struct samples *all, struct json *j)
{
	struct backlog *sum = &all->backlog;
	struct samples_counts now = count_now(all->service->broker);

	/* As long as it is cheap, the sum is of now. */
	if (!sum->is_walking && now.mono_ms - sum->ended_ms >= NEWEST_MS &&
	    sum->cost_us < SLICE_US)
		(void)backlog_go_on(sum, SLICE_US);
	if (now.mono_ms - all->last.mono_ms >= NEWEST_MS)
		set_rates(all->newest.values, &all->last, &now);
	set_gauges(all->newest.values, all);
	json_object_begin(j);
	for (int c = 0; c < COLUMNS; c++) {
		json_key(j, columns[c].name);
		write_value(j, &all->newest, (enum column)c);
	}
	write_masters(all->service->broker->store, j);
	json_object_end(j);
}
