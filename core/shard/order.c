#include "order.h"

#include <float.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/id.h"
#include "base/mem.h"
#include "host/log.h"
#include "shard.h"

static void place_heap_deinit(struct place_heap *h)
{
	mem_free(h->places);
	*h = (struct place_heap){ 0 };
}

static void sift_up(struct place_heap *h, size_t i)
{
	struct place p = h->places[i];

	for (; i > 0 && place_is_before(p, h->places[(i - 1) / 2]); i = (i - 1) / 2)
		h->places[i] = h->places[(i - 1) / 2];
	h->places[i] = p;
}

static void sift_down(struct place_heap *h, size_t i)
{
	struct place p = h->places[i];
	size_t child;

	for (; (child = 2 * i + 1) < h->count; i = child) {
		if (child + 1 < h->count &&
		    place_is_before(h->places[child + 1], h->places[child]))
			child++;
		if (!place_is_before(h->places[child], p))
			break;
		h->places[i] = h->places[child];
	}
	h->places[i] = p;
}

/* Memory follows what is needed, down as well as up. */
static void resize(struct place_heap *h, size_t cap)
{
	h->cap = cap;
	h->places = mem_realloc(h->places, cap * sizeof(*h->places));
}

static void shrink(struct place_heap *h)
{
	if (h->count == 0)
		place_heap_deinit(h);
	else if (h->cap > 64 && h->count < h->cap / 4)
		resize(h, h->cap / 2);
}

/* In O(1) when it is the last one in the order. */
static void place_heap_push(struct place_heap *h, struct place p)
{
	if (h->count == h->cap)
		resize(h, h->cap ? h->cap + h->cap / 2 : 16);
	h->places[h->count] = p;
	sift_up(h, h->count++);
}

static struct place place_heap_take(struct place_heap *h, size_t index)
{
	struct place taken = h->places[index];

	h->places[index] = h->places[--h->count];
	if (index < h->count) {
		sift_up(h, index);
		sift_down(h, index);
	}
	shrink(h);
	return taken;
}

static struct place place_heap_pop(struct place_heap *h)
{
	return place_heap_take(h, 0);
}

/* Drop those that are not before the place; returns how many. */
static size_t place_heap_drop(struct place_heap *h, struct place from)
{
	size_t kept = 0, before = h->count;

	for (size_t i = 0; i < before; i++)
		if (place_is_before(h->places[i], from))
			h->places[kept++] = h->places[i];
	h->count = kept;
	for (size_t i = kept / 2; i-- > 0;)
		sift_down(h, i);
	shrink(h);
	return before - kept;
}

static int compare(const struct place_node *a, const struct place_node *b)
{
	struct place x = { a->entry->rank, a->entry->id },
		     y = { b->entry->rank, b->entry->id };

	return place_is_before(y, x) - place_is_before(x, y);
}

RB_GENERATE_INTERNAL(place_node_tree, place_node, node, compare,
		     static __attribute__((unused)))

/* By rank and id, which stay while it is in the tree. */
static void place_tree_add(struct place_tree *t, struct entry *e)
{
	struct place_node *n = pool_take(&t->pool);

	n->entry = e;
	RB_INSERT(place_node_tree, &t->nodes, n);
}

static void place_tree_remove(struct place_tree *t, struct entry *e)
{
	struct place_node wanted = { .entry = e };
	struct place_node *n = RB_FIND(place_node_tree, &t->nodes, &wanted);

	RB_REMOVE(place_node_tree, &t->nodes, n);
	pool_give(&t->pool, n);
}

/* Entries of one group that are kept whole, whatever the others have: enough for some
 * reads not to be waited for. */
#define GROUP_KEEP 64
#define GROUP_LOW 16 /* below it more are read */

/* So many times the usual bytes for those that expire: the sweep of what has expired in
 * Redis passes by what is before the edge. Dropped, they expire when their turn comes. */
#define EXPIRING_FACTOR 4

#define NOWHERE ((struct place){ -DBL_MAX, 0 })

