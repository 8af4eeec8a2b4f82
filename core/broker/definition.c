#include "definition.h"

#include "base/container.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/waiter.h"
#include "broker.h"
#include "host/log.h"
#include "queue.h"

#define WAITS_MAX 256

/* The line of those who wait for one definition, which may be deleted before their
 * turn. */
struct definition_line {
	struct job job;
	struct broker *broker;
	struct definition *definition; /* NULL: deleted */
	STAILQ_HEAD(, definition_wait) waits;
	unsigned count;
};

/* Things that are deleted in the broker, until it is deleted in Redis too.
 *
 * Redis is asked again as long as it refuses: what it kept would return with the next
 * start. Who deletes a thing is answered when Redis has deleted it. A queue of that name
 * that is declared meanwhile is written behind that, with its messages. It cannot be
 * declared any more once Redis has refused. */

#define REST_MS 500   /* between two rounds */
#define ROUND_MAX 256 /* requests of a round */

struct removal {
	TAILQ_ENTRY(removal) link; /* in the broker's list, once it was refused */
	UT_hash_handle hh;         /* of a queue or topic, by `texts` */
	struct broker *broker;
	struct waiter *waiter;
	struct removal_spec spec;                /* its texts are behind the structure */
	STAILQ_HEAD(, definition_job) followers; /* of a queue: wait for its end */
	bool was_refused;
	bool is_sent;
	bool has_begun; /* of a queue: its definition is gone */
	char texts[];   /* "<vhost>/<name>" */
};

static struct removal *find_erasing(const struct broker *b, struct slice vhost,
				    struct slice name)
{
	struct buf key = { 0 };
	struct removal *r;

	if (!b->erasing)
		return NULL;
	buf_append_slice(&key, vhost);
	buf_append_char(&key, '/');
	buf_append_slice(&key, name);
	HASH_FIND(hh, b->erasing, buf_cstr(&key), buf_len(&key), r);
	buf_deinit(&key);
	return r;
}

static struct queue *queue_of(const struct definition *d)
{
	return container_of(d, struct queue, definition);
}

static struct exchange *exchange_of(const struct definition *d)
{
	return container_of(d, struct exchange, definition);
}

static struct binding *binding_of(const struct definition *d)
{
	return container_of(d, struct binding, definition);
}

void definition_deinit(struct definition *d)
{
	struct definition_job *job;

	LIST_FOREACH (job, &d->jobs, link)
		job->definition = NULL;
	LIST_INIT(&d->jobs);
	if (d->line) {
		d->line->definition = NULL;
		job_add(d->line->broker, &d->line->job);
		d->line = NULL;
	}
}

const char *definition_kind(enum store_table table)
{
	static const char *const names[STORE_TABLE_COUNT] = {
		[STORE_VHOSTS] = "vhost",
		[STORE_EXCHANGES] = "exchange",
		[STORE_QUEUES] = "queue",
		[STORE_TOPICS] = "topic",
		[STORE_BINDINGS] = "binding",
		[STORE_PAUSES] = "pause",
		[STORE_LOCKS] = "lock",
		[STORE_USERS] = "user",
		[STORE_VHOST_OPTIONS] = "options",
	};

	return names[table];
}

struct vhost *definition_vhost(const struct definition *d)
{
	if (definition_is_queue(d->table))
		return queue_of(d)->vhost;
	return d->table == STORE_EXCHANGES ? exchange_of(d)->vhost
					   : binding_of(d)->source->vhost;
}

struct slice definition_name(const struct definition *d)
{
	if (definition_is_queue(d->table))
		return queue_slice(queue_of(d));
	if (d->table == STORE_EXCHANGES)
		return exchange_slice(exchange_of(d));
	return (struct slice){ binding_of(d)->text, binding_of(d)->text_len };
}

struct terms *definition_terms(const struct definition *d)
{
	return definition_is_queue(d->table) ? &queue_of(d)->terms
					     : &exchange_of(d)->terms;
}

