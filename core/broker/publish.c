#include "publish.h"

#include <inttypes.h>

#include "broker.h"
#include "canary.h"
#include "host/log.h"
#include "pause.h"
#include "queue.h"
#include "rules/engine/strategy.h"
#include "shard/commit.h"
#include "topic.h"
#include "unusable.h"

/* Do the queues of a decision take its messages: one refuses, or all
 * take them. */

/* The queue or the topic has seen the publish id of the message. */
static __attribute__((noinline)) bool has_seen(const struct outcome *o,
					       const struct queue *q)
{
	const struct dedupe_key key = decide_dedupe_key(o);

	return o->msg->dedupe_len && queue_dedupe_ms(q) > 0 &&
	       publish_ids_wanted(q->ids, &key) == 0;
}

static int refuse_paused(const struct queue *q, struct error *err)
{
	char until[PAUSE_TEXT_MAX];

	pause_format(q, QUEUE_IN, until);
	return error_set(err, TIDE_EBUSY, "queue '%s' is paused: it takes no messages %s",
			 q->name, until);
}

/* With this message, and what else of the decision it is to take. */
static struct queue_limit wanted(const struct outcome *o, const struct queue *q)
{
	return (struct queue_limit){ q->admitted + 1,
				     q->admitted_bytes + o->msg->payload_len };
}

/* The Redis of this queue or topic is away, one of several: the others go on. */
static bool is_lane_full(const struct pick *pick)
{
	const struct broker *b = pick->queue->vhost->broker;
	const struct store_shard *keys =
		pick->shard ? pick->shard->keys
			    : topic_keys(pick->queue->topic, pick->index);
	unsigned lane = keys ? store_lane(b->store, keys) : 0;

	return keys && lane < b->full_lane_count && b->full_lanes[lane];
}

static int refuse_lane(const struct queue *q, struct error *err)
{
	return error_set(
		err, TIDE_EBUSY,
		"the Redis that keeps this message of queue '%s' is away, and as "
		"much waits for it as may: try again later",
		q->name);
}

int publish_check_pick(const struct outcome *o, const struct pick *pick,
		       struct error *err)
{
	const struct queue *q = pick->queue;

	if (q->vhost->broker->full_lane_count && is_lane_full(pick))
		return refuse_lane(q, err);
	if (!q->is_guarded || has_seen(o, q))
		return TIDE_OK;
	if (pause_is_on(q, QUEUE_IN))
		return refuse_paused(q, err);
	if (q->config.max_bytes && o->msg->payload_len > q->config.max_bytes)
		return error_set(
			err, TIDE_ETOOLARGE,
			"a message of %zu bytes is too large for queue '%s': it has "
			"max-bytes=%" PRIu64,
			o->msg->payload_len, q->name, q->config.max_bytes);
	if (!q->config.overflow && queue_limit_is_over(q, wanted(o, q)))
		return queue_limit_refuse(q, wanted(o, q), err);
	return TIDE_OK;
}

/* Somebody who waits for a message would have it at the end of the turn. */
static void make_room(const struct outcome *o, struct queue *q)
{
	if (q->able.count > 0 && queue_limit_is_over(q, wanted(o, q)))
		q->vhost->broker->deal(q);
}

/* An event that a full queue refuses is no news: it would make the next one. */
static void tell_full(const struct outcome *o, struct queue *q, const struct error *why)
{
	struct broker *b = q->vhost->broker;

	if (why->code != TIDE_EFULL || q->is_told_full || !event_is_wanted(b) ||
	    slice_is(o->msg->exchange, EVENT_EXCHANGE))
		return;
	q->is_told_full = true;
	EVENT_TELL(b, EVENT_QUEUE_FULL, vhost_slice(q->vhost), queue_slice(q),
		   slice_from(why->text));
}

static void tell_open(const struct outcome *o, struct queue *q)
{
	struct broker *b = q->vhost->broker;

	if (slice_is(o->msg->exchange, EVENT_EXCHANGE))
		return;
	q->is_told_full = false;
	EVENT_TELL(b, EVENT_QUEUE_OPEN, vhost_slice(q->vhost), queue_slice(q));
}

