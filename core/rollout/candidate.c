#include "candidate.h"

#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "rules/api/absent.h"
#include "rules/engine/rules_dir.h"
#include "rules/engine/filter.h"
#include "rules/engine/reload.h"
#include "rules/engine/index.h"
#include "rules/engine/strategy.h"
#include "broker/exchange.h"
#include "broker/queue.h"
#include "broker/unusable.h"

/* Uses and bindings that are made in a step; a binding takes its script some 2 us. */
#define STEP_MAX 500

/* Twins stand for what the broker has, by serial number. */
struct exchange_twin {
	UT_hash_handle hh;
	uint64_t serial;
	struct index *index;
	uint64_t *bindings; /* by number: the serial of what is bound; 0 = nothing */
	uint32_t binding_cap;
	/* Of the broker's routes, with which it is in step up to this binding. */
	uint64_t version;
	uint32_t next;
	uint64_t mark;  /* the last following that found it */
	uint64_t visit; /* the last decision that came by */
};

struct queue_twin {
	UT_hash_handle hh;
	uint64_t serial;
	struct strategy *strategies[SCRIPT_KIND_COUNT];
	uint64_t mark;
	uint64_t visit;
};

struct candidate {
	struct broker *broker;
	struct engine *engine;
	char *dir;
	struct exchange_twin *exchanges;
	struct queue_twin *queues;
	uint64_t version;     /* of the broker's routes, with which it is in step */
	struct error failure; /* of the following, not told yet; code 0: none */
	unsigned left;        /* of the step under way */
	uint64_t mark;
	uint64_t visit;
	uint64_t epoch; /* of the rules in force with which modules were compared */
	bool has_same_modules;
	uv_idle_t turn; /* until all is entered that there is */
	candidate_loaded_fn *on_loaded;
	void *ctx;
	int64_t now_ms; /* that of the replay; 0: the broker's */
};

/* The first failure is the one that is told of, by the next decision. What fails takes
 * no place, since it would take it in each step. */
static void note_failure(struct candidate *c, const char *what, const char *name,
			 const struct error *cause)
{
	c->left++;
	if (c->failure.code == TIDE_OK)
		error_set(&c->failure, TIDE_ERULE, "%s '%s': %s", what, name,
			  cause->text);
}

/* A place in the step; false when it is full. */
static bool take_place(struct candidate *c)
{
	if (c->left == 0)
		return false;
	c->left--;
	return true;
}

/* ---- in step with the broker ------------------------------------------------------ */

static void drop_exchange(struct candidate *c, struct exchange_twin *t)
{
	index_destroy(t->index);
	HASH_DEL(c->exchanges, t);
	mem_free(t->bindings);
	mem_free(t);
}

static void drop_queue(struct candidate *c, struct queue_twin *t)
{
	for (int i = 0; i < SCRIPT_KIND_COUNT; i++)
		strategy_destroy(t->strategies[i]);
	HASH_DEL(c->queues, t);
	mem_free(t);
}

static int add_index(struct candidate *c, struct exchange_twin *t,
		     const struct exchange *x, struct error *err)
{
	char user[VHOST_USER_MAX];

	vhost_format_user(x->vhost, "exchange", exchange_slice(x), user);
	return index_create(c->engine, slice_from(x->type), &x->args, user, &t->index,
			    err);
}

static bool has_lost_bindings(const struct exchange_twin *t, const struct exchange *x)
{
	for (uint32_t i = 0; i < t->binding_cap; i++) {
		const struct binding *b = i < x->binding_cap ? x->bindings[i] : NULL;

		if (t->bindings[i] && (!b || b->serial != t->bindings[i]))
			return true;
	}
	return false;
}

/* Bindings that are gone make the index anew; others are added. */
static int sync_bindings(struct candidate *c, struct exchange_twin *t,
			 const struct exchange *x, struct error *err)
{
	struct error cause;
	int rc = TIDE_OK;

	/* What was seen in an earlier step is not looked at again. */
	bool is_begun = t->version == c->broker->route_version;

	if (!is_begun)
		t->next = 0;
	t->version = c->broker->route_version;
	if (!is_begun && has_lost_bindings(t, x)) {
		index_destroy(t->index);
		t->index = NULL;
		memset(t->bindings, 0, t->binding_cap * sizeof(*t->bindings));
		rc = add_index(c, t, x, err);
	}
	if (t->binding_cap < x->binding_cap) {
		t->bindings =
			mem_realloc(t->bindings, x->binding_cap * sizeof(*t->bindings));
		memset(t->bindings + t->binding_cap, 0,
		       (x->binding_cap - t->binding_cap) * sizeof(*t->bindings));
		t->binding_cap = x->binding_cap;
	}
	for (uint32_t i = t->next; i < x->binding_cap && t->index; i++) {
		const struct binding *b = x->bindings[i];

		t->next = i;
		if (!b || t->bindings[i])
			continue;
		if (!take_place(c))
			return TIDE_AGAIN;
		/* One that is refused is left out, and told of once. */
		if (index_bind(t->index, slice_from(b->pattern), &b->args, i, &cause) < 0)
			note_failure(c, "exchange", x->name, &cause);
		t->bindings[i] = b->serial;
	}
	return rc;
}

