#include "check.h"

#include <stdlib.h>

#include "base/mem.h"
#include "broker/exchange.h"
#include "broker/queue.h"
#include "broker/topic.h"
#include "broker/walk.h"

#define VHOSTS 3
#define THINGS 40 /* of each kind */
#define QUEUES (2 * THINGS)

/* A broker of bare structs. An element that is not there is NULL. */
struct model {
	struct broker broker;
	struct vhost vhosts[VHOSTS];
	struct queue *queues[QUEUES]; /* every second one is a topic */
	struct exchange *exchanges[THINGS];
};

static void add_queue(struct model *m, unsigned i)
{
	struct queue *q = m->queues[i] = mem_zalloc(sizeof(*q));

	q->vhost = &m->vhosts[i % VHOSTS];
	q->serial = ++m->broker.last_serial;
	HASH_ADD(serial_hh, m->broker.queues_by_serial, serial, sizeof(q->serial), q);
	if (i % 2 == 0)
		return;
	q->topic = mem_zalloc(sizeof(*q->topic));
	q->topic->queue = q;
	TAILQ_INSERT_TAIL(&m->broker.topics, q->topic, link);
}

static void remove_queue(struct model *m, unsigned i)
{
	struct queue *q = m->queues[i];

	if (q->topic) { /* it goes before its queue */
		walk_leave_topic(q->topic);
		TAILQ_REMOVE(&m->broker.topics, q->topic, link);
		mem_free(q->topic);
	}
	walk_leave_queue(q);
	HASH_DELETE(serial_hh, m->broker.queues_by_serial, q);
	mem_free(q);
	m->queues[i] = NULL;
}

static void add_exchange(struct model *m, unsigned i)
{
	static char name[THINGS][16];
	struct exchange *x = m->exchanges[i] = mem_zalloc(sizeof(*x));

	snprintf(name[i], sizeof(name[i]), "x%u", i);
	x->name = name[i];
	x->name_len = strlen(name[i]);
	x->vhost = &m->vhosts[i % VHOSTS];
	x->serial = ++m->broker.last_serial;
	HASH_ADD_KEYPTR(hh, x->vhost->exchanges, x->name, x->name_len, x);
}

static void remove_exchange(struct model *m, unsigned i)
{
	struct exchange *x = m->exchanges[i];

	walk_leave_exchange(x);
	HASH_DEL(x->vhost->exchanges, x);
	mem_free(x);
	m->exchanges[i] = NULL;
}

static struct model *create(void)
{
	static char names[VHOSTS][2] = { "a", "b", "c" };
	struct model *m = mem_zalloc(sizeof(*m));

	TAILQ_INIT(&m->broker.topics);
	TAILQ_INIT(&m->broker.walks);
	for (unsigned i = 0; i < VHOSTS; i++) {
		struct vhost *v = &m->vhosts[i];

		v->broker = &m->broker;
		v->name = names[i];
		v->name_len = 1;
		HASH_ADD_KEYPTR(hh, m->broker.vhosts, v->name, v->name_len, v);
	}
	return m;
}

static void destroy(struct model *m)
{
	for (unsigned i = 0; i < QUEUES; i++)
		if (m->queues[i])
			remove_queue(m, i);
	for (unsigned i = 0; i < THINGS; i++)
		if (m->exchanges[i])
			remove_exchange(m, i);
	HASH_CLEAR(hh, m->broker.vhosts);
	mem_free(m);
}

TEST_THAT(a_broker_without_anything_has_nothing)
{
	struct model *m = create();
	struct walk w;

	walk_begin(&w, &m->broker);
	assert_null(walk_queue(&w));
	assert_null(walk_topic(&w));
	assert_null(walk_exchange(&w));
	/* It is made too late for this walk. */
	add_queue(m, 0);
	add_exchange(m, 0);
	walk_rewind(&w);
	assert_null(walk_queue(&w));
	assert_null(walk_exchange(&w));
	walk_end(&w);
	destroy(m);
}

