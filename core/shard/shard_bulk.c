/* What concerns many messages of a shard at once: kick, purge, recovery. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "host/log.h"
#include "journal.h"
#include "shard.h"

#define BULK_ROWS 2048 /* of one read or purge */

/* ---- kick --------------------------------------------------------------------- */

#define KICK_RETRY_MS 100

static struct entry *first_buried(struct stage *st)
{
	if (st->window.count == 0)
		stage_refill(st);
	return window_first(&st->window);
}

void shard_kick_continue(struct shard *sh)
{
	struct stage *st = &sh->stages[ENTRY_BURIED];
	struct waiter *w = sh->kick_waiter;
	struct entry *e;

	if (!w)
		return;
	while (sh->kicks_wanted > 0 && (e = first_buried(st)) != NULL) {
		sh->kicks_wanted--;
		e->failures = 0;
		e->reason = NULL;
		e->flags |= ENTRY_TRIES_DIRTY;
		shard_entry_leave(e);
		shard_entry_enter(e, ENTRY_READY, e->rank);
	}
	if (sh->kicks_wanted > 0 && st->beyond > 0) {
		/* The read that brings them will call again. */
		if (!st->is_refilling)
			shard_wake_by(sh, sh->env->now_ms + KICK_RETRY_MS);
		return;
	}
	sh->kicks_wanted = 0;
	sh->kick_waiter = NULL;
	waiter_done(w, TIDE_OK, NULL);
}

int shard_kick(struct shard *sh, uint64_t n, struct waiter *waiter, uint64_t *kicked)
{
	uint64_t buried = shard_count(sh, ENTRY_BURIED);

	if (sh->kick_waiter || sh->is_held_back)
		return TIDE_EBUSY;
	*kicked = n < buried ? n : buried;
	if (*kicked == 0)
		return TIDE_OK;
	waiter_add(waiter);
	sh->kicks_wanted = *kicked;
	sh->kick_waiter = waiter;
	shard_kick_continue(sh);
	return TIDE_OK;
}

/* ---- purge -------------------------------------------------------------------- */

struct purge {
	struct shard *shard;
	struct waiter *waiter;
	uint64_t left[SHARD_STAGES]; /* to be removed from Redis alone */
	unsigned asked;              /* how many the request under way may remove */
	unsigned recounts;
	int stage;
};

/* A request that was sent twice removes less than it is asked to, and says so;
 * what else is a reason to count once more ends after some times. */
#define RECOUNTS_MAX 16

static void release(struct shard *sh)
{
	sh->is_held_back = false;
	if (sh->is_closed)
		return;
	if (!TAILQ_EMPTY(&sh->dirty))
		journal_add(sh->env->journal, sh);
	for (int i = 0; i < SHARD_STAGES; i++)
		stage_relieve(&sh->stages[i]);
	/* Whatever was not asked for meanwhile: the tick finds it. */
	shard_wake_by(sh, sh->env->now_ms);
	sh->ops->on_ready(sh);
}

static void purge_end(struct purge *p, int status, const char *text)
{
	struct shard *sh = p->shard;

	if (status < 0)
		log_warn("purge: %s", text ? text : error_text(status));
	for (int i = 0; i < SHARD_STAGES && !sh->is_closed; i++)
		stage_restore_beyond(&sh->stages[i], p->left[i]);
	release(sh);
	waiter_done(p->waiter, status, text);
	shard_unref(sh);
	mem_free(p);
}

static void purge_next(struct purge *p);
static void purge_count(struct purge *p);

static void on_purged(void *ctx, int status, const char *text, uint64_t removed)
{
	struct purge *p = ctx;

	if (status < 0) {
		purge_end(p, status, text);
		return;
	}
	p->left[p->stage] -= removed < p->asked ? removed : p->asked;
	if (removed < p->asked && p->recounts++ < RECOUNTS_MAX)
		purge_count(p);
	else
		purge_next(p);
}

static void purge_next(struct purge *p)
{
	struct shard *sh = p->shard;

	while (p->stage < SHARD_STAGES && p->left[p->stage] == 0)
		p->stage++;
	if (p->stage == SHARD_STAGES || sh->is_closed || p->recounts > RECOUNTS_MAX) {
		purge_end(p, TIDE_OK, NULL);
		return;
	}
	p->asked =
		p->left[p->stage] < BULK_ROWS ? (unsigned)p->left[p->stage] : BULK_ROWS;
	store_purge(sh->env->store, sh->keys, sh->stages[p->stage].set,
		    (int64_t)sh->stages[p->stage].indexed, p->asked, on_purged, p);
}

/* No batch is under way any more, and none will be: what Redis has before the
 * edge is known for certain, and all that is behind it is to go. */