static int sync_exchange(struct candidate *c, const struct exchange *x, struct error *err)
{
	struct exchange_twin *t;
	int rc = TIDE_OK;

	HASH_FIND(hh, c->exchanges, &x->serial, sizeof(x->serial), t);
	if (!t) {
		t = mem_zalloc(sizeof(*t));
		t->serial = x->serial;
		HASH_ADD(hh, c->exchanges, serial, sizeof(t->serial), t);
	}
	t->mark = c->mark;
	if (x->unusable)
		return TIDE_OK;
	if (!t->index && !take_place(c))
		return TIDE_AGAIN;
	if (!t->index)
		rc = add_index(c, t, x, err);
	return rc == TIDE_OK ? sync_bindings(c, t, x, err) : rc;
}

static int sync_queue(struct candidate *c, const struct queue *q, struct error *err)
{
	struct queue_twin *t;
	char user[VHOST_USER_MAX];
	int rc = TIDE_OK;

	HASH_FIND(hh, c->queues, &q->serial, sizeof(q->serial), t);
	if (!t) {
		t = mem_zalloc(sizeof(*t));
		t->serial = q->serial;
		HASH_ADD(hh, c->queues, serial, sizeof(t->serial), t);
	}
	t->mark = c->mark;
	vhost_format_user(q->vhost, "queue", queue_slice(q), user);
	for (int i = 0; i < SCRIPT_KIND_COUNT && rc == TIDE_OK; i++) {
		if (!q->strategies[i] || t->strategies[i])
			continue;
		if (!take_place(c))
			return TIDE_AGAIN;
		rc = strategy_create(
			c->engine, (enum script_kind)i, slice_from(q->config.scripts[i]),
			&q->config.script_args[i], user, &t->strategies[i], err);
	}
	if (t->strategies[SCRIPT_SHARDING])
		strategy_set_load(t->strategies[SCRIPT_SHARDING], queue_shard_load, q);
	return rc;
}

static void sweep(struct candidate *c)
{
	struct exchange_twin *x, *next_exchange;
	struct queue_twin *q, *next_queue;

	HASH_ITER (hh, c->exchanges, x, next_exchange)
		if (x->mark != c->mark)
			drop_exchange(c, x);
	HASH_ITER (hh, c->queues, q, next_queue)
		if (q->mark != c->mark)
			drop_queue(c, q);
}

/* False when the step is full before all is done. */
static bool sync_vhost(struct candidate *c, struct vhost *v)
{
	struct exchange *x, *next_exchange;
	struct queue *q, *next_queue;
	struct error cause;
	int rc;

	HASH_ITER (hh, v->exchanges, x, next_exchange) {
		rc = sync_exchange(c, x, &cause);
		if (rc == TIDE_AGAIN)
			return false;
		if (rc < 0)
			note_failure(c, "exchange", x->name, &cause);
	}
	HASH_ITER (hh, v->queues, q, next_queue) {
		rc = sync_queue(c, q, &cause);
		if (rc == TIDE_AGAIN)
			return false;
		if (rc < 0)
			note_failure(c, "queue", q->name, &cause);
	}
	return true;
}

static bool follow(struct candidate *c)
{
	struct vhost *v, *next;

	c->mark++;
	c->left = STEP_MAX;
	HASH_ITER (hh, c->broker->vhosts, v, next)
		if (!sync_vhost(c, v))
			return false;
	sweep(c);
	c->version = c->broker->route_version;
	return true;
}

bool candidate_follow(struct candidate *c)
{
	return c->version == c->broker->route_version || follow(c);
}

/* ---- deciding --------------------------------------------------------------------- */

