/* shard_size.c: the bytes of a shard's payloads, for queues that limit them.
 *
 * What waits in a window is added up in memory, but what Redis alone has is not known one
 * by one. Each batch therefore writes how many messages are stored that are not buried,
 * and their bytes: as it is before its removals, behind them, and behind its writes. A
 * step is done as a whole or not at all, and each has another number of messages: the
 * number that a start finds tells which of the sums is right. When none is, Redis refused
 * to write them, and the bodies are read once. */
#include "base/mem.h"
#include "host/log.h"
#include "shard.h"

#define READ_ROWS 2048 /* of one request */

struct shard_size_recovery {
	struct shard *shard;
	uint64_t messages; /* that Redis has */
	int set;           /* that is being read */
	int64_t start;
	store_done_fn on_done;
	void *ctx;
};

static void end(struct shard_size_recovery *r, int status, const char *text)
{
	r->shard->size.stored.messages = r->messages;
	r->on_done(r->ctx, status, text);
	mem_free(r);
}

static void read_next(struct shard_size_recovery *r);

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	struct shard_size_recovery *r = ctx;

	if (status < 0 || r->shard->is_closed) {
		end(r, status, text);
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
	read_next(r);
}

static void read_next(struct shard_size_recovery *r)
{
	const struct shard *sh = r->shard;

	if (r->set == STORE_BURIED)
		r->set++;
	if (r->set == STORE_SET_COUNT)
		end(r, TIDE_OK, NULL);
	else
		store_read(sh->env->store, sh->keys, (enum store_set)r->set, r->start,
			   READ_ROWS, sh->env->window_bytes, false, on_rows, r);
}

static void on_size(void *ctx, int status, const char *text,
		    const struct store_size *sizes, unsigned count)
{
	struct shard_size_recovery *r = ctx;

	for (unsigned i = 0; status == TIDE_OK && i < count; i++) {
		if (sizes[i].messages != r->messages)
			continue;
		r->shard->size.stored = sizes[i];
		end(r, TIDE_OK, NULL);
		return;
	}
	if (status < 0 || r->messages == 0) {
		end(r, status, text);
		return;
	}
	log_info("the bytes of %llu messages of a shard are not known: reading them",
		 (unsigned long long)r->messages);
	read_next(r);
}

void shard_size_recover(struct shard *sh, const struct store_counts *counts,
			store_done_fn on_done, void *ctx)
{
	struct shard_size_recovery *r = mem_zalloc(sizeof(*r));
	uint64_t buried = counts->sets[STORE_BURIED];

	r->shard = sh;
	r->messages = counts->bodies > buried ? counts->bodies - buried : 0;
	r->on_done = on_done;
	r->ctx = ctx;
	sh->size.stored = (struct store_size){ 0, 0 };
	store_size_read(sh->env->store, sh->keys, on_size, r);
}

static bool counts(uint8_t home)
{
	return home < STORE_SET_COUNT && home != STORE_BURIED;
}

void shard_size_move(const struct entry *e, uint8_t from, uint8_t to)
{
	struct shard_size *size = &e->shard->size;
	uint64_t bytes = e->msg ? e->msg->payload_len : 0;

	/* The body of an interrupted removal went before. */
	if (!e->msg && to == HOME_NONE)
		return;
	if (counts(from)) {
		size->stored.messages--;
		size->stored.bytes -= bytes;
	}
	if (counts(to)) {
		size->stored.messages++;
		size->stored.bytes += bytes;
	}
	if (counts(from) && to == HOME_NONE) {
		size->left.messages--;
		size->left.bytes -= bytes;
	}
}

/* ---- a limit that comes or goes ---- */

static uint64_t sum_window(const struct window *w)
{
	const struct entry *e;
	uint64_t bytes = 0;

	for (e = window_first(w); e; e = window_next(w, e))
		bytes += e->msg ? e->msg->payload_len : 0;
	return bytes;
}

bool shard_size_is_known(struct shard *sh)
{
	const struct stage *ready = &sh->stages[ENTRY_READY];
	const struct stage *delayed = &sh->stages[ENTRY_DELAYED];

	if (!sh->size.is_unknown)
		return true;
	if (ready->beyond || delayed->beyond || shard_is_reading(sh) ||
	    delayed->is_refilling || sh->is_held_back || (sh->order && sh->order->parked))
		return false;
	sh->waiting_bytes = sum_window(&ready->window) + sum_window(&delayed->window);
	sh->size.is_unknown = false;
	return true;
}

/* How many messages are stored was not counted: no start finds so many, and it reads
 * the bodies once. */
#define NEVER_FOUND (UINT64_C(1) << 62)

static bool is_empty(const struct shard *sh)
{
	uint64_t n = sh->unacked + sh->flight.count + sh->unstored.messages;

	for (int i = 0; i < SHARD_STAGES; i++)
		n += sh->stages[i].window.count + sh->stages[i].beyond;
	return n == 0 && TAILQ_EMPTY(&sh->dirty) && TAILQ_EMPTY(&sh->moving);
}

void shard_size_keep(struct shard *sh, bool is_kept)
{
	is_kept = is_kept && sh->keys;
	if (is_kept && !sh->size.is_kept && !is_empty(sh))
		sh->size.stored = (struct store_size){ NEVER_FOUND, 0 };
	sh->size.is_kept = is_kept;
}
