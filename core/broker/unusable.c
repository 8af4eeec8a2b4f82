#include "unusable.h"

#include "base/container.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/waiter.h"
#include "host/log.h"
#include "shard/commit.h"
#include "shard/journal.h"

#define LINES_MAX 50    /* in the log */
#define WRITTEN_MAX 100 /* in a document */

static struct broker *broker_of(const struct definition *d)
{
	return definition_vhost(d)->broker;
}

void unusable_set(struct definition *d, const char *why)
{
	broker_of(d)->unusable += d->unusable == NULL;
	mem_free(d->unusable);
	d->unusable = mem_strdup(why);
}

void unusable_set_unreadable(struct definition *d, const char *what,
			     const struct error *cause)
{
	struct error why;

	d->is_unreadable = true;
	error_set(&why, TIDE_ERULE, "%s: %s", what, cause->text);
	unusable_set(d, why.text);
}

void unusable_clear(struct definition *d)
{
	if (!d->unusable)
		return;
	broker_of(d)->unusable--;
	mem_free(d->unusable);
	d->unusable = NULL;
	/* Routes that found it so were not remembered; those that did not find it,
	 * being older, are. */
	broker_of(d)->route_version++;
}

int unusable_check(const struct definition *d, struct error *err)
{
	const char *name = definition_name(d).data;

	if (!d->unusable)
		return TIDE_OK;
	if (d->is_recovering)
		return error_set(err, TIDE_EBUSY,
				 "%s '%s' is still being read from Redis; try again",
				 definition_kind(d->table), name);
	return error_set(err, TIDE_ERULE, "%s '%s' cannot be used: it %s",
			 definition_kind(d->table), name, d->unusable);
}

int unusable_explain(enum script_kind kind, const char *script, const struct error *cause,
		     struct error *err)
{
	const char *folder = script_kind_name(kind);

	if (cause->code == TIDE_ENOTFOUND)
		return error_set(err, cause->code, "uses %s/%s.lua, which is missing",
				 folder, script);
	if (cause->code == TIDE_EMISMATCH)
		return error_set(err, cause->code,
				 "uses %s/%s.lua, which refuses its options: %s", folder,
				 script, cause->text);
	return error_set(err, cause->code, "uses %s/%s.lua, which fails: %s", folder,
			 script, cause->text);
}

/* Attach to the active rules, or note why not. */
static bool attach(struct definition *d)
{
	struct error why;

	if (definition_attach(d, &broker_of(d)->active_rules, &why) == TIDE_OK)
		return true;
	unusable_set(d, why.text);
	return false;
}

static bool attach_first(void *ctx, struct definition *d)
{
	if (!definition_is_attached(d, RULESET_ACTIVE) && !d->is_unreadable && attach(d))
		unusable_clear(d);
	return true;
}

unsigned unusable_attach_all(struct broker *b)
{
	definition_each(b, attach_first, NULL);
	return b->unusable;
}

/* The messages of a queue that can be used are read. It may be deleted meanwhile. */
struct revival {
	struct waiter waiter;
	struct broker *broker;
	uint64_t serial;      /* of the queue */
	uint64_t epoch;       /* of the policies that were asked */
	struct waiter *asker; /* or NULL */
};

static void revived(struct queue *q, const struct revival *r)
{
	const struct waiter *w = &r->waiter;
	struct definition *d = &q->definition;
	struct error why;

	d->is_recovering = false;
	if (w->status == TIDE_OK) {
		log_info("%s '%s' of vhost '%s' can be used again",
			 definition_kind(d->table), q->name, q->vhost->name);
		unusable_clear(d);
		/* A queue that was read anew may have consumers. */
		queue_activate(q);
		if (r->epoch != engine_epoch(r->broker->engine))
			r->broker->on_policies_missed(d);
		return;
	}
	error_set(&why, w->status, "has messages that cannot be read: %s",
		  w->text ? w->text : error_text(w->status));
	log_error("%s '%s' of vhost '%s' %s", definition_kind(d->table), q->name,
		  q->vhost->name, why.text);
	queue_detach(q, RULESET_ACTIVE);
	queue_renew_shards(q);
	unusable_set(d, why.text);
}

static void on_recovered(struct waiter *w)
{
	struct revival *r = container_of(w, struct revival, waiter);
	struct queue *q = queue_by_serial(r->broker, r->serial);

	if (q && w->status != TIDE_ESHUTDOWN)
		revived(q, r);
	if (q)
		definition_settled(&q->definition);
	if (r->asker)
		waiter_done(r->asker, w->status, w->text);
	mem_free(r);
}

static void revive(struct queue *q, struct waiter *asker)
{
	struct revival *r = mem_zalloc(sizeof(*r));

	r->broker = q->vhost->broker;
	r->serial = q->serial;
	r->epoch = engine_epoch(r->broker->engine);
	r->asker = asker;
	if (asker)
		waiter_add(asker);
	q->definition.is_recovering = true;
	unusable_set(&q->definition, "is being read from Redis");
	waiter_init(&r->waiter, on_recovered);
	queue_recover(q, &r->waiter);
	waiter_done(&r->waiter, TIDE_OK, NULL);
}

