#include "queue.h"

#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "route.h"
#include "topic.h"
#include "unusable.h"
#include "walk.h"

struct queue *queue_by_serial(const struct broker *b, uint64_t serial)
{
	struct queue *q;

	HASH_FIND(serial_hh, b->queues_by_serial, &serial, sizeof(serial), q);
	return q;
}

struct queue *queue_find(struct vhost *v, struct slice name)
{
	struct queue *q;

	HASH_FIND(hh, v->queues, name.data, name.len, q);
	return q;
}

uint64_t queue_count(const struct queue *q, enum entry_state state)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < q->shard_count; i++)
		n += shard_count(q->shards[i], state);
	return n;
}

/* A script that counts on from the rank served last must not begin before all that
 * has waited through a restart: until something is served, the next message counts. */
static double served(const struct shard *sh)
{
	const struct entry *next;

	if (!isnan(sh->served))
		return sh->served;
	next = window_first(&sh->stages[ENTRY_READY].window);
	return next ? next->rank : 0;
}

double queue_newest_rank(const struct shard *sh)
{
	const struct stage *ready = &sh->stages[ENTRY_READY];
	const struct entry *last = window_last(&ready->window);

	if (!isnan(sh->newest))
		return sh->newest;
	if (ready->beyond > 0)
		return ready->edge.score;
	return last ? last->rank : served(sh);
}

void queue_view(const struct queue *q, const struct shard *sh, struct queue_view *out)
{
	out->vhost = vhost_slice(q->vhost);
	out->name = queue_slice(q);
	out->shard = sh->index;
	out->served = served(sh);
	out->ready = shard_count(sh, ENTRY_READY);
}

static const enum script_kind script_kinds[] = { SCRIPT_SHARDING, SCRIPT_PRIORITY,
						 SCRIPT_RETRY };

static uint64_t shard_load(const void *ctx, unsigned shard)
{
	const struct queue *q = ctx;
	const struct shard *sh = q->by_index[shard];

	if (q->topic)
		return topic_end(q->topic, shard);
	return sh ? shard_count(sh, ENTRY_READY) + sh->unacked : 0;
}

static int create_strategy(struct queue *q, const struct ruleset *r,
			   const struct config *c, enum script_kind kind,
			   struct strategy **out, struct error *err)
{
	char user[VHOST_USER_MAX];
	const struct strategy_spec spec = { .kind = kind,
					    .name = slice_from(c->scripts[kind]),
					    .options = &c->script_args[kind],
					    .user = user,
					    .vhost = vhost_slice(q->vhost) };
	int rc;

	vhost_format_user(q->vhost, definition_kind(q->definition.table), queue_slice(q),
			  user);
	rc = strategy_create(r->engine, &spec, out, err);
	if (rc == TIDE_OK && kind == SCRIPT_SHARDING)
		strategy_set_load(*out, shard_load, q);
	return rc;
}

/* On failure some of them are there. @param failed  receives the kind of the other */
static int create_strategies(struct queue *q, const struct ruleset *r, int *failed,
			     struct error *err)
{
	int rc = TIDE_OK;

	for (int i = 0; i < 3 && rc == TIDE_OK; i++) {
		enum script_kind kind = script_kinds[i];

		*failed = i;
		if (q->config.scripts[kind])
			rc = create_strategy(q, r, &q->config, kind,
					     &q->strategies[r->slot][kind], err);
	}
	return rc;
}

/* For a DECLARE, whose option it names. */
static int refuse_script(const struct config *c, enum script_kind kind,
			 const struct error *why, struct error *err)
{
	return error_set(err, why->code, "%s=%s: %s", script_kind_name(kind),
			 c->scripts[kind], why->text);
}

int queue_create_strategy(struct queue *q, const struct config *c, enum script_kind kind,
			  struct strategy **out, struct error *err)
{
	struct error why;

	if (create_strategy(q, &q->vhost->broker->active_rules, c, kind, out, &why) < 0)
		return refuse_script(c, kind, &why, err);
	return TIDE_OK;
}

