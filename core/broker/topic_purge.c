#include "topic_purge.h"

#include "base/mem.h"
#include "base/waiter.h"
#include "broker.h"
#include "queue.h"

struct topic_purge {
	struct partition *partition; /* it lives as long as the search */
	struct waiter *waiter;
	uint64_t *count;
};

/* The waiter has been counted up. */
static void drop(const struct topic_purge *purge, uint64_t offset)
{
	struct partition *p = purge->partition;
	uint64_t start = partition_start(p), end = partition_readable(p);

	if (offset > end)
		offset = end;
	if (offset > start)
		*purge->count += offset - start;
	partition_trim(p, offset, waiter_store_done, purge->waiter);
}

static void on_found(void *ctx, int status, const char *text, uint64_t offset)
{
	struct topic_purge *purge = ctx;

	if (status < 0)
		waiter_done(purge->waiter, status, text);
	else
		drop(purge, offset);
	mem_free(purge);
}

static void purge_partition(const struct topic_purge *what, const struct position *before,
			    int64_t now_ms)
{
	struct topic_purge *purge;

	waiter_add(what->waiter);
	switch (before->kind) {
	case POSITION_FIRST:
	case POSITION_COMMITTED:
		drop(what, 0);
		return;
	case POSITION_OFFSET:
		drop(what, before->offset);
		return;
	case POSITION_NONE:
	case POSITION_LAST:
		drop(what, partition_readable(what->partition));
		return;
	case POSITION_TIME:
	case POSITION_AGO:
		purge = mem_alloc(sizeof(*purge));
		*purge = *what;
		partition_find_time(what->partition, position_time(before, now_ms),
				    on_found, purge);
	}
}

void topic_purge(struct topic *t, const struct position *before, int64_t index,
		 struct waiter *waiter, uint64_t *count)
{
	int64_t now_ms = t->queue->vhost->broker->now_ms;

	for (unsigned i = 0; i < t->queue->config.shards; i++) {
		const struct topic_purge purge = { t->partitions[i], waiter, count };

		if (purge.partition && (index < 0 || i == index))
			purge_partition(&purge, before, now_ms);
	}
}