void order_destroy(struct order *o)
{
	struct group *g, *next;

	if (!o)
		return;
	HASH_ITER (hh, o->groups, g, next) {
		HASH_DEL(o->groups, g);
		place_heap_deinit(&g->ids);
		if (g != &o->whole)
			pool_give(&o->pool, g);
	}
	pool_deinit(&o->pool);
	pool_deinit(&o->places.pool);
	mem_free(o->loads);
	mem_free(o->offering);
	mem_free((char *)(uintptr_t)o->spec.header);
	mem_free((char *)(uintptr_t)o->spec.label);
	mem_free(o);
}

/* ---- groups */

/* False: the message is in no group. */
static bool hash_of(const struct order *o, const struct msg *m, uint64_t *hash)
{
	struct slice name = m->key;

	if (o->spec.by == ORDER_HEADER)
		name = msg_header(m, slice_from(o->spec.header));
	if (!name.data)
		return false;
	*hash = bytes_hash_wide(name.data, name.len);
	return true;
}

/* If it is known. */
static struct group *group_find(const struct order *o, const struct msg *m)
{
	struct group *g = NULL;
	uint64_t hash;

	if (o->spec.by == ORDER_SHARD)
		return (struct group *)&o->whole;
	if (hash_of(o, m, &hash))
		HASH_FIND(hh, o->groups, &hash, sizeof(hash), g);
	return g;
}

/* NULL: the message is in none. */
static struct group *group_make(struct order *o, const struct msg *m)
{
	struct group *g = group_find(o, m);
	uint64_t hash;

	if (g || !hash_of(o, m, &hash))
		return g;
	g = pool_take(&o->pool);
	*g = (struct group){ .hash = hash };
	window_init(&g->parked, o->lanes);
	HASH_ADD(hh, o->groups, hash, sizeof(g->hash), g);
	return g;
}

static bool has_parked(const struct group *g)
{
	return g->parked.count > 0 || g->ids.count > 0 || g->loading > 0;
}

static void set_roomy(struct order *o, struct group *g, bool is_roomy)
{
	if (g->is_roomy == is_roomy)
		return;
	g->is_roomy = is_roomy;
	if (is_roomy)
		TAILQ_INSERT_TAIL(&o->roomy, g, roomy_link);
	else
		TAILQ_REMOVE(&o->roomy, g, roomy_link);
}

static void set_wanting(struct order *o, struct group *g, bool is_wanting)
{
	if (g->is_wanting == is_wanting)
		return;
	g->is_wanting = is_wanting;
	if (is_wanting)
		TAILQ_INSERT_TAIL(&o->wanting, g, wanting_link);
	else
		TAILQ_REMOVE(&o->wanting, g, wanting_link);
}

/* Free a group that has no reason to be known any more. */
static void group_check(struct order *o, struct group *g)
{
	if (g->slots > 0 || has_parked(g) || g == &o->whole)
		return;
	HASH_DEL(o->groups, g);
	place_heap_deinit(&g->ids);
	pool_give(&o->pool, g);
}

static void parked_added(struct order *o, struct group *g, bool had_parked)
{
	o->parked++;
	if (had_parked)
		return;
	o->blocked++;
	TAILQ_INSERT_TAIL(&o->with_parked, g, parked_link);
}

/* Something that was parked, so that the group was in the list, is so no more. */
static void parked_gone(struct order *o, struct group *g)
{
	if (has_parked(g))
		return;
	o->blocked--;
	TAILQ_REMOVE(&o->with_parked, g, parked_link);
	g->due = 0;
	set_roomy(o, g, false);
	set_wanting(o, g, false);
	group_check(o, g);
}

static struct place entry_place(const struct entry *e)
{
	return (struct place){ e->rank, e->id };
}

/* The first of those that are parked, of which there are some. */
static struct place first_place(const struct group *g)
{
	struct place first = { DBL_MAX, UINT64_MAX };

	if (g->parked.count > 0)
		first = window_place(window_first(&g->parked));
	if (g->ids.count > 0 && place_is_before(place_heap_top(&g->ids), first))
		first = place_heap_top(&g->ids);
	if (g->loading > 0 && place_is_before(g->loading_first, first))
		first = g->loading_first;
	return first;
}

static bool is_full(const struct order *o)
{
	return o->parked >= o->max || HASH_COUNT(o->groups) >= o->max;
}

/* The message of the ready window, which nothing ready is before, has to wait for others
 * of its group. */
