#include "lease_notice.h"

#include <inttypes.h>
#include <stdio.h>

#include "session_private.h"

struct lease_notice {
	struct heap_node due; /* in the service, by mono_ms; in none: it was told */
	UT_hash_handle hh;    /* by tag, in the subscription */
	uint64_t tag;
	const struct entry *entry;
	struct subscription *subscription;
};

void lease_notice_init(struct service *s)
{
	pool_init(&s->notices, sizeof(struct lease_notice), 4096);
}

void lease_notice_deinit(struct service *s)
{
	heap_deinit(&s->due_notices);
	pool_deinit(&s->notices);
}

static void wait(struct lease_notice *n)
{
	struct service *s = n->subscription->channel->session->service;
	int64_t left_ms = n->entry->at_unix_ms - s->broker->now_ms;

	heap_set(&s->due_notices, &n->due,
		 s->broker->mono_ms + left_ms - n->subscription->notify_ms);
}

void lease_notice_add(struct subscription *sub, struct entry *e)
{
	struct lease_notice *n = pool_take(&sub->channel->session->service->notices);

	*n = (struct lease_notice){ .tag = e->tag, .entry = e, .subscription = sub };
	HASH_ADD(hh, sub->notices, tag, sizeof(n->tag), n);
	wait(n);
}

static struct lease_notice *find(struct subscription *sub, const struct entry *e)
{
	struct lease_notice *n;

	HASH_FIND(hh, sub->notices, &e->tag, sizeof(e->tag), n);
	return n;
}

void lease_notice_renew(struct subscription *sub, const struct entry *e)
{
	struct lease_notice *n = find(sub, e);

	if (n)
		wait(n);
}

void lease_notice_remove(struct subscription *sub, const struct entry *e)
{
	struct service *s = sub->channel->session->service;
	struct lease_notice *n = find(sub, e);

	if (!n)
		return;
	heap_remove(&s->due_notices, &n->due);
	HASH_DEL(sub->notices, n);
	pool_give(&s->notices, n);
}

static void tell(const struct lease_notice *n)
{
	const struct subscription *sub = n->subscription;
	const struct session *s = sub->channel->session;
	int64_t left_ms = n->entry->at_unix_ms - s->broker->now_ms;
	char words[NAME_LEN_MAX + 64];

	/* It was waited for by the other clock, which may be ahead by a part of a ms. */
	if (left_ms > sub->notify_ms)
		left_ms = sub->notify_ms;
	snprintf(words, sizeof(words), "%s %" PRIu64 " %" PRId64, sub->sid, n->tag,
		 left_ms > 0 ? left_ms : 0);
	s->ops->on_event(s->ctx, sub->channel->number, "lease", words);
}

void lease_notice_turn(struct service *s)
{
	struct broker *b = s->broker;
	struct heap_node *due;

	while ((due = heap_min(&s->due_notices)) != NULL && due->key <= b->mono_ms) {
		heap_remove(&s->due_notices, due);
		tell(container_of(due, struct lease_notice, due));
		if (pace_is_spent(&b->pace, false))
			return;
	}
}

int64_t lease_notice_due_ms(const struct service *s)
{
	const struct heap_node *due = heap_min(&s->due_notices);

	return due ? s->broker->now_ms + (due->key - s->broker->mono_ms) : 0;
}
