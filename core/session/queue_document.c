#include "queue_document.h"

#include <math.h>

#include "broker/pause.h"
#include "broker/queue_fact.h"
#include "broker/topic.h"

void queue_document_states(const struct queue *q, struct json *j)
{
	json_member_int(j, "ready", (int64_t)queue_count(q, ENTRY_READY));
	json_member_int(j, "delayed", (int64_t)queue_count(q, ENTRY_DELAYED));
	json_member_int(j, "unacked", (int64_t)queue_count(q, ENTRY_UNACKED));
	json_member_int(j, "buried", (int64_t)queue_count(q, ENTRY_BURIED));
}

void queue_document_pause(const struct queue *q, struct json *j)
{
	static const char *const words[] = { "no", "in", "out", "both" };
	static const char *const ends[QUEUE_DIRECTIONS] = { "paused_in_until",
							    "paused_out_until" };
	unsigned which = 0;

	for (int i = 0; i < QUEUE_DIRECTIONS; i++)
		which |= (unsigned)pause_is_on(q, (enum queue_direction)i) << i;
	json_member_text(j, "paused", words[which]);
	for (int i = 0; i < QUEUE_DIRECTIONS; i++)
		if (which & (1u << i) && q->paused_ms[i] != PAUSE_FOREVER)
			json_member_int(j, ends[i], q->paused_ms[i]);
}

void queue_document_sum(const struct topic *t, struct json *j)
{
	const struct topic_sum sum = topic_sum(t);

	json_member_int(j, "messages", (int64_t)(sum.end - sum.start));
	json_member_int(j, "bytes", (int64_t)sum.bytes);
	json_member_int(j, "appended", (int64_t)sum.end);
}

int64_t queue_document_since(const struct queue *q, int64_t (*age)(const struct shard *))
{
	int64_t oldest = 0;

	for (unsigned i = 0; i < q->shard_count; i++)
		oldest = heap_earlier(oldest, age(q->shards[i]));
	return oldest;
}

void queue_document_age(const char *name, int64_t since_ms, const struct queue *q,
			struct json *j)
{
	if (since_ms)
		json_member_int(j, name, q->vhost->broker->now_ms - since_ms);
}

double queue_document_round(double rate)
{
	return round(10 * rate) / 10;
}

void queue_document_rates(const struct queue *q, struct json *j)
{
	json_member_number(j, "in_10s", queue_document_round(queue_fact_rate_in(q)));
	json_member_number(j, "out_10s", queue_document_round(queue_fact_rate_out(q)));
}

void queue_document_config(const char *name, const struct queue_config *c, struct json *j)
{
	const struct args *all = &c->canonical;

	json_member_object(j, name);
	for (size_t i = 0; i < all->count; i++)
		if (!queue_config_is_default(&all->items[i]) &&
		    strcmp(all->items[i].name, "reshard") != 0)
			json_member_text(j, all->items[i].name, all->items[i].value);
	json_object_end(j);
}