static bool is_blocked(const struct order *o, const struct entry *e)
{
	const struct group *g = group_find(o, e->msg);
	uint64_t hash;

	if (!g)
		return is_full(o) && hash_of(o, e->msg, &hash);
	if (g->slots >= o->spec.inflight)
		return true;
	/* The first due entry is being read. */
	return g->due > 0 && !place_is_before(entry_place(e), first_place(g));
}

static void offer(struct order *o, struct group *g)
{
	if (g->search == o->search)
		return;
	g->search = o->search;
	g->offered = 0;
	MEM_GROW(o->offering, o->offering_count, o->offering_cap, 64);
	o->offering[o->offering_count++] = g;
}

bool order_offers(struct order *o, const struct entry *e)
{
	struct group *g;

	if (is_blocked(o, e))
		return false;
	g = group_make(o, e->msg);
	if (!g)
		return true;
	offer(o, g);
	return g->slots + g->offered++ < o->spec.inflight;
}

void order_offers_end(struct order *o)
{
	for (size_t i = 0; i < o->offering_count; i++)
		group_check(o, o->offering[i]);
	o->offering_count = 0;
	o->search++;
}

/* ---- slots */

static void take(struct order *o, struct group *g, bool is_waiting)
{
	if (g->slots++ == 0)
		o->busy++;
	if (is_waiting)
		g->waiting++;
}

static void give(struct order *o, struct group *g, uint32_t count)
{
	g->slots -= count;
	if (g->slots == 0 && count > 0)
		o->busy--;
	if (!has_parked(g)) {
		group_check(o, g);
		return;
	}
	g->due += count;
	set_roomy(o, g, true);
}

void order_take(struct order *o, struct entry *e, bool is_waiting)
{
	e->group = group_make(o, e->msg);
	if (!e->group)
		return;
	take(o, e->group, is_waiting);
}

void order_adopt(struct order *o, struct entry *e)
{
	struct group *g = e->deliveries > 0 ? group_find(o, e->msg) : NULL;

	if (g && g->waiting > 0)
		e->group = g;
}

void order_release(struct order *o, struct entry *e)
{
	struct group *g = e->group;

	e->group = NULL;
	if (e->state == ENTRY_DELAYED) {
		/* A purge may have been told that it is gone. */
		if (g->waiting == 0)
			return;
		g->waiting--;
	}
	give(o, g, 1);
}

void order_left(struct order *o, const struct entry *e)
{
	struct group *g = o->parked > 0 ? group_find(o, e->msg) : NULL;

	if (!g || !has_parked(g))
		return;
	g->due++;
	set_roomy(o, g, true);
}

/* ---- parked entries */

/* The entry is in no place. */
static void park_entry(struct order *o, struct entry *e)
{
	struct group *g = group_make(o, e->msg);
	struct place place = entry_place(e);

	parked_added(o, g, has_parked(g));
	window_insert(&g->parked, e, e->rank);
	if (o->has_places)
		place_tree_add(&o->places, e);
	e->group = g;
	e->flags |= LIES_PARKED;
	o->kept_bytes += e->msg->bytes;
	if (o->parked == 1 || place_is_before(o->last, place))
		o->last = place;
}

/* The caller sees to the group. */
static void take_out(struct order *o, struct entry *e)
{
	shard_entry_leaving(e);
	window_remove(&e->group->parked, e);
	if (o->has_places)
		place_tree_remove(&o->places, e);
	e->group = NULL;
	e->flags &= (uint16_t)~LIES_PARKED;
	o->kept_bytes -= e->msg->bytes;
	o->parked--;
}

void order_unpark(struct order *o, struct entry *e)
{
	struct group *g = e->group;

	take_out(o, e);
	parked_gone(o, g);
}

/* The parked entry may be forgotten but for its place: Redis has all of it, and more
 * entries are kept than needed. */
static bool may_drop(const struct order *o, const struct entry *e)
{
	const uint16_t unsettled =
		LIES_UNSTORED | OWED_WRITE | OWED_ANSWER | OWED_UNSURE | OWED_BODY;

	if (e->home != STORE_READY || (e->flags & unsettled) || e->waiter)
		return false;
	if (e->expires_unix_ms)
		return o->kept_bytes / EXPIRING_FACTOR > o->keep_bytes_max;
	return e->group->parked.count > GROUP_KEEP ||
	       o->parked - o->in_redis > o->keep_max || o->kept_bytes > o->keep_bytes_max;
}

