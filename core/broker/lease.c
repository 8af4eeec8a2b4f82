#include "lease.h"

#include "base/container.h"
#include "broker.h"
#include "consumer.h"

/* Messages that a consumer may give back in a row before it has to wait. */
#define RETURNS_FREE 1000
#define REST_MS 10 /* after the next one; twice that after each further one */
#define REST_MAX_MS 1000

void lease_init(struct lease *l, struct broker *b, struct holder *h, struct consumer *c)
{
	*l = (struct lease){ .broker = b, .holder = h, .consumer = c };
	TAILQ_INIT(&l->entries);
}

void lease_deinit(struct lease *l)
{
	heap_remove(&l->broker->leases, &l->timer);
}

struct lease *lease_create(struct broker *b, struct holder *h)
{
	struct lease *l = pool_take(&b->get_leases);

	lease_init(l, b, h, NULL);
	l->is_open = true;
	return l;
}

static void destroy_if_done(struct lease *l)
{
	if (l->count > 0 || l->is_open)
		return;
	lease_deinit(l);
	pool_give(&l->broker->get_leases, l);
}

void lease_close(struct lease *l)
{
	l->is_open = false;
	destroy_if_done(l);
}

/* A timer that is too early costs less than one that is set for each message. */
static void arm_timer(struct lease *l, int64_t at_ms)
{
	if (!heap_has(&l->timer) || l->timer.key > at_ms)
		heap_set(&l->broker->leases, &l->timer, at_ms);
}

static inline void restart(struct lease *l, uint32_t lease_ms)
{
	l->end_ms = l->broker->mono_ms + lease_ms;
	l->end_unix_ms = l->broker->now_ms + lease_ms;
	l->is_told = false;
	arm_timer(l, l->end_ms - l->notify_ms);
}

static inline void begin_oldest(struct lease *l, uint64_t tag, uint32_t lease_ms)
{
	l->oldest = tag;
	l->oldest_ms = lease_ms;
	l->has_settled = false;
	restart(l, lease_ms);
}

void lease_add(struct lease *l, struct entry *e)
{
	e->lease = l;
	TAILQ_INSERT_TAIL(&l->entries, e, lease_link);
	if (l->count++ == 0)
		begin_oldest(l, e->tag, e->lease_ms);
}

static void settled(struct lease *l, uint32_t count)
{
	if (l->consumer)
		l->holder->on_settled(l->consumer, count);
	else
		destroy_if_done(l);
}

void lease_remove(struct entry *e)
{
	struct lease *l = e->lease;

	TAILQ_REMOVE(&l->entries, e, lease_link);
	e->lease = NULL;
	if (--l->count == 0)
		l->oldest = 0;
	else if (l->oldest == e->tag)
		begin_oldest(l, TAILQ_FIRST(&l->entries)->tag,
			     TAILQ_FIRST(&l->entries)->lease_ms);
	settled(l, 1);
}

void lease_add_record(struct lease *l, uint64_t tag, uint32_t lease_ms)
{
	if (l->count++ == 0)
		begin_oldest(l, tag, lease_ms);
}

struct run *lease_run_from(const struct lease *l, uint64_t tag)
{
	const struct run_tag_tree *runs = &l->holder->runs;
	struct run *run = run_from_tag(runs, tag);

	while (run && run->lease != l)
		run = run_from_tag(runs, run->first_tag + run->count);
	return run;
}

void lease_remove_records(struct lease *l, uint64_t count)
{
	const struct run *run;

	l->count -= (uint32_t)count;
	if (l->count == 0) {
		l->oldest = 0;
	} else {
		run = lease_run_from(l, l->oldest);
		if (run->first_tag > l->oldest)
			begin_oldest(l, run->first_tag, run->lease_ms);
	}
	settled(l, (uint32_t)count);
}

void lease_touch(struct lease *l, uint64_t tag, uint32_t ms)
{
	if (tag != l->oldest) {
		l->has_settled = true;
		return;
	}
	restart(l, ms);
}

void lease_put_off(struct lease *l)
{
	lease_touch(l, l->oldest, l->oldest_ms);
}

int64_t lease_given_ms(const struct lease *l)
{
	const struct entry *e = TAILQ_FIRST(&l->entries);

	return e ? l->broker->mono_ms - (l->broker->now_ms - e->at_unix_ms)
		 : lease_run_from(l, l->oldest)->given_ms;
}

void lease_work(struct lease *l)
{
	lease_progress(l, 0);
	lease_put_off(l);
}

void lease_give_back(struct lease *l)
{
	uint32_t doublings = l->returns - RETURNS_FREE;

	l->is_stalled = false;
	if (++l->returns <= RETURNS_FREE || !l->consumer)
		return;
	l->rest_until_ms =
		l->broker->mono_ms + (doublings < 7 ? REST_MS << doublings : REST_MAX_MS);
	arm_timer(l, l->rest_until_ms);
}

void lease_step_clock(struct broker *b, int64_t step_ms)
{
	for (size_t i = 1; i <= b->leases.count; i++)
		container_of(b->leases.nodes[i], struct lease, timer)->end_unix_ms +=
			step_ms;
}

int64_t lease_until_unix_ms(const struct entry *e)
{
	const struct lease *l = e->lease;

	if (!l || l->oldest != e->tag)
		return 0;
	return l->end_unix_ms;
}
