#include "verdict.h"

#include <math.h>

#include "broker/broker.h"
#include "broker/decide.h"

static void add_picks(struct verdict *v, const struct outcome *o)
{
	for (unsigned i = 0; i < o->count; i++) {
		const struct pick *pick = &o->picks[i];
		struct verdict_target *t = verdict_add(v, pick->queue->serial);

		if (t) {
			t->shard = pick->index;
			t->rank = pick->rank;
		}
	}
}

void verdict_set(struct verdict *v, const struct decision *d, int status)
{
	verdict_init(v, status);
	if (status != TIDE_OK)
		return;
	add_picks(v, &d->first);
	for (unsigned i = 0; i < d->copy_count; i++)
		add_picks(v, &d->copies[i]);
}

/* Ranks come out of floating-point arithmetic. */
static bool is_same_rank(double a, double b)
{
	return a == b || fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* The target in `v` that corresponds to number `at` of `other`: of the same queue,
 * and when a queue takes several copies the one in the same order. */
static const struct verdict_target *find(const struct verdict *v,
					 const struct verdict *other, uint32_t at)
{
	uint64_t queue = other->targets[at].queue;
	uint32_t before = 0;

	for (uint32_t i = 0; i < at; i++)
		before += other->targets[i].queue == queue;
	for (uint32_t i = 0; i < v->count && i < VERDICT_TARGETS; i++)
		if (v->targets[i].queue == queue && before-- == 0)
			return &v->targets[i];
	return NULL;
}

unsigned verdict_compare(const struct verdict *a, const struct verdict *b)
{
	unsigned difference = VERDICT_SAME;

	if (a->status != TIDE_OK || b->status != TIDE_OK)
		return a->status == b->status ? VERDICT_SAME : VERDICT_ERROR;
	if (a->count != b->count || a->sum != b->sum)
		return VERDICT_QUEUES;
	for (uint32_t i = 0; i < a->count && i < VERDICT_TARGETS; i++) {
		const struct verdict_target *t = &a->targets[i], *u = find(b, a, i);

		if (!u)
			continue; /* beyond those that are told apart */
		if (t->shard != u->shard && t->is_shard_telling && u->is_shard_telling)
			difference |= VERDICT_SHARD;
		if (!is_same_rank(t->rank, u->rank) && t->is_rank_telling &&
		    u->is_rank_telling)
			difference |= VERDICT_RANK;
	}
	return difference;
}

void verdict_write_difference(unsigned difference, struct json *out)
{
	static const char *const names[] = { "error", "queues", "shard", "rank",
					     "message" };

	json_member_array(out, "differs");
	for (int i = 0; i < VERDICT_DIFFERENCES; i++)
		if (difference & 1u << i)
			json_text(out, names[i]);
	json_array_end(out);
}

void verdict_write_queue(uint64_t serial, const struct broker *b, struct json *out)
{
	const struct queue *q = queue_by_serial(b, serial);

	json_member_text(out, "queue", q ? q->name : "(deleted)");
}

static void write_target(const struct verdict_target *t, struct broker *b,
			 struct json *out)
{
	const struct queue *q = queue_by_serial(b, t->queue);
	bool is_topic = q && q->topic;

	json_object_begin(out);
	verdict_write_queue(t->queue, b, out);
	json_member_int(out, is_topic ? "partition" : "shard", t->shard);
	if (!is_topic)
		json_member_number(out, "rank", t->rank);
	json_object_end(out);
}

void verdict_write(const struct verdict *v, struct broker *b, const char *error,
		   struct json *out)
{
	json_object_begin(out);
	if (v->status != TIDE_OK) {
		json_member_text(out, "code", error_wire_code(v->status));
		json_member_text(out, "error", error ? error : error_text(v->status));
	}
	json_member_int(out, "count", v->count);
	json_member_array(out, "queues");
	for (uint32_t i = 0; i < v->count && i < VERDICT_TARGETS; i++)
		write_target(&v->targets[i], b, out);
	json_array_end(out);
	json_object_end(out);
}
