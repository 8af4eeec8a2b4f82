#include "metrics_table.h"

#include "broker/exchange.h"
#include "broker/queue.h"
#include "broker/topic.h"

static const void *next_queue(struct walk *w)
{
	return walk_queue(w);
}

static struct vhost *vhost_of_queue(const void *item)
{
	return ((const struct queue *)item)->vhost;
}

static unsigned label_queue(const void *item, struct exposition_label *out)
{
	out[0] = (struct exposition_label){ "queue", queue_slice(item) };
	return 1;
}

static const void *next_topic(struct walk *w)
{
	return walk_topic(w);
}

static unsigned label_topic(const void *item, struct exposition_label *out)
{
	out[0] = (struct exposition_label){ "topic", queue_slice(item) };
	return 1;
}

static const void *next_group(const void *met, const void *part)
{
	const struct topic *t = ((const struct queue *)met)->topic;

	if (part)
		return ((const struct topic_group *)part)->hh.next;
	return t->groups ? t->groups->by_name : NULL;
}

static unsigned label_group(const void *item, struct exposition_label *out)
{
	const struct topic_group *g = item;

	out[0] = (struct exposition_label){ "topic", queue_slice(g->topic->queue) };
	out[1] = (struct exposition_label){ "group",
					    (struct slice){ g->name, g->name_len } };
	return 2;
}

static const void *next_exchange(struct walk *w)
{
	return walk_exchange(w);
}

static struct vhost *vhost_of_exchange(const void *item)
{
	return ((const struct exchange *)item)->vhost;
}

static unsigned label_exchange(const void *item, struct exposition_label *out)
{
	out[0] = (struct exposition_label){ "exchange", exchange_slice(item) };
	return 1;
}

const struct metrics_table metrics_table_all[METRICS_TABLES] = {
	{ &queue_figures_exchange, next_exchange, NULL, vhost_of_exchange,
	  label_exchange },
	{ &queue_figures_topic, next_topic, NULL, vhost_of_queue, label_topic },
	{ &queue_figures_group, next_topic, next_group, vhost_of_queue, label_group },
	{ &queue_figures_all, next_queue, NULL, vhost_of_queue, label_queue },
};