struct deciding {
	struct candidate *candidate;
	const struct msg *msg;
	struct verdict *verdict;
	struct error *err;
	struct candidate_decision *result;
};

/* The modules that scripts require are compared anew with each generation in force. */
static bool has_same_modules(struct candidate *c)
{
	const struct engine *live = c->broker->engine;

	if (c->epoch != engine_epoch(live)) {
		c->epoch = engine_epoch(live);
		c->has_same_modules = rules_dir_has_same_modules(engine_files(live),
								 engine_files(c->engine));
	}
	return c->has_same_modules;
}

static bool is_other(struct candidate *c, const struct strategy *mine,
		     const struct strategy *live)
{
	return strategy_hash(mine) != strategy_hash(live) || !has_same_modules(c);
}

static bool is_telling(struct candidate *c, const struct strategy *mine,
		       const struct strategy *live)
{
	return strategy_is_pure(mine) || is_other(c, mine, live);
}

static int decide_queue(struct deciding *d, struct queue *q)
{
	struct candidate *c = d->candidate;
	struct verdict_target spare = { 0 }, *t;
	struct strategy *sharding, *priority;
	struct queue_view view;
	struct queue_twin *twin;
	unsigned shard = 0;

	HASH_FIND(hh, c->queues, &q->serial, sizeof(q->serial), twin);
	if (!twin || twin->visit == c->visit)
		return TIDE_OK;
	twin->visit = c->visit;
	if (q->unusable)
		return unusable_queue_error(q, d->err);
	sharding = twin->strategies[SCRIPT_SHARDING];
	priority = twin->strategies[SCRIPT_PRIORITY];
	if (!sharding || !priority)
		return error_set(d->err, TIDE_ERULE, "a script of queue '%s' is missing",
				 q->name);
	t = verdict_add(d->verdict, q->serial);
	if (!t)
		t = &spare;
	if (q->config.shards > 1) {
		int rc =
			strategy_pick(sharding, d->msg, q->config.shards, &shard, d->err);

		if (rc < 0)
			return rc;
	}
	t->shard = shard;
	queue_view(q, q->shards[shard], &view);
	/* A message whose rank fails is stored all the same, at rank 0. */
	if (strategy_rank(priority, d->msg, &view, &t->rank, NULL) < 0)
		t->rank = 0;
	t->is_shard_telling = is_telling(c, sharding, q->strategies[SCRIPT_SHARDING]);
	t->is_rank_telling = is_telling(c, priority, q->strategies[SCRIPT_PRIORITY]);
	return TIDE_OK;
}

static int decide_exchange(struct deciding *d, struct exchange *x)
{
	struct candidate *c = d->candidate;
	struct exchange_twin *twin;
	const uint32_t *found;
	uint32_t *numbers;
	size_t count;
	int rc;

	HASH_FIND(hh, c->exchanges, &x->serial, sizeof(x->serial), twin);
	if (!twin || twin->visit == c->visit)
		return TIDE_OK;
	twin->visit = c->visit;
	if (x->unusable)
		return unusable_exchange_error(x, d->err);
	if (!twin->index)
		return error_set(d->err, TIDE_ERULE,
				 "the script of exchange '%s' is missing", x->name);
	rc = index_route(twin->index, d->msg, &found, &count, d->err);
	if (rc < 0 || count == 0)
		return rc;
	/* The engine's array is good until the next script is asked. */
	numbers = mem_alloc(count * sizeof(*numbers));
	memcpy(numbers, found, count * sizeof(*numbers));
	for (size_t i = 0; i < count && rc == TIDE_OK; i++) {
		struct binding *b =
			numbers[i] < x->binding_cap ? x->bindings[numbers[i]] : NULL;

		if (!b)
			continue;
		rc = b->queue ? decide_queue(d, b->queue)
			      : decide_exchange(d, b->exchange);
	}
	mem_free(numbers);
	return rc;
}

static int decide_address(struct deciding *d, struct vhost *v, const struct msg *m)
{
	struct exchange *x;
	struct queue *q;

	d->msg = m;
	d->candidate->visit++;
	if (m->exchange.len == 0) {
		q = queue_find(v, m->key);
		return q ? decide_queue(d, q) : TIDE_OK;
	}
	x = exchange_find(v, m->exchange);
	if (!x)
		return error_set(d->err, TIDE_ENOTFOUND,
				 "there is no exchange '%" SLICE_FMT "'",
				 SLICE_ARG(m->exchange));
	return decide_exchange(d, x);
}

