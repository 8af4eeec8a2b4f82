#include "policies.h"

#include "base/container.h"
#include "base/mem.h"
#include "exchange_terms.h"
#include "exchange_update.h"
#include "job.h"
#include "queue.h"
#include "queue_terms.h"
#include "rules/engine/hook.h"
#include "update.h"
#include "walk.h"

struct policies {
	struct job job;
	struct broker *broker;
	struct walk walk;
	bool is_walking;
	bool are_used; /* by the generation that was asked last */
};

static void end(struct policies *p)
{
	if (p->is_walking)
		walk_end(&p->walk);
	p->is_walking = false;
}

/* False: all were asked about. */
static bool renew_next(struct walk *w)
{
	struct exchange *x = walk_exchange(w);
	struct queue *q = NULL;

	if (x)
		exchange_update_renew(x);
	else if ((q = walk_queue(w)) != NULL || (q = walk_topic(w)) != NULL)
		update_renew(q);
	return x || q;
}

static void run(struct job *job)
{
	struct policies *p = container_of(job, struct policies, job);
	struct broker *b = p->broker;

	while (!b->is_closing && renew_next(&p->walk))
		if (pace_is_spent(&b->pace, false)) {
			job_add(b, job);
			return;
		}
	end(p);
}

static bool renew_unusable(void *ctx, struct definition *d)
{
	if (d->unusable && definition_is_queue(d->table))
		update_renew(container_of(d, struct queue, definition));
	else if (d->unusable)
		exchange_update_renew(container_of(d, struct exchange, definition));
	return true;
}

void policies_renew(struct broker *b)
{
	struct policies *p = b->policies;
	bool were_used = p->are_used;

	p->are_used = hook_is_used(b->engine, SCRIPT_DECLARE);
	/* Without policies queues do what they were declared with. */
	if (!p->are_used && !were_used)
		return;
	if (b->unusable)
		definition_each(b, renew_unusable, NULL);
	end(p);
	walk_begin(&p->walk, b);
	p->is_walking = true;
	job_add(b, &p->job);
}

static bool begin_one(void *ctx, struct definition *d)
{
	if (!d->is_unreadable && definition_is_queue(d->table))
		update_restored(container_of(d, struct queue, definition));
	else if (!d->is_unreadable)
		exchange_update_restored(container_of(d, struct exchange, definition));
	return true;
}

void policies_begin(struct broker *b)
{
	bool were_used = b->policies->are_used;

	b->policies->are_used = hook_is_used(b->engine, SCRIPT_DECLARE);
	if (b->policies->are_used || were_used)
		definition_each(b, begin_one, NULL);
}

int policies_check_option(const char *kind, const struct arg *option, struct error *err)
{
	if (strcmp(kind, "exchange") == 0)
		return exchange_terms_check_option(option, err);
	return queue_terms_check_option(strcmp(kind, "topic") == 0, option, err);
}

struct policies *policies_create(struct broker *b)
{
	struct policies *p = mem_zalloc(sizeof(*p));

	p->broker = b;
	p->job.run = run;
	b->on_policies_missed = update_renew;
	return p;
}

void policies_destroy(struct policies *p)
{
	end(p);
	mem_free(p);
}
