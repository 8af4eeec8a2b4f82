#include "redis_lanes.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "host/log.h"

#define LANE_NO_TAG UINT32_MAX
/* While something waits for a map or a slot. */
#define TICK_MS 20
/* Between two questions, and without any need. */
#define ASK_AGAIN_MS 200
#define ASK_ANYWAY_MS 10000
/* How long one node is waited for. */
#define NODE_PATIENCE_MS 500
#define OPEN_SLOT_TOLD_MS 30000
/* --cluster fix may let the old master take writes before it has all keys back. */
#define END_MOVE                                                \
	"end the move, by MIGRATE and CLUSTER SETSLOT NODE as " \
	"examples/cluster/finish_slot.sh "                      \
	"does, or stop the broker before redis-cli --cluster fix"

static void on_timer(uv_timer_t *timer);

/* Have the timer look soon. */
static void hurry(struct redis_lanes *l)
{
	if (!uv_is_closing((uv_handle_t *)&l->timer) &&
	    uv_timer_get_due_in(&l->timer) > TICK_MS)
		uv_timer_start(&l->timer, on_timer, TICK_MS, 0);
}

static void want_map(struct redis_lanes *l)
{
	l->slots.wants_map = true;
	hurry(l);
}

/* States. */

static void tell_state(struct redis_lanes *l, enum store_state state, const char *why)
{
	if (l->state == state)
		return;
	l->state = state;
	l->hooks.on_state(l->hooks.ctx, state, why);
}

/* Of those that have slots, the worst. */
static enum store_state worst_state(const struct redis_lanes *l)
{
	enum store_state worst = l->has_map ? STORE_UP : STORE_STARTING;

	for (size_t i = 0; i < l->count; i++) {
		const struct redis_lane *lane = l->lanes[i];

		if (lane->slot_count == 0)
			continue;
		if (lane->state == STORE_FAILED || lane->state == STORE_STALE)
			return lane->state;
		/* One that joins has not failed yet. */
		if (lane->state == STORE_STARTING && l->state != STORE_STARTING)
			continue;
		if (lane->state != STORE_UP)
			worst = l->state == STORE_STARTING ? STORE_STARTING : STORE_DOWN;
	}
	return worst;
}

static void tell_worst(struct redis_lanes *l, const char *why)
{
	enum store_state state = worst_state(l);
	char text[ERROR_TEXT_MAX];
	unsigned masters = 0;

	if (state == l->state || l->state == STORE_FAILED)
		return;
	for (size_t i = 0; i < l->count; i++)
		masters += l->lanes[i]->slot_count > 0;
	snprintf(text, sizeof(text), "a Redis Cluster of %u masters: %.400s", masters,
		 why);
	tell_state(l, state, state == STORE_UP ? text : why);
}

static void open_lanes(struct redis_lanes *l);

static void on_lane_state(void *ctx, enum store_state state, const char *why)
{
	struct redis_lane *lane = ctx;
	struct redis_lanes *l = lane->lanes;

	lane->state = state;
	if (!l->is_cluster) {
		l->state = state;
		l->hooks.on_state(l->hooks.ctx, state, why);
		return;
	}
	if (state == STORE_UP && lane->index == l->meta && !l->is_held) {
		l->is_held = true;
		open_lanes(l);
	}
	tell_worst(l, why);
}

/* Connections. */

static void lane_before_connect(void *ctx)
{
	struct redis_lane *lane = ctx;

	lane->lanes->hooks.before_connect(lane->lanes->hooks.ctx, lane->conn);
}

static void lane_heard(void *ctx, uint64_t now_ns)
{
	struct redis_lane *lane = ctx;

	lane->lanes->hooks.on_heard(lane->lanes->hooks.ctx, now_ns);
}

static void lane_elsewhere(void *ctx)
{
	struct redis_lane *lane = ctx;

	want_map(lane->lanes);
}

static bool lane_may_answer(void *ctx, struct redis_request *r, const redisReply *reply)
{
	struct redis_lane *lane = ctx;
	struct redis_lanes *l = lane->lanes;
	bool may_answer = slots_reply(&l->slots, r, reply, uv_now(l->loop));

	if (!may_answer)
		hurry(l);
	return may_answer;
}