static int check_outcome(const struct outcome *o, bool may_deal, struct error *err)
{
	for (unsigned i = 0; i < o->count; i++) {
		struct queue *q = o->picks[i].queue;

		if (!q->is_guarded && !q->vhost->broker->full_lane_count)
			continue;
		if (may_deal && queue_limit_has(q))
			make_room(o, q);
		if (publish_check_pick(o, &o->picks[i], err) < 0) {
			q->counters.refused++;
			tell_full(o, q, err);
			return err->code;
		}
		if (q->is_told_full)
			tell_open(o, q);
		q->admitted++;
		q->admitted_bytes += o->msg->payload_len;
		/* One that is delayed makes no consumer look at the queue. */
		if (q->config.overflow)
			queue_activate(q);
	}
	return TIDE_OK;
}

static void forget(const struct outcome *o)
{
	for (unsigned i = 0; i < o->count; i++)
		o->picks[i].queue->admitted = o->picks[i].queue->admitted_bytes = 0;
}

/* TIDE_EBUSY: a queue is paused. TIDE_EFULL: it is at a limit, and refuses what is more.
 * TIDE_ETOOLARGE: it never takes so much.
 * What a queue has seen already (PUB id=) it need not take. To be called when
 * broker.guarded is not 0.
 *
 * @param may_deal  consumers may be served now, to make room */
static __attribute__((noinline)) int check_admission(const struct decision *d,
						     bool may_deal, struct error *err)
{
	int rc = check_outcome(&d->first, may_deal, err);

	for (unsigned i = 0; i < d->copy_count && rc == TIDE_OK; i++)
		rc = check_outcome(&d->copies[i], may_deal, err);
	forget(&d->first);
	for (unsigned i = 0; i < d->copy_count; i++)
		forget(&d->copies[i]);
	return rc;
}

#define UNRANKED_LOG_MS 60000

/* The script failed: once in a while the log says so. */
static __attribute__((noinline)) void count_unranked(const struct pick *pick)
{
	struct queue *q = pick->queue;

	q->counters.unranked++;
	if (!log_is_due(&q->unranked_logged_ms, q->vhost->broker->now_ms,
			UNRANKED_LOG_MS))
		return;
	log_warn("queue '%s' of vhost '%s': the priority script failed; the message goes "
		 "behind the newest one (%" PRIu64 " so far): %s",
		 q->name, q->vhost->name, q->counters.unranked,
		 strategy_last_error(q->strategies[RULESET_ACTIVE][SCRIPT_PRIORITY]));
}

static inline void count_pick(const struct pick *pick)
{
	queue_rate(pick->queue);
	pick->queue->counters.published++;
	if (pick->is_unranked)
		count_unranked(pick);
}

/* Where a message goes: into its shards and partitions at once, or into a commit. */
struct entrance {
	struct waiter *waiter;  /* who waits; may be NULL */
	struct commit *commit;  /* NULL: at once */
	struct published *told; /* of the first topic; NULL: nobody asks */
};

static void tell_place(const struct entrance *to, unsigned partition, uint64_t offset)
{
	if (!to->told)
		return;
	to->told->topics++;
	if (to->told->has_offset)
		return;
	to->told->has_offset = true;
	to->told->partition = (uint16_t)partition;
	to->told->offset = offset;
}

static __attribute__((noinline)) void append(const struct entrance *to,
					     const struct pick *pick, const struct msg *m)
{
	struct partition *p = topic_partition(pick->queue->topic, pick->index);

	tell_place(to, pick->index, partition_append(p, m, to->waiter));
}

static bool append_new(const struct entrance *to, const struct pick *pick,
		       const struct outcome *o, uint64_t *first)
{
	const struct topic_ids_publish p = {
		.key = decide_dedupe_key(o),
		.window_ms = queue_dedupe_ms(pick->queue),
		.partition = pick->index,
		.msg = o->msg,
	};
	struct topic_ids_place place;
	bool is_new = topic_ids_publish(pick->queue->topic->ids, &p, to->waiter, &place);

	tell_place(to, place.partition, place.offset);
	*first = place.msg_id;
	return is_new;
}