void order_shrink(struct entry *e)
{
	struct order *o = e->shard->order;
	struct group *g = e->group;

	if (!may_drop(o, e))
		return;
	if (e->expires_unix_ms)
		shard_expiry_leave(&e->shard->stages[ENTRY_READY], e);
	parked_added(o, g, has_parked(g));
	o->in_redis++;
	place_heap_push(&g->ids, entry_place(e));
	take_out(o, e);
	shard_entry_free(e);
}

struct entry *order_any(const struct order *o)
{
	const struct group *g;

	/* Groups with ids alone may come first. */
	TAILQ_FOREACH (g, &o->with_parked, parked_link)
		if (g->parked.count > 0)
			return window_first(&g->parked);
	return NULL;
}

struct entry *order_another(const struct entry *e)
{
	const struct group *g = e->group;
	struct entry *next = window_next(&g->parked, e);

	for (g = TAILQ_NEXT(g, parked_link); g && !next; g = TAILQ_NEXT(g, parked_link))
		next = window_first(&g->parked);
	return next;
}

struct entry *order_seek(const struct order *o, struct place from)
{
	struct entry place = { .rank = from.score, .id = from.id };
	struct place_node wanted = { .entry = &place }, *n;

	n = RB_NFIND(place_node_tree, (struct place_node_tree *)&o->places.nodes,
		     &wanted);
	return n ? n->entry : NULL;
}

struct entry *order_last(const struct order *o)
{
	struct place_node *n =
		RB_MAX(place_node_tree, (struct place_node_tree *)&o->places.nodes);

	return n ? n->entry : NULL;
}

/* The first one, unless a place that memory has no entry of is before it. */
static struct entry *first_entry(const struct group *g)
{
	struct entry *e = window_first(&g->parked);

	return e && !place_is_before(first_place(g), window_place(e)) ? e : NULL;
}

/* How many of those that are due have a slot. */
static uint32_t limit_due(const struct order *o, struct group *g)
{
	uint32_t most = o->spec.inflight > g->slots ? o->spec.inflight - g->slots : 0;

	if (g->due > most)
		g->due = most;
	return g->due;
}

/* A parked entry that is due, and is to be taken out now; NULL when none is, or its place
 * alone is known: then a read of it is wanted. */
static struct entry *next_due(struct order *o)
{
	struct group *g;

	while ((g = TAILQ_FIRST(&o->roomy)) != NULL) {
		struct entry *e = limit_due(o, g) > 0 ? first_entry(g) : NULL;
		bool is_low = !e || g->parked.count < GROUP_LOW;

		if (g->due > 0 && is_low && g->ids.count > 0 && g->loading == 0)
			set_wanting(o, g, true);
		if (!e) {
			set_roomy(o, g, false);
			continue;
		}
		g->due--;
		return e;
	}
	return NULL;
}

/* ---- what has no entry */

struct place order_shadow(const struct order *o, bool is_refilling)
{
	struct place last = NOWHERE;

	for (unsigned i = 0; i < o->load_count && !o->is_load_void; i++)
		if (place_is_before(last, o->loads[i].place))
			last = o->loads[i].place;
	/* The rows that come begin behind the edge as it was: an id would be in neither.
	 */
	if (is_refilling && o->in_redis > 0 && place_is_before(last, o->last))
		last = o->last;
	return last;
}

uint64_t order_give_back(struct order *o, struct place edge,
			 void (*give_entry)(void *ctx, struct entry *e), void *ctx)
{
	struct group *g, *next;
	struct entry *e;
	uint64_t ids = 0;

	if (o->parked == 0 || place_is_before(o->last, edge))
		return 0;
	for (g = TAILQ_FIRST(&o->with_parked); g; g = next) {
		size_t dropped;

		next = TAILQ_NEXT(g, parked_link);
		while ((e = window_last(&g->parked)) != NULL &&
		       !place_is_before(window_place(e), edge)) {
			take_out(o, e);
			give_entry(ctx, e);
		}
		dropped = place_heap_drop(&g->ids, edge);
		o->parked -= dropped;
		o->in_redis -= dropped;
		ids += dropped;
		parked_gone(o, g);
	}
	o->last = edge;
	return ids;
}