/* The message and the copies that filters make of it, copies of copies too. */
struct passing {
	struct msg *msg; /* a reference */
	unsigned hops;
	const char *sender;
	int sender_line;
	bool is_refused;
};

struct passage {
	struct passing items[1 + DRAFT_COPIES_MAX];
	unsigned count;
};

/* @param i  one of the passage: it is filtered, and its copies are added */
static int filter_one(struct candidate *c, const struct vhost *v, struct passage *p,
		      unsigned i, struct error *err)
{
	struct passing *item = &p->items[i];
	struct filter_pass pass = {
		.msg = item->msg,
		.vhost = vhost_slice(v),
		.now_unix_ms = c->now_ms ? c->now_ms : c->broker->now_ms,
		.hops = item->hops,
		.sender = item->sender,
		.sender_line = item->sender_line,
	};
	int rc;

	if (item->hops > FILTER_HOPS_MAX)
		return error_set(err, TIDE_ERULE,
				 "%s:%d: the message has been rerouted or copied more "
				 "than %d times",
				 item->sender, item->sender_line, FILTER_HOPS_MAX);
	pass.copies.max = DRAFT_COPIES_MAX + 1 - p->count;
	rc = filter_run(c->engine, &pass, err);
	item->msg = pass.msg;
	for (unsigned k = 0; k < pass.copies.count; k++)
		p->items[p->count++] = (struct passing){
			.msg = pass.copies.items[k],
			.hops = pass.hops + 1,
			.sender = pass.copy_senders[k],
			.sender_line = pass.copy_lines[k],
			.is_refused = rc < 0,
		};
	/* A copy that a filter refuses is left out; the message goes its way. */
	item->is_refused = rc < 0;
	return rc == TIDE_EREJECTED && i > 0 ? TIDE_OK : rc;
}

static void take_written(struct deciding *d, struct msg *m)
{
	d->result->written[d->result->written_count++] = m;
}

static int decide_all(struct deciding *d, struct vhost *v, struct msg *m)
{
	struct candidate *c = d->candidate;
	struct passage p;
	int rc = TIDE_OK;

	if (filter_count(c->engine) == 0) {
		take_written(d, msg_ref(m));
		return decide_address(d, v, m);
	}
	p.items[0] = (struct passing){ .msg = msg_ref(m) };
	p.count = 1;
	for (unsigned i = 0; i < p.count && rc == TIDE_OK; i++)
		if (!p.items[i].is_refused)
			rc = filter_one(c, v, &p, i, d->err);
	for (unsigned i = 0; i < p.count && rc == TIDE_OK; i++)
		if (!p.items[i].is_refused)
			rc = decide_address(d, v, p.items[i].msg);
	for (unsigned i = 0; i < p.count; i++) {
		if (p.items[i].is_refused)
			msg_unref(p.items[i].msg);
		else
			take_written(d, p.items[i].msg);
	}
	return rc;
}

void candidate_set_moment(struct candidate *c, int64_t now_ms, uint64_t random_state)
{
	c->now_ms = now_ms;
	engine_set_clock(c->engine, now_ms);
	engine_seed(c->engine, random_state);
}

void candidate_decide(struct candidate *c, struct vhost *v, struct msg *m,
		      struct candidate_decision *result)
{
	struct deciding d = { c, NULL, &result->verdict, &result->err, result };

	result->written_count = 0;
	verdict_init(&result->verdict, TIDE_OK);
	result->err = c->failure;
	c->failure.code = TIDE_OK;
	engine_absent_begin(c->engine, result->absent_bytes);
	if (result->moment)
		engine_moment_borrow(c->engine, result->moment);
	result->verdict.status =
		result->err.code == TIDE_OK ? decide_all(&d, v, m) : result->err.code;
	if (result->moment)
		engine_moment_return(c->engine);
	result->needs_payload = engine_absent_end(c->engine);
}

void candidate_decision_deinit(struct candidate_decision *d)
{
	for (unsigned i = 0; i < d->written_count; i++)
		msg_unref(d->written[i]);
}

/* ---- failures --------------------------------------------------------------------- */

static struct strategy *retry_of(struct candidate *c, const struct queue *q)
{
	struct queue_twin *twin;

	HASH_FIND(hh, c->queues, &q->serial, sizeof(q->serial), twin);
	return twin ? twin->strategies[SCRIPT_RETRY] : NULL;
}