static inline void enter(const struct entrance *to, const struct pick *pick,
			 struct msg *m)
{
	if (to->commit && pick->shard)
		commit_publish(to->commit, pick->shard, m, pick->rank, NULL);
	else if (to->commit)
		commit_append(to->commit,
			      topic_partition(pick->queue->topic, pick->index), m);
	else if (pick->shard)
		shard_publish(pick->shard, m, pick->rank, to->waiter, false);
	else
		append(to, pick, m);
}

static bool enter_new(const struct entrance *to, struct dedupe_queue *dq,
		      const struct dedupe_publish *p, uint64_t *first)
{
	struct waiter *id;

	if (!to->commit)
		return dedupe_publish(dq, p, to->waiter, first);
	id = dedupe_commit(dq, p, first);
	if (!id)
		return false;
	commit_publish(to->commit, p->shard, p->msg, p->rank, id);
	waiter_done(id, TIDE_OK, NULL);
	return true;
}

/* Is the message new in the queue? False: the queue had it before. */
static bool store_new(const struct outcome *o, const struct pick *pick,
		      const struct entrance *to, uint64_t *first)
{
	const struct dedupe_publish p = {
		.key = decide_dedupe_key(o),
		.window_ms = queue_dedupe_ms(pick->queue),
		.shard = pick->shard,
		.msg = o->msg,
		.rank = pick->rank,
	};

	if (p.window_ms > 0 && !pick->shard)
		return append_new(to, pick, o, first);
	if (p.window_ms > 0)
		return enter_new(to, pick->queue->dedupe, &p, first);
	enter(to, pick, o->msg);
	return true;
}

/* For a message with a publish id, each queue decides whether it has seen it. Gives how
 * many had; `*first` is the message that the first of those has. */
static unsigned store_once(struct broker *b, const struct outcome *o,
			   const struct entrance *to, uint64_t *first)
{
	unsigned duplicates = 0;
	uint64_t id;

	for (unsigned i = 0; i < o->count; i++) {
		struct queue *q = o->picks[i].queue;

		if (store_new(o, &o->picks[i], to, &id)) {
			count_pick(&o->picks[i]);
			continue;
		}
		q->counters.duplicates++;
		if (duplicates++ == 0)
			*first = id;
	}
	b->counters.duplicates += duplicates;
	b->counters.routed += o->count - duplicates;
	return duplicates;
}

static void count_unroutable(const struct outcome *o, struct vhost *v)
{
	/* Whoever listens wants some events, not all. */
	if (o->exchange && o->exchange == v->broker->events.exchange)
		return;
	v->broker->counters.unroutable++;
	unroutable_add(o->exchange ? &o->exchange->unroutable : &v->unroutable,
		       o->msg->key, v->broker->now_ms);
}

/* Gives how many of the queues had it before. */
static unsigned store(struct vhost *v, const struct outcome *o, const struct entrance *to,
		      uint64_t *first)
{
	struct broker *b = v->broker;

	b->counters.published++;
	if (o->exchange)
		o->exchange->published++;
	if (o->count == 0)
		count_unroutable(o, v);
	if (o->msg->dedupe_len)
		return store_once(b, o, to, first);
	for (unsigned i = 0; i < o->count; i++) {
		count_pick(&o->picks[i]);
		enter(to, &o->picks[i], o->msg);
	}
	b->counters.routed += o->count;
	return 0;
}

/* Both who call it pay for no frame. */
static inline __attribute__((always_inline)) void apply(const struct decision *d,
							struct vhost *v,
							const struct entrance *to,
							struct published *out)
{
	uint64_t first;
	unsigned duplicates = store(v, &d->first, to, &first);

