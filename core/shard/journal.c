#include "journal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/heap.h"
#include "base/mem.h"
#include "host/log.h"
#include "log/partition.h"
#include "commit.h"
#include "dedupe.h"

/* Bounds of one flush, and of commits that are sent together: what Redis writes and syncs
 * in one go. */
#define FLUSH_ENTRIES_MAX 16384
#define FLUSH_BYTES_MAX ((size_t)8 << 20)

#define RETRY_MS 200 /* rest after a refusal, before the same is tried again */

TAILQ_HEAD(shard_list, shard);

/* Batches to one Redis: a master that is away holds up its own shards alone. */
struct journal_lane {
	struct shard_list dirty;
	struct shard_list flying; /* with a batch under way */
	unsigned flights;         /* batches under way, and commits, a shard each */
	bool was_commit;          /* the last flush was of commits: a batch comes next */
	bool is_refused;          /* something of this flush was refused */
	int64_t retry_unix_ms;
};

struct journal {
	struct shard_env *env;
	struct journal_lane **lanes; /* by store_lane; grows, one at least */
	size_t lane_count, lane_cap;
	struct journal_stats stats;
};

struct flight_item {
	struct entry *entry;
	double old_score;
	uint8_t old_home;
	bool is_removal;
	bool is_revision;
};

static void add_lane(struct journal *j)
{
	struct journal_lane *lane = mem_zalloc(sizeof(*lane));

	TAILQ_INIT(&lane->dirty);
	TAILQ_INIT(&lane->flying);
	MEM_GROW(j->lanes, j->lane_count, j->lane_cap, 1);
	j->lanes[j->lane_count++] = lane;
}

struct journal *journal_create(struct shard_env *env)
{
	struct journal *j = mem_zalloc(sizeof(*j));

	j->env = env;
	add_lane(j);
	return j;
}

void journal_destroy(struct journal *j)
{
	for (size_t i = 0; i < j->lane_count; i++)
		mem_free(j->lanes[i]);
	mem_free(j->lanes);
	mem_free(j);
}

/* The lane that writes a shard or a partition now. */
static unsigned lane_now(struct journal *j, const struct store_shard *keys)
{
	unsigned lane = keys ? store_lane(j->env->store, keys) : 0;

	while (lane >= j->lane_count)
		add_lane(j);
	return lane;
}

static struct journal_lane *lane_of(struct journal *j, const struct store_shard *keys)
{
	unsigned lane = lane_now(j, keys); /* it may move the array */

	return j->lanes[lane];
}

void journal_add(struct journal *j, struct shard *sh)
{
	if (sh->is_journaled)
		return;
	sh->is_journaled = true;
	sh->journal_lane = lane_now(j, sh->keys);
	TAILQ_INSERT_TAIL(&j->lanes[sh->journal_lane]->dirty, sh, journal_link);
}

void journal_drop(struct journal *j, struct shard *sh)
{
	if (!sh->is_journaled)
		return;
	sh->is_journaled = false;
	TAILQ_REMOVE(&j->lanes[sh->journal_lane]->dirty, sh, journal_link);
}

#define LIGHT_ENTRIES 4

bool journal_is_light(const struct journal *j)
{
	const struct journal_lane *lane = j->lanes[0];
	const struct shard *sh = TAILQ_FIRST(&lane->dirty);
	const struct entry *e;
	unsigned n = 0;

	if (j->lane_count > 1 || !sh || lane->flights > 0 || TAILQ_EMPTY(&sh->young) ||
	    TAILQ_NEXT(sh, journal_link))
		return false;
	TAILQ_FOREACH (e, &sh->dirty, dirty_link)
		if (++n > LIGHT_ENTRIES)
			return false;
	return true;
}

bool journal_is_idle(const struct journal *j)
{
	for (size_t i = 0; i < j->lane_count; i++)
		if (!TAILQ_EMPTY(&j->lanes[i]->dirty) || j->lanes[i]->flights > 0)
			return false;
	return true;
}

int64_t journal_retry_unix_ms(const struct journal *j)
{
	int64_t retry_unix_ms = 0;

	for (size_t i = 0; i < j->lane_count; i++)
		if (!TAILQ_EMPTY(&j->lanes[i]->dirty))
			retry_unix_ms =
				heap_earlier(retry_unix_ms, j->lanes[i]->retry_unix_ms);
	return retry_unix_ms;
}

size_t journal_waiting_bytes(const struct journal *j, unsigned lane)
{
	const struct shard *sh;
	size_t bytes = 0;

	if (lane < j->lane_count)
		TAILQ_FOREACH (sh, &j->lanes[lane]->dirty, journal_link)
			bytes += sh->unstored.bytes;
	return bytes;
}

const struct journal_stats *journal_stats(const struct journal *j)
{
	return &j->stats;
}

void journal_each_flying(const struct shard *sh,
			 void (*tell)(void *ctx, const struct entry *e), void *ctx)
{
	for (size_t i = 0; i < sh->flight.count; i++)
		tell(ctx, sh->flight.items[i].entry);
}

