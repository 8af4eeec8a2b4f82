#include "retention.h"

#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "group.h"
#include "broker.h"
#include "queue.h"

#define MINUTE_MS 60000
/* From the growth over a limit to the look at it: at most so often. */
#define GROWTH_MS 100
#define GROWTH_MARGIN 16 /* the limit's part */
#define FLIGHTS_MAX 64
/* The log tells of what is held back in a topic: at most so often. */
#define HOLD_LOG_MS (10 * 60000)

TAILQ_HEAD(retention_list, retention_topic);

/* Of a topic that something was to be dropped of. By partition: a bit each. */
struct retention_topic {
	struct topic *topic;
	uint64_t grown;   /* to be looked at soon: it is in retention.grown */
	uint64_t busy;    /* Redis was asked, or the tail is being searched */
	uint64_t missed;  /* likewise, and it was to be looked at meanwhile */
	uint64_t refused; /* by Redis; the log says so */
	TAILQ_ENTRY(retention_topic) grown_link;
	struct retention_hold *holds; /* by partition; NULL: there never was one */
	int64_t hold_logged_mono_ms;  /* 0: never */
};

_Static_assert(QUEUE_SHARDS_MAX <= 64, "partitions are bits");

struct retention {
	struct broker *broker;
	struct job job;
	/* The look at all of them: where it is. NULL: it is over. */
	struct topic *next;
	unsigned next_index;
	int64_t minute; /* of the wall clock, when it began last */
	struct retention_list grown;
	int64_t grown_mono_ms; /* when these are looked at; 0: no time is set */
	unsigned flights;
};

/* A question to Redis, or to the tail. */
struct retention_flight {
	struct retention *retention;
	uint64_t serial; /* of the topic's queue, which may go */
	unsigned index;
	uint64_t start; /* what the rest of the limits ask for */
};

static struct retention_topic *open_state(struct topic *t)
{
	struct retention_topic *state = t->retention;

	if (state)
		return state;
	state = t->retention = mem_zalloc(sizeof(*state));
	state->topic = t;
	return state;
}

static uint64_t bit(unsigned index)
{
	return UINT64_C(1) << index;
}

static void look_soon(struct retention *r, struct retention_topic *state, unsigned index)
{
	if (!state->grown)
		TAILQ_INSERT_TAIL(&r->grown, state, grown_link);
	state->grown |= bit(index);
	if (!r->grown_mono_ms)
		r->grown_mono_ms = r->broker->mono_ms + GROWTH_MS;
}

/* ---- keep-unread ----------------------------------------------------------------- */

/* The offset up to which all groups of keep-unread have committed; and which group is
 * the last. A group without a commit in the partition may yet come: it holds all. */
static uint64_t read_by_all(const struct topic *t, unsigned index, struct slice *last)
{
	const char *names = t->queue->config.keep_unread;
	struct slice rest = slice_from(names ? names : "");
	uint64_t least = UINT64_MAX;

	while (rest.len > 0) {
		struct slice name = slice_cut(&rest, ',');
		const struct topic_group *g = group_find(t, name);
		uint64_t committed = g ? group_committed(g, index) : GROUP_UNKNOWN;

		if (committed == GROUP_UNKNOWN)
			committed = 0;
		if (committed < least) {
			least = committed;
			*last = name;
		}
	}
	return least;
}

const struct retention_hold *retention_hold(const struct topic *t, unsigned index)
{
	const struct retention_topic *state = t->retention;

	if (!state || !state->holds || !state->holds[index].since_ms)
		return NULL;
	return &state->holds[index];
}

static void log_hold(struct retention_topic *state, unsigned index)
{
	const struct retention_hold *hold = &state->holds[index];
	const struct queue *q = state->topic->queue;
	const struct broker *b = q->vhost->broker;

	if (!log_is_due(&state->hold_logged_mono_ms, b->mono_ms, HOLD_LOG_MS))
		return;
	log_warn("topic '%s' of vhost '%s': keep-unread holds %llu messages of "
		 "partition %u beyond its retention, which group '%" SLICE_FMT
		 "' has not committed",
		 q->name, q->vhost->name, (unsigned long long)hold->messages, index,
		 SLICE_ARG(hold->group));
}

static void note_hold(struct topic *t, unsigned index, struct retention_hold hold)
{
	struct retention_topic *state;
	struct retention_hold *has;

	if (!hold.messages && !retention_hold(t, index))
		return;
	state = open_state(t);
	if (!state->holds)
		state->holds = mem_zalloc(t->queue->config.shards *
					  sizeof(struct retention_hold));
	has = &state->holds[index];
	hold.since_ms = !hold.messages  ? 0
			: has->since_ms ? has->since_ms
					: t->queue->vhost->broker->now_ms;
	*has = hold;
	if (hold.messages)
		log_hold(state, index);
}