static bool has_id(const struct order_loading *list, unsigned count, uint64_t id)
{
	for (unsigned i = 0; i < count; i++)
		if (list[i].place.id == id)
			return true;
	return false;
}

static void add_load(struct order *o, struct group *g, struct place place)
{
	if (!o->loads)
		o->loads = mem_alloc(ORDER_LOAD_MAX * sizeof(*o->loads));
	o->loads[o->load_count++] = (struct order_loading){ place, g };
	if (g->loading++ == 0 || place_is_before(place, g->loading_first))
		g->loading_first = place;
}

static bool ask_loading(const struct order *o, uint64_t id)
{
	return !o->is_load_void && has_id(o->loads, o->load_count, id);
}

struct order_ask {
	uint64_t *ids; /* sorted */
	unsigned count;
};

static bool is_asked(const struct order_ask *ask, uint64_t id)
{
	return id >= ask->ids[0] && id <= ask->ids[ask->count - 1] &&
	       bsearch(&id, ask->ids, ask->count, sizeof(id), id_compare);
}

/* One that is taken may move another to where it is not seen: asking again finds it. */
static bool ask_group(struct order *o, struct group *g, const struct order_ask *ask)
{
	bool is_any = false;

	for (size_t i = g->ids.count; i-- > 0;) {
		if (!is_asked(ask, g->ids.places[i].id))
			continue;
		is_any = true;
		if (o->is_load_sent || o->load_count == ORDER_LOAD_MAX)
			return true;
		add_load(o, g, place_heap_take(&g->ids, i));
	}
	return is_any;
}

/* A walk through all of them: nobody asks often. */
bool order_ask(struct order *o, const uint64_t *ids, unsigned count)
{
	struct order_ask ask = { NULL, count };
	bool is_any = false;
	struct group *g;

	for (unsigned i = 0; i < count; i++)
		is_any |= ask_loading(o, ids[i]);
	/* Entries that are there already come first. */
	if (is_any || o->in_redis == 0 || count == 0)
		return is_any;
	ask.ids = mem_alloc(count * sizeof(*ids));
	memcpy(ask.ids, ids, count * sizeof(*ids));
	qsort(ask.ids, count, sizeof(*ids), id_compare);
	TAILQ_FOREACH (g, &o->with_parked, parked_link)
		is_any |= ask_group(o, g, &ask);
	mem_free(ask.ids);
	return is_any;
}

/* As many as are due, and some more where there is room for them. */
static uint32_t wanted(const struct order *o, const struct group *g)
{
	uint32_t n = g->due;

	if (o->parked - o->in_redis < o->keep_max && o->kept_bytes < o->keep_bytes_max &&
	    n + g->parked.count < GROUP_KEEP)
		n = (uint32_t)(GROUP_KEEP - g->parked.count);
	return n < g->ids.count ? n : (uint32_t)g->ids.count;
}

static void load_group(struct order *o, struct group *g)
{
	uint32_t n = wanted(o, g);

	if (n > ORDER_LOAD_MAX - o->load_count)
		n = ORDER_LOAD_MAX - o->load_count;
	for (uint32_t i = 0; i < n; i++)
		add_load(o, g, place_heap_pop(&g->ids));
}

/* The read is over, and all of its places are settled, or it was void. */
static void end_load(struct order *o)
{
	unsigned count = o->is_load_void ? 0 : o->load_count;

	o->load_count = 0;
	o->is_load_sent = o->is_load_void = false;
	for (unsigned i = 0; i < count; i++) {
		struct group *g = o->loads[i].group;

		if (--g->loading > 0)
			continue;
		if (g->due > 0)
			set_roomy(o, g, true);
		parked_gone(o, g);
	}
}

uint64_t order_oldest_id(const struct order *o, unsigned looks)
{
	const struct group *g;
	uint64_t oldest = 0;

	TAILQ_FOREACH (g, &o->with_parked, parked_link) {
		uint64_t id = first_place(g).id;

		if (looks-- == 0)
			break;
		if (!oldest || id < oldest)
			oldest = id;
	}
	return oldest;
}