void journal_fail_waiters(struct shard *sh, const char *text)
{
	struct entry *e, *next;

	for (size_t i = 0; i < sh->flight.count; i++)
		entry_tell(sh->flight.items[i].entry, TIDE_ESTORE, text);
	for (e = TAILQ_FIRST(&sh->dirty); e; e = next) {
		next = TAILQ_NEXT(e, dirty_link);
		entry_tell(e, TIDE_ESTORE, text);
	}
}

size_t journal_flying_unsure(const struct shard *sh, uint64_t *ids)
{
	size_t count = 0;

	for (size_t i = 0; i < sh->flight.count; i++)
		if (sh->flight.items[i].entry->flags & OWED_UNSURE)
			ids[count++] = sh->flight.items[i].entry->id;
	return count;
}

void journal_count_elided(struct journal *j)
{
	j->stats.elided++;
}

static void flight_add(struct flight *f, struct entry *e)
{
	MEM_GROW(f->items, f->count, f->cap, 64);
	f->items[f->count++] =
		(struct flight_item){ e, e->stored_score, e->home, e->state == ENTRY_GONE,
				      e->flags & OWED_BODY };
	e->flags |= OWED_ANSWER;
}

bool journal_last_old_place(const struct shard *sh, enum store_set set,
			    struct place *last)
{
	const struct flight *f = &sh->flight;
	bool has_any = false;

	for (size_t i = 0; i < f->count; i++) {
		const struct flight_item *item = &f->items[i];
		struct place place;

		if (item->old_home != set)
			continue;
		place = (struct place){ item->old_score, item->entry->id };
		if (item->entry->home == set && item->entry->stored_score == place.score)
			continue;
		if (!has_any || place_is_before(*last, place))
			*last = place;
		has_any = true;
	}
	return has_any;
}

/* The set that Redis should have the entry in. A message that is held only for
 * a moment stays where it is, so that a quick ack costs one removal. */
static uint8_t wanted_home(const struct entry *e)
{
	if (e->state < SHARD_STAGES)
		return e->state;
	if (e->state == ENTRY_UNACKED)
		return e->flags & LIES_LEDGERED ? STORE_UNACK : STORE_READY;
	/* A held entry: its place among the ready ones may be anywhere, and with
	 * another rank behind the edge. */
	if (e->state == ENTRY_MOVING)
		return e->home == STORE_READY && !(e->flags & OWED_BODY) ? STORE_READY
									 : STORE_UNACK;
	return HOME_NONE;
}

static double wanted_score(const struct entry *e, uint8_t home)
{
	return home == STORE_READY ? e->rank : (double)e->at_unix_ms;
}

/* The wanted state of an entry in Redis. */
struct wanted {
	uint8_t home;
	double score;
	const struct msg *msg;
	bool is_anew;  /* Redis may have it in other sets, or with another body */
	bool is_moved; /* another set or score */
};

static inline __attribute__((always_inline)) void
encode_home(struct batch *b, const struct entry *e, const struct wanted *w)
{
	enum store_set from = (enum store_set)e->home, to = (enum store_set)w->home;

	if (e->shard->size.is_kept)
		shard_size_move(e, e->home, w->home);
	if (w->home == HOME_NONE) {
		if (e->flags & OWED_UNSURE)
			batch_remove_everywhere(b, e->id);
		else if (e->home != HOME_NONE)
			batch_remove(b, e->id, from, e->flags & LIES_TRIED,
				     !e->msg || e->expires_unix_ms);
		if (e->shard->dedupe.is_queued)
			dedupe_encode_removal(e, b);
		return;
	}
	if (e->home == HOME_NONE || (w->is_anew && w->msg))
		batch_insert(b,
			     &(struct store_insert){ w->msg, e->rank, e->expires_unix_ms,
						     to, w->score });
	else if (w->is_moved)
		batch_move(b, e->id, from, to, w->score);
	/* The index of what expires may have dropped what was buried. */
	if (e->home == STORE_BURIED && to != STORE_BURIED && e->expires_unix_ms)
		batch_expiry(b, e->id, e->expires_unix_ms);
	if (w->is_anew)
		batch_leave_others(b, e->id, to);
	if (e->home == HOME_NONE && (e->flags & OWED_ID))
		dedupe_encode(e, b);
}

static void encode_tries(struct batch *b, const struct entry *e, const char *reason)
{
	const struct store_tries tries = shard_tries(e, reason);

	batch_tries(b, e->id, &tries);
}

