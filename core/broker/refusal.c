#include "refusal.h"

#include <float.h>

#include "base/mem.h"
#include "base/msg.h"
#include "getter.h"
#include "queue.h"

/* Messages that have become ready before the place of its shard. With more the search
 * begins there again. */
#define BACK_MAX 64

struct refusal_back {
	unsigned shard;
	struct place place;
};

struct refusal {
	TAILQ_ENTRY(refusal) link; /* in queue.refusals */
	struct consumer *consumer;
	uint64_t epoch;     /* of the rules */
	int64_t until_ms;   /* by the broker's mono_ms */
	unsigned left;      /* messages to look at until then */
	struct place *from; /* by the number of the shard */
	unsigned from_count;
	struct refusal_back back[BACK_MAX];
	unsigned back_count;
};

static struct place place_of(const struct entry *e)
{
	return (struct place){ e->rank, e->id };
}

static struct place place_behind(const struct entry *e)
{
	return (struct place){ e->rank, e->id + 1 };
}

static struct place *from_of(struct refusal *r, unsigned shard)
{
	if (shard >= r->from_count) {
		r->from = mem_realloc(r->from, (shard + 1) * sizeof(*r->from));
		for (; r->from_count <= shard; r->from_count++)
			r->from[r->from_count] = (struct place){ -DBL_MAX, 0 };
	}
	return &r->from[shard];
}

static struct refusal *begin(struct consumer *c)
{
	struct queue *q = c->queue;
	struct refusal *r = mem_zalloc(sizeof(*r));

	r->consumer = c;
	r->epoch = engine_epoch(q->vhost->broker->engine);
	r->until_ms = q->vhost->broker->mono_ms + REFUSAL_MS;
	r->left = REFUSAL_LOOKS;
	TAILQ_INSERT_TAIL(&q->refusals, r, link);
	queue_wake_by(q, r->until_ms);
	return c->refusal = r;
}

void refusal_add(struct consumer *c, const struct entry *e)
{
	struct refusal *r = c->refusal ? c->refusal : begin(c);
	struct place *from = from_of(r, e->shard->index);

	if (r->left > 0)
		r->left--;
	e->shard->has_passed = true;
	if (!place_is_before(place_of(e), *from))
		*from = place_behind(e);
}

void refusal_forget(struct consumer *c)
{
	struct refusal *r = c->refusal;
	struct queue *q = c->queue;

	if (!r)
		return;
	c->refusal = NULL;
	TAILQ_REMOVE(&q->refusals, r, link);
	mem_free(r->from);
	mem_free(r);
	for (unsigned i = 0; TAILQ_EMPTY(&q->refusals) && i < q->shard_count; i++)
		q->shards[i]->has_passed = false;
}

void refusal_turn(struct queue *q)
{
	const struct broker *b = q->vhost->broker;
	struct refusal *r;

	while ((r = TAILQ_FIRST(&q->refusals)) != NULL &&
	       (r->until_ms <= b->mono_ms || r->epoch != engine_epoch(b->engine))) {
		refusal_forget(r->consumer);
		q->has_news = true;
	}
	if (r)
		queue_wake_by(q, r->until_ms);
}

/* The search begins there again. It finds what was noted behind that place. */
static void go_back(struct refusal *r, unsigned shard, struct place place)
{
	unsigned kept = 0;

	*from_of(r, shard) = place;
	for (unsigned i = 0; i < r->back_count; i++)
		if (r->back[i].shard != shard || place_is_before(r->back[i].place, place))
			r->back[kept++] = r->back[i];
	r->back_count = kept;
}

static void note(struct refusal *r, const struct entry *e)
{
	unsigned shard = e->shard->index;
	struct place place = place_of(e);

	if (!place_is_before(place, *from_of(r, shard)))
		return;
	if (r->back_count == BACK_MAX)
		go_back(r, shard, place);
	else
		r->back[r->back_count++] = (struct refusal_back){ shard, place };
}

void refusal_entering(struct queue *q, const struct entry *e)
{
	struct refusal *r;

	TAILQ_FOREACH (r, &q->refusals, link)
		note(r, e);
}

static bool is_takable(const struct consumer *c, const struct entry *e)
{
	const struct msg_match *match = c->getter ? c->getter->match : NULL;

	return (!e->expires_unix_ms || e->expires_unix_ms > e->shard->env->now_ms) &&
	       (!match || msg_match_has(match, e->msg, e->failures + 1));
}

/* The match of its GET has had its time in this turn. */
static bool is_spent(const struct consumer *c)
{
	const struct msg_match *match = c->getter ? c->getter->match : NULL;

	if (match && msg_match_error(match))
		getter_hurry(c->getter);
	return match && msg_match_is_spent(match, c->queue->vhost->broker->now_ms);
}

static struct shard *shard_of(const struct queue *q, unsigned index)
{
	if (index == QUEUE_TRANSIENT)
		return q->transient;
	return index < config_shards(&q->config) ? q->by_index[index] : NULL;
}

/* The message of the window at this very place; NULL: the message has gone. */
static struct entry *find(const struct queue *q, const struct refusal_back *back,
			  bool *is_unfinished)
{
	struct shard *sh = shard_of(q, back->shard);
	struct entry *e = NULL;

	if (sh && !window_seek(&sh->stages[ENTRY_READY].window, back->place, &e))
		*is_unfinished = true;
	return e && e->id == back->place.id ? e : NULL;
}

/* The first of those that have become ready before. */
static struct entry *next_back(struct refusal *r, bool *is_unfinished)
{
	struct refusal_back back;
	struct entry *e;
	unsigned first;

	while (r->back_count > 0 && r->left > 0) {
		first = 0;
		for (unsigned i = 1; i < r->back_count; i++)
			if (place_is_before(r->back[i].place, r->back[first].place))
				first = i;
		back = r->back[first];
		e = find(r->consumer->queue, &back, is_unfinished);
		if (*is_unfinished)
			return NULL;
		r->back[first] = r->back[--r->back_count];
		r->left--;
		if (e && is_takable(r->consumer, e))
			return e;
	}
	return NULL;
}

/* The first from the place of the shard on. */
static struct entry *next_in(struct refusal *r, struct shard *sh, bool *is_unfinished)
{
	struct place *from = from_of(r, sh->index);
	struct window *w = &sh->stages[ENTRY_READY].window;
	struct entry *e = NULL;

	shard_first_ready(sh); /* reads more when few are left */
	if (!window_seek(w, *from, &e))
		*is_unfinished = true;
	for (; e && r->left > 0 && !is_takable(r->consumer, e); r->left--) {
		if (is_spent(r->consumer)) {
			*is_unfinished = true;
			return NULL;
		}
		*from = place_behind(e);
		sh->has_passed = true;
		e = window_next(w, e);
	}
	return r->left > 0 ? e : NULL;
}

struct entry *refusal_next(struct consumer *c, bool *is_unfinished)
{
	const struct queue *q = c->queue;
	struct refusal *r = c->refusal;
	struct entry *first = next_back(r, is_unfinished);

	if (first)
		return first;
	for (unsigned i = 0; i < q->shard_count; i++) {
		struct entry *e = next_in(r, q->shards[i], is_unfinished);

		if (e && (!first || place_is_before(place_of(e), place_of(first))))
			first = e;
	}
	return first;
}