bool definition_is_durable(const struct definition *d)
{
	const struct binding *b;

	if (!definition_vhost(d)->broker->env.store)
		return false;
	if (definition_is_queue(d->table))
		return queue_is_durable(queue_of(d));
	if (d->table == STORE_EXCHANGES)
		return exchange_is_durable(exchange_of(d));
	b = binding_of(d);
	return exchange_is_durable(b->source) &&
	       (b->queue ? queue_is_durable(b->queue) : exchange_is_durable(b->exchange));
}

/* Redis has refused it. It may be there all the same, if the answer to an earlier try was
 * lost; and so may bindings that were sent behind it. */
static void take_back(struct definition *d)
{
	if (definition_is_queue(d->table)) {
		queue_erase(queue_of(d), NULL);
		queue_destroy(queue_of(d));
	} else if (d->table == STORE_EXCHANGES) {
		exchange_erase(exchange_of(d), NULL);
		exchange_destroy(exchange_of(d));
	} else {
		binding_destroy(binding_of(d));
	}
}

void definition_begin(struct definition *d, struct definition_job *job)
{
	job->definition = d;
	LIST_INSERT_HEAD(&d->jobs, job, link);
}

struct definition *definition_end(struct definition_job *job)
{
	if (job->definition)
		LIST_REMOVE(job, link);
	return job->definition;
}

/* Redis has it from now on: so it may have its messages. */
static void note_stored(struct definition *d)
{
	definition_vhost(d)->is_kept = true;
	if (d->is_stored)
		return;
	d->is_stored = true;
	if (definition_is_queue(d->table))
		queue_be_defined(queue_of(d));
}

static void on_answer(void *ctx, int status, const char *text)
{
	struct definition_job *job = ctx;
	struct definition *d = definition_end(job);

	if (d) {
		if (status == TIDE_OK)
			note_stored(d);
		if (status < 0 && status != TIDE_ESHUTDOWN && !d->is_stored &&
		    LIST_EMPTY(&d->jobs))
			take_back(d);
		else
			definition_settled(d);
	}
	if (job->waiter)
		waiter_done(job->waiter, status, text);
	mem_free(job);
}

/* "type=topic durable=1 ...": as Redis keeps it. */
static void format_terms(const struct definition *d, const struct terms *terms,
			 struct buf *out)
{
	if (d->table == STORE_EXCHANGES)
		buf_printf(out, "type=%s ", exchange_of(d)->type);
	config_format(terms_own(terms), out);
}

void definition_write(const struct definition *d, const struct terms *terms,
		      store_done_fn on_done, void *ctx)
{
	const struct vhost *v = definition_vhost(d);
	struct store *store = v->broker->store;
	struct buf text = { 0 };

	if (terms)
		format_terms(d, terms, &text);
	if (d->table == STORE_TOPICS)
		store_definition_set_topic(
			store,
			&(struct store_queue){
				vhost_slice(v), definition_name(d),
				(terms ? terms : definition_terms(d))->config.shards },
			buf_slice(&text), on_done, ctx);
	else
		store_definition_set(store, d->table, vhost_slice(v), definition_name(d),
				     buf_slice(&text), on_done, ctx);
	buf_deinit(&text);
}

static void write_own(struct definition *d, struct definition_job *job)
{
	definition_write(d, d->table == STORE_BINDINGS ? NULL : definition_terms(d),
			 on_answer, job);
}

void definition_send(struct definition *d, struct waiter *waiter)
{
	const struct vhost *v = definition_vhost(d);
	struct definition_job *job;
	struct removal *erasing;

	if (d->is_stored || !definition_is_durable(d))
		return;
	job = mem_zalloc(sizeof(*job));
	job->waiter = waiter;
	definition_begin(d, job);
	if (waiter)
		waiter_add(waiter);
	store_definition_set(v->broker->store, STORE_VHOSTS, SLICE(""), vhost_slice(v),
			     SLICE(""), NULL, NULL);
	erasing = definition_is_queue(d->table)
			  ? find_erasing(v->broker, vhost_slice(v), definition_name(d))
			  : NULL;
	if (erasing)
		STAILQ_INSERT_TAIL(&erasing->followers, job, follower_link);
	else
		write_own(d, job);
}

/* ---- DECLAREs that wait ------------------------------------------------------------ */

