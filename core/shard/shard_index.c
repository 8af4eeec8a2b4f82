/* shard_index.c: the entries of a shard by the ids of their messages. */
#include "base/id_table.h"
#include "base/mem.h"
#include "shard.h"

#define IDLE_MS 10000

/* The places where entries are, in the order of the walk. */
enum walk_place {
	WALK_WINDOWS,
	WALK_OUTSIDE = WALK_WINDOWS + SHARD_STAGES,
	WALK_HELD = WALK_OUTSIDE + SHARD_STAGES,
	WALK_YOUNG,
	WALK_MOVING,
	WALK_PARKED,
	WALK_END,
};

struct shard_index {
	struct id_table table;
	unsigned place;       /* enum walk_place */
	struct entry *cursor; /* the next one there; NULL: none is left */
	int64_t used_ms;
	bool is_dropping;
};

static struct entry *first_at(const struct shard *sh, unsigned place)
{
	if (place < WALK_OUTSIDE)
		return window_first(&sh->stages[place].window);
	if (place < WALK_HELD)
		return TAILQ_FIRST(&sh->stages[place - WALK_OUTSIDE].outside);
	if (place == WALK_HELD)
		return window_first(&sh->held);
	if (place == WALK_PARKED)
		return sh->order ? order_any(sh->order) : NULL;
	return TAILQ_FIRST(place == WALK_YOUNG ? &sh->young : &sh->moving);
}

static struct entry *next_at(const struct shard *sh, unsigned place,
			     const struct entry *e)
{
	if (place < WALK_OUTSIDE)
		return window_next(&sh->stages[place].window, e);
	if (place == WALK_PARKED)
		return order_another(e);
	return place == WALK_HELD ? window_next(&sh->held, e) : TAILQ_NEXT(e, link);
}

static bool is_built(const struct shard_index *x)
{
	return x->place == WALK_END;
}

static void add(struct shard_index *x, struct entry *e)
{
	if (!id_table_find(&x->table, e->id))
		id_table_add(&x->table, e->id, e);
}

static void step(struct shard *sh)
{
	struct shard_index *x = sh->by_id;

	if (x->cursor) {
		add(x, x->cursor);
		x->cursor = next_at(sh, x->place, x->cursor);
	} else if (++x->place < WALK_END) {
		x->cursor = first_at(sh, x->place);
	}
}

bool shard_index_build(struct shard *sh, unsigned max)
{
	struct shard_index *x = sh->by_id;

	if (!x)
		x = sh->by_id = mem_zalloc(sizeof(*x));
	if (x->is_dropping || x->used_ms == 0) {
		x->is_dropping = false;
		x->place = WALK_WINDOWS;
		x->cursor = first_at(sh, WALK_WINDOWS);
	}
	x->used_ms = sh->env->now_ms;
	for (; max > 0 && !is_built(x); max--)
		step(sh);
	return is_built(x);
}

struct entry *shard_index_find(const struct shard *sh, uint64_t id)
{
	return id_table_find(&sh->by_id->table, id);
}

void shard_index_destroy(struct shard *sh)
{
	if (!sh->by_id)
		return;
	id_table_deinit(&sh->by_id->table);
	mem_free(sh->by_id);
	sh->by_id = NULL;
}

void shard_index_drop(struct shard *sh, unsigned max)
{
	struct shard_index *x = sh->by_id;

	if (!x)
		return;
	/* What leaves its place now need not be added. */
	x->is_dropping = true;
	x->place = WALK_END;
	x->cursor = NULL;
	while (max > 0 && id_table_take(&x->table))
		max--;
	if (max > 0)
		shard_index_destroy(sh);
}

int64_t shard_index_due_ms(const struct shard *sh)
{
	const struct shard_index *x = sh->by_id;

	if (!x)
		return 0;
	return x->is_dropping ? sh->env->now_ms : x->used_ms + IDLE_MS;
}

void shard_index_created(struct entry *e)
{
	if (!e->shard->by_id->is_dropping)
		add(e->shard->by_id, e);
}

void shard_index_freed(struct entry *e)
{
	struct id_table *t = &e->shard->by_id->table;

	if (id_table_find(t, e->id) == e)
		id_table_remove(t, e->id);
}

void shard_index_leaving(struct entry *e)
{
	struct shard_index *x = e->shard->by_id;

	if (is_built(x))
		return;
	add(x, e);
	if (x->cursor == e)
		x->cursor = next_at(e->shard, x->place, e);
}