static void encode_entry(struct journal *j, struct batch *b, struct entry *e)
{
	struct wanted w = { .home = wanted_home(e),
			    .msg = e->msg,
			    .is_anew = e->flags & (OWED_UNSURE | OWED_BODY) };

	j->stats.removed += w.home == HOME_NONE;
	j->stats.inserted += w.home != HOME_NONE && e->home == HOME_NONE;
	if (w.home != HOME_NONE) {
		w.score = wanted_score(e, w.home);
		w.is_moved = e->home != w.home || (e->flags & OWED_SCORE);
		if (!w.is_moved && !(w.is_anew && e->msg))
			w.score = e->stored_score;
	}
	encode_home(b, e, &w);
	if (w.home != HOME_NONE) {
		e->stored_score = w.score;
		if ((e->flags & OWED_TRIES) && e->deliveries > 0) {
			encode_tries(b, e, NULL);
			e->flags |= LIES_TRIED;
		}
	}
	shard_account(e, -1);
	e->home = w.home;
	shard_account(e, 1);
	e->flags &= (uint16_t) ~(OWED_TRIES | OWED_SCORE | OWED_BODY);
	if (e->flags & LIES_OUTSIDE)
		stage_entry_encoded(&e->shard->stages[e->state], e);
}

/* Memory may have no need of the entry any more. */
static inline void leave_to_redis(struct entry *e)
{
	bool is_gone = e->state == ENTRY_GONE && e->home == HOME_NONE;
	bool is_outside = (e->flags & (LIES_OUTSIDE | LIES_LISTED)) == LIES_OUTSIDE;

	if (is_gone || (is_outside && !(e->flags & OWED_WRITE)))
		shard_entry_free(e);
	else if (e->flags & LIES_PARKED)
		order_shrink(e);
}

static void entry_written(struct entry *e)
{
	shard_entry_stored(e);
	/* The waiter of an entry that is gone waits for its removal instead. */
	if ((e->state != ENTRY_GONE || e->home == HOME_NONE) &&
	    (e->flags & (OWED_NEXT | OWED_WRITE)) != (OWED_NEXT | OWED_WRITE))
		entry_tell(e, TIDE_OK, NULL);
	if (e->state == ENTRY_GONE || (e->flags & (LIES_OUTSIDE | LIES_PARKED)))
		leave_to_redis(e);
}

/* Redis may have it, and perhaps it was acknowledged: it is removed before anybody is
 * told that it is gone. One that Redis has a publish id of stays: the id of a message
 * that is not there would confirm a repetition. */
static void insert_unsure(struct entry *e, const struct batch_result *result)
{
	bool has_id = e->flags & OWED_ID;

	if (e->state == ENTRY_GONE)
		return;
	entry_tell(e, result->written, result->text);
	if (e->state >= SHARD_STAGES)
		return;
	if (!has_id) {
		shard_remove(e, NULL);
		return;
	}
	shard_account(e, -1);
	e->home = HOME_NONE;
	shard_discard(e);
}

/* A message that Redis would not take: the publisher is told, and unless
 * somebody is at work on it already, it is as if it had never come. */
static void insert_refused(struct entry *e, const struct batch_result *result)
{
	struct journal *j = e->shard->env->journal;

	j->stats.refused++;
	shard_entry_stored(e);
	if (e->flags & OWED_UNSURE) {
		insert_unsure(e, result);
		return;
	}
	if (e->state == ENTRY_GONE) {
		shard_entry_clean(e);
		entry_tell(e, TIDE_OK, NULL);
		shard_entry_free(e);
		return;
	}
	entry_tell(e, result->written, result->text);
	if (e->state < SHARD_STAGES)
		shard_discard(e);
}

/* Was the entry left to Redis, and purged there? It is not counted then. */
static bool is_purged(const struct entry *e)
{
	return (e->flags & (LIES_OUTSIDE | LIES_LISTED)) == LIES_OUTSIDE &&
	       e->shard->flight.purges != e->shard->purges;
}

static void entry_refused(const struct flight_item *item, uint8_t old_home,
			  const struct batch_result *result)
{
	struct entry *e = item->entry;

	shard_account(e, -1);
	if (is_purged(e)) {
		e->flags &= (uint16_t)~LIES_OUTSIDE;
		e->state = ENTRY_GONE;
		if (e->shard->dedupe.is_queued)
			dedupe_done(e);
	}
	if (result->is_unsure)
		e->flags |= OWED_UNSURE;
	if (old_home != HOME_NONE || !result->is_unsure) {
		if (e->shard->size.is_kept)
			shard_size_move(e, e->home, old_home);
		e->home = old_home;
		e->stored_score = item->old_score;
	}
	shard_account(e, 1);
	if ((e->flags & (LIES_OUTSIDE | OWED_WRITE)) == LIES_OUTSIDE)
		stage_entry_refused(&e->shard->stages[e->state], e);
	if (e->flags & OWED_UNSURE)
		shard_entry_dirty(e);
	if (old_home == HOME_NONE) {
		insert_refused(e, result);
		return;
	}
	if (e->state != ENTRY_GONE)
		e->flags |= OWED_TRIES | OWED_SCORE;
	if (item->is_revision)
		e->flags |= OWED_BODY;
	shard_entry_dirty(e);
}