bool candidate_has_other_retry(struct candidate *c, const struct queue *q)
{
	const struct strategy *mine = retry_of(c, q);

	return !mine || is_other(c, mine, q->strategies[SCRIPT_RETRY]);
}

int candidate_retry(struct candidate *c, const struct candidate_failure *f,
		    struct retry_decision *decision, struct error *err)
{
	struct strategy *mine = retry_of(c, f->queue);
	struct dry_run run;
	int rc;

	if (!mine)
		return error_set(err, TIDE_ERULE, "there is no retry script '%s'",
				 f->queue->config.scripts[SCRIPT_RETRY]);
	engine_moment_borrow_dry(c->engine, f->moment, c->broker->engine, &run);
	rc = strategy_decide(mine, f->msg, f->failure->attempts, f->failure, decision,
			     err);
	engine_moment_return_dry(c->engine);
	return rc;
}

/* ---- life ------------------------------------------------------------------------- */

static int resolve(struct broker *b, struct slice dir, char out[PATH_MAX],
		   struct error *err)
{
	char parent[PATH_MAX];
	struct stat st;
	int len;

	snprintf(parent, sizeof(parent), "%s", b->config.rules_dir);
	if (dir.len > 0 && dir.data[0] == '/')
		len = snprintf(out, PATH_MAX, "%" SLICE_FMT, SLICE_ARG(dir));
	else
		len = snprintf(out, PATH_MAX, "%s/%" SLICE_FMT, dirname(parent),
			       SLICE_ARG(dir));
	if (len < PATH_MAX && stat(out, &st) == 0 && S_ISDIR(st.st_mode))
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND, "the broker finds no directory '%s'", out);
}

static void on_engine(void *ctx, const struct error *result)
{
	struct candidate *c = ctx;

	if (result->code != TIDE_ESHUTDOWN)
		c->on_loaded(c->ctx, result);
}

/* What there is, then the scripts: the build of the first generation makes the uses
 * and the bindings in it. */
static void on_turn(uv_idle_t *handle)
{
	struct candidate *c = handle->data;

	if (!follow(c))
		return;
	uv_idle_stop(handle);
	reload_start(c->engine, on_engine, c);
}

int candidate_create(struct candidate **out, struct broker *b,
		     const struct candidate_spec *spec, struct error *err)
{
	struct engine_config config = {
		.lua_dir = b->config.lua_dir,
		.memory_max_bytes = b->config.rules_memory_bytes,
		.call_budget_ms = b->config.rules_budget_ms,
	};
	struct candidate *c;
	bool is_replay = spec->purpose == CANDIDATE_REPLAY;
	char path[PATH_MAX], about[PATH_MAX + 32];
	int rc = resolve(b, spec->dir, path, err);

	if (rc < 0)
		return rc;
	c = mem_zalloc(sizeof(*c));
	c->broker = b;
	c->dir = mem_strdup(path);
	c->on_loaded = spec->on_loaded;
	c->ctx = spec->ctx;
	config.rules_dir = c->dir;
	config.has_no_breaker = is_replay;
	config.about = about;
	snprintf(about, sizeof(about), "rules of '%s' (%s)", c->dir,
		 is_replay ? "replay" : "shadow");
	rc = engine_open(&c->engine, b->loop, &config, NULL, err);
	if (rc < 0) {
		mem_free(c->dir);
		mem_free(c);
		return rc;
	}
	uv_idle_init(b->loop, &c->turn);
	c->turn.data = c;
	uv_idle_start(&c->turn, on_turn);
	*out = c;
	return TIDE_OK;
}

static void on_closed(uv_handle_t *handle)
{
	struct candidate *c = handle->data;

	mem_free(c->dir);
	mem_free(c);
}

void candidate_destroy(struct candidate *c)
{
	if (!c)
		return;
	c->mark++;
	sweep(c);
	engine_close(c->engine, NULL, NULL);
	uv_close((uv_handle_t *)&c->turn, on_closed);
}

const char *candidate_dir(const struct candidate *c)
{
	return c->dir;
}

struct bundle *candidate_files(const struct candidate *c)
{
	return engine_files(c->engine);
}

bool candidate_is_in_force(const struct candidate *c)
{
	return engine_hash(c->engine) == engine_hash(c->broker->engine);
}

void candidate_write(const struct candidate *c, struct json *out)
{
	char hash[17];

	snprintf(hash, sizeof(hash), "%016" PRIx64, engine_hash(c->engine));
	json_member_text(out, "directory", c->dir);
	json_member_text(out, "hash", hash);
}
