#include "session_leases.h"

#include "session_private.h"

#define SHOWN_MAX 10

/* Those held for longest of all that are offered. */
struct leases {
	const struct entry *items[SHOWN_MAX + 1];
	unsigned count;
};

static void offer(struct leases *l, const struct entry *e)
{
	unsigned i = l->count;

	for (; i > 0 && l->items[i - 1]->at_unix_ms > e->at_unix_ms; i--)
		l->items[i] = l->items[i - 1];
	l->items[i] = e;
	if (l->count < SHOWN_MAX)
		l->count++;
}

static void offer_shard(struct leases *l, const struct shard *sh)
{
	const struct entry *e = window_first(&sh->held);

	for (unsigned i = 0; e && i < SHOWN_MAX; i++, e = window_next(&sh->held, e))
		offer(l, e);
	e = TAILQ_FIRST(&sh->young);
	for (unsigned i = 0; e && i < SHOWN_MAX; i++, e = TAILQ_NEXT(e, link))
		offer(l, e);
}

void session_leases_write(const struct queue *q, struct json *out)
{
	struct leases l = { .count = 0 };

	for (unsigned i = 0; i < q->shard_count; i++)
		offer_shard(&l, q->shards[i]);
	json_key(out, "leases");
	json_array_begin(out);
	for (unsigned i = 0; i < l.count; i++) {
		json_object_begin(out);
		json_member_hex(out, "id", l.items[i]->id);
		channel_write_holder(l.items[i], out);
		json_object_end(out);
	}
	json_array_end(out);
}
