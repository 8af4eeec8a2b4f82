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
	bool is_shared;
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

/* @param l  or NULL */
static struct lock_hold *find_hold(const struct lock *l, uint64_t token)
{
	struct lock_hold *h = NULL;

	if (l)
		HASH_FIND(hh, l->holds, &token, sizeof(token), h);
	return h;
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
	return l;
}

static struct lock_hold *add_hold(struct lock *l, uint64_t token, int64_t ttl_ms)
{
	struct lock_hold *h = mem_zalloc(sizeof(*h));

	h->lock = l;
	h->token = token;
	h->ttl_ms = ttl_ms;
	h->since_ms = l->vhost->broker->now_ms;
	HASH_ADD(hh, l->holds, token, sizeof(token), h);
	l->vhost->broker->lock_count++;
	return h;
}

static void leave_holder(struct lock_hold *h)
{
	if (h->holder)
		LIST_REMOVE(h, held_link);
	h->holder = NULL;
	heap_remove(&h->lock->vhost->broker->lock_lapses, &h->timer);
}

static void enter_holder(struct lock_hold *h, struct lock_holder *holder)
{
	leave_holder(h);
	h->holder = holder;
	LIST_INSERT_HEAD(&holder->holds, h, held_link);
}

static void drop_hold(struct lock_hold *h)
{
	leave_holder(h);
	HASH_DELETE(hh, h->lock->holds, h);
	h->lock->vhost->broker->lock_count--;
	mem_free(h);
}

static void destroy(struct lock *l)
{
	struct vhost *v = l->vhost;

	while (l->holds)
		drop_hold(l->holds);
	if (l->is_due)
		LIST_REMOVE(l, due_link);
	HASH_DEL(v->locks, l);
	mem_free(l->name);
	mem_free(l);
	vhost_check(v);
}

static void let_go(struct lock_hold *h, struct waiter *waiter);

static void on_stored(void *ctx, int status, const char *text)
{
	struct lock_job *job = ctx;
	struct vhost *v = job->vhost;
	struct lock_hold *h = find_hold(
		find(v, (struct slice){ job->name, job->name_len }), job->token);

	/* A grant that a restart forgets must not be acted on. */
	if (status < 0 && status != TIDE_ESHUTDOWN && h)
		let_go(h, NULL);
	if (job->waiter)
		waiter_done(job->waiter, status, text);
	vhost_unref(v);
	mem_free(job);
}

static struct lock_job *create_job(const struct lock_hold *h, struct waiter *waiter)
{
	const struct lock *l = h->lock;
	struct lock_job *job = mem_zalloc(sizeof(*job) + l->name_len);

	job->vhost = vhost_ref(l->vhost);
	job->waiter = waiter;
	job->token = h->token;
	job->name_len = l->name_len;
	memcpy(job->name, l->name, l->name_len);
	if (waiter)
		waiter_add(waiter);
	return job;
}

/* Its field in Redis: "<name>", or "<name> <token>" of a shared lock. */
static void write_field(const struct lock_hold *h, struct buf *out)
{
	buf_append_slice(out, name_of(h->lock));
	if (!h->lock->is_shared)
		return;
	buf_append_char(out, ' ');
	buf_append_uint(out, h->token);
}

/* Write that the lock is held with its token. */
static void send_held(const struct lock_hold *h, struct waiter *waiter)
{
	struct broker *b = h->lock->vhost->broker;
	struct slice vhost = vhost_slice(h->lock->vhost);
	char value[2 * DECIMAL_MAX + 1];
	char *space = decimal_put(value, h->token), *end;
	struct buf field = { 0 };

	if (!b->env.store)
		return;
	*space = ' ';
	end = decimal_put(space + 1, (uint64_t)h->ttl_ms);
	write_field(h, &field);
	store_definition_set(b->store, STORE_VHOSTS, SLICE(""), vhost, SLICE(""), NULL,
			     NULL);
	store_definition_set(b->store, STORE_LOCKS, vhost, buf_slice(&field),
			     (struct slice){ value, (size_t)(end - value) }, on_stored,
			     create_job(h, waiter));
	buf_deinit(&field);
}

static void send_free(const struct lock_hold *h, struct waiter *waiter)
{
	struct broker *b = h->lock->vhost->broker;
	struct buf field = { 0 };

	if (!b->env.store)
		return;
	if (waiter)
		waiter_add(waiter);
	write_field(h, &field);
	store_definition_remove(b->store, STORE_LOCKS, vhost_slice(h->lock->vhost),
				buf_slice(&field), waiter ? waiter_store_done : NULL,
				waiter);
	buf_deinit(&field);
}