TEST_THAT(what_cannot_be_used_is_left_out)
{
	struct model *m = create();
	static char why[] = "no script";
	struct walk w;

	add_queue(m, 0);
	add_queue(m, 2);
	add_exchange(m, 0);
	m->queues[0]->definition.unusable = why;
	m->exchanges[0]->definition.unusable = why;
	walk_begin(&w, &m->broker);
	assert_ptr_equal(walk_queue(&w), m->queues[2]);
	assert_null(walk_queue(&w));
	assert_null(walk_exchange(&w));
	walk_end(&w);
	destroy(m);
}

/* What has been met, and what was there all the time. */
struct seen {
	unsigned queues[QUEUES], exchanges[THINGS];
	bool stayed[QUEUES], has_stayed[THINGS];
};

static void change(struct model *m, struct seen *s)
{
	unsigned i = (unsigned)rand() % QUEUES, k = (unsigned)rand() % THINGS;

	s->stayed[i] = s->has_stayed[k] = false;
	if (m->queues[i])
		remove_queue(m, i);
	else
		add_queue(m, i);
	if (m->exchanges[k])
		remove_exchange(m, k);
	else
		add_exchange(m, k);
}

static bool meet_queue(struct model *m, struct seen *s, const struct queue *q,
		       bool is_topic)
{
	for (unsigned i = 0; q && i < QUEUES; i++)
		if (m->queues[i] == q) {
			assert_int_equal(i % 2, is_topic);
			s->queues[i]++;
			return true;
		}
	assert_null(q);
	return false;
}

static bool meet_exchange(struct model *m, struct seen *s, const struct exchange *x)
{
	for (unsigned i = 0; x && i < THINGS; i++)
		if (m->exchanges[i] == x) {
			s->exchanges[i]++;
			return true;
		}
	assert_null(x);
	return false;
}

static void check_seen(const struct seen *s)
{
	for (unsigned i = 0; i < QUEUES; i++)
		assert_in_range(s->queues[i], s->stayed[i], 1);
	for (unsigned i = 0; i < THINGS; i++)
		assert_in_range(s->exchanges[i], s->has_stayed[i], 1);
}

static void walk_through(struct model *m, struct walk *w, bool has_changes)
{
	struct seen s = { 0 };
	bool has_queues = true, has_topics = true, has_exchanges = true;

	for (unsigned i = 0; i < QUEUES; i++)
		s.stayed[i] = m->queues[i] && m->queues[i]->serial <= w->newest;
	for (unsigned i = 0; i < THINGS; i++)
		s.has_stayed[i] = m->exchanges[i] && m->exchanges[i]->serial <= w->newest;
	walk_rewind(w);
	while (has_queues || has_topics || has_exchanges) {
		if (has_queues)
			has_queues = meet_queue(m, &s, walk_queue(w), false);
		if (has_topics)
			has_topics = meet_queue(m, &s, walk_topic(w), true);
		if (has_exchanges)
			has_exchanges = meet_exchange(m, &s, walk_exchange(w));
		for (int n = has_changes ? rand() % 6 : 0; n > 0; n--)
			change(m, &s);
	}
	check_seen(&s);
}

TEST_THAT(what_stays_is_met_once_whatever_comes_and_goes)
{
	srand(1);
	for (int round = 0; round < 300; round++) {
		struct model *m = create();
		struct seen ignored = { 0 };
		struct walk w, other;

		for (int i = 0; i < 300; i++)
			change(m, &ignored);
		walk_begin(&w, &m->broker);
		walk_begin(&other, &m->broker);
		walk_through(m, &w, false);
		walk_through(m, &w, true);
		walk_through(m, &other, true);
		walk_end(&w);
		walk_through(m, &other, true);
		walk_end(&other);
		destroy(m);
	}
}

RUN_TESTS()