void order_add_stats(const struct order *o, struct order_stats *sum)
{
	sum->groups += o->busy;
	sum->groups_blocked += o->blocked;
	sum->parked += o->parked;
	sum->parked_in_redis += o->in_redis;
	sum->is_stopped |= o->is_stopped;
}

/* ---- which message comes next */

#define SEARCH_MAX 8192 /* messages that a turn looks at and passes by */
#define RETRY_MS 500    /* after a read that failed */
#define LOG_MS 60000

static void park(struct shard *sh, struct entry *e)
{
	struct stage *st = &sh->stages[ENTRY_READY];

	stage_set_aside(st, e);
	park_entry(sh->order, e);
	order_shrink(e);
}

/* Back into the window: all that is parked sorts before the edge. */
static void unpark(struct shard *sh, struct entry *e)
{
	struct stage *st = &sh->stages[ENTRY_READY];

	stage_remove(st, e);
	stage_insert(st, e, e->rank);
}

/* ---- places of which the message is read */

static void take_row(struct shard *sh, const struct store_row *row)
{
	struct entry *e = stage_row_entry(sh, row, STORE_READY);

	if (!e)
		return;
	e->state = ENTRY_READY;
	e->rank = row->score;
	if (e->expires_unix_ms)
		shard_expiry_enter(&sh->stages[ENTRY_READY], e);
	park_entry(sh->order, e);
}

/* The rows come in the order in which they were asked for. Those behind the last one may
 * have been too large for one read. */
static void take_rows(struct shard *sh, const struct store_row *rows, size_t count)
{
	struct order *o = sh->order;
	size_t at = 0;

	for (unsigned i = 0; i < o->load_count; i++) {
		const struct order_loading *l = &o->loads[i];

		if (at == count && count > 0) {
			place_heap_push(&l->group->ids, l->place);
			continue;
		}
		o->parked--;
		o->in_redis--;
		/* Counted among those before the edge until now. */
		sh->stages[ENTRY_READY].indexed--;
		if (at < count && rows[at].id == l->place.id)
			take_row(sh, &rows[at++]);
	}
}

static void put_back_all(struct shard *sh, int status, const char *text)
{
	struct order *o = sh->order;

	for (unsigned i = 0; i < o->load_count; i++)
		place_heap_push(&o->loads[i].group->ids, o->loads[i].place);
	if (status == TIDE_ESHUTDOWN)
		return;
	log_warn("%s: cannot read parked messages: %s", o->spec.label,
		 text ? text : error_text(status));
	o->retry_ms = sh->env->now_ms + RETRY_MS;
	shard_wake_by(sh, o->retry_ms);
}

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	struct shard *sh = ctx;
	struct order *o = sh->order;

	if (!o->is_load_void && status < 0)
		put_back_all(sh, status, text);
	else if (!o->is_load_void)
		take_rows(sh, rows, count);
	end_load(o);
	if (!sh->is_closed) {
		sh->env->ops->on_ready(sh);
		if (!TAILQ_EMPTY(&sh->take.asks))
			shard_wake_by(sh, sh->env->now_ms);
	}
	shard_unref(sh);
}

void shard_order_load(struct shard *sh)
{
	struct order *o = sh->order;
	uint64_t ids[ORDER_LOAD_MAX];
	struct group *g;

	if (o->is_load_sent || sh->is_held_back || sh->is_closed ||
	    duration_is_resting(sh->env->now_ms, o->retry_ms, RETRY_MS))
		return;
	while (o->load_count < ORDER_LOAD_MAX && (g = TAILQ_FIRST(&o->wanting)) != NULL) {
		set_wanting(o, g, false);
		load_group(o, g);
	}
	if (o->load_count == 0)
		return;
	o->is_load_sent = true;
	for (unsigned i = 0; i < o->load_count; i++)
		ids[i] = o->loads[i].place.id;
	store_read(sh->env->store, sh->keys,
		   &(struct store_read){ .set = STORE_READY,
					 .ids = ids,
					 .count = o->load_count,
					 .max_bytes = sh->env->window_bytes / 2 + 1 },
		   on_rows, shard_ref(sh));
}

