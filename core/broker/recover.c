#include "recover.h"

#include <stdio.h>

#include "host/log.h"
#include "base/container.h"
#include "base/mem.h"
#include "lock.h"
#include "pause.h"
#include "group_pause.h"
#include "unusable.h"

/* A binding without its ends: an interrupted deletion has left it. */
struct lost_binding {
	STAILQ_ENTRY(lost_binding) link;
	struct vhost *vhost;
	char *source;
	size_t text_len;
	char text[];
};

STAILQ_HEAD(lost_bindings, lost_binding);

struct recovery {
	struct waiter waiter;
	struct broker *broker;
	struct lost_bindings lost;
	store_done_fn on_done;
	void *ctx;
};

static void take_exchange(struct vhost *v, const struct store_definition *d)
{
	struct args args, rest = { 0 };
	struct error err;
	const char *type = NULL;
	int rc = args_parse(&args, d->value);

	if (rc == TIDE_OK)
		type = args_get(&args, "type");
	error_set(&err, TIDE_ESYNTAX, "'%" SLICE_FMT "'", SLICE_ARG(d->value));
	for (size_t i = 0; type && rc == TIDE_OK && i < args.count; i++)
		if (strcmp(args.items[i].name, "type") != 0)
			rc = args_add(&rest, slice_from(args.items[i].name),
				      slice_from(args.items[i].value));
	exchange_restore(v, d->name, slice_from(type ? type : ""),
			 type && rc == TIDE_OK ? &rest : NULL, &err);
	args_deinit(&rest);
	args_deinit(&args);
}

static int take_queue(struct vhost *v, const struct store_definition *d,
		      struct error *err)
{
	struct args args;
	const struct queue *other = queue_find(v, d->name);
	struct terms_spec spec = { .kind = d->table == STORE_TOPICS ? CONFIG_TOPIC
								    : CONFIG_QUEUE,
				   .name = d->name };

	if (other)
		return error_set(err, TIDE_EEXISTS, "there is a %s of that name",
				 definition_kind(other->definition.table));
	if (args_parse(&args, d->value) == TIDE_OK)
		spec.args = &args;
	error_set(err, TIDE_ESYNTAX, "'%" SLICE_FMT "'", SLICE_ARG(d->value));
	queue_restore(v, &spec, err);
	args_deinit(&args);
	return TIDE_OK;
}

static struct slice next_word(struct slice *rest)
{
	const char *space = memchr(rest->data, ' ', rest->len);
	struct slice word = { rest->data,
			      space ? (size_t)(space - rest->data) : rest->len };

	*rest = slice_skip(*rest, space ? word.len + 1 : word.len);
	return word;
}

/* One whose options cannot be read keeps its source from being used: it may be for any
 * message. */
static void take_unreadable_binding(struct binding_spec *spec, struct slice text)
{
	struct error why;
	struct args none = { 0 };

	spec->args = &none;
	binding_restore(spec, text);
	error_set(&why, TIDE_ESYNTAX, "%" SLICE_FMT, SLICE_ARG(text));
	unusable_set_unreadable(&spec->source->definition,
				"has a binding that cannot be read", &why);
}

static void note_lost(struct recovery *r, struct vhost *v, struct slice source,
		      struct slice text)
{
	struct lost_binding *lost = mem_alloc(sizeof(*lost) + text.len);

	lost->vhost = v;
	lost->source = mem_strndup(source.data, source.len);
	lost->text_len = text.len;
	memcpy(lost->text, text.data, text.len);
	STAILQ_INSERT_TAIL(&r->lost, lost, link);
}

static void take_pause(struct vhost *v, const struct store_definition *d)
{
	struct slice rest = d->name;

	if (slice_is(slice_cut(&rest, ' '), "group"))
		group_pause_restore(v, rest, d->value);
	else
		pause_restore(v, d->name, d->value);
}

static void take_binding(struct recovery *r, struct vhost *v,
			 const struct store_definition *d)
{
	struct slice rest = d->name;
	struct slice kind = next_word(&rest), dest = next_word(&rest),
		     source = next_word(&rest), pattern = next_word(&rest);
	struct binding_spec spec = { .pattern = slice_is(pattern, "-") ? SLICE("")
								       : pattern };
	struct args args;

	spec.source = exchange_find(v, source);
	if (slice_is(kind, "queue"))
		spec.queue = queue_find(v, dest);
	else
		spec.exchange = exchange_find(v, dest);
	if (!spec.source || (!spec.queue && !spec.exchange)) {
		note_lost(r, v, source, d->name);
		return;
	}
	if (args_parse(&args, rest) < 0) {
		take_unreadable_binding(&spec, d->name);
		return;
	}
	spec.args = &args;
	binding_restore(&spec, d->name);
	args_deinit(&args);
}

static void remove_lost(const struct recovery *r, const struct lost_binding *lost)
{
	struct exchange *source = exchange_find(lost->vhost, slice_from(lost->source));

	store_definition_remove(r->broker->store, STORE_BINDINGS,
				vhost_slice(lost->vhost),
				(struct slice){ lost->text, lost->text_len }, NULL, NULL);
	if (source)
		exchange_collect(source, NULL);
}

/* Finish the deletion of queues and exchanges: bindings, and auto-delete exchanges of
 * which they were the last ones.
 *
 * @param is_complete  all definitions were read: what is missing does not exist */
static void finish_deletions(struct recovery *r, bool is_complete)
{
	struct lost_binding *lost;
	unsigned count = 0;

	while ((lost = STAILQ_FIRST(&r->lost)) != NULL) {
		STAILQ_REMOVE_HEAD(&r->lost, link);
		if (is_complete)
			remove_lost(r, lost);
		count++;
		mem_free(lost->source);
		mem_free(lost);
	}
	if (count > 0 && is_complete)
		log_info("finished a deletion: removed %u bindings whose queue or "
			 "exchange does not exist",
			 count);
}