static void flight_land(struct shard *sh, const struct batch_result *result)
{
	struct flight *f = &sh->flight;

	for (size_t i = 0; i < f->count; i++) {
		struct flight_item *item = &f->items[i];
		struct entry *e = item->entry;
		int status = item->is_removal ? result->removed : result->written;
		uint8_t old_home = item->old_home;

		/* The entry may be freed now, and callbacks may look for old places. */
		item->old_home = HOME_NONE;
		if (status < 0 && !sh->is_closed) {
			e->flags &= (uint16_t)~OWED_ANSWER;
			entry_refused(item, old_home, result);
		} else {
			e->flags &= (uint16_t) ~(OWED_ANSWER | OWED_UNSURE);
			entry_written(e);
		}
	}
	mem_free(f->items);
	*f = (struct flight){ 0 };
	/* The surplus may be given up now that Redis has what came behind it. */
	if (sh->gives_up && !sh->is_closed)
		sh->env->ops->on_ready(sh);
}

static void note_refusal(struct journal *j, const struct batch_result *result)
{
	snprintf(j->stats.last_error, sizeof(j->stats.last_error), "%s",
		 result->text ? result->text : "the store is closed");
}

static void on_batch(void *ctx, const struct batch_result *result)
{
	struct shard *sh = ctx;
	struct journal *j = sh->env->journal;
	struct journal_lane *lane = j->lanes[sh->flight_lane];

	if (result->removed < 0 || result->written < 0) {
		lane->is_refused = true;
		lane->retry_unix_ms = j->env->now_ms + RETRY_MS;
		note_refusal(j, result);
	}
	sh->is_flying = false;
	TAILQ_REMOVE(&lane->flying, sh, flying_link);
	flight_land(sh, result);
	dedupe_landed(sh, result);
	if (sh->take.is_wanted)
		shard_take_tick(sh);
	shard_unref(sh);
	if (--lane->flights > 0)
		return;
	if (!lane->is_refused)
		j->stats.last_error[0] = '\0';
	lane->is_refused = false;
}

static size_t flush_shard(struct journal *j, struct shard *sh, unsigned *entries)
{
	struct batch *b = store_batch_begin(j->env->store, sh->keys);
	const struct store_size before = sh->size.left = sh->size.stored;
	struct entry *e;
	size_t bytes;

	sh->take.is_after = false;
	sh->flight.purges = sh->purges;
	while ((e = TAILQ_FIRST(&sh->dirty)) != NULL && *entries > 0 &&
	       batch_bytes(b) < FLUSH_BYTES_MAX) {
		TAILQ_REMOVE(&sh->dirty, e, dirty_link);
		e->flags &= (uint16_t)~OWED_WRITE;
		(*entries)--;
		flight_add(&sh->flight, e);
		encode_entry(j, b, e);
	}
	dedupe_flush(sh, b, entries);
	if (sh->size.is_kept)
		batch_size(b, &(struct store_sizes){ before, sh->size.left,
						     sh->size.stored });
	bytes = batch_bytes(b);
	sh->is_flying = true;
	sh->flight_lane = sh->journal_lane;
	j->lanes[sh->flight_lane]->flights++;
	TAILQ_INSERT_TAIL(&j->lanes[sh->flight_lane]->flying, sh, flying_link);
	store_batch_commit_take(b, on_batch, shard_ref(sh));
	return bytes;
}

static bool is_resting(const struct journal *j, const struct journal_lane *lane)
{
	return duration_is_resting(j->env->now_ms, lane->retry_unix_ms, RETRY_MS);
}

struct commit_item {
	struct entry *entry;
	struct commit_change change;
	bool is_new;
};

struct commit {
	STAILQ_ENTRY(commit) link;
	struct shard_env *env;
	const struct commit_ops *ops;
	struct waiter *waiter;
	struct commit_item *items;
	size_t count, cap;
	struct shard **shards; /* that it changes: a reference of each */
	unsigned shard_count, shard_cap;
	struct joint_list joints; /* of partitions that it appends to */
	bool is_durable;          /* one shard or partition is */
};

/* Commits that are sent together, and the lanes that write them. */
struct commit_flight {
	TAILQ_ENTRY(commit_flight) link;
	struct shard_env *env;
	struct commit_list commits;
	struct journal_lane **lanes; /* one as often as it has a shard of theirs */
	size_t lane_count, lane_cap;
};

static bool has_lane(const struct commit_flight *f, const struct journal_lane *lane)
{
	for (size_t i = 0; i < f->lane_count; i++)
		if (f->lanes[i] == lane)
			return true;
	return false;
}

static bool is_held_commit(const struct commit *c)
{
	const struct store *s = c->env->store;
	const struct joint *j;

	for (unsigned i = 0; i < c->shard_count; i++)
		if (c->shards[i]->keys && store_is_held(s, c->shards[i]->keys))
			return true;
	STAILQ_FOREACH (j, &c->joints, link)
		if (partition_keys(j->partition) &&
		    store_is_held(s, partition_keys(j->partition)))
			return true;
	return false;
}

/* All that is under way waits for slots that are being moved: other shards go on. */
static bool is_held_lane(const struct journal *j, const struct journal_lane *lane)
{
	const struct commit_flight *f;
	const struct shard *sh;

	if (!store_holds_any(j->env->store))
		return false;
	TAILQ_FOREACH (sh, &lane->flying, flying_link)
		if (!store_is_held(j->env->store, sh->keys))
			return false;
	TAILQ_FOREACH (f, &j->env->commits.flying, link)
		if (has_lane(f, lane) && !is_held_commit(STAILQ_FIRST(&f->commits)))
			return false;
	return true;
}