/* How much of that is to be dropped now. */
static uint64_t hold_back(struct topic *t, unsigned index, uint64_t start)
{
	struct partition *p = t->partitions[index];
	struct retention_hold hold = { 0 };
	uint64_t kept = read_by_all(t, index, &hold.group);

	if (kept < partition_start(p))
		kept = partition_start(p);
	if (kept > start)
		kept = start;
	hold.messages = start - kept;
	note_hold(t, index, hold);
	return kept;
}

/* ---- dropping -------------------------------------------------------------------- */

static struct retention_flight *take_off(struct retention *r, struct topic *t,
					 unsigned index)
{
	struct retention_flight *f = mem_alloc(sizeof(*f));

	*f = (struct retention_flight){ r, t->queue->serial, index, 0 };
	open_state(t)->busy |= bit(index);
	r->flights++;
	return f;
}

/* Gives its topic; NULL: it is gone, with the partition. */
static struct topic *land_take(struct retention_flight *f)
{
	struct retention *r = f->retention;
	struct queue *q = queue_by_serial(r->broker, f->serial);
	struct retention_topic *state;
	unsigned index = f->index;

	mem_free(f);
	r->flights--;
	if (r->next || (!TAILQ_EMPTY(&r->grown) && !r->grown_mono_ms))
		job_add(r->broker, &r->job);
	if (!q)
		return NULL;
	state = q->topic->retention;
	state->busy &= ~bit(index);
	if (state->missed & bit(index))
		look_soon(r, state, index);
	state->missed &= ~bit(index);
	return q->topic->partitions[index] ? q->topic : NULL;
}

/* Of a topic it is said once, and once when Redis refuses no partition of it any more. */
static void log_refusal(const struct topic *t, unsigned index, int status,
			const char *text)
{
	struct retention_topic *state = t->retention;
	const struct queue *q = t->queue;
	uint64_t before = state->refused;

	if (status < 0)
		state->refused |= bit(index);
	else if (status == TIDE_OK)
		state->refused &= ~bit(index);
	if (!before == !state->refused)
		return;
	if (before) {
		log_info("topic '%s' of vhost '%s': Redis drops its messages again",
			 q->name, q->vhost->name);
		return;
	}
	log_error("topic '%s' of vhost '%s': Redis refuses to drop what its "
		  "retention does not keep; it is asked again each minute: %s",
		  q->name, q->vhost->name, text ? text : error_text(status));
}

static void on_trimmed(void *ctx, int status, const char *text)
{
	struct retention_flight *f = ctx;
	unsigned index = f->index;
	const struct topic *t = land_take(f);

	if (t && status != TIDE_ESHUTDOWN)
		log_refusal(t, index, status, text);
}

/* Ask for the removal again when Redis has refused it. */
static void drop(struct retention *r, struct topic *t, unsigned index, uint64_t start)
{
	struct partition *p = t->partitions[index];

	start = hold_back(t, index, start);
	if (start > partition_start(p) || partition_trim_failed(p))
		partition_trim(p, start, on_trimmed, take_off(r, t, index));
}

/* ---- looking --------------------------------------------------------------------- */

static void on_found(void *ctx, int status, const char *text, uint64_t offset)
{
	struct retention_flight *f = ctx;
	struct retention *r = f->retention;
	uint64_t start = f->start;
	unsigned index = f->index;
	struct topic *t = land_take(f);

	if (!t)
		return;
	if (status < 0 && status != TIDE_ESHUTDOWN)
		log_refusal(t, index, status, text);
	drop(r, t, index, status == TIDE_OK && offset > start ? offset : start);
}

/* The start that age and count ask for, which is known at once. */
static uint64_t choose_start(const struct topic *t, const struct partition *p)
{
	const struct config *c = &t->queue->config;
	int64_t now_ms = t->queue->vhost->broker->now_ms;
	uint64_t start = partition_start(p), end = partition_readable(p);

	if (c->retention_ms)
		start = partition_find_age(p, now_ms - c->retention_ms);
	if (c->retention_count && end - start > c->retention_count)
		start = end - c->retention_count;
	return start;
}

static void look(struct retention *r, struct topic *t, unsigned index)
{
	const struct config *c = &t->queue->config;
	struct partition *p = t->partitions[index];
	struct retention_topic *state = t->retention;
	struct retention_flight *f;
	uint64_t start;

	if (!p)
		return;
	if (state && state->busy & bit(index)) {
		state->missed |= bit(index);
		return;
	}
	start = choose_start(t, p);
	if (!c->retention_bytes || partition_bytes(p) <= c->retention_bytes) {
		drop(r, t, index, start);
		return;
	}
	f = take_off(r, t, index);
	f->start = start;
	partition_find_bytes(p, c->retention_bytes, on_found, f);
}