/* A user that cannot be read cannot log in; while there is one, a login is required. */
static void take_user(struct broker *b, const struct store_definition *d)
{
	struct error err;

	if (users_restore(&b->users, d->name, d->value, &err) < 0)
		log_error("user '%" SLICE_FMT
			  "' cannot log in, and is left as it is in Redis: its value %s",
			  SLICE_ARG(d->name), err.text);
}

static void on_definition(void *ctx, const struct store_definition *d)
{
	struct recovery *r = ctx;
	struct vhost *v;
	struct error err;
	int rc;

	if (d->table == STORE_USERS) {
		take_user(r->broker, d);
		return;
	}
	if (d->table == STORE_VHOST_OPTIONS) {
		v = vhost_find(r->broker, d->name);
		if (v)
			v->is_on_demand = slice_is(d->value, VHOST_ON_DEMAND);
		return;
	}
	rc = vhost_recover(r->broker, d->table == STORE_VHOSTS ? d->name : d->vhost, &v,
			   &err);

	if (rc == TIDE_OK && d->table == STORE_VHOSTS) {
		v->is_kept = true;
		vhost_warn_name(d->name);
	}
	if (rc == TIDE_OK && d->table == STORE_EXCHANGES)
		take_exchange(v, d);
	else if (rc == TIDE_OK && definition_is_queue(d->table))
		rc = take_queue(v, d, &err);
	else if (rc == TIDE_OK && d->table == STORE_BINDINGS)
		take_binding(r, v, d);
	else if (rc == TIDE_OK && d->table == STORE_PAUSES)
		take_pause(v, d);
	else if (rc == TIDE_OK && d->table == STORE_LOCKS)
		lock_restore(v, d->name, d->value);
	if (rc < 0)
		log_error("%s '%" SLICE_FMT "' of vhost '%" SLICE_FMT
			  "' is ignored and left as it is in Redis: %s",
			  definition_kind(d->table), SLICE_ARG(d->name),
			  SLICE_ARG(d->vhost), err.text);
}

static struct recovery *create(struct broker *b, store_done_fn on_done, void *ctx)
{
	struct recovery *r = mem_zalloc(sizeof(*r));

	r->broker = b;
	r->on_done = on_done;
	r->ctx = ctx;
	STAILQ_INIT(&r->lost);
	return r;
}

static void on_end(void *ctx, int status, const char *text)
{
	struct recovery *r = ctx;

	finish_deletions(r, status == TIDE_OK && !r->broker->is_closing);
	r->on_done(r->ctx, status, text);
	mem_free(r);
}

void recover_definitions(struct broker *b, store_done_fn on_done, void *ctx)
{
	store_definition_load(b->store, on_definition, on_end, create(b, on_done, ctx));
}

struct recovered_counts {
	unsigned exchanges, queues, bindings, topics;
};

static void append_counts(struct buf *out, struct recovered_counts n)
{
	buf_clear(out);
	buf_append_count(out, n.exchanges, "exchange");
	buf_append_text(out, ", ");
	buf_append_count(out, n.queues, "queue");
	buf_append_text(out, ", ");
	buf_append_count(out, n.bindings, "binding");
	if (n.topics) {
		buf_append_text(out, ", ");
		buf_append_count(out, n.topics, "topic");
	}
}

static void log_counts(const struct broker *b)
{
	struct unusable_count none;
	unsigned exchanges = 0, queues = 0, topics = 0, bindings = 0;
	struct buf text = { 0 };
	const struct exchange *x;
	const struct vhost *v;

	unusable_count(b, &none);
	for (v = b->vhosts; v; v = v->hh.next) {
		exchanges += HASH_COUNT(v->exchanges);
		queues += HASH_COUNT(v->queues) - v->topic_count;
		topics += v->topic_count;
		for (x = v->exchanges; x; x = x->hh.next)
			bindings += x->binding_count;
	}
	append_counts(&text, (struct recovered_counts){
				     exchanges - none.exchanges, queues - none.queues,
				     bindings - none.bindings, topics - none.topics });
	log_info("recovered %s", buf_cstr(&text));
	if (none.exchanges + none.queues + none.topics > 0) {
		unusable_log(b);
		append_counts(&text,
			      (struct recovered_counts){ none.exchanges, none.queues,
							 none.bindings, none.topics });
		log_error("cannot be used: %s; publishes to them are refused until the "
			  "rules support them",
			  buf_cstr(&text));
	}
	buf_deinit(&text);
}

static void drop_unused(struct broker *b)
{
	struct vhost *v, *next_vhost;
	struct queue *q, *next_queue;

	HASH_ITER (hh, b->vhosts, v, next_vhost)
		HASH_ITER (hh, v->queues, q, next_queue)
			queue_drop_unused(q);
}

static void on_shards(struct waiter *w)
{
	struct recovery *r = container_of(w, struct recovery, waiter);

	if (w->status == TIDE_OK) {
		log_counts(r->broker);
		drop_unused(r->broker);
	}
	r->on_done(r->ctx, w->status, w->text);
	mem_free(r);
}

void recover_shards(struct broker *b, store_done_fn on_done, void *ctx)
{
	struct recovery *r = create(b, on_done, ctx);
	struct vhost *v, *next_vhost;
	struct queue *q, *next_queue;

	waiter_init(&r->waiter, on_shards);
	HASH_ITER (hh, b->vhosts, v, next_vhost) {
		HASH_ITER (hh, v->queues, q, next_queue)
			if (!q->definition.unusable)
				queue_recover(q, &r->waiter);
		vhost_check(v);
	}
	waiter_done(&r->waiter, TIDE_OK, NULL);
}