static void grant(struct lock_hold *h, struct lock_holder *holder, struct waiter *waiter)
{
	enter_holder(h, holder);
	send_held(h, waiter);
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
	struct lock *l = w->lock;

	/* Readers may have waited for that one alone. */
	if (l->is_shared && !l->is_due)
		LIST_INSERT_HEAD(&l->vhost->broker->due_locks, l, due_link);
	l->is_due |= l->is_shared;
	forget_wait(w);
	waiter_done(waiter, status, text);
}

/* Who waits first has it, if it can be given; with a shared one those who are next.
 * Without a hold it is gone then. */
static void serve(struct lock *l)
{
	struct lock_wait *w, next;
	uint64_t token;

	while ((w = TAILQ_FIRST(&l->waits)) != NULL &&
	       (!l->holds || (l->is_shared && w->is_shared))) {
		token = id_lease_next_token(l->vhost->broker);
		if (!token) {
			fail_wait(w, TIDE_EBUSY, TOO_MANY);
			continue;
		}
		next = *w;
		forget_wait(w);
		l->is_shared = next.is_shared;
		*next.granted = token;
		grant(add_hold(l, token, next.ttl_ms), next.holder, next.waiter);
	}
	if (!l->holds)
		destroy(l);
}

static void let_go(struct lock_hold *h, struct waiter *waiter)
{
	struct lock *l = h->lock;

	send_free(h, waiter);
	drop_hold(h);
	serve(l);
}

static int refuse_token(const struct lock *l, struct slice name, uint64_t token,
			struct error *err)
{
	if (!l)
		return error_set(err, TIDE_ELEASE,
				 "lock '%" SLICE_FMT "' is free: token %" PRIu64
				 " has lapsed, or was released",
				 SLICE_ARG(name), token);
	if (l->is_shared)
		return error_set(err, TIDE_ELEASE,
				 "lock '%" SLICE_FMT
				 "' is shared by %u holders, none with token %" PRIu64,
				 SLICE_ARG(name), HASH_COUNT(l->holds), token);
	return error_set(err, TIDE_ELEASE,
			 "lock '%" SLICE_FMT "' is held with token %" PRIu64
			 ", not %" PRIu64,
			 SLICE_ARG(name), l->holds->token, token);
}

/* The holder, or its successor by token, comes back. */
static int take_back(struct lock *l, const struct lock_spec *spec, struct error *err)
{
	struct lock_hold *h = find_hold(l, spec->token);

	if (!h)
		return refuse_token(l, spec->name, spec->token, err);
	if (spec->ttl_ms)
		h->ttl_ms = spec->ttl_ms;
	*spec->granted = h->token;
	grant(h, spec->holder, spec->waiter);
	return TIDE_OK;
}

/* @param l  a shared one; NULL: it is free */
static int take_new(struct vhost *v, struct lock *l, const struct lock_spec *spec,
		    struct error *err)
{
	struct broker *b = v->broker;
	uint64_t token;

	if (b->lock_count >= b->config.locks_max)
		return error_set(err, TIDE_ELIMIT, "the limit of %u locks is reached",
				 b->lock_count);
	token = id_lease_next_token(b);
	if (!token)
		return error_set(err, TIDE_EBUSY, TOO_MANY);
	if (!l)
		l = create(v, spec->name);
	l->is_shared = spec->is_shared;
	*spec->granted = token;
	grant(add_hold(l, token, spec->ttl_ms), spec->holder, spec->waiter);
	return TIDE_OK;
}

static void wait_for(struct lock *l, const struct lock_spec *spec)
{
	struct broker *b = l->vhost->broker;
	struct lock_wait *w = mem_zalloc(sizeof(*w));

	w->lock = l;
	w->holder = spec->holder;
	w->ttl_ms = spec->ttl_ms;
	w->is_shared = spec->is_shared;
	w->waiter = spec->waiter;
	w->granted = spec->granted;
	TAILQ_INSERT_TAIL(&l->waits, w, link);
	l->wait_count++;
	LIST_INSERT_HEAD(&spec->holder->waits, w, holder_link);
	heap_set(&b->lock_waits, &w->timer, b->mono_ms + spec->wait_ms);
}

static int refuse_held(const struct lock *l, struct error *err)
{
	if (l->is_shared)
		return error_set(
			err, TIDE_EBUSY,
			"lock '%s' is shared by %u holders, and %u requests wait "
			"for it",
			l->name, HASH_COUNT(l->holds), l->wait_count);
	return error_set(err, TIDE_EBUSY, "lock '%s' is held%s", l->name,
			 l->holds->holder ? "" : " until it lapses: its holder has gone");
}

