#include "commit.h"

#include "base/mem.h"
#include "log/partition.h"
#include "dedupe.h"
#include "journal.h"

struct commit_item {
	struct entry *entry;
	struct commit_change change;
	bool is_new;
};

struct commit {
	STAILQ_ENTRY(commit) link;
	struct shard_env *env;
	const struct commit_ops *ops;
	struct waiter *waiter;
	struct commit_item *items;
	size_t count, cap;
	struct shard **shards; /* that it changes: a reference of each */
	unsigned shard_count, shard_cap;
	struct joint_list joints; /* of partitions that it appends to */
	bool is_durable;          /* one shard or partition is */
};

struct commit *commit_create(struct shard_env *env, const struct commit_ops *ops,
			     struct waiter *waiter)
{
	struct commit *c = mem_zalloc(sizeof(*c));

	c->env = env;
	c->ops = ops;
	c->waiter = waiter;
	STAILQ_INIT(&c->joints);
	waiter_add(waiter);
	return c;
}

static void commit_destroy(struct commit *c)
{
	for (unsigned i = 0; i < c->shard_count; i++)
		shard_unref(c->shards[i]);
	mem_free(c->shards);
	mem_free(c->items);
	mem_free(c);
}

static void add_shard(struct commit *c, struct shard *sh)
{
	if (sh->commit == c)
		return;
	sh->commit = c;
	MEM_GROW(c->shards, c->shard_count, c->shard_cap, 4);
	c->shards[c->shard_count++] = shard_ref(sh);
	c->is_durable |= sh->keys != NULL;
}

static struct commit_item *add_item(struct commit *c, struct entry *e)
{
	add_shard(c, e->shard);
	MEM_GROW(c->items, c->count, c->cap, 8);
	e->flags |= LIES_IN_COMMIT;
	c->items[c->count] = (struct commit_item){ .entry = e };
	return &c->items[c->count++];
}

void commit_publish(struct commit *c, struct shard *sh, struct msg *m, double rank,
		    struct waiter *id)
{
	bool is_delayed = m->due_unix_ms > c->env->now_ms;
	struct entry *e = shard_entry_begin(sh, m, rank);
	struct commit_item *item = add_item(c, e);

	if (id) {
		waiter_add(id);
		e->waiter = id;
		e->flags |= OWED_ID;
	}
	item->is_new = true;
	item->change = (struct commit_change){
		.state = is_delayed ? ENTRY_DELAYED : ENTRY_READY,
		.at_unix_ms = is_delayed ? m->due_unix_ms : 0,
	};
	e->state = ENTRY_MOVING;
	TAILQ_INSERT_TAIL(&sh->moving, e, link);
}

void commit_append(struct commit *c, struct partition *p, struct msg *m)
{
	struct joint *j;

	STAILQ_FOREACH (j, &c->joints, link)
		if (j->partition == p)
			break;
	if (!j) {
		j = joint_create(p);
		STAILQ_INSERT_TAIL(&c->joints, j, link);
		c->is_durable |= partition_keys(p) != NULL;
	}
	joint_append(j, m);
}

void commit_settle(struct commit *c, struct entry *e, const struct commit_change *change)
{
	struct commit_item *item = add_item(c, e);

	item->change = *change;
	if (item->change.msg)
		msg_ref(item->change.msg);
	shard_suspend(e);
}

static double score_of(const struct commit_item *item)
{
	return item->change.state == ENTRY_READY ? item->entry->rank
						 : (double)item->change.at_unix_ms;
}

/* A held message was delivered, which may not be written yet. */
static void encode_tries(const struct commit_item *item, struct batch *b)
{
	const struct entry *e = item->entry;
	const struct store_tries tries = shard_tries(e, item->change.reason);

	if (e->deliveries > 0)
		batch_tries(b, e->id, &tries);
}

/* What is sent together. */
struct flight_size {
	size_t entries, bytes;
	uint64_t inserted, removed;
};

static uint8_t home_after(const struct commit_item *item)
{
	return item->change.state == ENTRY_GONE ? HOME_NONE : (uint8_t)item->change.state;
}