void unusable_retry(struct definition *d, struct waiter *waiter)
{
	if (!d->unusable || d->is_recovering || d->is_unreadable || d->next_terms ||
	    !attach(d))
		return;
	if (d->table == STORE_EXCHANGES) {
		log_info("exchange '%s' of vhost '%s' can be used again",
			 definition_name(d).data, definition_vhost(d)->name);
		unusable_clear(d);
	}
	definition_follow(d);
	if (definition_is_queue(d->table))
		revive(container_of(d, struct queue, definition), waiter);
}

static bool retry(void *ctx, struct definition *d)
{
	unusable_retry(d, NULL);
	return true;
}

void unusable_retry_all(struct broker *b)
{
	if (b->unusable)
		definition_each(b, retry, NULL);
}

#define LOST_TEXT "Redis lost some of the last writes in a failover"

struct anew {
	struct broker *broker;
	unsigned lane;
	unsigned queues;
};

static bool is_in_lane(const struct anew *a, struct queue *q)
{
	for (unsigned i = 0; i < q->shard_count; i++)
		if (q->shards[i]->keys &&
		    store_lane(a->broker->store, q->shards[i]->keys) == a->lane)
			return true;
	return false;
}

/* A topic goes on behind what it had, so that no offset has two contents. */
static bool read_anew(void *ctx, struct definition *d)
{
	struct anew *a = ctx;
	struct queue *q = container_of(d, struct queue, definition);

	if (!definition_is_queue(d->table) || q->topic || d->unusable ||
	    !is_in_lane(a, q))
		return true;
	a->queues++;
	for (unsigned i = 0; i < q->shard_count; i++)
		if (q->shards[i]->keys)
			journal_fail_waiters(q->shards[i], LOST_TEXT);
	queue_release_held(q);
	queue_detach(q, RULESET_ACTIVE);
	queue_renew_shards(q);
	unusable_set(d, "is read anew from Redis");
	unusable_retry(d, NULL);
	return true;
}

void unusable_read_anew(struct broker *b, unsigned lane)
{
	struct anew a = { .broker = b, .lane = lane };

	commit_fail(&b->env, TIDE_ESTORE, LOST_TEXT);
	definition_each(b, read_anew, &a);
	log_info("%u queues are read anew from Redis", a.queues);
}

/* A binding between two that are unusable is counted once: with its source. */
static unsigned count_incoming(const struct binding_list *incoming)
{
	const struct binding *b;
	unsigned n = 0;

	TAILQ_FOREACH (b, incoming, dest_link)
		n += !b->source->definition.unusable;
	return n;
}

static bool count(void *ctx, struct definition *d)
{
	struct unusable_count *out = ctx;

	if (!d->unusable)
		return true;
	if (definition_is_queue(d->table)) {
		out->queues += d->table == STORE_QUEUES;
		out->topics += d->table == STORE_TOPICS;
		out->bindings += count_incoming(
			&container_of(d, struct queue, definition)->incoming);
	} else {
		const struct exchange *x = container_of(d, struct exchange, definition);

		out->exchanges++;
		out->bindings += x->binding_count + count_incoming(&x->incoming);
	}
	if (out->first.code == TIDE_OK)
		error_set(&out->first, TIDE_ERULE, "%s '%s' of vhost '%s' %s",
			  definition_kind(d->table), definition_name(d).data,
			  definition_vhost(d)->name, d->unusable);
	return true;
}

void unusable_count(const struct broker *b, struct unusable_count *out)
{
	*out = (struct unusable_count){ 0 };
	if (b->unusable)
		definition_each(b, count, out);
}

static bool log_one(void *ctx, struct definition *d)
{
	unsigned *left = ctx;

	if (!d->unusable)
		return true;
	log_error("%s '%s' of vhost '%s' cannot be used and stays in Redis: it %s",
		  definition_kind(d->table), definition_name(d).data,
		  definition_vhost(d)->name, d->unusable);
	return --*left > 0;
}

void unusable_log(const struct broker *b)
{
	unsigned left = LINES_MAX;

	if (b->unusable)
		definition_each(b, log_one, &left);
	if (b->unusable > LINES_MAX)
		log_error("%u more cannot be used; LIST shows them",
			  b->unusable - LINES_MAX);
}

struct writer {
	struct json *out;
	unsigned left;
};

static bool write_one(void *ctx, struct definition *d)
{
	struct writer *w = ctx;

	if (!d->unusable)
		return true;
	json_object_begin(w->out);
	json_member_text(w->out, "kind", definition_kind(d->table));
	json_member_text(w->out, "vhost", definition_vhost(d)->name);
	json_member_string(w->out, "name", definition_name(d));
	json_member_text(w->out, "reason", d->unusable);
	json_object_end(w->out);
	return --w->left > 0;
}

void unusable_write(const struct broker *b, struct json *out)
{
	struct writer w = { out, WRITTEN_MAX };

	json_member_array(out, "unusable");
	if (b->unusable)
		definition_each(b, write_one, &w);
	json_array_end(out);
}

void unusable_write_binding(const struct binding *b, struct json *out)
{
	const struct definition *dest =
		b->queue ? &b->queue->definition : &b->exchange->definition;
	struct error why;

	if (unusable_check(&b->source->definition, &why) < 0 ||
	    unusable_check(dest, &why) < 0)
		json_member_text(out, "unusable", why.text);
}
