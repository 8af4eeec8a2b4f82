#include "traced.h"

#include "base/mem.h"
#include "broker/queue.h"

/* Of all traces. Dead letters may go in a circle for as long as the trace does. */
#define TRACED_MAX 100000

void traced_init(struct traced_set *t)
{
	*t = (struct traced_set){ 0 };
	TAILQ_INIT(&t->list);
}

void traced_deinit(struct traced_set *t)
{
	id_table_deinit(&t->by_id);
}

struct traced *traced_find(const struct traced_set *t, uint64_t id)
{
	return id_table_find(&t->by_id, id);
}

struct traced *traced_follow(struct traced_set *t, uint64_t id, unsigned traces)
{
	struct traced *f = traced_find(t, id);

	if (!f) {
		f = mem_zalloc(sizeof(*f));
		f->id = id;
		f->began_ns = uv_hrtime();
		id_table_add(&t->by_id, id, f);
		TAILQ_INSERT_TAIL(&t->list, f, link);
	}
	f->traces |= traces;
	return f;
}

void traced_follow_copy(struct traced_set *t, uint64_t id, const struct traced *f)
{
	if (t->by_id.count < TRACED_MAX)
		traced_follow(t, id, f->traces);
}

void traced_unfollow(struct traced_set *t, struct traced *f)
{
	struct traced_place *p;

	while ((p = f->places) != NULL) {
		f->places = p->next;
		HASH_DEL(t->places, p);
		mem_free(p);
	}
	TAILQ_REMOVE(&t->list, f, link);
	id_table_remove(&t->by_id, f->id);
	mem_free(f);
}

struct traced_place *traced_find_place(const struct traced_set *t,
				       const struct record_place *at)
{
	const uint64_t key[3] = { at->topic->serial, at->partition, at->offset };
	struct traced_place *p;

	HASH_FIND(hh, t->places, key, sizeof(key), p);
	return p;
}

void traced_note_place(struct traced_set *t, struct traced *f,
		       const struct record_place *at)
{
	const uint64_t key[3] = { at->topic->serial, at->partition, at->offset };
	struct traced_place *p;

	if (traced_find_place(t, at))
		return;
	p = mem_zalloc(sizeof(*p));
	memcpy(p->key, key, sizeof(key));
	p->followed = f;
	p->next = f->places;
	f->places = p;
	HASH_ADD(hh, t->places, key, sizeof(p->key), p);
}