int queue_check_scripts(const struct engine *e, const struct config *c, struct error *err)
{
	for (int i = 0; i < 3; i++) {
		enum script_kind kind = script_kinds[i];
		struct error why;

		if (c->scripts[kind] && strategy_check(e, kind, c->scripts[kind],
						       &c->script_args[kind], &why) < 0)
			return refuse_script(c, kind, &why, err);
	}
	return TIDE_OK;
}

void queue_detach(struct queue *q, enum ruleset_slot slot)
{
	for (int kind = 0; kind <= SCRIPT_RETRY; kind++) {
		strategy_destroy(q->strategies[slot][kind]);
		q->strategies[slot][kind] = NULL;
	}
}

int queue_attach(struct queue *q, const struct ruleset *r, struct error *err)
{
	struct error cause;
	int failed, rc = create_strategies(q, r, &failed, &cause);

	if (rc == TIDE_OK)
		return TIDE_OK;
	queue_detach(q, r->slot);
	return unusable_explain(script_kinds[failed],
				q->config.scripts[script_kinds[failed]], &cause, err);
}

static void free_parts(struct queue *q)
{
	definition_deinit(&q->definition);
	unusable_clear(&q->definition);
	for (int kind = 0; kind <= SCRIPT_RETRY; kind++)
		strategy_destroy(q->next_strategies[kind]);
	for (int slot = 0; slot < RULESET_SLOTS; slot++)
		queue_detach(q, slot);
	terms_deinit(&q->terms);
	route_cache_free(q->direct);
	heap_deinit(&q->able);
	heap_deinit(&q->line);
	mem_free(q->shards);
	mem_free(q->rates);
	mem_free(q->name);
	mem_free(q);
}

/* Shards are opened when they are used: of many shards of many queues most never are. */
static void open_shards(struct queue *q)
{
	unsigned max = config_shards(&q->config);

	if (q->config.kind == CONFIG_TOPIC) {
		q->topic = topic_create(q);
		q->shards = q->by_index = mem_zalloc(max * sizeof(struct shard *));
		return;
	}
	q->shards = mem_zalloc((2 * (size_t)max + 1) * sizeof(struct shard *));
	q->by_index = q->shards + max + 1;
	q->shard_count = q->next_shard = 0;
	q->transient = NULL;
	q->dedupe = dedupe_open(q->vhost->broker->dedupe,
				q->config.dedupe_ms == PUBLISH_IDS_QUEUED_MS);
	dedupe_set_shards(q->dedupe, q->by_index, max);
	q->ids = dedupe_ids(q->dedupe);
}

static void order_shard(const struct queue *q, struct shard *sh)
{
	char label[VHOST_USER_MAX];

	vhost_format_user(q->vhost, "queue", queue_slice(q), label);
	shard_order_by(sh, &(struct order_spec){ .by = q->config.order_by,
						 .header = q->config.order_header,
						 .inflight = q->config.inflight,
						 .label = label });
}

void queue_set_up_shard(const struct queue *q, struct shard *sh)
{
	sh->ttl_ms = q->config.ttl_ms;
	sh->gives_up = q->config.overflow != QUEUE_OVERFLOW_REJECT;
	shard_size_keep(sh, q->config.max_bytes > 0);
}

struct shard *queue_make_shard(struct queue *q, unsigned index)
{
	struct store_shard *keys = NULL;
	struct shard *sh;

	if (q->topic)
		return NULL;
	if (queue_is_durable(q))
		keys = store_shard_create(vhost_slice(q->vhost), queue_slice(q), index);
	sh = shard_create(&q->vhost->broker->env, q, index, keys);
	sh->is_undefined = keys && !q->definition.is_stored;
	if (q->config.order_by != ORDER_NONE)
		order_shard(q, sh);
	sh->may_trim = true;
	queue_set_up_shard(q, sh);
	dedupe_join(q->dedupe, sh);
	q->shards[q->shard_count++] = q->by_index[index] = sh;
	return sh;
}

