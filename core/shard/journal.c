#include "journal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/mem.h"
#include "host/log.h"
#include "dedupe.h"

/* Bounds of one flush: what Redis writes and syncs in one go. */
#define FLUSH_ENTRIES_MAX 16384
#define FLUSH_BYTES_MAX ((size_t)8 << 20)

#define RETRY_MS 200 /* rest after a refusal, before the same is tried again */

TAILQ_HEAD(shard_list, shard);

struct journal {
	struct shard_env *env;
	struct shard_list dirty;
	unsigned flights; /* batches under way */
	bool was_commit;  /* the last flush was of commits: a batch comes next */
	bool is_refused;  /* something of this flush was refused */
	int64_t retry_unix_ms;
	struct journal_stats stats;
};

struct flight_item {
	struct entry *entry;
	double old_score;
	uint8_t old_home;
	bool is_removal;
	bool is_revision;
};

struct journal *journal_create(struct shard_env *env)
{
	struct journal *j = mem_zalloc(sizeof(*j));

	j->env = env;
	TAILQ_INIT(&j->dirty);
	return j;
}

void journal_destroy(struct journal *j)
{
	mem_free(j);
}

void journal_add(struct journal *j, struct shard *sh)
{
	if (sh->is_journaled)
		return;
	sh->is_journaled = true;
	TAILQ_INSERT_TAIL(&j->dirty, sh, journal_link);
}

void journal_drop(struct journal *j, struct shard *sh)
{
	if (!sh->is_journaled)
		return;
	sh->is_journaled = false;
	TAILQ_REMOVE(&j->dirty, sh, journal_link);
}

#define LIGHT_ENTRIES 4

bool journal_is_light(const struct journal *j)
{
	const struct shard *sh = TAILQ_FIRST(&j->dirty);
	const struct entry *e;
	unsigned n = 0;

	if (!sh || j->flights > 0 || TAILQ_EMPTY(&sh->young) ||
	    TAILQ_NEXT(sh, journal_link))
		return false;
	TAILQ_FOREACH (e, &sh->dirty, dirty_link)
		if (++n > LIGHT_ENTRIES)
			return false;
	return true;
}

bool journal_is_idle(const struct journal *j)
{
	return TAILQ_EMPTY(&j->dirty) && j->flights == 0;
}

int64_t journal_retry_unix_ms(const struct journal *j)
{
	return TAILQ_EMPTY(&j->dirty) ? 0 : j->retry_unix_ms;
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
	/* It was held: its place among the ready ones may be anywhere, and with another
	 * rank behind the edge. */
	if (e->state == ENTRY_MOVING)
		return e->home == STORE_READY && !(e->flags & OWED_BODY) ? STORE_READY
									 : STORE_UNACK;
	return HOME_NONE;
}

static double wanted_score(const struct entry *e, uint8_t home)
{
	return home == STORE_READY ? e->rank : (double)e->at_unix_ms;
}

static void encode_tries(struct batch *b, struct entry *e)
{
	const struct store_tries tries = shard_tries(e, NULL);

	batch_tries(b, e->id, &tries);
	e->flags |= LIES_TRIED;
}

static void encode_move(struct batch *b, struct entry *e, uint8_t want)
{
	double score = wanted_score(e, want);
	bool is_anew = e->flags & (OWED_UNSURE | OWED_BODY);

	if (e->home == HOME_NONE || (is_anew && e->msg))
		batch_insert(b,
			     &(struct store_insert){ e->msg, e->rank, e->expires_unix_ms,
						     (enum store_set)want, score });
	else if (e->home != want || (e->flags & OWED_SCORE))
		batch_move(b, e->id, (enum store_set)e->home, (enum store_set)want,
			   score);
	else
		score = e->stored_score;
	/* The index of what expires may have dropped what was buried. */
	if (e->home == STORE_BURIED && want != STORE_BURIED && e->expires_unix_ms)
		batch_expiry(b, e->id, e->expires_unix_ms);
	if (is_anew)
		batch_leave_others(b, e->id, (enum store_set)want);
	e->stored_score = score;
	if ((e->flags & OWED_TRIES) && e->deliveries > 0)
		encode_tries(b, e);
}