static bool is_lane_busy(const struct journal *j, const struct journal_lane *lane)
{
	return lane->flights > 0 && !is_held_lane(j, lane);
}

static void flush_lane(struct journal *j, struct journal_lane *lane)
{
	unsigned entries = FLUSH_ENTRIES_MAX;
	size_t bytes = 0;
	struct shard *sh, *next;

	if (is_lane_busy(j, lane) || TAILQ_EMPTY(&lane->dirty) || is_resting(j, lane))
		return;
	lane->was_commit = false;
	lane->retry_unix_ms = 0;
	j->stats.flushes++;
	for (sh = TAILQ_FIRST(&lane->dirty); sh && entries > 0 && bytes < FLUSH_BYTES_MAX;
	     sh = next) {
		next = TAILQ_NEXT(sh, journal_link);
		/* A batch may be under way by the lane that had the slot before. */
		if (sh->is_held_back || sh->is_undefined || sh->take.is_taking ||
		    sh->is_flying || sh->is_committing)
			continue;
		journal_drop(j, sh);
		if (sh->journal_lane != lane_now(j, sh->keys)) {
			journal_add(j, sh);
			continue;
		}
		bytes += flush_shard(j, sh, &entries);
		if (shard_is_dirty(sh)) {
			/* Behind the others, so that a busy shard starves none. */
			journal_add(j, sh);
			break;
		}
	}
	tally_add(&j->stats.changes, tally_sizes, FLUSH_ENTRIES_MAX - entries);
}

void journal_flush(struct journal *j)
{
	for (size_t i = 0; i < j->lane_count; i++)
		flush_lane(j, j->lanes[i]);
}

/* ---- commits */

struct commit *commit_create(struct shard_env *env, const struct commit_ops *ops,
			     struct waiter *waiter)
{
	struct commit *c = mem_zalloc(sizeof(*c));

	c->env = env;
	c->ops = ops;
	c->waiter = waiter;
	STAILQ_INIT(&c->joints);
	waiter_add(waiter);
	return c;
}

static void commit_destroy(struct commit *c)
{
	for (unsigned i = 0; i < c->shard_count; i++)
		shard_unref(c->shards[i]);
	mem_free(c->shards);
	mem_free(c->items);
	mem_free(c);
}

static void add_shard(struct commit *c, struct shard *sh)
{
	if (sh->commit == c)
		return;
	sh->commit = c;
	MEM_GROW(c->shards, c->shard_count, c->shard_cap, 4);
	c->shards[c->shard_count++] = shard_ref(sh);
	c->is_durable |= sh->keys != NULL;
}

static struct commit_item *add_item(struct commit *c, struct entry *e)
{
	add_shard(c, e->shard);
	MEM_GROW(c->items, c->count, c->cap, 8);
	e->flags |= LIES_IN_COMMIT;
	c->items[c->count] = (struct commit_item){ .entry = e };
	return &c->items[c->count++];
}

void commit_publish(struct commit *c, struct shard *sh, struct msg *m, double rank,
		    struct waiter *id)
{
	bool is_delayed = m->due_unix_ms > c->env->now_ms;
	struct entry *e = shard_entry_begin(sh, m, rank);
	struct commit_item *item = add_item(c, e);

	if (id) {
		waiter_add(id);
		e->waiter = id;
		e->flags |= OWED_ID;
	}
	item->is_new = true;
	item->change = (struct commit_change){
		.state = is_delayed ? ENTRY_DELAYED : ENTRY_READY,
		.at_unix_ms = is_delayed ? m->due_unix_ms : 0,
	};
	e->state = ENTRY_MOVING;
	TAILQ_INSERT_TAIL(&sh->moving, e, link);
}

void commit_append(struct commit *c, struct partition *p, struct msg *m)
{
	struct joint *j;

	STAILQ_FOREACH (j, &c->joints, link)
		if (j->partition == p)
			break;
	if (!j) {
		j = joint_create(p);
		STAILQ_INSERT_TAIL(&c->joints, j, link);
		c->is_durable |= partition_keys(p) != NULL;
	}
	joint_append(j, m);
}

void commit_settle(struct commit *c, struct entry *e, const struct commit_change *change)
{
	struct commit_item *item = add_item(c, e);

	item->change = *change;
	if (item->change.msg)
		msg_ref(item->change.msg);
	shard_suspend(e);
}

static double score_of(const struct commit_item *item)
{
	return item->change.state == ENTRY_READY ? item->entry->rank
						 : (double)item->change.at_unix_ms;
}

/* The size of what is sent together. */
struct flight_size {
	size_t entries, bytes;
	uint64_t inserted, removed;
};

static uint8_t home_after(const struct commit_item *item)
{
	return item->change.state == ENTRY_GONE ? HOME_NONE : (uint8_t)item->change.state;
}