bool definition_is_busy(const struct definition *d, bool is_its_turn)
{
	return d->next_terms || d->is_recovering ||
	       (!d->is_stored && definition_is_durable(d)) || (d->line && !is_its_turn);
}

/* One in a turn. */
static void run_line(struct job *job)
{
	struct definition_line *line = container_of(job, struct definition_line, job);
	struct definition_wait *w = STAILQ_FIRST(&line->waits);

	if (!w) {
		if (line->definition)
			line->definition->line = NULL;
		mem_free(line);
	} else if (!line->definition || !definition_is_busy(line->definition, true)) {
		STAILQ_REMOVE_HEAD(&line->waits, link);
		line->count--;
		w->run(w, line->definition);
		job_add(line->broker, job);
	}
}

bool definition_wait(struct definition *d, struct definition_wait *w)
{
	struct definition_line *line = d->line;

	if (!definition_is_busy(d, false))
		return false;
	if (!line) {
		line = mem_zalloc(sizeof(*line));
		line->job.run = run_line;
		line->broker = definition_vhost(d)->broker;
		line->definition = d;
		STAILQ_INIT(&line->waits);
		d->line = line;
	}
	if (line->count == WAITS_MAX)
		return false;
	line->count++;
	STAILQ_INSERT_TAIL(&line->waits, w, link);
	return true;
}

void definition_settled(struct definition *d)
{
	if (d->line)
		job_add(d->line->broker, &d->line->job);
}

static const struct definition *find_binding(struct vhost *v, struct slice text)
{
	struct slice rest = text;
	const struct exchange *source;
	const struct binding *b;

	slice_cut(&rest, ' '); /* what it leads to */
	slice_cut(&rest, ' ');
	source = exchange_find(v, slice_cut(&rest, ' '));
	b = source ? binding_find_text(source, text) : NULL;
	return b ? &b->definition : NULL;
}

static bool is_back(struct broker *b, const struct removal_spec *spec)
{
	struct vhost *v = vhost_find(b, spec->vhost);
	const struct definition *d = NULL;
	const struct exchange *x;

	if (!v)
		return false;
	if (spec->table == STORE_EXCHANGES) {
		x = exchange_find(v, spec->name);
		d = x ? &x->definition : NULL;
	} else {
		d = find_binding(v, spec->name);
	}
	return d && definition_is_durable(d);
}

void definition_remove(const struct definition *d, struct waiter *waiter)
{
	const struct vhost *v = definition_vhost(d);
	const struct removal_spec spec = {
		.table = d->table,
		.kind = definition_kind(d->table),
		.vhost = vhost_slice(v),
		.name = definition_name(d),
		.shards = definition_is_queue(d->table)
				  ? config_shards(&queue_of(d)->config)
				  : 0,
		.is_back = definition_is_queue(d->table) ? NULL : is_back,
	};

	if (definition_is_durable(d))
		removal_send(v->broker, &spec, waiter);
}

int definition_attach(struct definition *d, const struct ruleset *r, struct error *err)
{
	return definition_is_queue(d->table) ? queue_attach(queue_of(d), r, err)
					     : exchange_attach(exchange_of(d), r, err);
}

bool definition_is_attached(const struct definition *d, enum ruleset_slot slot)
{
	return definition_is_queue(d->table)
		       ? queue_of(d)->strategies[slot][SCRIPT_RETRY] != NULL
		       : exchange_of(d)->indexes[slot] != NULL;
}

bool definition_needs(const struct definition *d, enum ruleset_slot slot)
{
	return definition_is_attached(d, RULESET_ACTIVE) &&
	       !definition_is_attached(d, slot);
}

void definition_follow(struct definition *d)
{
	const struct broker *b = definition_vhost(d)->broker;
	struct error why;

	for (int slot = RULESET_ACTIVE + 1; slot < RULESET_SLOTS; slot++) {
		struct ruleset *r = b->candidates[slot];

		if (r && definition_needs(d, slot) && definition_attach(d, r, &why) < 0)
			ruleset_note_failure(r, definition_kind(d->table),
					     definition_name(d).data, &why);
	}
}