struct shard *queue_shard_of(struct queue *q, const struct msg *m, unsigned index)
{
	struct shard *sh = q->transient;

	if (q->topic || q->config.order_by != ORDER_NONE || m->dedupe_len ||
	    !queue_is_durable(q))
		return queue_shard(q, index);
	if (!sh) {
		sh = shard_create(&q->vhost->broker->env, q, QUEUE_TRANSIENT, NULL);
		sh->may_trim = true;
		queue_set_up_shard(q, sh);
		q->shards[q->shard_count++] = q->transient = sh;
	}
	sh->is_mixed = q->is_mixed = true;
	return sh;
}

void queue_drop_unused(struct queue *q)
{
	unsigned kept = 0;

	if (q->topic) {
		topic_drop_unused(q->topic);
		return;
	}
	if (!publish_ids_is_unused(q->ids))
		return;
	for (unsigned i = 0; i < q->shard_count; i++) {
		struct shard *sh = q->shards[i];

		if (sh != q->transient && shard_is_unused(sh)) {
			q->by_index[sh->index] = NULL;
			shard_close(sh);
		} else {
			q->shards[kept++] = sh;
		}
	}
	q->shard_count = kept;
	q->next_shard = 0;
}

static struct queue *make(struct vhost *v, struct slice name, struct terms *terms_take)
{
	struct queue *q = mem_zalloc(sizeof(*q));

	q->definition.table =
		terms_take->config.kind == CONFIG_TOPIC ? STORE_TOPICS : STORE_QUEUES;
	q->vhost = v;
	q->name = mem_strndup(name.data, name.len);
	q->name_len = name.len;
	q->terms = *terms_take;
	TAILQ_INIT(&q->consumers);
	TAILQ_INIT(&q->readers);
	TAILQ_INIT(&q->looked);
	TAILQ_INIT(&q->refusals);
	TAILQ_INIT(&q->incoming);
	return q;
}

static void enter(struct queue *q)
{
	struct vhost *v = q->vhost;

	open_shards(q);
	HASH_ADD_KEYPTR(hh, v->queues, q->name, q->name_len, q);
	queue_guard(q);
	queue_use(q);
	if (q->config.expires_ms)
		heap_set(&v->broker->wakes, &q->wake,
			 q->used_mono_ms + q->config.expires_ms);
	q->serial = ++v->broker->last_serial;
	HASH_ADD(serial_hh, v->broker->queues_by_serial, serial, sizeof(q->serial), q);
	v->topic_count += q->topic != NULL;
	/* A route that found no queue of this name must be found anew. */
	v->broker->route_version++;
}

int queue_create(struct vhost *v, const struct terms_spec *spec, struct terms *terms_take,
		 struct queue **out, struct error *err)
{
	struct queue *q = make(v, spec->name, terms_take);
	struct error why;
	int failed, rc = create_strategies(q, &v->broker->active_rules, &failed, &why);

	if (rc < 0) {
		refuse_script(&q->config, script_kinds[failed], &why, err);
		terms_blame(q->policy, err);
		free_parts(q);
		return err->code;
	}
	enter(q);
	EVENT_TELL(v->broker, q->topic ? EVENT_TOPIC_DECLARED : EVENT_QUEUE_DECLARED,
		   vhost_slice(v), queue_slice(q), spec->user);
	definition_follow(&q->definition);
	if (q->config.is_exclusive) {
		q->owner = spec->owner;
		TAILQ_INSERT_TAIL(spec->owner, q, owner_link);
	}
	*out = q;
	return TIDE_OK;
}

/* The configuration of one that cannot be read. What it says is kept, to be shown; and
 * since nobody knows how many shards it has, all go when it is deleted. */