static void lane_answered(void *ctx, unsigned slot)
{
	struct redis_lane *lane = ctx;

	slots_answered(&lane->lanes->slots, slot, uv_now(lane->lanes->loop));
}

static void lane_own(void *ctx, struct redis_request *r)
{
	struct redis_lane *lane = ctx;

	slots_adopt(&lane->lanes->slots, r, lane->index);
}

static void lane_gap(void *ctx)
{
	struct redis_lane *lane = ctx;

	lane->lanes->hooks.on_gap(lane->lanes->hooks.ctx, lane->index);
}

static void become_cluster(void *ctx);

static void create_conn(struct redis_lane *lane, const struct redis_conn_config *config)
{
	struct redis_lanes *l = lane->lanes;
	struct redis_conn_hooks hooks = {
		.ctx = lane,
		.before_connect = lane_before_connect,
		.on_state = on_lane_state,
		.on_heard = lane_heard,
		.on_gap = lane_gap,
		.on_cluster = become_cluster,
		.on_elsewhere = lane_elsewhere,
		.may_answer = l->is_cluster ? lane_may_answer : NULL,
		.on_answered = l->is_cluster ? lane_answered : NULL,
		.on_own = l->is_cluster ? lane_own : NULL,
	};

	lane->state = STORE_STARTING;
	lane->conn = redis_conn_create(l->loop, config, &hooks);
	l->open_count++;
}

static struct redis_lane *add_lane(struct redis_lanes *l)
{
	struct redis_lane *lane = mem_zalloc(sizeof(*lane));

	lane->lanes = l;
	lane->index = (unsigned)l->count;
	lane->tag = LANE_NO_TAG;
	MEM_GROW(l->lanes, l->count, l->cap, 1);
	l->lanes[l->count++] = lane;
	return lane;
}

static void end_if_closed(struct redis_lanes *l);

static void on_retired(void *ctx)
{
	struct redis_lanes *l = ctx;

	l->open_count--;
	end_if_closed(l);
}

static void add_stats(struct store_stats *sum, const struct store_stats *s);

/* A retired lane's requests go to the lanes that have their slots now. */
static void retire(struct redis_lane *lane)
{
	struct redis_lanes *l = lane->lanes;
	struct redis_requests left = TAILQ_HEAD_INITIALIZER(left);
	struct redis_conn *conn = lane->conn;
	struct redis_request *r;

	lane->tag = LANE_NO_TAG;
	if (!conn)
		return;
	log_info("store: the master at %s has no slots any more", lane->address);
	redis_conn_take_all(conn, &left);
	lane->conn = NULL;
	lane->state = STORE_STARTING;
	while ((r = TAILQ_FIRST(&left)) != NULL) {
		TAILQ_REMOVE(&left, r, entry);
		slots_bring_back(&l->slots, r, uv_now(l->loop));
	}
	add_stats(&l->retired, &conn->stats);
	redis_conn_close(conn, 0, on_retired, l);
}

/* Records. */

/* The first number whose slot the lane has. A cluster of n masters takes some n tries. */
static unsigned find_tag(const struct redis_lane *lane)
{
	char key[32];

	for (unsigned tag = 0; tag < 64 * LAYOUT_SLOTS; tag++) {
		snprintf(key, sizeof(key), "{%u}", tag);
		if (lane->lanes->slots.slots[layout_slot(slice_from(key))].owner ==
		    lane->index)
			return tag;
	}
	return LANE_NO_TAG;
}

static bool has_tag_still(const struct redis_lane *lane)
{
	char key[32];

	snprintf(key, sizeof(key), "{%u}", lane->tag);
	return lane->tag != LANE_NO_TAG &&
	       lane->lanes->slots.slots[layout_slot(slice_from(key))].owner ==
		       lane->index;
}

static void set_tag(struct redis_lane *lane)
{
	char key[64], probe[64];

	if (has_tag_still(lane))
		return;
	lane->tag = find_tag(lane);
	snprintf(key, sizeof(key), "tide:{%u}:holder", lane->tag);
	snprintf(probe, sizeof(probe), "tide:{%u}:probe", lane->tag);
	redis_conn_set_record(lane->conn, key, probe);
}