static void insert(const struct commit_item *item, struct batch *b)
{
	const struct entry *e = item->entry;
	enum store_set set = (enum store_set)item->change.state;

	batch_insert(b, &(struct store_insert){
				item->change.msg ? item->change.msg : e->msg, e->rank,
				e->expires_unix_ms, set, score_of(item) });
	if (e->home != HOME_NONE)
		batch_leave_others(b, e->id, set);
}

/* What Redis is to have, as the journal would write it from the new state. */
static void encode(struct flight_size *size, const struct commit_item *item,
		   struct batch *b)
{
	struct entry *e = item->entry;
	enum entry_state state = item->change.state;

	if (e->shard->size.is_kept)
		shard_size_move(e, e->home, home_after(item));
	size->inserted += e->home == HOME_NONE && state != ENTRY_GONE;
	size->removed += e->home != HOME_NONE && state == ENTRY_GONE;
	if (state == ENTRY_GONE) {
		if (e->home != HOME_NONE)
			batch_remove(b, e->id, (enum store_set)e->home,
				     e->flags & LIES_TRIED,
				     !e->msg || e->expires_unix_ms);
		if (e->shard->dedupe.is_queued)
			dedupe_encode_removal(e, b);
		return;
	}
	if (e->home != HOME_NONE && !item->change.msg)
		batch_move(b, e->id, (enum store_set)e->home, (enum store_set)state,
			   score_of(item));
	else
		insert(item, b);
	if (e->flags & OWED_ID)
		dedupe_encode(e, b);
	encode_tries(item, b);
}

/* A purge has begun meanwhile. It removes what it finds beyond the edge of that time. */
static bool is_purged(const struct commit_item *item)
{
	const struct entry *e = item->entry;
	const struct shard *sh = e->shard;
	struct place place = { score_of(item), e->id };

	return item->change.state != ENTRY_GONE && sh->keys &&
	       sh->commit_purges != sh->purges &&
	       !place_is_before(place, sh->stages[item->change.state].edge);
}

/* Its new state begins. */
static void take_place(struct commit *c, const struct commit_item *item)
{
	struct entry *e = item->entry;
	struct shard *sh = e->shard;
	bool is_gone = item->change.state == ENTRY_GONE || is_purged(item);

	if (!item->is_new)
		c->ops->on_settled(e);
	if (item->change.reason)
		shard_count_failure(e, item->change.reason);
	shard_entry_stored(e);
	shard_entry_clean(e);
	if (item->change.msg)
		shard_revise(e, item->change.msg, e->rank);
	shard_account(e, -1);
	if (sh->keys)
		e->home = is_gone ? HOME_NONE : (uint8_t)item->change.state;
	e->stored_score = score_of(item);
	if (sh->keys && !is_gone && e->deliveries > 0)
		e->flags |= LIES_TRIED;
	e->flags &= (uint16_t) ~(LIES_IN_COMMIT | LIES_LEDGERED | OWED_TRIES |
				 OWED_SCORE | OWED_BODY);
	shard_account(e, 1);
	entry_tell(e, TIDE_OK, NULL);
	shard_entry_leaving(e);
	TAILQ_REMOVE(&sh->moving, e, link);
	if (is_gone) {
		if (sh->dedupe.is_queued)
			dedupe_done(e);
		if (e->group)
			order_release(sh->order, e);
		shard_entry_free(e);
		sh->env->ops->on_ready(sh);
		return;
	}
	e->at_unix_ms = item->change.at_unix_ms;
	shard_entry_place(e, item->change.state, score_of(item));
	/* One that is delayed counts at the queue's limit. */
	sh->env->ops->on_ready(sh);
}

/* A new message: Redis may have it all the same, and forgets it in the next batch. */
static void take_back(struct entry *e, const struct batch_result *result)
{
	struct shard *sh = e->shard;
	bool has_id = e->flags & OWED_ID;

	shard_entry_stored(e);
	entry_tell(e, result->written, result->text);
	shard_entry_leaving(e);
	TAILQ_REMOVE(&sh->moving, e, link);
	e->state = ENTRY_GONE;
	/* The publish id of a message that is not there would confirm a repetition. */
	if (!result->is_unsure || !sh->keys || has_id) {
		shard_entry_free(e);
		return;
	}
	e->flags |= OWED_UNSURE;
	shard_entry_dirty(e);
}

