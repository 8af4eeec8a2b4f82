/* shard_recover.c: a shard is read that was there before this process. */
#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "host/log.h"
#include "shard.h"

#define READ_ROWS 2048 /* of one request */

struct shard_recovery {
	struct shard *shard;
	struct waiter *waiter;
	bool has_returned; /* what was in no set */
	int64_t start;
	struct store_counts counts;
	uint64_t messages;     /* that Redis has, not buried */
	int set;               /* of which the bodies are being read */
	uint64_t buried_bytes; /* of what was taken out of there */
	struct place last;     /* of the rows that were taken */
};

static void recovery_end(struct shard_recovery *r, int status, const char *text)
{
	struct shard *sh = r->shard;

	/* All that was held waits again. */
	sh->waiting_bytes = sh->size.stored.bytes - r->buried_bytes;
	sh->size.is_unknown = !sh->size.is_kept;
	shard_resume(sh);
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

/* From r->start on. */
static void read_rows(struct shard_recovery *r, enum store_set set, store_rows_fn on_rows)
{
	const struct shard *sh = r->shard;
	const struct store_read read = { .set = set,
					 .start = r->start,
					 .count = READ_ROWS,
					 .max_bytes = sh->env->window_bytes };

	store_read(sh->env->store, sh->keys, &read, on_rows, r);
}

/* A message that was held is ready again; one that was taken by its id is where it
 * was. */
static void put_back(struct shard_recovery *r, const struct store_row *row)
{
	struct shard *sh = r->shard;
	int64_t at_ms = 0;
	enum store_set from = shard_take_recover(sh, row->score, &at_ms);
	struct entry *e = stage_row_entry(sh, row, STORE_UNACK);

	if (!e)
		return;
	e->at_unix_ms = at_ms;
	if (from == STORE_BURIED && sh->size.is_kept)
		r->buried_bytes += e->msg->payload_len;
	if (from == STORE_DELAYED || from == STORE_BURIED)
		shard_entry_enter(e, (enum entry_state)from, (double)at_ms);
	else
		shard_entry_enter(e, ENTRY_READY, e->rank);
}

static void read_unacked(struct shard_recovery *r);

static void on_unacked(void *ctx, int status, const char *text, struct store_row *rows,
		       size_t count)
{
	struct shard_recovery *r = ctx;
	struct shard *sh = r->shard;

	if (status < 0 || sh->is_closed || count == 0) {
		recovery_end(r, status < 0 ? status : TIDE_OK, text);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		struct place place = place_of_row(&rows[i]);

		/* Members that are no ids are counted in the start, not in the rows. */
		if (!place_is_before(r->last, place))
			continue;
		r->last = place;
		put_back(r, &rows[i]);
	}
	r->start += (int64_t)count;
	read_unacked(r);
}

static void read_unacked(struct shard_recovery *r)
{
	if (r->counts.sets[STORE_UNACK] == 0) {
		recovery_end(r, TIDE_OK, NULL);
		return;
	}
	read_rows(r, STORE_UNACK, on_unacked);
}

static void on_order(void *ctx, int status, const char *text)
{
	struct shard_recovery *r = ctx;

	if (status < 0 || r->shard->is_closed)
		recovery_end(r, status, text);
	else
		read_unacked(r);
}

static void on_counts(void *ctx, int status, const char *text,
		      const struct store_counts *c);

/* A Redis that refuses this may take it at the next start. */
static void on_returned(void *ctx, int status, const char *text, uint64_t count)
{
	struct shard_recovery *r = ctx;
	struct shard *sh = r->shard;

	if (status == TIDE_OK)
		log_info("%llu messages were in no state, after removals that Redis had "
			 "refused in part; they are ready again",
			 (unsigned long long)count);
	else if (status != TIDE_ESHUTDOWN)
		log_warn("messages that are in no state stay so: %s", text);
	store_read_counts(sh->env->store, sh->keys, on_counts, r);
}

/* A body has one place, and a place may be without a body. */
static bool has_lost(const struct store_counts *c)
{
	uint64_t places = 0;

	for (int set = 0; set < STORE_SET_COUNT; set++)
		places += c->sets[set];
	return c->bodies > places;
}

static void begin_stages(struct shard_recovery *r)
{
	struct shard *sh = r->shard;

	for (int i = 0; i < SHARD_STAGES; i++)
		stage_recover(&sh->stages[i], r->counts.sets[sh->stages[i].set]);
	if (sh->order && r->counts.sets[STORE_DELAYED] > 0)
		shard_order_recover(sh, on_order, r);
	else
		read_unacked(r);
}

/* ---- how many bytes the shard has, of which it keeps count */

static void read_bodies(struct shard_recovery *r);

static void on_bodies(void *ctx, int status, const char *text, struct store_row *rows,
		      size_t count)
{
	struct shard_recovery *r = ctx;

	if (status < 0 || r->shard->is_closed) {
		recovery_end(r, status, text);
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (rows[i].msg)
			r->shard->size.stored.bytes += rows[i].msg->payload_len;
	r->start += (int64_t)count;
	if (count == 0) {
		r->set++;
		r->start = 0;
	}
	read_bodies(r);
}

static void read_bodies(struct shard_recovery *r)
{
	if (r->set == STORE_BURIED)
		r->set++;
	if (r->set == STORE_SET_COUNT)
		begin_stages(r);
	else
		read_rows(r, (enum store_set)r->set, on_bodies);
}

static void on_size(void *ctx, int status, const char *text,
		    const struct store_size *sizes, unsigned count)
{
	struct shard_recovery *r = ctx;
	struct shard *sh = r->shard;

	if (status < 0 || sh->is_closed) {
		recovery_end(r, status, text);
		return;
	}
	sh->size.stored = (struct store_size){ r->messages, 0 };
	for (unsigned i = 0; i < count; i++)
		if (sizes[i].messages == r->messages) {
			sh->size.stored = sizes[i];
			begin_stages(r);
			return;
		}
	if (r->messages > 0)
		log_info("the bytes of %llu messages of a shard are not known: reading "
			 "them",
			 (unsigned long long)r->messages);
	r->set = r->messages > 0 ? STORE_READY : STORE_SET_COUNT;
	read_bodies(r);
}

static void on_trimmed(void *ctx, int status, const char *text, uint64_t count)
{
	if (count > 0)
		log_info("removed the tries of %llu messages whose removal was cut short",
			 (unsigned long long)count);
}

static void on_counts(void *ctx, int status, const char *text,
		      const struct store_counts *c)
{
	struct shard_recovery *r = ctx;
	struct shard *sh = r->shard;

	if (status < 0 || sh->is_closed) {
		recovery_end(r, status, text);
		return;
	}
	if (has_lost(c) && !r->has_returned) {
		r->has_returned = true;
		store_lost_return(sh->env->store, sh->keys, on_returned, r);
		return;
	}
	/* Nobody needs to wait for that. */
	if (c->tries > 0)
		store_tries_trim(sh->env->store, sh->keys, on_trimmed, NULL);
	r->counts = *c;
	r->messages =
		c->bodies > c->sets[STORE_BURIED] ? c->bodies - c->sets[STORE_BURIED] : 0;
	if (sh->size.is_kept)
		store_size_read(sh->env->store, sh->keys, on_size, r);
	else
		begin_stages(r);
}

void shard_recover(struct shard *sh, struct waiter *waiter)
{
	struct shard_recovery *r = mem_zalloc(sizeof(*r));

	waiter_add(waiter);
	r->shard = shard_ref(sh);
	r->waiter = waiter;
	r->last = (struct place){ -DBL_MAX, 0 };
	sh->is_held_back = true;
	store_read_counts(sh->env->store, sh->keys, on_counts, r);
}