bool definition_each(const struct broker *b,
		     bool (*visit)(void *ctx, struct definition *d), void *ctx)
{
	struct vhost *v, *next_vhost;
	struct exchange *x, *next_exchange;
	struct queue *q, *next_queue;

	HASH_ITER (hh, b->vhosts, v, next_vhost) {
		HASH_ITER (hh, v->exchanges, x, next_exchange)
			if (!visit(ctx, &x->definition))
				return false;
		HASH_ITER (hh, v->queues, q, next_queue)
			if (!visit(ctx, &q->definition))
				return false;
	}
	return true;
}

static void on_rewritten(void *ctx, int status, const char *text)
{
	if (status < 0 && status != TIDE_ESHUTDOWN)
		log_error("Redis lacks a definition, and it cannot be written again: %s",
			  text ? text : error_text(status));
}

static void rewrite(struct definition *d, unsigned *count)
{
	if (!d->is_stored || d->is_unreadable || !definition_is_durable(d))
		return;
	++*count;
	definition_write(d, d->table == STORE_BINDINGS ? NULL : definition_terms(d),
			 on_rewritten, NULL);
}

static bool rewrite_with_bindings(void *ctx, struct definition *d)
{
	rewrite(d, ctx);
	if (d->table == STORE_EXCHANGES) {
		const struct exchange *x = exchange_of(d);

		for (uint32_t i = 0; i < x->number_count; i++)
			if (x->bindings[i])
				rewrite(&x->bindings[i]->definition, ctx);
	}
	return true;
}

void definition_write_all(const struct broker *b)
{
	struct vhost *v, *next;
	unsigned count = 0;

	HASH_ITER (hh, b->vhosts, v, next)
		if (v->is_kept)
			store_definition_set(b->store, STORE_VHOSTS, SLICE(""),
					     vhost_slice(v), SLICE(""), on_rewritten,
					     NULL);
	HASH_ITER (hh, b->vhosts, v, next)
		if (v->is_on_demand)
			vhost_write_options(v, on_rewritten, NULL);
	definition_each(b, rewrite_with_bindings, &count);
	log_info("%u definitions are written to Redis again", count);
}

static bool detach(void *ctx, struct definition *d)
{
	const enum ruleset_slot *slot = ctx;

	if (definition_is_queue(d->table))
		queue_detach(queue_of(d), *slot);
	else
		exchange_detach(exchange_of(d), *slot);
	return true;
}

void definition_detach_all(const struct broker *b, enum ruleset_slot slot)
{
	definition_each(b, detach, &slot);
}

/* Sessions that declared or deleted a queue of that name meanwhile. */
static void tell_followers(struct removal *r, int status, const char *text)
{
	struct definition_job *job;

	while ((job = STAILQ_FIRST(&r->followers)) != NULL) {
		STAILQ_REMOVE_HEAD(&r->followers, follower_link);
		if (job->definition && status == TIDE_OK)
			write_own(job->definition, job);
		else
			on_answer(job, status, text);
	}
}

static void end_removal(struct removal *r, int status, const char *text)
{
	struct removal_list *list = &r->broker->removals;

	if (definition_is_queue(r->spec.table))
		HASH_DELETE(hh, r->broker->erasing, r);
	if (r->was_refused) {
		TAILQ_REMOVE(list, r, link);
		if (TAILQ_EMPTY(list))
			log_info("nothing is left that Redis refused to delete");
	}
	if (r->waiter)
		waiter_done(r->waiter, status, text);
	tell_followers(r, status, text);
	mem_free(r);
}

static void on_removed(void *ctx, int status, const char *text);

static void ask_removal(struct removal *r)
{
	const struct removal_spec *spec = &r->spec;
	const struct store_queue queue = { spec->vhost, spec->name, spec->shards };
	struct store *store = r->broker->store;

	r->is_sent = true;
	if (!definition_is_queue(spec->table))
		store_definition_remove(store, spec->table, spec->vhost, spec->name,
					on_removed, r);
	else if (r->has_begun)
		store_erase_finish(store, spec->table, &queue, on_removed, r);
	else
		store_erase_begin(store, spec->table, &queue, on_removed, r);
}

/* A thing that was declared meanwhile stays. */
static bool is_back_again(const struct removal *r)
{
	return r->spec.is_back && r->spec.is_back(r->broker, &r->spec);
}