static void open_lane(struct redis_lane *lane)
{
	struct redis_lanes *l = lane->lanes;
	struct redis_conn_config config = l->config;

	if (lane->conn || (lane->index != l->meta && !l->is_held) || l->is_closing)
		return;
	config.url = &lane->url;
	config.address = lane->address;
	config.is_cluster = config.is_patient = true;
	config.is_joining = l->state != STORE_STARTING;
	create_conn(lane, &config);
	if (lane->index != l->meta)
		set_tag(lane);
}

/* The slot of {tide} is another lane's now. */
static void set_meta(struct redis_lanes *l, unsigned meta)
{
	struct redis_lane *from = l->lanes[l->meta], *to = l->lanes[meta];

	if (meta == l->meta)
		return;
	if (from->conn && to->conn)
		redis_conn_move_record(from->conn, to->conn);
	to->tag = LANE_NO_TAG;
	l->meta = meta;
}

static void open_lanes(struct redis_lanes *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->lanes[i]->slot_count > 0)
			open_lane(l->lanes[i]);
	for (size_t i = 0; i < l->count; i++)
		if (i != l->meta && l->lanes[i]->conn)
			set_tag(l->lanes[i]);
}

/* The map. */

static void set_address(struct redis_lane *lane, const struct cluster_master *m)
{
	const struct redis_url *base = lane->lanes->config.url;

	mem_free(lane->url.at.host);
	lane->url = *base;
	lane->url.at.host = mem_strdup(m->host);
	lane->url.at.port = m->port;
	url_address(&lane->url.at, lane->address);
}

static struct redis_lane *lane_at(struct redis_lanes *l, const struct cluster_master *m)
{
	for (size_t i = 0; i < l->count; i++) {
		struct redis_lane *lane = l->lanes[i];

		if (lane->slot_count > 0 && lane->url.at.port == m->port &&
		    strcmp(lane->url.at.host, m->host) == 0)
			return lane;
	}
	return NULL;
}

/* The lane of a master that is none any more, and whose slots this one has. */
static struct redis_lane *lane_before(struct redis_lanes *l,
				      const struct cluster_map *map, size_t master)
{
	for (unsigned slot = 0; slot < LAYOUT_SLOTS; slot++) {
		unsigned owner = l->slots.slots[slot].owner;

		if (map->owner[slot] == master && owner != SLOT_NO_LANE &&
		    !l->lanes[owner]->is_found)
			return l->lanes[owner];
	}
	return NULL;
}

static struct redis_lane *free_lane(struct redis_lanes *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (!l->lanes[i]->conn && !l->lanes[i]->is_found &&
		    l->lanes[i]->slot_count == 0)
			return l->lanes[i];
	return add_lane(l);
}

/* A master that no lane has: it was promoted, or is new. */
static struct redis_lane *lane_for(struct redis_lanes *l, const struct cluster_map *map,
				   size_t master)
{
	const struct cluster_master *m = &map->masters[master];
	struct redis_lane *lane = lane_before(l, map, master);
	char before[URL_ADDRESS_MAX];

	if (!lane) {
		lane = free_lane(l);
		set_address(lane, m);
		return lane;
	}
	snprintf(before, sizeof(before), "%s", lane->address);
	if (lane->conn)
		redis_conn_leave(lane->conn, "its slots have another master");
	set_address(lane, m);
	log_info("store: the slots of the master at %s are those of %s now", before,
		 lane->address);
	return lane;
}

static void find_lanes(struct redis_lanes *l, const struct cluster_map *map,
		       struct redis_lane **lanes)
{
	for (size_t i = 0; i < l->count; i++)
		l->lanes[i]->is_found = false;
	for (size_t i = 0; i < map->count; i++) {
		lanes[i] = lane_at(l, &map->masters[i]);
		if (lanes[i])
			lanes[i]->is_found = true;
	}
	for (size_t i = 0; i < map->count; i++) {
		if (!lanes[i])
			lanes[i] = lane_for(l, map, i);
		lanes[i]->is_found = true;
		lanes[i]->replicas = map->masters[i].replicas;
	}
}