void shard_order_by(struct shard *sh, const struct order_spec *spec)
{
	struct order *o = sh->order = mem_zalloc(sizeof(*o));

	o->spec = *spec;
	o->spec.header = spec->header ? mem_strdup(spec->header) : NULL;
	o->spec.label = mem_strdup(spec->label);
	o->lanes = &sh->env->lanes;
	/* In memory alone there is nowhere else to keep them. */
	o->has_places = !sh->keys;
	o->max = sh->keys ? sh->env->parked_messages : UINT64_MAX;
	o->keep_max = sh->keys ? sh->env->window_messages : SIZE_MAX;
	o->keep_bytes_max = sh->keys ? sh->env->window_bytes : SIZE_MAX;
	o->last = NOWHERE;
	o->search = 1;
	pool_init(&o->pool, sizeof(struct group), 256);
	RB_INIT(&o->places.nodes);
	pool_init(&o->places.pool, sizeof(struct place_node), 256);
	window_init(&o->whole.parked, o->lanes);
	/* One that is always there: the table is not made and freed with each message. */
	HASH_ADD(hh, o->groups, hash, sizeof(o->whole.hash), &o->whole);
	TAILQ_INIT(&o->roomy);
	TAILQ_INIT(&o->wanting);
	TAILQ_INIT(&o->with_parked);
}

/* ---- the next message */

static void stop(struct shard *sh)
{
	struct order *o = sh->order;

	o->is_stopped = true;
	if (!log_is_due(&o->logged_ms, sh->env->now_ms, LOG_MS))
		return;
	log_warn("%s: %llu messages of groups that are full are parked, in %llu groups: "
		 "nothing behind them is delivered until a group has room; "
		 "see --parked-messages",
		 o->spec.label, (unsigned long long)o->parked,
		 (unsigned long long)o->blocked);
}

static bool is_spent(struct shard *sh)
{
	struct order *o = sh->order;

	if (o->search_left > 0) {
		o->search_left--;
		return false;
	}
	o->is_skipping = true;
	sh->env->ops->on_ready(sh);
	return true;
}

static void begin_search(struct order *o, int64_t now_ms)
{
	o->is_skipping = o->is_stopped = false;
	if (o->search_ms == now_ms)
		return;
	o->search_ms = now_ms;
	o->search_left = SEARCH_MAX;
}

struct entry *shard_order_next(struct shard *sh)
{
	struct order *o = sh->order;
	struct entry *e;

	begin_search(o, sh->env->now_ms);
	while ((e = next_due(o)) != NULL)
		unpark(sh, e);
	shard_order_load(sh);
	while ((e = shard_front(sh, ENTRY_READY)) != NULL && is_blocked(o, e)) {
		if (o->spec.by == ORDER_SHARD || is_spent(sh))
			return NULL;
		if (is_full(o)) {
			stop(sh);
			return NULL;
		}
		park(sh, e);
	}
	return e;
}

struct entry *shard_order_head(struct shard *sh)
{
	struct order *o = sh->order;
	struct entry *e = order_any(o);
	struct group *g;

	if (e || o->parked == 0)
		return e;
	TAILQ_FOREACH (g, &o->with_parked, parked_link)
		if (g->ids.count > 0)
			break;
	if (g)
		set_wanting(o, g, true);
	shard_order_load(sh);
	return NULL;
}

/* ---- recovery */

struct order_recovery {
	struct shard *shard;
	store_done_fn on_done;
	void *ctx;
	uint64_t *ids;
	size_t count, at;
};

static void recovery_end(struct order_recovery *r, int status, const char *text)
{
	r->on_done(r->ctx, status, text);
	shard_unref(r->shard);
	mem_free(r->ids);
	mem_free(r);
}

static void read_next(struct order_recovery *r);

/* A message in Redis alone has a slot: it waits for its next attempt. */
static void recover_slot(struct order *o, const struct msg *m)
{
	struct group *g = group_make(o, m);

	if (g)
		take(o, g, true);
}