static void on_purge_counts(void *ctx, int status, const char *text,
			    const struct store_counts *counts)
{
	struct purge *p = ctx;

	if (status < 0) {
		purge_end(p, status, text);
		return;
	}
	for (int i = 0; i < SHARD_STAGES; i++) {
		const struct stage *st = &p->shard->stages[i];
		uint64_t size = counts->sets[st->set];

		p->left[i] = size > st->indexed ? size - st->indexed : 0;
	}
	p->stage = 0;
	purge_next(p);
}

static void purge_count(struct purge *p)
{
	store_read_counts(p->shard->env->store, p->shard->keys, on_purge_counts, p);
}

static uint64_t remove_all(struct entry_list *list, struct window *w,
			   struct waiter *waiter)
{
	struct entry *e;
	uint64_t n = 0;

	while ((e = window_first(w)) != NULL || (e = TAILQ_FIRST(list)) != NULL) {
		shard_remove(e, waiter);
		n++;
	}
	return n;
}

uint64_t shard_purge(struct shard *sh, struct waiter *waiter)
{
	struct purge *p = mem_zalloc(sizeof(*p));
	uint64_t n = 0;

	for (int i = 0; i < SHARD_STAGES; i++) {
		struct stage *st = &sh->stages[i];

		p->left[i] = stage_forget_beyond(st);
		n += p->left[i] + remove_all(&st->outside, &st->window, waiter);
	}
	sh->purges++;
	waiter_add(waiter);
	p->shard = shard_ref(sh);
	p->waiter = waiter;
	if (!sh->keys) {
		purge_end(p, TIDE_OK, NULL);
		return n;
	}
	sh->is_held_back = true;
	purge_count(p);
	return n;
}

/* ---- recovery ------------------------------------------------------------------- */

struct recovery {
	struct shard *shard;
	struct waiter *waiter;
	int64_t start;
	struct place last; /* of the rows that were taken */
};

static void recovery_end(struct recovery *r, int status, const char *text)
{
	struct shard *sh = r->shard;

	release(sh);
	if (!sh->is_closed && status == TIDE_OK) {
		stage_refill(&sh->stages[ENTRY_DELAYED]);
		stage_refill(&sh->stages[ENTRY_READY]);
		if (shard_count(sh, ENTRY_READY) > 0)
			sh->served = NAN;
	}
	waiter_done(r->waiter, status, text);
	shard_unref(sh);
	mem_free(r);
}

static void recover_row(struct shard *sh, const struct store_row *row)
{
	struct entry *e = shard_entry_create(sh, row->msg, row->id, row->rank);

	e->home = STORE_UNACK;
	e->stored_score = row->score;
	e->attempts = row->attempts;
	e->failures = row->failures;
	e->reason = entry_reason_intern(row->reason);
	e->flags |= ENTRY_TRIES_STORED;
	if (!row->msg && !row->is_corrupt) {
		e->state = ENTRY_GONE;
		shard_entry_dirty(e);
	} else if (!row->msg) {
		e->state = ENTRY_BURIED;
		shard_entry_dirty(e);
		stage_put_last(&sh->stages[ENTRY_BURIED], e);
	} else {
		shard_entry_enter(e, ENTRY_READY, e->rank);
	}
}

static void on_unacked(void *ctx, int status, const char *text, struct store_row *rows,
		       size_t count)
{
	struct recovery *r = ctx;
	struct shard *sh = r->shard;

	if (status < 0 || sh->is_closed || count == 0) {
		recovery_end(r, status < 0 ? status : TIDE_OK, text);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		struct place place = { rows[i].score, rows[i].id };

		/* Members that are no ids are counted in the start, not in the rows. */
		if (!place_is_before(r->last, place))
			continue;
		r->last = place;
		recover_row(sh, &rows[i]);
	}
	r->start += (int64_t)count;
	store_read(sh->env->store, sh->keys, STORE_UNACK, r->start, BULK_ROWS,
		   sh->env->window_bytes, false, on_unacked, r);
}

static void on_counts(void *ctx, int status, const char *text,
		      const struct store_counts *c)
{
	struct recovery *r = ctx;
	struct shard *sh = r->shard;

	if (status < 0 || sh->is_closed) {
		recovery_end(r, status, text);
		return;
	}
	for (int i = 0; i < SHARD_STAGES; i++)
		stage_recover(&sh->stages[i], c->sets[sh->stages[i].set]);
	if (c->sets[STORE_UNACK] == 0) {
		recovery_end(r, TIDE_OK, NULL);
		return;
	}
	store_read(sh->env->store, sh->keys, STORE_UNACK, 0, BULK_ROWS,
		   sh->env->window_bytes, false, on_unacked, r);
}

void shard_recover(struct shard *sh, struct waiter *waiter)
{
	struct recovery *r = mem_zalloc(sizeof(*r));

	waiter_add(waiter);
	r->shard = shard_ref(sh);
	r->waiter = waiter;
	r->last = (struct place){ -DBL_MAX, 0 };
	sh->is_held_back = true;
	store_read_counts(sh->env->store, sh->keys, on_counts, r);
}