static void tell_coverage(struct redis_lanes *l, const struct cluster_map *map)
{
	if (map->covered < LAYOUT_SLOTS && map->covered != l->covered)
		log_error("store: %u of the %d slots of the Redis Cluster have no "
			  "master: what belongs to them waits; start the masters",
			  LAYOUT_SLOTS - map->covered, LAYOUT_SLOTS);
	l->covered = map->covered;
}

static bool has_slot(void *ctx, unsigned slot)
{
	const struct redis_lane *lane = ctx;

	return lane->lanes->slots.slots[slot].owner == lane->index;
}

/* A slot that the map gives to nobody stays with its lane: whoever is promoted next is
 * given what that has written. */
static void count_slots(struct redis_lanes *l)
{
	for (size_t i = 0; i < l->count; i++)
		l->lanes[i]->slot_count = 0;
	for (unsigned slot = 0; slot < LAYOUT_SLOTS; slot++)
		if (l->slots.slots[slot].owner != SLOT_NO_LANE)
			l->lanes[l->slots.slots[slot].owner]->slot_count++;
}

/* Writes of a lane to a slot that it lost must not be sent again: the slot was written to
 * elsewhere since. Their answers may have come only after the map before this one. */
static void set_owners(struct redis_lanes *l, const struct cluster_map *map,
		       struct redis_lane **lanes)
{
	for (unsigned slot = 0; slot < LAYOUT_SLOTS; slot++)
		if (map->owner[slot] != CLUSTER_NO_MASTER)
			slots_set_owner(&l->slots, slot, lanes[map->owner[slot]]->index);
	count_slots(l);
	for (size_t i = 0; i < l->count; i++)
		if (l->lanes[i]->conn)
			redis_replay_keep(&l->lanes[i]->conn->replay, has_slot,
					  l->lanes[i]);
}

static void on_map(void *ctx, const struct cluster_map *map)
{
	struct redis_lanes *l = ctx;
	struct redis_lane **lanes = mem_alloc(map->count * sizeof(struct redis_lane *));
	unsigned meta;

	find_lanes(l, map, lanes);
	set_owners(l, map, lanes);
	mem_free(lanes);
	meta = l->slots.slots[LAYOUT_META_SLOT].owner;
	if (meta != SLOT_NO_LANE)
		set_meta(l, meta);
	for (size_t i = 0; i < l->count; i++)
		if (l->lanes[i]->slot_count == 0)
			retire(l->lanes[i]);
	tell_coverage(l, map);
	l->has_map = true;
	open_lanes(l);
	slots_map_came(&l->slots, uv_now(l->loop));
	hurry(l);
	tell_worst(l, "as its map tells");
}

static void on_map_failed(void *ctx, const char *why)
{
	struct redis_lanes *l = ctx;

	log_debug("store: no map of the Redis Cluster: %s", why);
	want_map(l);
}

static void tell_open_slots(struct redis_lanes *l, uint64_t now_ms)
{
	struct held_slot *h;

	TAILQ_FOREACH (h, &l->slots.held, link) {
		if (h->is_told || now_ms - h->since_ms < OPEN_SLOT_TOLD_MS)
			continue;
		h->is_told = true;
		log_error("store: slot %u of the Redis Cluster %s, and its requests have "
			  "waited for %llu s: %s",
			  h->slot,
			  h->kind == BOUNCE_OPEN ? "is being moved" : "has no master",
			  (unsigned long long)(now_ms - h->since_ms) / 1000,
			  h->kind == BOUNCE_OPEN
				  ? END_MOVE
				  : "redis-cli --cluster check shows whose");
	}
}

static void drain_if_done(struct redis_lanes *l);