static void assume_config(struct config *c, const struct terms_spec *spec)
{
	const struct args none = { 0 };
	struct error impossible; /* the defaults are valid */
	int rc = config_parse(c, spec->kind, &none, &impossible);

	(void)rc;
	c->shards = QUEUE_SHARDS_MAX;
	if (spec->args) {
		args_deinit(&c->canonical);
		args_copy(&c->canonical, spec->args);
	}
}

void queue_restore(struct vhost *v, const struct terms_spec *spec, struct error *err)
{
	struct terms terms = { .own = NULL };
	struct queue *q;
	bool is_readable = spec->args && config_parse(&terms.config, spec->kind,
						      spec->args, err) == TIDE_OK;

	if (!is_readable)
		assume_config(&terms.config, spec);
	q = make(v, spec->name, &terms);
	enter(q);
	q->definition.is_stored = true;
	if (!is_readable)
		unusable_set_unreadable(&q->definition,
					"has a definition that cannot be read", err);
}

void queue_recover(struct queue *q, struct waiter *waiter)
{
	if (q->topic) {
		topic_recover(q->topic, waiter);
		return;
	}
	q->is_mixed = q->config.reshard > 0;
	for (unsigned i = 0; i < config_shards(&q->config); i++) {
		struct shard *sh = queue_shard(q, i);

		sh->is_mixed = q->is_mixed;
		shard_recover(sh, waiter);
		publish_ids_recover(q->ids, i, waiter);
	}
}

void queue_widen(struct queue *q, unsigned had)
{
	unsigned max = config_shards(&q->config);
	struct shard **old = q->shards;

	if (q->topic) {
		q->shards = q->by_index = mem_zalloc(max * sizeof(struct shard *));
		mem_free(old);
		topic_widen(q->topic, had);
		return;
	}
	q->shards = mem_zalloc((2 * (size_t)max + 1) * sizeof(struct shard *));
	memcpy(q->shards, old, q->shard_count * sizeof(struct shard *));
	memcpy(q->shards + max + 1, q->by_index, had * sizeof(struct shard *));
	q->by_index = q->shards + max + 1;
	mem_free(old);
	dedupe_set_shards(q->dedupe, q->by_index, max);
}

struct order_stats queue_order_stats(const struct queue *q)
{
	struct order_stats sum = { 0 };

	for (unsigned i = 0; i < q->shard_count; i++)
		if (q->shards[i]->order)
			order_add_stats(q->shards[i]->order, &sum);
	return sum;
}

unsigned queue_count_mixed(struct queue *q)
{
	unsigned n = 0;

	for (unsigned i = 0; i < q->shard_count && q->is_mixed; i++) {
		struct shard *sh = q->shards[i];

		sh->is_mixed = sh->is_mixed && !shard_is_empty(sh);
		n += sh->is_mixed;
	}
	q->is_mixed = n > 0;
	return n;
}

static void close_shards(struct queue *q)
{
	if (q->topic)
		topic_destroy(q->topic);
	else
		dedupe_close(q->dedupe);
	for (unsigned i = 0; i < q->shard_count; i++)
		shard_close(q->shards[i]);
}

void queue_renew_shards(struct queue *q)
{
	close_shards(q);
	mem_free(q->shards);
	open_shards(q);
}

void queue_be_defined(struct queue *q)
{
	if (q->topic)
		topic_be_defined(q->topic);
	for (unsigned i = 0; i < q->shard_count; i++)
		shard_be_defined(q->shards[i]);
}

void queue_erase(struct queue *q, struct waiter *waiter)
{
	if (!queue_is_durable(q))
		return;
	definition_remove(&q->definition, waiter);
	/* After it: a start removes bindings whose queue is not there. */
	binding_erase_all(&q->incoming);
}

static void release_held(struct shard *sh)
{
	struct entry *e;

	TAILQ_FOREACH (e, &sh->young, link)
		consumer_release(e);
	TAILQ_FOREACH (e, &sh->moving, link)
		consumer_release(e);
	for (e = window_first(&sh->held); e; e = window_next(&sh->held, e))
		consumer_release(e);
}