static void undo(const struct commit_item *item, const struct batch_result *result)
{
	struct entry *e = item->entry;

	if (e->shard->size.is_kept && e->shard->is_committing)
		shard_size_move(e, home_after(item), e->home);
	e->flags &= (uint16_t)~LIES_IN_COMMIT;
	if (item->is_new) {
		take_back(e, result);
		return;
	}
	if (result->is_unsure && e->shard->keys)
		e->flags |= OWED_UNSURE;
	shard_resume_held(e);
}

static void end_item(struct commit *c, const struct commit_item *item,
		     const struct batch_result *result)
{
	struct entry *e = item->entry;

	if (e->shard->is_closed) {
		e->flags &= (uint16_t)~LIES_IN_COMMIT;
		shard_entry_free(e);
	} else if (result->written < 0) {
		undo(item, result);
	} else {
		take_place(c, item);
	}
}

/* All that it changes is settled. */
static void finish_shard(struct shard *sh, const struct batch_result *result)
{
	if (!sh->is_committing)
		return;
	sh->is_committing = false;
	dedupe_landed(sh, result);
	/* Reads of Redis have waited. */
	if (!sh->is_closed)
		shard_wake_by(sh, sh->env->now_ms);
	if (sh->take.is_wanted)
		shard_take_tick(sh);
}

static void end_joints(struct commit *c, const struct batch_result *result)
{
	struct joint *j;

	while ((j = STAILQ_FIRST(&c->joints)) != NULL) {
		STAILQ_REMOVE_HEAD(&c->joints, link);
		joint_end_take(j, result->written, result->text);
	}
}

/* Several that were carried out together: none of their shards is read before all of
 * them are in place. */
static void land(struct commit_list *list, const struct batch_result *result)
{
	struct commit *c;

	STAILQ_FOREACH (c, list, link)
		for (size_t i = 0; i < c->count; i++) {
			end_item(c, &c->items[i], result);
			msg_unref(c->items[i].change.msg);
		}
	STAILQ_FOREACH (c, list, link)
		end_joints(c, result);
	STAILQ_FOREACH (c, list, link)
		for (unsigned i = 0; i < c->shard_count; i++)
			finish_shard(c->shards[i], result);
	while ((c = STAILQ_FIRST(list)) != NULL) {
		struct waiter *waiter = c->waiter;

		STAILQ_REMOVE_HEAD(list, link);
		commit_destroy(c);
		waiter_done(waiter, result->written, result->text);
	}
}

static void land_alone(struct commit *c, const struct batch_result *result)
{
	struct commit_list list = STAILQ_HEAD_INITIALIZER(list);

	STAILQ_INSERT_TAIL(&list, c, link);
	land(&list, result);
}

void commit_send_take(struct commit *c)
{
	static const struct batch_result done = { TIDE_OK, TIDE_OK, NULL, false };
	struct joint *j;

	STAILQ_FOREACH (j, &c->joints, link)
		joint_seal(j);
	for (unsigned i = 0; i < c->shard_count; i++)
		c->shards[i]->commit = NULL;
	if (c->is_durable)
		STAILQ_INSERT_TAIL(&c->env->commits.waiting, c, link);
	else
		land_alone(c, &done);
}

static bool is_busy(const struct shard *sh)
{
	return !sh->is_closed && sh->keys &&
	       (sh->is_held_back || sh->take.is_taking || sh->take.is_next);
}

/* Its publish is not written, or what Redis has of it is not known: the shard's next
 * batch settles that. */
static bool is_unwritten(const struct entry *e)
{
	return !e->shard->is_closed && (e->flags & OWED_WRITE) &&
	       (e->home == HOME_NONE || (e->flags & (OWED_UNSURE | OWED_BODY)));
}

static bool is_ready(const struct commit *c)
{
	const struct joint *j;

	STAILQ_FOREACH (j, &c->joints, link)
		if (!joint_is_ready(j))
			return false;
	for (unsigned i = 0; i < c->shard_count; i++)
		if (is_busy(c->shards[i]))
			return false;
	for (size_t i = 0; i < c->count; i++)
		if (is_unwritten(c->items[i].entry))
			return false;
	return true;
}