static void on_waiting(void *ctx, int status, const char *text, struct store_row *rows,
		       size_t count)
{
	struct order_recovery *r = ctx;
	struct shard *sh = r->shard;
	size_t end = r->at + ORDER_LOAD_MAX;

	if (status < 0 || sh->is_closed) {
		recovery_end(r, status, text);
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (rows[i].msg && rows[i].deliveries > 0)
			recover_slot(sh->order, rows[i].msg);
	if (count == 0)
		r->at = end;
	else
		while (r->at < r->count && r->ids[r->at++] != rows[count - 1].id)
			;
	read_next(r);
}

static void read_next(struct order_recovery *r)
{
	struct shard *sh = r->shard;
	size_t left = r->at < r->count ? r->count - r->at : 0;

	if (left == 0) {
		recovery_end(r, TIDE_OK, NULL);
		return;
	}
	store_read(sh->env->store, sh->keys,
		   &(struct store_read){ .set = STORE_DELAYED,
					 .ids = &r->ids[r->at],
					 .count = left < ORDER_LOAD_MAX ? (unsigned)left
									: ORDER_LOAD_MAX,
					 .max_bytes = sh->env->window_bytes },
		   on_waiting, r);
}

static void on_tried(void *ctx, int status, const char *text, const uint64_t *ids,
		     size_t count)
{
	struct order_recovery *r = ctx;

	if (status < 0 || r->shard->is_closed) {
		recovery_end(r, status, text);
		return;
	}
	if (count > 0) {
		r->ids = mem_alloc(count * sizeof(*ids));
		memcpy(r->ids, ids, count * sizeof(*ids));
	}
	r->count = count;
	read_next(r);
}

void shard_order_recover(struct shard *sh, store_done_fn on_done, void *ctx)
{
	struct order_recovery *r = mem_zalloc(sizeof(*r));

	r->shard = shard_ref(sh);
	r->on_done = on_done;
	r->ctx = ctx;
	store_tried_read(sh->env->store, sh->keys, STORE_DELAYED, on_tried, r);
}

/* ---- purge */

struct order_purge {
	struct shard *shard;
	struct waiter *waiter;
	uint64_t count;
};

/* Redis alone has it: an entry without a body stands for it until it is removed. */
static void remove_place(struct order_purge *p, struct place place)
{
	struct entry *e;

	if (!p)
		return;
	e = shard_entry_create(p->shard, NULL, place.id, place.score);
	e->state = ENTRY_GONE;
	e->home = STORE_READY;
	e->stored_score = place.score;
	e->flags |= LIES_TRIED;
	waiter_add(p->waiter);
	e->waiter = p->waiter;
	shard_entry_dirty(e);
	p->count++;
}

/* Forget all ids, also those that are being read: the read is void. With NULL nothing of
 * them is to be removed. */
static void purge_ids(struct order *o, struct order_purge *p)
{
	struct group *g, *next;

	for (unsigned i = 0; i < o->load_count && !o->is_load_void; i++)
		remove_place(p, o->loads[i].place);
	o->is_load_void = o->is_load_sent;
	if (!o->is_load_sent)
		o->load_count = 0;
	for (g = TAILQ_FIRST(&o->with_parked); g; g = next) {
		next = TAILQ_NEXT(g, parked_link);
		for (size_t i = 0; i < g->ids.count; i++)
			remove_place(p, g->ids.places[i]);
		o->parked -= g->ids.count + g->loading;
		o->in_redis -= g->ids.count + g->loading;
		place_heap_deinit(&g->ids);
		g->loading = 0;
		parked_gone(o, g);
	}
}

void order_forget_ids(struct order *o)
{
	purge_ids(o, NULL);
}

/* All that wait for their next attempt in Redis alone are gone; those in memory had left
 * before. */
static void forget_waiting(struct order *o)
{
	struct group *g, *next;

	HASH_ITER (hh, o->groups, g, next) {
		uint32_t waiting = g->waiting;

		g->waiting = 0;
		give(o, g, waiting);
	}
}

uint64_t shard_order_purge(struct shard *sh, struct waiter *waiter)
{
	struct order_purge p = { sh, waiter, 0 };
	struct entry *e;

	purge_ids(sh->order, &p);
	for (; (e = order_any(sh->order)) != NULL; p.count++)
		shard_remove(e, waiter);
	forget_waiting(sh->order);
	return p.count;
}