void queue_release_held(struct queue *q)
{
	for (unsigned i = 0; i < q->shard_count; i++)
		release_held(q->shards[i]);
}

void queue_destroy(struct queue *q)
{
	struct vhost *v = q->vhost;
	struct broker *b = v->broker;
	struct consumer *c;
	struct binding *binding;

	queue_release_held(q);
	/* An auto-delete queue is being deleted already. */
	q->had_consumer = false;
	while ((c = TAILQ_FIRST(&q->consumers)) != NULL)
		c->ops->on_cancel(c);
	while ((binding = TAILQ_FIRST(&q->incoming)) != NULL) {
		struct exchange *source = binding->source;

		binding_release(binding);
		exchange_collect(source, NULL);
	}
	close_shards(q);
	if (q->is_active)
		TAILQ_REMOVE(&b->active, q, active_link);
	heap_remove(&b->wakes, &q->wake);
	b->guarded -= q->is_guarded;
	if (q->owner)
		TAILQ_REMOVE(q->owner, q, owner_link);
	v->topic_count -= q->topic != NULL;
	EVENT_TELL(b, q->topic ? EVENT_TOPIC_DELETED : EVENT_QUEUE_DELETED,
		   vhost_slice(v), queue_slice(q));
	HASH_DEL(v->queues, q);
	walk_leave_queue(q);
	HASH_DELETE(serial_hh, b->queues_by_serial, q);
	b->route_version++;
	vhost_check(v);
	free_parts(q);
}

void queue_begin_second(struct queue *q)
{
	q->second = q->vhost->broker->second;
	if (!q->rates)
		q->rates = mem_zalloc(sizeof(*q->rates));
	rate_begin(&q->rates->in, q->counters.published, q->second);
	rate_begin(&q->rates->out, q->counters.delivered, q->second);
}

bool queue_is_abandoned(const struct queue *q)
{
	return q->config.is_auto_delete && q->had_consumer && q->consumer_count == 0 &&
	       !q->vhost->broker->is_draining;
}

void queue_guard(struct queue *q)
{
	bool is_guarded =
		q->paused_ms[QUEUE_IN] || q->config.max_length || q->config.max_bytes;

	q->vhost->broker->guarded += (unsigned)is_guarded - q->is_guarded;
	q->is_guarded = is_guarded;
	q->is_metered = q->paused_ms[QUEUE_OUT] || q->config.rate_ns;
}

void queue_use(struct queue *q)
{
	q->used_mono_ms = q->vhost->broker->mono_ms;
}

/* Somebody works on one of its messages, or where that goes is not yet durable. */
static bool is_at_work(const struct queue *q)
{
	for (unsigned i = 0; i < q->shard_count; i++)
		if (q->shards[i]->unacked > 0 || !TAILQ_EMPTY(&q->shards[i]->moving))
			return true;
	return false;
}

static bool is_empty(const struct queue *q)
{
	for (unsigned i = 0; i < q->shard_count; i++)
		if (!shard_is_empty(q->shards[i]))
			return false;
	return true;
}

static bool may_expire(const struct queue *q)
{
	return TAILQ_EMPTY(&q->consumers) && !q->definition.unusable && !is_at_work(q) &&
	       (q->config.expires_if == QUEUE_EXPIRES_UNUSED || is_empty(q));
}

void queue_wake_by(struct queue *q, int64_t mono_ms)
{
	if (!heap_has(&q->wake) || q->wake.key > mono_ms)
		heap_set(&q->vhost->broker->wakes, &q->wake, mono_ms);
}

void queue_wake_all(struct broker *b)
{
	heap_set_all(&b->wakes, b->mono_ms);
}

bool queue_is_expired(struct queue *q)
{
	struct broker *b = q->vhost->broker;
	int64_t due_ms;

	if (!q->config.expires_ms || b->is_draining)
		return false;
	if (!may_expire(q))
		queue_use(q);
	due_ms = q->used_mono_ms + q->config.expires_ms;
	if (due_ms <= b->heard_ms)
		return true;
	queue_wake_by(q, due_ms);
	return false;
}

