#include "lock.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/container.h"
#include "base/decimal.h"
#include "base/duration.h"
#include "base/mem.h"
#include "host/log.h"

/* One a millisecond on average, since the start. */
#define TOO_MANY                                                                     \
	"locks are given faster than Redis confirms their tokens ({tide}:ids); try " \
	"again"

/* A request that waits for a lock. */
struct lock_wait {
	TAILQ_ENTRY(lock_wait) link; /* of the lock's */
	LIST_ENTRY(lock_wait) holder_link;
	struct lock *lock;
	struct lock_holder *holder;
	struct heap_node timer;
	int64_t ttl_ms;
	struct waiter *waiter;
	uint64_t *granted;
};

/* A request to Redis. The lock may be another's before the answer, or be gone. */
struct lock_job {
	struct vhost *vhost;
	struct waiter *waiter; /* NULL: nobody waits */
	uint64_t token;        /* that was written */
	size_t name_len;
	char name[];
};

static struct lock *find(struct vhost *v, struct slice name)
{
	struct lock *l;

	HASH_FIND(hh, v->locks, name.data, name.len, l);
	return l;
}

static struct slice name_of(const struct lock *l)
{
	return (struct slice){ l->name, l->name_len };
}

static struct lock *create(struct vhost *v, struct slice name)
{
	struct lock *l = mem_zalloc(sizeof(*l));

	l->vhost = v;
	l->name = mem_strndup(name.data, name.len);
	l->name_len = name.len;
	TAILQ_INIT(&l->waits);
	HASH_ADD_KEYPTR(hh, v->locks, l->name, l->name_len, l);
	v->broker->lock_count++;
	return l;
}

static void leave_holder(struct lock *l)
{
	if (l->holder)
		LIST_REMOVE(l, held_link);
	l->holder = NULL;
	heap_remove(&l->vhost->broker->lock_lapses, &l->timer);
}

static void enter_holder(struct lock *l, struct lock_holder *h)
{
	leave_holder(l);
	l->holder = h;
	LIST_INSERT_HEAD(&h->locks, l, held_link);
}

static void destroy(struct lock *l)
{
	struct vhost *v = l->vhost;

	leave_holder(l);
	HASH_DEL(v->locks, l);
	v->broker->lock_count--;
	mem_free(l->name);
	mem_free(l);
	vhost_check(v);
}

static void let_go(struct lock *l, struct waiter *waiter);

static void on_stored(void *ctx, int status, const char *text)
{
	struct lock_job *job = ctx;
	struct vhost *v = job->vhost;
	struct lock *l = find(v, (struct slice){ job->name, job->name_len });

	/* A grant that a restart forgets must not be acted on. */
	if (status < 0 && status != TIDE_ESHUTDOWN && l && l->token == job->token)
		let_go(l, NULL);
	if (job->waiter)
		waiter_done(job->waiter, status, text);
	vhost_unref(v);
	mem_free(job);
}

static struct lock_job *create_job(const struct lock *l, struct waiter *waiter)
{
	struct lock_job *job = mem_zalloc(sizeof(*job) + l->name_len);

	job->vhost = vhost_ref(l->vhost);
	job->waiter = waiter;
	job->token = l->token;
	job->name_len = l->name_len;
	memcpy(job->name, l->name, l->name_len);
	if (waiter)
		waiter_add(waiter);
	return job;
}

/* Write that the lock is held with its token. */
static void send_held(const struct lock *l, struct waiter *waiter)
{
	struct broker *b = l->vhost->broker;
	struct slice vhost = vhost_slice(l->vhost);
	char value[2 * DECIMAL_MAX + 1];
	char *space = decimal_put(value, l->token), *end;

	if (!b->env.store)
		return;
	*space = ' ';
	end = decimal_put(space + 1, (uint64_t)l->ttl_ms);
	store_definition_set(b->store, STORE_VHOSTS, SLICE(""), vhost, SLICE(""), NULL,
			     NULL);
	store_definition_set(b->store, STORE_LOCKS, vhost, name_of(l),
			     (struct slice){ value, (size_t)(end - value) }, on_stored,
			     create_job(l, waiter));
}

static void send_free(const struct lock *l, struct waiter *waiter)
{
	struct broker *b = l->vhost->broker;

	if (!b->env.store)
		return;
	if (waiter)
		waiter_add(waiter);
	store_definition_remove(b->store, STORE_LOCKS, vhost_slice(l->vhost), name_of(l),
				waiter ? waiter_store_done : NULL, waiter);
}