static void encode_entry(struct journal *j, struct batch *b, struct entry *e)
{
	uint8_t want = wanted_home(e);

	if (want == HOME_NONE) {
		if (e->flags & OWED_UNSURE)
			batch_remove_everywhere(b, e->id);
		else
			batch_remove(b, e->id, (enum store_set)e->home,
				     e->flags & LIES_TRIED,
				     !e->msg || e->expires_unix_ms);
		if (e->shard->dedupe.is_queued)
			dedupe_encode_removal(e, b);
		j->stats.removed++;
	} else {
		if (e->home == HOME_NONE) {
			j->stats.inserted++;
			if (e->flags & OWED_ID)
				dedupe_encode(e, b);
		}
		encode_move(b, e, want);
	}
	if (e->shard->size.is_kept)
		shard_size_move(e, e->home, want);
	shard_account(e, -1);
	e->home = want;
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

/* It was left to Redis, and what Redis had was purged: nothing counts it. */
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

		/* It may be freed now, and those who are told may look for old places. */
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
	/* What is too much may be given up now that Redis has what came behind it. */
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

	if (result->removed < 0 || result->written < 0) {
		j->is_refused = true;
		note_refusal(j, result);
	}
	flight_land(sh, result);
	dedupe_landed(sh, result);
	if (sh->take.is_wanted)
		shard_take_tick(sh);
	shard_unref(sh);
	if (--j->flights > 0)
		return;
	if (j->is_refused)
		j->retry_unix_ms = j->env->now_ms + RETRY_MS;
	else
		j->stats.last_error[0] = '\0';
	j->is_refused = false;
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
	j->flights++;
	store_batch_commit_take(b, on_batch, shard_ref(sh));
	return bytes;
}

static bool is_resting(const struct journal *j)
{
	return duration_is_resting(j->env->now_ms, j->retry_unix_ms, RETRY_MS);
}

bool journal_may_commit(const struct journal *j)
{
	bool is_turn = !j->was_commit || TAILQ_EMPTY(&j->dirty) || is_resting(j);

	return j->flights == 0 && is_turn;
}

void journal_commit_begin(struct journal *j, uint64_t inserted, uint64_t removed)
{
	j->was_commit = true;
	j->flights++;
	j->stats.flushes++;
	j->stats.inserted += inserted;
	j->stats.removed += removed;
	tally_add(&j->stats.changes, tally_sizes, inserted + removed);
}

void journal_commit_end(struct journal *j, const struct batch_result *result)
{
	j->flights--;
	if (result->written < 0)
		note_refusal(j, result);
	else
		j->stats.last_error[0] = '\0';
}

void journal_flush(struct journal *j)
{
	unsigned entries = FLUSH_ENTRIES_MAX;
	size_t bytes = 0;
	struct shard *sh, *next;

	if (j->flights > 0 || TAILQ_EMPTY(&j->dirty) || is_resting(j))
		return;
	j->was_commit = false;
	j->retry_unix_ms = 0;
	j->stats.flushes++;
	for (sh = TAILQ_FIRST(&j->dirty); sh && entries > 0 && bytes < FLUSH_BYTES_MAX;
	     sh = next) {
		next = TAILQ_NEXT(sh, journal_link);
		if (sh->is_held_back || sh->take.is_taking)
			continue;
		journal_drop(j, sh);
		bytes += flush_shard(j, sh, &entries);
		if (shard_is_dirty(sh)) {
			/* Behind the others, so that a busy shard starves none. */
			journal_add(j, sh);
			break;
		}
	}
	tally_add(&j->stats.changes, tally_sizes, FLUSH_ENTRIES_MAX - entries);
}