static void look_at_grown(struct retention *r, struct retention_topic *state)
{
	unsigned index = (unsigned)__builtin_ctzll(state->grown);

	state->grown &= ~bit(index);
	if (!state->grown)
		TAILQ_REMOVE(&r->grown, state, grown_link);
	look(r, state->topic, index);
}

/* False: all were looked at. */
static bool look_at_next(struct retention *r)
{
	struct topic *t = r->next;

	if (!TAILQ_EMPTY(&r->grown)) {
		look_at_grown(r, TAILQ_FIRST(&r->grown));
		return true;
	}
	if (!t)
		return false;
	if (r->next_index < t->queue->config.shards) {
		look(r, t, r->next_index++);
		return true;
	}
	r->next = TAILQ_NEXT(t, link);
	r->next_index = 0;
	return true;
}

/* Once too much is under way, the next answer goes on. */
static void run(struct job *job)
{
	struct retention *r = container_of(job, struct retention, job);
	struct broker *b = r->broker;

	while (!b->is_draining && r->flights < FLIGHTS_MAX && look_at_next(r))
		if (pace_is_spent(&b->pace, false)) {
			job_add(b, job);
			return;
		}
}

void retention_turn(struct broker *b)
{
	struct retention *r = b->retention;
	int64_t minute = b->now_ms / MINUTE_MS;

	if (minute != r->minute) {
		r->minute = minute;
		if (!r->next)
			r->next = TAILQ_FIRST(&b->topics);
	} else if (!r->grown_mono_ms || b->mono_ms < r->grown_mono_ms) {
		return;
	}
	r->grown_mono_ms = 0;
	job_add(b, &r->job);
}

int64_t retention_due_ms(const struct broker *b)
{
	const struct retention *r = b->retention;

	if (TAILQ_EMPTY(&b->topics))
		return 0;
	if (r->grown_mono_ms)
		return b->now_ms + (r->grown_mono_ms - b->mono_ms);
	return (r->minute + 1) * MINUTE_MS;
}

/* ---- growth ---------------------------------------------------------------------- */

static bool is_over(uint64_t has, uint64_t limit, uint64_t beside)
{
	return limit && has > limit + limit / GROWTH_MARGIN + beside;
}

void retention_on_growth(struct partition *p)
{
	struct topic *t = topic_of(p);
	const struct config *c = &t->queue->config;

	/* A partition that is held back waits for the next minute. */
	if (retention_hold(t, partition_index(p)))
		return;
	/* After a trim there is a batch more than the limit at most. */
	if (!is_over(partition_bytes(p), c->retention_bytes, RECORD_BATCH_BYTES) &&
	    !is_over(partition_readable(p) - partition_start(p), c->retention_count, 0))
		return;
	look_soon(t->queue->vhost->broker->retention, open_state(t), partition_index(p));
}

/* ---- life ------------------------------------------------------------------------ */

struct retention *retention_create(struct broker *b)
{
	struct retention *r = mem_zalloc(sizeof(*r));

	r->broker = b;
	r->job.run = run;
	r->minute = -1;
	TAILQ_INIT(&r->grown);
	return r;
}

void retention_destroy(struct retention *r)
{
	mem_free(r);
}

void retention_widen(struct topic *t, unsigned had)
{
	struct retention_topic *state = t->retention;
	unsigned width = t->queue->config.shards;

	if (!state || !state->holds)
		return;
	state->holds = mem_realloc(state->holds, width * sizeof(*state->holds));
	memset(state->holds + had, 0, (width - had) * sizeof(*state->holds));
}

void retention_forget(struct topic *t)
{
	struct retention *r = t->queue->vhost->broker->retention;
	struct retention_topic *state = t->retention;

	if (r->next == t) {
		r->next = TAILQ_NEXT(t, link);
		r->next_index = 0;
	}
	if (!state)
		return;
	if (state->grown)
		TAILQ_REMOVE(&r->grown, state, grown_link);
	mem_free(state->holds);
	mem_free(state);
	t->retention = NULL;
}

void retention_renew(struct topic *t)
{
	struct retention *r = t->queue->vhost->broker->retention;
	struct retention_topic *state = open_state(t);

	/* Holds name groups by the option's text. */
	mem_free(state->holds);
	state->holds = NULL;
	for (unsigned i = 0; i < t->queue->config.shards; i++)
		if (t->partitions[i])
			look_soon(r, state, i);
}