static void grant(struct lock *l, struct lock_holder *h, uint64_t token,
		  struct waiter *waiter)
{
	l->token = token;
	l->since_ms = l->vhost->broker->now_ms;
	enter_holder(l, h);
	send_held(l, waiter);
	waiter_done(waiter, TIDE_OK, NULL);
}

/* Take it out of all lists. */
static void forget_wait(struct lock_wait *w)
{
	TAILQ_REMOVE(&w->lock->waits, w, link);
	w->lock->wait_count--;
	LIST_REMOVE(w, holder_link);
	heap_remove(&w->lock->vhost->broker->lock_waits, &w->timer);
	mem_free(w);
}

static void fail_wait(struct lock_wait *w, int status, const char *text)
{
	struct waiter *waiter = w->waiter;

	forget_wait(w);
	waiter_done(waiter, status, text);
}

/* The next one has it, or it is free and gone. */
static void let_go(struct lock *l, struct waiter *waiter)
{
	struct broker *b = l->vhost->broker;
	struct lock_wait *w, next;
	uint64_t token = 0;

	send_free(l, waiter);
	while ((w = TAILQ_FIRST(&l->waits)) != NULL &&
	       (token = id_lease_next_token(b)) == 0)
		fail_wait(w, TIDE_EBUSY, TOO_MANY);
	if (!w) {
		destroy(l);
		return;
	}
	next = *w;
	forget_wait(w);
	l->ttl_ms = next.ttl_ms;
	*next.granted = token;
	grant(l, next.holder, token, next.waiter);
}

static int refuse_token(const struct lock *l, struct slice name, uint64_t token,
			struct error *err)
{
	if (!l)
		return error_set(err, TIDE_ELEASE,
				 "lock '%" SLICE_FMT "' is free: token %" PRIu64
				 " has lapsed, or was released",
				 SLICE_ARG(name), token);
	return error_set(err, TIDE_ELEASE,
			 "lock '%" SLICE_FMT "' is held with token %" PRIu64
			 ", not %" PRIu64,
			 SLICE_ARG(name), l->token, token);
}

/* The holder, or its successor by token, comes back. */
static int take_back(struct lock *l, const struct lock_spec *spec, struct error *err)
{
	if (!l || l->token != spec->token)
		return refuse_token(l, spec->name, spec->token, err);
	if (spec->ttl_ms)
		l->ttl_ms = spec->ttl_ms;
	enter_holder(l, spec->holder);
	send_held(l, spec->waiter);
	*spec->granted = l->token;
	waiter_done(spec->waiter, TIDE_OK, NULL);
	return TIDE_OK;
}

static int take_free(struct vhost *v, const struct lock_spec *spec, struct error *err)
{
	struct broker *b = v->broker;
	struct lock *l;
	uint64_t token;

	if (b->lock_count >= b->config.locks_max)
		return error_set(err, TIDE_ELIMIT, "the limit of %u locks is reached",
				 b->lock_count);
	token = id_lease_next_token(b);
	if (!token)
		return error_set(err, TIDE_EBUSY, TOO_MANY);
	l = create(v, spec->name);
	l->ttl_ms = spec->ttl_ms;
	*spec->granted = token;
	grant(l, spec->holder, token, spec->waiter);
	return TIDE_OK;
}

static void wait_for(struct lock *l, const struct lock_spec *spec)
{
	struct broker *b = l->vhost->broker;
	struct lock_wait *w = mem_zalloc(sizeof(*w));

	w->lock = l;
	w->holder = spec->holder;
	w->ttl_ms = spec->ttl_ms;
	w->waiter = spec->waiter;
	w->granted = spec->granted;
	TAILQ_INSERT_TAIL(&l->waits, w, link);
	l->wait_count++;
	LIST_INSERT_HEAD(&spec->holder->waits, w, holder_link);
	heap_set(&b->lock_waits, &w->timer, b->mono_ms + spec->wait_ms);
}

int lock_take(struct vhost *v, const struct lock_spec *spec, struct error *err)
{
	struct lock *l = find(v, spec->name);

	if (v->broker->is_draining)
		return error_set(err, TIDE_ESHUTDOWN, "the broker is stopping");
	if (spec->token)
		return take_back(l, spec, err);
	if (!l)
		return take_free(v, spec, err);
	if (l->holder == spec->holder)
		return error_set(err, TIDE_EEXISTS,
				 "this channel holds lock '%" SLICE_FMT
				 "' already, with token %" PRIu64,
				 SLICE_ARG(spec->name), l->token);
	if (spec->wait_ms > 0) {
		wait_for(l, spec);
		return TIDE_OK;
	}
	return error_set(err, TIDE_EBUSY, "lock '%" SLICE_FMT "' is held%s",
			 SLICE_ARG(spec->name),
			 l->holder ? "" : " until it lapses: its holder has gone");
}