static void begin_shard(struct shard *sh)
{
	sh->is_committing = sh->keys != NULL;
	sh->commit_purges = sh->purges;
	sh->commit_batch = sh->keys && !sh->is_closed
				   ? store_batch_begin(sh->env->store, sh->keys)
				   : NULL;
}

/* It is right only behind everything else, and nobody sees it before. */
static void write_size(struct batch *b, struct store_size stored)
{
	batch_size(b, &(struct store_sizes){ stored, stored, stored });
}

static void fly(struct commit *c, struct store_transaction *t, struct flight_size *size)
{
	struct joint *j;

	STAILQ_FOREACH (j, &c->joints, link)
		size->bytes += joint_send(j, t);
	for (unsigned i = 0; i < c->shard_count; i++)
		begin_shard(c->shards[i]);
	for (size_t i = 0; i < c->count; i++) {
		struct batch *b = c->items[i].entry->shard->commit_batch;

		if (b)
			encode(size, &c->items[i], b);
	}
	for (unsigned i = 0; i < c->shard_count; i++) {
		struct batch *b = c->shards[i]->commit_batch;

		if (!b)
			continue;
		if (c->shards[i]->size.is_kept)
			write_size(b, c->shards[i]->size.stored);
		size->bytes += batch_bytes(b);
		store_transaction_add_take(t, b);
	}
	size->entries += c->count;
}

static void land_list(struct commit_list *list, const struct batch_result *result)
{
	struct commit_list landed = STAILQ_HEAD_INITIALIZER(landed);

	/* Who is told may add to the list. */
	STAILQ_CONCAT(&landed, list);
	land(&landed, result);
}

static void on_answer(void *ctx, const struct batch_result *result)
{
	struct shard_env *env = ctx;

	journal_commit_end(env->journal, result);
	land_list(&env->commits.flying, result);
}

/* Those of which a part has failed do not take place. */
static void end_failed(struct commit_queue *q)
{
	struct commit *c;

	while ((c = STAILQ_FIRST(&q->waiting)) != NULL) {
		struct batch_result failed = { 0 };
		const struct joint *j;

		STAILQ_FOREACH (j, &c->joints, link)
			if (joint_status(j) < 0)
				failed.removed = failed.written = joint_status(j);
		if (failed.written == TIDE_OK)
			return;
		STAILQ_REMOVE_HEAD(&q->waiting, link);
		land_alone(c, &failed);
	}
}

/* Bounds of what is sent together, but for the first commit. */
#define FLIGHT_ENTRIES_MAX 16384
#define FLIGHT_BYTES_MAX ((size_t)8 << 20)

void commit_flush(struct shard_env *env)
{
	struct commit_queue *q = &env->commits;
	struct flight_size size = { 0 };
	struct store_transaction *t;
	struct commit *c;

	end_failed(q);
	c = STAILQ_FIRST(&q->waiting);
	if (!c || !journal_may_commit(env->journal) || !is_ready(c))
		return;
	t = store_transaction_begin(env->store);
	do {
		STAILQ_REMOVE_HEAD(&q->waiting, link);
		STAILQ_INSERT_TAIL(&q->flying, c, link);
		fly(c, t, &size);
		c = STAILQ_FIRST(&q->waiting);
	} while (c && size.entries < FLIGHT_ENTRIES_MAX &&
		 size.bytes < FLIGHT_BYTES_MAX && is_ready(c));
	journal_commit_begin(env->journal, size.inserted, size.removed);
	store_transaction_commit_take(t, on_answer, env);
}

void commit_init(struct shard_env *env)
{
	STAILQ_INIT(&env->commits.waiting);
	STAILQ_INIT(&env->commits.flying);
}

bool commit_is_idle(const struct shard_env *env)
{
	return STAILQ_EMPTY(&env->commits.waiting) && STAILQ_EMPTY(&env->commits.flying);
}

void commit_close(struct shard_env *env)
{
	static const struct batch_result closed = { TIDE_ESHUTDOWN, TIDE_ESHUTDOWN, NULL,
						    false };

	land_list(&env->commits.waiting, &closed);
}