/* Encode the new state, as a flush would write it. */
static void encode_item(struct flight_size *size, const struct commit_item *item,
			struct batch *b)
{
	const struct entry *e = item->entry;
	const struct msg *msg = item->change.msg;
	const struct wanted w = { .home = home_after(item),
				  .score = score_of(item),
				  .msg = msg ? msg : e->msg,
				  .is_anew = msg && e->home != HOME_NONE,
				  .is_moved = true };

	size->inserted += e->home == HOME_NONE && w.home != HOME_NONE;
	size->removed += e->home != HOME_NONE && w.home == HOME_NONE;
	encode_home(b, e, &w);
	/* A held message was delivered, which may not be written yet. */
	if (w.home != HOME_NONE && e->deliveries > 0)
		encode_tries(b, e, item->change.reason);
}

/* A purge has begun meanwhile. It removes what it finds beyond the edge of that time. */
static bool is_change_purged(const struct commit_item *item)
{
	const struct entry *e = item->entry;
	const struct shard *sh = e->shard;
	struct place place = { score_of(item), e->id };

	return item->change.state != ENTRY_GONE && sh->keys &&
	       sh->commit_purges != sh->purges &&
	       !place_is_before(place, sh->stages[item->change.state].edge);
}

/* The new state of the entry begins. */
static void take_place(struct commit *c, const struct commit_item *item)
{
	struct entry *e = item->entry;
	struct shard *sh = e->shard;
	bool is_gone = item->change.state == ENTRY_GONE || is_change_purged(item);

	if (!item->is_new)
		c->ops->on_settled(e);
	if (item->change.reason)
		shard_count_failure(e, item->change.reason);
	shard_entry_stored(e);
	shard_entry_clean(e);
	if (item->change.msg)
		shard_revise(e, item->change.msg, e->rank);
	shard_account(e, -1);
	if (sh->keys)
		e->home = is_gone ? HOME_NONE : (uint8_t)item->change.state;
	e->stored_score = score_of(item);
	if (sh->keys && !is_gone && e->deliveries > 0)
		e->flags |= LIES_TRIED;
	e->flags &= (uint16_t) ~(LIES_IN_COMMIT | LIES_LEDGERED | OWED_TRIES |
				 OWED_SCORE | OWED_BODY);
	shard_account(e, 1);
	entry_tell(e, TIDE_OK, NULL);
	shard_entry_leaving(e);
	TAILQ_REMOVE(&sh->moving, e, link);
	if (is_gone) {
		if (sh->dedupe.is_queued)
			dedupe_done(e);
		if (e->group)
			order_release(sh->order, e);
		shard_entry_free(e);
		sh->env->ops->on_ready(sh);
		return;
	}
	e->at_unix_ms = item->change.at_unix_ms;
	shard_entry_place(e, item->change.state, score_of(item));
	/* One that is delayed counts at the queue's limit. */
	sh->env->ops->on_ready(sh);
}

/* A new message: Redis may have it all the same, and forgets it in the next batch. */
static void take_back(struct entry *e, const struct batch_result *result)
{
	struct shard *sh = e->shard;
	bool has_id = e->flags & OWED_ID;

	shard_entry_stored(e);
	entry_tell(e, result->written, result->text);
	shard_entry_leaving(e);
	TAILQ_REMOVE(&sh->moving, e, link);
	e->state = ENTRY_GONE;
	/* The publish id of a message that is not there would confirm a repetition. */
	if (!result->is_unsure || !sh->keys || has_id) {
		shard_entry_free(e);
		return;
	}
	e->flags |= OWED_UNSURE;
	shard_entry_dirty(e);
}

static void undo(const struct commit_item *item, const struct batch_result *result)
{
	struct entry *e = item->entry;

	if (e->shard->size.is_kept && e->shard->is_committing)
		shard_size_move(e, home_after(item), e->home);
	e->flags &= (uint16_t)~LIES_IN_COMMIT;
	if (item->is_new) {
		take_back(e, result);
		return;
	}
	if (result->is_unsure && e->shard->keys)
		e->flags |= OWED_UNSURE;
	shard_resume_held(e);
}

static void end_item(struct commit *c, const struct commit_item *item,
		     const struct batch_result *result)
{
	struct entry *e = item->entry;

	if (e->shard->is_closed) {
		e->flags &= (uint16_t)~LIES_IN_COMMIT;
		shard_entry_free(e);
	} else if (result->written < 0) {
		undo(item, result);
	} else {
		take_place(c, item);
	}
}

/* All that it changes is settled. */
static void finish_shard(struct shard *sh, const struct batch_result *result)
{
	if (!sh->is_committing)
		return;
	sh->is_committing = false;
	dedupe_landed(sh, result);
	/* Reads of Redis have waited. */
	if (!sh->is_closed)
		shard_wake_by(sh, sh->env->now_ms);
	if (sh->take.is_wanted)
		shard_take_tick(sh);
}

static void end_joints(struct commit *c, const struct batch_result *result)
{
	struct joint *j;

	while ((j = STAILQ_FIRST(&c->joints)) != NULL) {
		STAILQ_REMOVE_HEAD(&c->joints, link);
		joint_end_take(j, result->written, result->text);
	}
}