static void on_removed(void *ctx, int status, const char *text)
{
	struct removal *r = ctx;
	struct broker *b = r->broker;

	r->is_sent = false;
	if (status == TIDE_OK && definition_is_queue(r->spec.table) && !r->has_begun) {
		r->has_begun = true;
		ask_removal(r);
		return;
	}
	if (status == TIDE_OK || status == TIDE_ESHUTDOWN) {
		end_removal(r, status, text);
		return;
	}
	if (r->was_refused)
		return;
	if (is_back_again(r)) {
		end_removal(r, TIDE_OK, NULL);
		return;
	}
	if (TAILQ_EMPTY(&b->removals)) {
		b->removal_due_ms = b->now_ms + REST_MS;
		log_error("Redis refused to delete '%" SLICE_FMT "', trying again: %s",
			  SLICE_ARG(r->spec.name), text ? text : error_text(status));
	}
	r->was_refused = true;
	TAILQ_INSERT_TAIL(&b->removals, r, link);
}

/* One whose declaration waits behind an earlier removal has nothing in Redis. */
static void follow(struct removal *earlier, struct waiter *waiter)
{
	struct definition_job *job;

	if (!waiter)
		return;
	job = mem_zalloc(sizeof(*job));
	job->waiter = waiter;
	waiter_add(waiter);
	STAILQ_INSERT_TAIL(&earlier->followers, job, follower_link);
}

static void enter_erasing(struct removal *r)
{
	HASH_ADD_KEYPTR(hh, r->broker->erasing, r->texts,
			r->spec.vhost.len + 1 + r->spec.name.len, r);
}

void removal_send(struct broker *b, const struct removal_spec *spec,
		  struct waiter *waiter)
{
	size_t vhost_len = spec->vhost.len, name_len = spec->name.len;
	bool is_queue = definition_is_queue(spec->table);
	struct removal *r = is_queue ? find_erasing(b, spec->vhost, spec->name) : NULL;

	if (r) {
		follow(r, waiter);
		return;
	}
	r = mem_zalloc(sizeof(*r) + vhost_len + 1 + name_len);
	r->broker = b;
	r->spec = *spec;
	STAILQ_INIT(&r->followers);
	memcpy(r->texts, spec->vhost.data, vhost_len);
	r->texts[vhost_len] = '/';
	memcpy(r->texts + vhost_len + 1, spec->name.data, name_len);
	r->spec.vhost.data = r->texts;
	r->spec.name.data = r->texts + vhost_len + 1;
	if (is_queue)
		enter_erasing(r);
	r->waiter = waiter;
	if (waiter)
		waiter_add(waiter);
	ask_removal(r);
}

int removal_check(const struct broker *b, struct slice vhost, struct slice queue,
		  struct error *err)
{
	const struct removal *r = find_erasing(b, vhost, queue);

	if (!r || !r->was_refused)
		return TIDE_OK;
	return error_set(err, TIDE_ESTORE,
			 "%s '%" SLICE_FMT
			 "' was deleted, and Redis refuses to delete it; it is asked "
			 "again",
			 r->spec.kind, SLICE_ARG(queue));
}

void removal_turn(struct broker *b)
{
	int64_t rest_ms = b->removal_due_ms - b->now_ms;
	struct removal *r, *next;
	unsigned budget = ROUND_MAX;

	/* Longer than any rest: the clock was set back. */
	if (TAILQ_EMPTY(&b->removals) || (rest_ms > 0 && rest_ms <= REST_MS))
		return;
	b->removal_due_ms = b->now_ms + REST_MS;
	for (r = TAILQ_FIRST(&b->removals); r && budget > 0; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->is_sent)
			continue;
		budget--;
		if (is_back_again(r))
			end_removal(r, TIDE_OK, NULL);
		else
			ask_removal(r);
	}
}

int64_t removal_due_ms(const struct broker *b)
{
	return TAILQ_EMPTY(&b->removals) ? 0 : b->removal_due_ms;
}

void removal_clear(struct broker *b)
{
	struct removal *r;

	while ((r = TAILQ_FIRST(&b->removals)) != NULL)
		end_removal(r, TIDE_ESHUTDOWN, NULL);
}