static void on_timer(uv_timer_t *timer)
{
	struct redis_lanes *l = timer->data;
	uint64_t now_ms = uv_now(l->loop);
	bool is_wanted = l->slots.wants_map || now_ms - l->asked_ms >= ASK_ANYWAY_MS;

	slots_tick(&l->slots, now_ms);
	tell_open_slots(l, now_ms);
	if (is_wanted && now_ms - l->asked_ms >= ASK_AGAIN_MS) {
		l->asked_ms = now_ms;
		l->slots.wants_map = false;
		cluster_ask(l->cluster, *l->tls);
	}
	if (!uv_is_active((uv_handle_t *)timer))
		uv_timer_start(timer, on_timer,
			       l->slots.wants_map || !TAILQ_EMPTY(&l->slots.held)
				       ? TICK_MS
				       : ASK_ANYWAY_MS,
			       0);
	if (l->is_closing)
		drain_if_done(l);
}

static void lane_send(void *ctx, unsigned lane, struct redis_request *r)
{
	struct redis_lanes *l = ctx;

	open_lane(l->lanes[lane]);
	if (l->lanes[lane]->conn)
		redis_conn_send(l->lanes[lane]->conn, r);
	else
		r->on_reply(r, NULL); /* everything is closed */
}

/* The first Redis is a node of a cluster: its nodes are asked what lanes there are. */
static void become_cluster(void *ctx)
{
	struct redis_lane *lane = ctx;
	struct redis_lanes *l = lane->lanes;
	struct cluster_hooks hooks = { .ctx = l,
				       .on_map = on_map,
				       .on_failed = on_map_failed };
	struct redis_conn *conn = lane->conn;

	if (l->is_closing) {
		redis_conn_hurry(conn);
		return;
	}
	lane->conn = NULL;
	redis_conn_close(conn, 0, on_retired, l);
	l->is_cluster = true;
	slots_init(&l->slots, lane_send, l);
	l->cluster = cluster_create(l->loop, l->config.url, NODE_PATIENCE_MS, &hooks);
	l->open_count++;
	l->slots.wants_map = true;
	uv_timer_start(&l->timer, on_timer, 0, 0);
}

struct redis_lanes *redis_lanes_create(uv_loop_t *loop,
				       const struct redis_conn_config *config,
				       struct tls_context *const *tls,
				       const struct redis_lanes_hooks *hooks)
{
	struct redis_lanes *l = mem_zalloc(sizeof(*l));

	l->loop = loop;
	l->config = *config;
	l->hooks = *hooks;
	l->tls = tls;
	l->state = STORE_STARTING;
	redis_self_init(&l->self, config->cells);
	l->self.at = config->at;
	l->config.self = &l->self;
	uv_timer_init(loop, &l->timer);
	l->timer.data = l;
	l->open_count = 1;
	create_conn(add_lane(l), &l->config);
	return l;
}

void redis_lanes_send(struct redis_lanes *l, struct redis_request *r)
{
	if (l->is_cluster) {
		slots_send(&l->slots, r, uv_now(l->loop));
		return;
	}
	r->was_lost = false;
	redis_conn_send(l->lanes[0]->conn, r);
}

unsigned redis_lanes_of(const struct redis_lanes *l, unsigned slot)
{
	unsigned lane = l->is_cluster ? slots_lane(&l->slots, slot) : 0;

	return lane == SLOT_NO_LANE ? 0 : lane;
}

unsigned redis_lanes_first_slot(const struct redis_lanes *l, unsigned from)
{
	bool *is_seen;
	unsigned slot, owner;

	if (!l->is_cluster)
		return from == 0 ? 0 : LAYOUT_SLOTS;
	is_seen = mem_zalloc(l->count * sizeof(*is_seen));
	for (slot = 0; slot < LAYOUT_SLOTS; slot++) {
		owner = l->slots.slots[slot].owner;
		if (owner == SLOT_NO_LANE || is_seen[owner])
			continue;
		if (slot >= from)
			break;
		is_seen[owner] = true;
	}
	mem_free(is_seen);
	return slot;
}

struct redis_conn *redis_lanes_meta(const struct redis_lanes *l)
{
	return l->lanes[l->meta]->conn;
}

unsigned redis_lanes_meta_index(const struct redis_lanes *l)
{
	return l->meta;
}

/* Statistics. */