/* Several that were carried out together: none of their shards is read before all of
 * them are in place. */
static void land(struct commit_list *list, const struct batch_result *result)
{
	struct commit *c;

	STAILQ_FOREACH (c, list, link)
		for (size_t i = 0; i < c->count; i++) {
			end_item(c, &c->items[i], result);
			msg_unref(c->items[i].change.msg);
		}
	STAILQ_FOREACH (c, list, link)
		end_joints(c, result);
	STAILQ_FOREACH (c, list, link)
		for (unsigned i = 0; i < c->shard_count; i++)
			finish_shard(c->shards[i], result);
	while ((c = STAILQ_FIRST(list)) != NULL) {
		struct waiter *waiter = c->waiter;

		STAILQ_REMOVE_HEAD(list, link);
		commit_destroy(c);
		waiter_done(waiter, result->written, result->text);
	}
}

static void land_alone(struct commit *c, const struct batch_result *result)
{
	struct commit_list list = STAILQ_HEAD_INITIALIZER(list);

	STAILQ_INSERT_TAIL(&list, c, link);
	land(&list, result);
}

void commit_send_take(struct commit *c)
{
	static const struct batch_result done = { TIDE_OK, TIDE_OK, NULL, false };
	struct joint *j;

	STAILQ_FOREACH (j, &c->joints, link)
		joint_seal(j);
	for (unsigned i = 0; i < c->shard_count; i++)
		c->shards[i]->commit = NULL;
	if (c->is_durable)
		STAILQ_INSERT_TAIL(&c->env->commits.waiting, c, link);
	else
		land_alone(c, &done);
}

static bool is_busy(const struct shard *sh)
{
	return !sh->is_closed && sh->keys &&
	       (sh->is_held_back || sh->is_undefined || sh->take.is_taking ||
		sh->take.is_next || sh->is_flying ||
		(sh->is_committing && sh->commit_flight != sh->env->commits.flight));
}

/* Commits and batches take turns: what one changes in a shard has been answered before
 * the other is encoded. */
static bool may_commit(struct journal *j, const struct store_shard *keys)
{
	const struct journal_lane *lane;

	if (!keys)
		return true;
	lane = lane_of(j, keys);
	return !is_lane_busy(j, lane) &&
	       (!lane->was_commit || TAILQ_EMPTY(&lane->dirty) || is_resting(j, lane));
}

/* The publish is not written, or what Redis has of it is not known: the shard's next
 * batch settles that. */
static bool is_unwritten(const struct entry *e)
{
	return !e->shard->is_closed && (e->flags & OWED_WRITE) &&
	       (e->home == HOME_NONE || (e->flags & (OWED_UNSURE | OWED_BODY)));
}

static bool is_ready(const struct commit *c)
{
	struct journal *journal = c->env->journal;
	const struct joint *j;

	STAILQ_FOREACH (j, &c->joints, link)
		if (!joint_is_ready(j) ||
		    !may_commit(journal, partition_keys(j->partition)))
			return false;
	for (unsigned i = 0; i < c->shard_count; i++)
		if (is_busy(c->shards[i]) || !may_commit(journal, c->shards[i]->keys) ||
		    c->shards[i]->commit_wait == c->env->commits.turn)
			return false;
	for (size_t i = 0; i < c->count; i++)
		if (is_unwritten(c->items[i].entry))
			return false;
	return true;
}

static void begin_shard(struct shard *sh)
{
	sh->is_committing = sh->keys != NULL;
	sh->commit_flight = sh->env->commits.flight;
	sh->commit_purges = sh->purges;
	sh->commit_batch = sh->keys && !sh->is_closed
				   ? store_batch_begin(sh->env->store, sh->keys)
				   : NULL;
}

/* The size is right only behind everything else, and is not seen before. */
static void write_size(struct batch *b, struct store_size stored)
{
	batch_size(b, &(struct store_sizes){ stored, stored, stored });
}

static void fly(struct commit *c, struct store_transaction *t, struct flight_size *size)
{
	struct joint *j;

	STAILQ_FOREACH (j, &c->joints, link)
		size->bytes += joint_send(j, t);
	for (unsigned i = 0; i < c->shard_count; i++)
		begin_shard(c->shards[i]);
	for (size_t i = 0; i < c->count; i++) {
		struct batch *b = c->items[i].entry->shard->commit_batch;

		if (b)
			encode_item(size, &c->items[i], b);
	}
	for (unsigned i = 0; i < c->shard_count; i++) {
		struct batch *b = c->shards[i]->commit_batch;

		if (!b)
			continue;
		if (c->shards[i]->size.is_kept)
			write_size(b, c->shards[i]->size.stored);
		size->bytes += batch_bytes(b);
		store_transaction_add_take(t, b);
	}
	size->entries += c->count;
}

static void land_list(struct commit_list *list, const struct batch_result *result)
{
	struct commit_list landed = STAILQ_HEAD_INITIALIZER(landed);

	/* A callback may add to the list. */
	STAILQ_CONCAT(&landed, list);
	land(&landed, result);
}