	out->queues = d->first.count;
	out->is_duplicate = duplicates > 0 && duplicates == out->queues;
	if (out->is_duplicate)
		out->id = first;
	for (unsigned i = 0; i < d->copy_count; i++)
		store(v, &d->copies[i],
		      &(struct entrance){ .waiter = to->waiter, .commit = to->commit },
		      &first);
}

static size_t wanted_bytes(const struct outcome *o)
{
	const struct dedupe_key key = decide_dedupe_key(o);
	size_t bytes = 0;

	if (key.publish_id.len == 0)
		return 0;
	for (unsigned i = 0; i < o->count; i++)
		if (queue_dedupe_ms(o->picks[i].queue) > 0)
			bytes += publish_ids_wanted(o->picks[i].queue->ids, &key);
	return bytes;
}

static int admit_ids(const struct decision *d, const struct broker *b, struct error *err)
{
	size_t bytes = wanted_bytes(&d->first);

	for (unsigned i = 0; i < d->copy_count; i++)
		bytes += wanted_bytes(&d->copies[i]);
	return bytes ? publish_ids_admit(dedupe_env(b->dedupe), bytes, err) : TIDE_OK;
}

/* Do the queues take it, and is there room for the publish ids that would be remembered?
 * Few queues refuse anything, and most publishes have no id. */
static inline int admit(const struct decision *d, const struct decide_spec *spec,
			struct error *err)
{
	const struct broker *b = spec->vhost->broker;
	int rc = b->guarded ? check_admission(d, spec->may_deal, err) : TIDE_OK;

	if (rc < 0)
		return rc;
	return d->copy_count || d->first.msg->dedupe_len ? admit_ids(d, b, err) : TIDE_OK;
}

static int refuse_unroutable(const struct outcome *o, struct vhost *v, struct error *err)
{
	count_unroutable(o, v);
	return error_set(err, TIDE_EUNROUTABLE,
			 "no queue takes key '%" SLICE_FMT "' from exchange '%s'",
			 SLICE_ARG(o->msg->key), o->exchange ? o->exchange->name : "-");
}

/* A command that Redis refuses as too long ends the connection to it, with all that is on
 * its way. `bytes` of a message are more than it has when it is encoded. */
static int check_size(const struct outcome *o, const struct broker *b, struct error *err)
{
	if (!b->env.store || o->msg->bytes <= store_body_max(b->env.store))
		return TIDE_OK;
	for (unsigned i = 0; i < o->count; i++)
		if (queue_is_durable(o->picks[i].queue))
			return error_set(
				err, TIDE_ETOOLARGE,
				"a message of %zu bytes is too large for the durable "
				"%s '%s': Redis accepts %zu (proto-max-bulk-len)",
				o->msg->bytes,
				definition_kind(o->picks[i].queue->definition.table),
				o->picks[i].queue->name, store_body_max(b->env.store));
	return TIDE_OK;
}

static int check_each_size(const struct decision *d, const struct broker *b,
			   struct error *err)
{
	int rc = check_size(&d->first, b, err);

	for (unsigned i = 0; i < d->copy_count && rc == TIDE_OK; i++)
		rc = check_size(&d->copies[i], b, err);
	return rc;
}

/* Most are so small that nothing need be asked. */
static inline int check_sizes(const struct decision *d, const struct broker *b,
			      struct error *err)
{
	return d->copy_count || d->first.msg->bytes > STORE_BODY_MAX_MIN
		       ? check_each_size(d, b, err)
		       : TIDE_OK;
}

/* Each topic appends it where the publisher expects, or nobody takes it. One that has it
 * already says where. */
static int check_expected(const struct outcome *o, uint64_t expected, struct error *err)
{
	bool has_topic = false;

	for (unsigned i = 0; i < o->count; i++) {
		const struct pick *pick = &o->picks[i];
		uint64_t end =
			pick->shard ? 0 : topic_end(pick->queue->topic, pick->index);

		if (pick->shard)
			continue;
		has_topic = true;
		if (end != expected && !has_seen(o, pick->queue))
			return error_set(err, TIDE_EMISMATCH,
					 "partition %u of topic '%s' ends at %" PRIu64
					 ", not at %" PRIu64,
					 pick->index, pick->queue->name, end, expected);
	}
	if (has_topic)
		return TIDE_OK;
	return error_set(err, TIDE_EMISMATCH,
			 "expect= names an offset, and no topic takes key '%" SLICE_FMT
			 "' from exchange '%s'",
			 SLICE_ARG(o->msg->key), o->exchange ? o->exchange->name : "-");
}