static void add_stats(struct store_stats *sum, const struct store_stats *s)
{
	sum->requests += s->requests;
	sum->reconnects += s->reconnects;
	sum->bytes_sent += s->bytes_sent;
	sum->pending_requests += s->pending_requests;
	sum->pending_bytes += s->pending_bytes;
	sum->commands += s->commands;
	for (int i = 0; i < STORE_REFUSALS; i++)
		sum->refused[i] += s->refused[i];
	tally_merge(&sum->round_trip, &s->round_trip);
}

static void count_held(const struct redis_lanes *l, struct store_stats *out)
{
	const struct held_slot *h;

	TAILQ_FOREACH (h, &l->slots.held, link) {
		out->slots_held++;
		if (!h->is_told || out->stuck_ms > 0)
			continue;
		out->stuck_slot = h->slot;
		out->stuck_ms = uv_now(l->loop) - h->since_ms;
	}
}

void redis_lanes_stats(const struct redis_lanes *l, struct store_stats *out)
{
	*out = l->retired;
	for (size_t i = 0; i < l->count; i++)
		if (l->lanes[i]->conn)
			add_stats(out, &l->lanes[i]->conn->stats);
	out->pending_requests += l->slots.held_requests;
	out->is_cluster = l->is_cluster;
	if (l->has_map)
		out->slots_without_master = LAYOUT_SLOTS - l->covered;
	if (l->is_cluster)
		count_held(l, out);
}

/* The end. */

static void end_if_closed(struct redis_lanes *l)
{
	if (l->open_count > 0)
		return;
	if (l->is_cluster)
		slots_deinit(&l->slots);
	for (size_t i = 0; i < l->count; i++) {
		mem_free(l->lanes[i]->url.at.host);
		mem_free(l->lanes[i]);
	}
	mem_free(l->lanes);
	redis_cells_deinit(&l->self.cells);
	l->on_closed(l->closed_ctx);
	mem_free(l);
}

static void refuse_held(struct redis_lanes *l)
{
	struct redis_request *r;

	while (l->is_cluster && (r = slots_pop_held(&l->slots)) != NULL)
		r->on_reply(r, NULL);
}

static void on_conn_closed(void *ctx)
{
	struct redis_lane *lane = ctx;
	struct redis_lanes *l = lane->lanes;

	lane->conn = NULL;
	l->open_count--;
	refuse_held(l);
	end_if_closed(l);
}

static void on_part_closed(void *ctx)
{
	on_retired(ctx);
}

static void on_timer_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

static void close_all(struct redis_lanes *l, int64_t grace_ms)
{
	l->is_draining = true;
	for (size_t i = 0; i < l->count; i++)
		if (l->lanes[i]->conn)
			redis_conn_close(l->lanes[i]->conn, grace_ms, on_conn_closed,
					 l->lanes[i]);
	if (l->cluster)
		cluster_close(l->cluster, on_part_closed, l);
	uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}

/* Held requests have until close_by_ms to go on. */
static void drain_if_done(struct redis_lanes *l)
{
	uint64_t now_ms = uv_now(l->loop);
	int64_t left_ms =
		l->close_by_ms > now_ms ? (int64_t)(l->close_by_ms - now_ms) : 0;

	if (l->is_draining || (l->slots.held_requests > 0 && left_ms > 0))
		return;
	refuse_held(l);
	close_all(l, left_ms);
}

void redis_lanes_close(struct redis_lanes *l, int64_t grace_ms,
		       void (*on_closed)(void *ctx), void *ctx)
{
	l->is_closing = true;
	l->close_by_ms = uv_now(l->loop) + (uint64_t)(grace_ms > 0 ? grace_ms : 0);
	l->on_closed = on_closed;
	l->closed_ctx = ctx;
	if (l->is_cluster)
		drain_if_done(l);
	else
		close_all(l, grace_ms);
}

void redis_lanes_hurry(struct redis_lanes *l)
{
	l->close_by_ms = uv_now(l->loop);
	if (l->is_cluster && !l->is_draining)
		drain_if_done(l);
	for (size_t i = 0; i < l->count; i++)
		if (l->lanes[i]->conn)
			redis_conn_hurry(l->lanes[i]->conn);
}