/* The lane's other shards do not wait for one that may wait for several Redis. */
static void add_flight_lane(struct commit_flight *f, const struct store_shard *keys,
			    bool is_split)
{
	struct journal *j = f->env->journal;
	struct journal_lane *lane;

	if (!keys)
		return;
	lane = lane_of(j, keys);
	lane->was_commit = true;
	if (is_split)
		return;
	lane->flights++;
	MEM_GROW(f->lanes, f->lane_count, f->lane_cap, 4);
	f->lanes[f->lane_count++] = lane;
}

static void on_answer(void *ctx, const struct batch_result *result)
{
	struct commit_flight *f = ctx;
	struct shard_env *env = f->env;

	for (size_t i = 0; i < f->lane_count; i++)
		f->lanes[i]->flights--;
	if (result->written < 0)
		note_refusal(env->journal, result);
	else
		env->journal->stats.last_error[0] = '\0';
	TAILQ_REMOVE(&env->commits.flying, f, link);
	land_list(&f->commits, result);
	mem_free(f->lanes);
	mem_free(f);
}

/* End the commits of which a part has failed. */
static void end_failed(struct commit_queue *q)
{
	struct commit *c;

	while ((c = STAILQ_FIRST(&q->waiting)) != NULL) {
		struct batch_result failed = { 0 };
		const struct joint *j;

		STAILQ_FOREACH (j, &c->joints, link)
			if (joint_status(j) < 0)
				failed.removed = failed.written = joint_status(j);
		if (failed.written == TIDE_OK)
			return;
		STAILQ_REMOVE_HEAD(&q->waiting, link);
		land_alone(c, &failed);
	}
}

/* The commits are sent: the next flush of their lanes waits for their end. */
static void note_flight(struct commit_flight *f, const struct flight_size *size,
			bool is_split)
{
	struct journal *j = f->env->journal;
	const struct commit *c;
	const struct joint *joint;

	STAILQ_FOREACH (c, &f->commits, link) {
		for (unsigned i = 0; i < c->shard_count; i++)
			add_flight_lane(f, c->shards[i]->keys, is_split);
		STAILQ_FOREACH (joint, &c->joints, link)
			add_flight_lane(f, partition_keys(joint->partition), is_split);
	}
	TAILQ_INSERT_TAIL(&f->env->commits.flying, f, link);
	j->stats.flushes++;
	j->stats.inserted += size->inserted;
	j->stats.removed += size->removed;
	tally_add(&j->stats.changes, tally_sizes, size->inserted + size->removed);
}

/* In a cluster each goes alone: two would be of more slots than either. */
static bool may_join(const struct commit *c, const struct flight_size *size)
{
	return c && c->env->journal->lane_count == 1 && is_ready(c) &&
	       size->entries < FLUSH_ENTRIES_MAX && size->bytes < FLUSH_BYTES_MAX;
}

/* Send a commit with those behind it that may go with it; gives the next one. */
static struct commit *send_from(struct shard_env *env, struct commit *c)
{
	struct commit_flight *f = mem_zalloc(sizeof(*f));
	struct store_transaction *t = store_transaction_begin(env->store);
	struct flight_size size = { 0 };
	struct commit *next;

	f->env = env;
	STAILQ_INIT(&f->commits);
	env->commits.flight++;
	do {
		next = STAILQ_NEXT(c, link);
		STAILQ_REMOVE(&env->commits.waiting, c, commit, link);
		STAILQ_INSERT_TAIL(&f->commits, c, link);
		fly(c, t, &size);
		c = next;
	} while (may_join(c, &size));
	note_flight(f, &size, store_transaction_is_split(t));
	store_transaction_commit_take(t, on_answer, f);
	return next;
}

/* Later commits of its shards wait too. */
static struct commit *wait_for(struct commit *c)
{
	for (unsigned i = 0; i < c->shard_count; i++)
		c->shards[i]->commit_wait = c->env->commits.turn;
	return STAILQ_NEXT(c, link);
}

/* Of those that wait, so many are looked at in a turn: the first may wait for a Redis
 * that is away. */
#define LOOKED_AT_MAX 64

void commit_flush(struct shard_env *env)
{
	struct commit_queue *q = &env->commits;
	struct commit *c;

	end_failed(q);
	q->turn++;
	c = STAILQ_FIRST(&q->waiting);
	for (unsigned n = 0; c && n < LOOKED_AT_MAX; n++)
		c = is_ready(c) ? send_from(env, c) : wait_for(c);
}

void commit_init(struct shard_env *env)
{
	STAILQ_INIT(&env->commits.waiting);
	TAILQ_INIT(&env->commits.flying);
}

bool commit_is_idle(const struct shard_env *env)
{
	return STAILQ_EMPTY(&env->commits.waiting) && TAILQ_EMPTY(&env->commits.flying);
}

void commit_fail(struct shard_env *env, int status, const char *text)
{
	const struct batch_result failed = { status, status, text, false };

	land_list(&env->commits.waiting, &failed);
}