int lock_take(struct vhost *v, const struct lock_spec *spec, struct error *err)
{
	struct lock *l = find(v, spec->name);

	if (v->broker->is_draining)
		return error_set(err, TIDE_ESHUTDOWN, "the broker is stopping");
	if (spec->token)
		return take_back(l, spec, err);
	if (!l || (l->is_shared && spec->is_shared && l->wait_count == 0))
		return take_new(v, l, spec, err);
	if (!l->is_shared && l->holds->holder == spec->holder)
		return error_set(err, TIDE_EEXISTS,
				 "this channel holds lock '%" SLICE_FMT
				 "' already, with token %" PRIu64,
				 SLICE_ARG(spec->name), l->holds->token);
	/* It would wait for itself. */
	if (l->is_shared && HASH_COUNT(l->holds) == 1 && !l->wait_count &&
	    l->holds->holder == spec->holder)
		return error_set(err, TIDE_EEXISTS,
				 "this channel shares lock '%s', with token %" PRIu64
				 ": UNLOCK it first",
				 l->name, l->holds->token);
	if (spec->wait_ms > 0) {
		wait_for(l, spec);
		return TIDE_OK;
	}
	return refuse_held(l, err);
}

int lock_check(struct vhost *v, struct slice name, uint64_t token, struct error *err)
{
	const struct lock *l = find(v, name);

	return find_hold(l, token) ? TIDE_OK : refuse_token(l, name, token, err);
}

int lock_release(struct vhost *v, struct slice name, uint64_t token,
		 struct waiter *waiter, struct error *err)
{
	int rc = lock_check(v, name, token, err);

	if (rc == TIDE_OK)
		let_go(find_hold(find(v, name), token), waiter);
	return rc;
}

void lock_holder_init(struct lock_holder *h)
{
	LIST_INIT(&h->holds);
	LIST_INIT(&h->waits);
}

void lock_holder_end_waits(struct lock_holder *h)
{
	struct lock_wait *w;

	while ((w = LIST_FIRST(&h->waits)) != NULL)
		fail_wait(w, TIDE_EBUSY, "the lock is held, and nobody waits any more");
}

static void lapse_later(struct lock_hold *h)
{
	struct broker *b = h->lock->vhost->broker;

	leave_holder(h);
	heap_set(&b->lock_lapses, &h->timer, b->mono_ms + h->ttl_ms);
}

void lock_holder_recheck(struct lock_holder *h, lock_may_have_fn may_have, void *ctx)
{
	struct lock_wait *w, *next_wait;
	struct lock_hold *held, *next;
	struct error err;

	for (w = LIST_FIRST(&h->waits); w; w = next_wait) {
		next_wait = LIST_NEXT(w, holder_link);
		if (!may_have(ctx, name_of(w->lock), &err))
			fail_wait(w, err.code, err.text);
	}
	for (held = LIST_FIRST(&h->holds); held; held = next) {
		next = LIST_NEXT(held, held_link);
		if (!may_have(ctx, name_of(held->lock), &err))
			lapse_later(held);
	}
}

void lock_holder_end(struct lock_holder *h)
{
	struct lock_hold *held;

	lock_holder_end_waits(h);
	while ((held = LIST_FIRST(&h->holds)) != NULL)
		lapse_later(held);
}

/* NULL: what Redis has cannot be. */
static struct lock_hold *restore(struct vhost *v, struct slice field, struct slice value)
{
	struct slice shared = field, name = slice_cut(&shared, ' '), ttl = value,
		     token = slice_cut(&ttl, ' ');
	struct lock *l = find(v, name);
	uint64_t number, ttl_ms;

	if (!slice_to_uint(token, LOCK_TOKEN_MAX, &number) ||
	    !slice_to_uint(ttl, DURATION_MAX_MS, &ttl_ms) ||
	    (shared.len && !slice_is_equal(shared, token)) ||
	    (l && (!shared.len || !l->is_shared || find_hold(l, number))))
		return NULL;
	if (!l)
		l = create(v, name);
	l->is_shared = shared.len > 0;
	return add_hold(l, number, (int64_t)ttl_ms);
}

void lock_restore(struct vhost *v, struct slice field, struct slice value)
{
	struct lock_hold *h = restore(v, field, value);

	if (!h) {
		log_error("lock '%" SLICE_FMT
			  "' of vhost '%s' is ignored: Redis has '%" SLICE_FMT
			  "', and should have <token> <ttl in ms>",
			  SLICE_ARG(field), v->name, SLICE_ARG(value));
		return;
	}
	id_lease_raise_token(v->broker, h->token);
	lapse_later(h);
}

static void serve_due(struct broker *b)
{
	struct lock *l;

	while ((l = LIST_FIRST(&b->due_locks)) != NULL) {
		LIST_REMOVE(l, due_link);
		l->is_due = false;
		serve(l);
	}
}

void lock_turn(struct broker *b)
{
	struct heap_node *n;

	serve_due(b);
	while ((n = heap_min(&b->lock_lapses)) != NULL && n->key <= b->heard_ms) {
		let_go(container_of(n, struct lock_hold, timer), NULL);
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

	if (!LIST_EMPTY(&b->due_locks))
		return b->now_ms;
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