bool queue_is_refilling(const struct queue *q)
{
	for (unsigned i = 0; i < q->shard_count; i++)
		if (shard_is_reading(q->shards[i]))
			return true;
	return false;
}

void queue_activate(struct queue *q)
{
	if (q->is_active)
		return;
	q->is_active = true;
	TAILQ_INSERT_TAIL(&q->vhost->broker->active, q, active_link);
}

/* How much may wait in a queue: max-length= and max-bytes= of DECLARE.
 *
 * What is ready or delayed counts, in memory and in Redis, over all shards. What
 * consumers hold, or what is buried, does not. */

struct queue_limit queue_limit_waiting(const struct queue *q)
{
	struct queue_limit has = {
		.messages = queue_count(q, ENTRY_READY) + queue_count(q, ENTRY_DELAYED),
	};

	for (unsigned i = 0; i < q->shard_count; i++)
		has.bytes += q->shards[i]->waiting_bytes;
	return has;
}

static bool is_over(const struct config *c, struct queue_limit n)
{
	return (c->max_length && n.messages > c->max_length) ||
	       (c->max_bytes && n.bytes > c->max_bytes);
}

bool queue_limit_is_over(const struct queue *q, struct queue_limit more)
{
	struct queue_limit n = queue_limit_waiting(q);

	n.messages += more.messages;
	n.bytes += more.bytes;
	return is_over(&q->config, n);
}

static struct queue_limit stored(const struct queue *q)
{
	struct queue_limit n = queue_limit_waiting(q), unstored = { 0, 0 };

	for (unsigned i = 0; i < q->shard_count; i++) {
		unstored.messages += q->shards[i]->unstored.messages;
		unstored.bytes += q->shards[i]->unstored.bytes;
	}
	/* Some of that may be held. */
	n.messages -= n.messages < unstored.messages ? n.messages : unstored.messages;
	n.bytes -= n.bytes < unstored.bytes ? n.bytes : unstored.bytes;
	return n;
}

bool queue_limit_has_excess(const struct queue *q, struct queue_limit more)
{
	struct queue_limit n = stored(q);

	n.messages += more.messages;
	n.bytes += more.bytes;
	return is_over(&q->config, n);
}

uint64_t queue_limit_excess(const struct queue *q)
{
	uint64_t n = stored(q).messages, max = q->config.max_length;

	return q->config.max_bytes || n <= max ? 0 : n - max;
}

uint64_t queue_limit_over(const struct queue *q)
{
	const struct config *c = &q->config;
	struct queue_limit n = stored(q);
	uint64_t messages = c->max_length && n.messages > c->max_length
				    ? n.messages - c->max_length
				    : 0;
	uint64_t mean = n.bytes / (n.messages ? n.messages : 1);
	uint64_t by_bytes = 0;

	if (c->max_bytes && n.bytes > c->max_bytes)
		by_bytes = 1 + (n.bytes - c->max_bytes) / (2 * (mean + 1));
	return messages > by_bytes ? messages : by_bytes;
}

int queue_limit_refuse(const struct queue *q, struct queue_limit more, struct error *err)
{
	const struct queue_limit has = queue_limit_waiting(q);
	const struct config *c = &q->config;

	if (c->max_length && has.messages + more.messages > c->max_length)
		return error_set(err, TIDE_EFULL,
				 "queue '%s' is full: waiting messages: %" PRIu64
				 ", max-length=%" PRIu64,
				 q->name, has.messages, c->max_length);
	return error_set(err, TIDE_EFULL,
			 "queue '%s' is full: waiting bytes: %" PRIu64
			 ", of this message: %" PRIu64 ", max-bytes=%" PRIu64,
			 q->name, has.bytes, more.bytes, c->max_bytes);
}