const struct queue *publish_find_remembering(const struct decision *d)
{
	for (unsigned n = 0; n <= d->copy_count; n++) {
		const struct outcome *o = n ? &d->copies[n - 1] : &d->first;

		for (unsigned i = 0; i < o->count; i++)
			if (o->picks[i].queue->topic && o->msg->dedupe_len &&
			    queue_dedupe_ms(o->picks[i].queue) > 0)
				return o->picks[i].queue;
	}
	return NULL;
}

static struct decision_context *ask_followers(struct decide_spec *spec)
{
	struct step step = { .kind = STEP_PUBLISH, .id = spec->msg->id, .spec = spec };

	step_tell(&spec->vhost->broker->followers, &step);
	return step.context;
}

/* The active rules decide it, under the conditions of those who follow it. Returns the
 * state of tide.random. */
static inline uint64_t begin(struct decide_spec *spec)
{
	const struct broker *b = spec->vhost->broker;

	spec->rules = &b->active_rules;
	spec->now_ms = b->now_ms;
	spec->context = NULL;
	if (step_is_followed(&b->followers, STEP_PUBLISH))
		spec->context = ask_followers(spec);
	if (__builtin_expect(b->canary != NULL, 0))
		canary_choose(b->canary, spec);
	return engine_random_state(b->engine);
}

/* The scripts of a canary have failed with the message: the active rules decide, from the
 * begin. */
static __attribute__((noinline)) int
decide_again(struct decision *d, struct decide_spec *spec, struct error *err)
{
	canary_fall_back(spec->vhost->broker->canary, spec, err);
	decide_deinit(d);
	return decide(d, spec, err);
}

static inline void count_canary(const struct decide_spec *spec)
{
	if (__builtin_expect(spec->is_canary, 0))
		spec->vhost->broker->canary->decided++;
}

static inline void tell(struct decide_spec *spec, uint64_t random_state,
			const struct decision *d, const struct error *refusal)
{
	STEP_TELL(&spec->vhost->broker->followers, STEP_DECIDED, .id = spec->msg->id,
		  .error = refusal, .spec = spec, .decision = d,
		  .random_state = random_state);
}

int publish_message(struct decide_spec *spec, bool is_mandatory, struct waiter *waiter,
		    struct published *out, struct error *err)
{
	struct broker *b = spec->vhost->broker;
	uint64_t random_state;
	struct decision d;
	int rc;

	random_state = begin(spec);
	rc = decide(&d, spec, err);
	if (__builtin_expect(rc == TIDE_ERULE && spec->is_canary, 0))
		rc = decide_again(&d, spec, err);
	count_canary(spec);
	if (rc == TIDE_OK)
		rc = check_sizes(&d, b, err);
	tell(spec, random_state, &d, rc < 0 ? err : NULL);
	*out = (struct published){ .id = spec->msg->id };
	if (rc == TIDE_OK && is_mandatory && d.first.count == 0)
		rc = refuse_unroutable(&d.first, spec->vhost, err);
	if (rc == TIDE_OK && spec->expected)
		rc = check_expected(&d.first, *spec->expected, err);
	if (rc == TIDE_OK)
		rc = admit(&d, spec, err);
	if (rc == TIDE_OK)
		apply(&d, spec->vhost,
		      &(struct entrance){ .waiter = waiter, .told = out }, out);
	decide_deinit(&d);
	return rc;
}

int publish_to_queue(struct queue *q, struct msg *m, struct waiter *waiter,
		     struct published *out, struct error *err)
{
	const struct broker *b = q->vhost->broker;
	const struct decide_spec spec = { .rules = &b->active_rules,
					  .vhost = q->vhost,
					  .msg = m,
					  .now_ms = b->now_ms };
	struct decision d;
	int rc = unusable_check(&q->definition, err);

