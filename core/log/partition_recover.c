/* partition_recover.c: a partition is read that was there before this process. */
#include "base/mem.h"
#include "compact.h"
#include "host/log.h"
#include "partition_private.h"

/* At a time, of all partitions: each reads a batch, and Redis has them all in its memory
 * until they are sent. */
#define RECOVERING_MAX 256

struct log_recover {
	STAILQ_ENTRY(log_recover) link; /* of env->recovers */
	struct partition *partition;
	partition_group_fn on_group;
	struct waiter *waiter;
};

static void recover_tell(struct log_recover *r, int status, const char *text)
{
	struct waiter *waiter = r->waiter;

	partition_unref(r->partition);
	mem_free(r);
	waiter_done(waiter, status, text);
}

static void recover_begin(struct log_recover *r);

/* Those that wait go on, unless the store is being closed. */
static void recover_end(struct log_recover *r, int status, const char *text)
{
	struct partition_env *env = r->partition->env;
	struct log_recover *next;

	env->recovering--;
	while ((next = STAILQ_FIRST(&env->recovers)) != NULL &&
	       (env->recovering < RECOVERING_MAX || status == TIDE_ESHUTDOWN)) {
		STAILQ_REMOVE_HEAD(&env->recovers, link);
		if (status == TIDE_ESHUTDOWN)
			recover_tell(next, status, NULL);
		else
			recover_begin(next);
	}
	recover_tell(r, status, text);
}

/* Where the last batch ends is known by its head, even if its records are damaged. */
static int recover_damaged(struct partition *p, const struct store_log_batch *last,
			   const struct error *why, struct error *err)
{
	struct record_batch head;

	if (!record_peek(last->bytes, &head) || head.base != last->base)
		return error_set(
			err, TIDE_ESTORE,
			"the last batch of %slog:%08u, at offset %llu, cannot be "
			"read: %s",
			store_log_prefix(p->keys), partition_last_day(p)->day,
			(unsigned long long)last->base, why->text);
	log_error("%slog:%08u: the last batch, at offset %llu, cannot be read; the log "
		  "goes "
		  "on at offset %llu: %s",
		  store_log_prefix(p->keys), partition_last_day(p)->day,
		  (unsigned long long)last->base, (unsigned long long)head.end,
		  why->text);
	p->readable = head.end;
	p->position = head.position + last->bytes.len;
	return TIDE_OK;
}

static int recover_last(struct partition *p, const struct store_log_batch *last,
			struct error *err)
{
	struct record_batch *b;
	struct error why;
	int rc = record_open_at(last->bytes, last->base, &b, &why);

	if (rc == TIDE_ESTORE)
		return recover_damaged(p, last, &why, err);
	if (rc < 0)
		return error_set(err, rc, "%s", why.text);
	p->readable = b->end;
	p->position = b->position + b->len;
	p->last_ms = p->append_ms = b->last_ms;
	record_batch_unref(b);
	return TIDE_OK;
}

static void recover_days(struct partition *p, const struct store_log_state *state)
{
	for (size_t i = 0; i < state->day_count; i++) {
		const struct store_log_day *d = &state->days[i];
		const struct partition_day day = { .day = d->day,
						   .base = d->base,
						   .position = d->position,
						   .first_ms = d->first_ms };

		partition_add_day(p, &day);
	}
}

static int recover_state(struct partition *p, const struct store_log_state *state,
			 struct error *err)
{
	int rc = TIDE_OK;

	recover_days(p, state);
	p->start = p->readable = state->start;
	p->largest = state->largest;
	if (p->day_count > 0) {
		p->first_position = p->days[0].position;
		p->position = partition_last_day(p)->position;
		p->append_ms = partition_last_day(p)->first_ms;
	}
	if (state->last.bytes.data)
		rc = recover_last(p, &state->last, err);
	/* A log that was trimmed to its end. */
	if (p->readable < p->start)
		p->readable = p->start;
	p->end = p->readable;
	p->next_position = p->position;
	return rc;
}

static void recover_measured(void *ctx, int status, const char *text)
{
	struct log_recover *r = ctx;

	if (status == TIDE_OK)
		compact_note(r->partition);
	recover_end(r, status, text);
}

static void on_state(void *ctx, int status, const char *text,
		     const struct store_log_state *state)
{
	struct log_recover *r = ctx;
	struct partition *p = r->partition;
	struct error err = { 0 };

	if (status == TIDE_OK && !p->is_closed) {
		status = recover_state(p, state, &err);
		text = err.text;
	}
	if (status < 0 || p->is_closed) {
		recover_end(r, status, text);
		return;
	}
	for (size_t i = 0; i < state->group_count && !p->is_closed; i++)
		r->on_group(p, state->groups[i].name, state->groups[i].committed);
	partition_trim_measure(p, recover_measured, r);
}

static void recover_begin(struct log_recover *r)
{
	struct partition *p = r->partition;

	p->env->recovering++;
	store_log_recover(p->env->store, p->keys, on_state, r);
}

void partition_recover(struct partition *p, partition_group_fn on_group,
		       struct waiter *waiter)
{
	struct log_recover *r;

	if (!p->keys)
		return;
	r = mem_zalloc(sizeof(*r));
	r->partition = partition_ref(p);
	r->on_group = on_group;
	r->waiter = waiter;
	waiter_add(waiter);
	if (p->env->recovering < RECOVERING_MAX)
		recover_begin(r);
	else
		STAILQ_INSERT_TAIL(&p->env->recovers, r, link);
}