int lock_check(struct vhost *v, struct slice name, uint64_t token, struct error *err)
{
	const struct lock *l = find(v, name);

	return l && l->token == token ? TIDE_OK : refuse_token(l, name, token, err);
}

int lock_release(struct vhost *v, struct slice name, uint64_t token,
		 struct waiter *waiter, struct error *err)
{
	int rc = lock_check(v, name, token, err);

	if (rc == TIDE_OK)
		let_go(find(v, name), waiter);
	return rc;
}

void lock_holder_init(struct lock_holder *h)
{
	LIST_INIT(&h->locks);
	LIST_INIT(&h->waits);
}

void lock_holder_end_waits(struct lock_holder *h)
{
	struct lock_wait *w;

	while ((w = LIST_FIRST(&h->waits)) != NULL)
		fail_wait(w, TIDE_EBUSY, "the lock is held, and nobody waits any more");
}

static void lapse_later(struct lock *l)
{
	struct broker *b = l->vhost->broker;

	leave_holder(l);
	heap_set(&b->lock_lapses, &l->timer, b->mono_ms + l->ttl_ms);
}

void lock_holder_recheck(struct lock_holder *h, lock_may_have_fn may_have, void *ctx)
{
	struct lock_wait *w, *next_wait;
	struct lock *l, *next;
	struct error err;

	for (w = LIST_FIRST(&h->waits); w; w = next_wait) {
		next_wait = LIST_NEXT(w, holder_link);
		if (!may_have(ctx, name_of(w->lock), &err))
			fail_wait(w, err.code, err.text);
	}
	for (l = LIST_FIRST(&h->locks); l; l = next) {
		next = LIST_NEXT(l, held_link);
		if (!may_have(ctx, name_of(l), &err))
			lapse_later(l);
	}
}

void lock_holder_end(struct lock_holder *h)
{
	struct lock *l;

	lock_holder_end_waits(h);
	while ((l = LIST_FIRST(&h->locks)) != NULL)
		lapse_later(l);
}

void lock_restore(struct vhost *v, struct slice name, struct slice value)
{
	struct slice rest = value, token = slice_cut(&rest, ' ');
	uint64_t number, ttl_ms;
	struct lock *l;

	if (!slice_to_uint(token, LOCK_TOKEN_MAX, &number) ||
	    !slice_to_uint(rest, DURATION_MAX_MS, &ttl_ms)) {
		log_error("lock '%" SLICE_FMT
			  "' of vhost '%s' is ignored: Redis has '%" SLICE_FMT
			  "', and should have <token> <ttl in ms>",
			  SLICE_ARG(name), v->name, SLICE_ARG(value));
		return;
	}
	l = create(v, name);
	l->token = number;
	id_lease_raise_token(v->broker, number);
	l->ttl_ms = (int64_t)ttl_ms;
	l->since_ms = v->broker->now_ms;
	lapse_later(l);
}

void lock_turn(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->lock_lapses)) != NULL && n->key <= b->heard_ms) {
		let_go(container_of(n, struct lock, timer), NULL);
		if (pace_is_spent(&b->pace, false))
			return;
	}
	while ((n = heap_min(&b->lock_waits)) != NULL && n->key <= b->heard_ms) {
		fail_wait(container_of(n, struct lock_wait, timer), TIDE_EBUSY,
			  "the lock was held for all of the time");
		if (pace_is_spent(&b->pace, false))
			return;
	}
}

int64_t lock_due_ms(const struct broker *b)
{
	const struct heap_node *lapse = heap_min(&b->lock_lapses),
			       *wait = heap_min(&b->lock_waits);
	int64_t due_ms = heap_earlier(lapse ? lapse->key : 0, wait ? wait->key : 0);

	return due_ms && b->is_started ? b->now_ms + (due_ms - b->mono_ms) : 0;
}

void lock_drain(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->lock_waits)) != NULL)
		fail_wait(container_of(n, struct lock_wait, timer), TIDE_ESHUTDOWN,
			  "the broker is stopping");
}

void lock_free_all(struct vhost *v)
{
	while (v->locks)
		destroy(v->locks);
}