	*out = (struct published){ .id = m->id };
	if (rc < 0)
		return rc;
	rc = decide_queue(&d, &spec, q, err);
	if (rc == TIDE_OK)
		rc = check_sizes(&d, b, err);
	if (rc == TIDE_OK)
		rc = admit(&d, &spec, err);
	if (rc == TIDE_OK)
		apply(&d, q->vhost, &(struct entrance){ .waiter = waiter }, out);
	decide_deinit(&d);
	return rc;
}

int publish_filter(struct decision *d, struct decide_spec *spec, struct error *err)
{
	const struct broker *b = spec->vhost->broker;
	uint64_t random_state;
	int rc;

	spec->rules = &b->active_rules;
	spec->now_ms = b->now_ms;
	if (b->canary)
		canary_choose(b->canary, spec);
	rc = decide_filter(d, spec, err);
	if (rc == TIDE_ERULE && spec->is_canary) {
		canary_fall_back(b->canary, spec, err);
		decide_deinit(d);
		rc = decide_filter(d, spec, err);
	}
	if (rc < 0) {
		random_state = begin(spec);
		tell(spec, random_state, d, err);
	}
	return rc;
}

/* Store an outcome where it is not known yet. */
static void store_unknown(struct vhost *v, struct outcome *o,
			  const struct publish_known *known, struct waiter *waiter)
{
	const struct entrance to = { .waiter = waiter };
	unsigned left = 0;
	uint64_t ignored;

	for (unsigned i = 0; i < o->count; i++)
		if (!known->has(known->ctx, o->msg, o->picks[i].queue))
			o->picks[left++] = o->picks[i];
	if (o->count > 0 && left == 0)
		return; /* which is not the same as unroutable */
	o->count = left;
	store(v, o, &to, &ignored);
}

int publish_route(struct decision *d, struct decide_spec *spec, bool is_mandatory,
		  struct error *err)
{
	struct broker *b = spec->vhost->broker;
	uint64_t random_state;
	int rc;

	/* The filters have had another moment. */
	random_state = begin(spec);
	rc = decide_route(d, spec, err);
	/* The ids of copies are known already. */
	if (rc == TIDE_ERULE && spec->is_canary && d->copy_count == 0)
		rc = decide_again(d, spec, err);
	count_canary(spec);
	if (rc == TIDE_OK)
		rc = check_sizes(d, b, err);
	tell(spec, random_state, d, rc < 0 ? err : NULL);
	if (rc == TIDE_OK && is_mandatory && d->first.count == 0)
		rc = refuse_unroutable(&d->first, spec->vhost, err);
	return rc == TIDE_OK ? admit(d, spec, err) : rc;
}

int publish_filtered(struct decision *d, struct decide_spec *spec,
		     const struct publish_known *known, struct waiter *waiter,
		     struct error *err)
{
	int rc = publish_route(d, spec, false, err);

	if (rc < 0)
		return rc;
	store_unknown(spec->vhost, &d->first, known, waiter);
	for (unsigned i = 0; i < d->copy_count; i++)
		store_unknown(spec->vhost, &d->copies[i], known, waiter);
	return TIDE_OK;
}

bool publish_is_unsettled(const struct decision *d)
{
	for (unsigned n = 0; n <= d->copy_count; n++) {
		const struct outcome *o = n ? &d->copies[n - 1] : &d->first;
		const struct dedupe_key key = decide_dedupe_key(o);

		for (unsigned i = 0; key.publish_id.len && i < o->count; i++)
			if (publish_ids_is_pending(o->picks[i].queue->ids, &key))
				return true;
	}
	return false;
}

void publish_commit(const struct decision *d, struct vhost *v, struct commit *c,
		    struct published *out)
{
	*out = (struct published){ .id = d->first.msg->id };
	apply(d, v, &(struct entrance){ .commit = c }, out);
}
