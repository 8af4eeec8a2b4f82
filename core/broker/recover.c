#include "recover.h"

#include "../base/log.h"
#include "../base/mem.h"
#include "dedupe.h"
#include "exchange.h"
#include "queue.h"

struct recovery {
	struct waiter waiter;
	struct broker *broker;
	unsigned queues, exchanges, bindings;
	void (*on_done)(struct broker *b, int status, const char *text);
};

static const char *const table_names[] = { "vhost", "exchange", "queue", "binding" };

static int take_exchange(struct vhost *v, const struct store_definition *d,
			 struct error *err)
{
	struct args args, rest;
	struct exchange *x;
	const char *type;
	bool is_new;
	int rc;

	args_init(&rest);
	if (args_parse(&args, d->value) < 0)
		return error_set(err, TIDE_ESYNTAX, "the definition cannot be read");
	type = args_get(&args, "type");
	rc = type ? TIDE_OK
		  : error_set(err, TIDE_ESYNTAX, "the definition names no type");
	for (size_t i = 0; i < args.count && rc == TIDE_OK; i++)
		if (strcmp(args.items[i].name, "type") != 0)
			rc = args_add(&rest, slice_from(args.items[i].name),
				      slice_from(args.items[i].value));
	if (rc == TIDE_OK)
		rc = exchange_declare(v, d->name, slice_from(type), &rest, &x, &is_new,
				      err);
	if (rc == TIDE_OK)
		x->definition.is_stored = true;
	args_deinit(&rest);
	args_deinit(&args);
	return rc;
}

static int take_queue(struct vhost *v, const struct store_definition *d,
		      struct error *err)
{
	struct args args;
	struct queue *q;
	bool is_new;
	int rc;

	if (args_parse(&args, d->value) < 0)
		return error_set(err, TIDE_ESYNTAX, "the definition cannot be read");
	rc = queue_declare(v, d->name, &args, NULL, &q, &is_new, err);
	if (rc == TIDE_OK)
		q->definition.is_stored = true;
	args_deinit(&args);
	return rc;
}

static struct slice next_word(struct slice *rest)
{
	const char *space = memchr(rest->data, ' ', rest->len);
	struct slice word = { rest->data,
			      space ? (size_t)(space - rest->data) : rest->len };

	*rest = slice_skip(*rest, space ? word.len + 1 : word.len);
	return word;
}

static int take_binding(struct vhost *v, const struct store_definition *d,
			struct error *err)
{
	struct slice rest = d->name;
	struct slice kind = next_word(&rest), dest = next_word(&rest),
		     source = next_word(&rest), pattern = next_word(&rest);
	struct binding_spec spec = { .pattern = slice_is(pattern, "-") ? SLICE("")
								       : pattern };
	struct binding *b;
	struct args args;
	int rc = TIDE_OK;

	if (args_parse(&args, rest) < 0)
		return error_set(err, TIDE_ESYNTAX, "the binding cannot be read");
	spec.args = &args;
	spec.source = exchange_find(v, source);
	if (slice_is(kind, "queue"))
		spec.queue = queue_find(v, dest);
	else
		spec.exchange = exchange_find(v, dest);
	if (!spec.source || (!spec.queue && !spec.exchange))
		rc = error_set(err, TIDE_ENOTFOUND, "one of its ends does not exist");
	else if ((b = binding_find(&spec)) == NULL)
		rc = binding_create(&spec, &b, err);
	if (rc == TIDE_OK)
		b->definition.is_stored = true;
	args_deinit(&args);
	return rc;
}

static void on_definition(void *ctx, const struct store_definition *d)
{
	struct recovery *r = ctx;
	struct vhost *v;
	struct error err;
	int rc = vhost_open(r->broker, d->table == STORE_VHOSTS ? d->name : d->vhost, &v,
			    &err);

	if (rc == TIDE_OK && d->table == STORE_EXCHANGES) {
		rc = take_exchange(v, d, &err);
		r->exchanges++;
	} else if (rc == TIDE_OK && d->table == STORE_QUEUES) {
		rc = take_queue(v, d, &err);
		r->queues++;
	} else if (rc == TIDE_OK && d->table == STORE_BINDINGS) {
		rc = take_binding(v, d, &err);
		r->bindings++;
	}
	if (rc < 0)
		log_error("%s '%" SLICE_FMT "' of vhost '%" SLICE_FMT
			  "' is not usable and left as it is in Redis: %s",
			  table_names[d->table], SLICE_ARG(d->name), SLICE_ARG(d->vhost),
			  err.text);
}

static void on_shards(struct waiter *w)
{
	struct recovery *r =
		(struct recovery *)((char *)w - offsetof(struct recovery, waiter));

	if (w->status == TIDE_OK)
		log_info("recovered %u exchanges, %u queues, %u bindings", r->exchanges,
			 r->queues, r->bindings);
	r->on_done(r->broker, w->status, w->text);
	mem_free(r);
}

static void recover_queue(struct queue *q, struct waiter *waiter)
{
	for (unsigned i = 0; i < q->config.shards; i++) {
		shard_recover(q->shards[i], waiter);
		dedupe_recover(q->shards[i], waiter);
	}
}

static void on_end(void *ctx, int status, const char *text)
{
	struct recovery *r = ctx;
	struct vhost *v, *next_vhost;
	struct queue *q, *next_queue;

	if (status == TIDE_OK)
		HASH_ITER (hh, r->broker->vhosts, v, next_vhost)
			HASH_ITER (hh, v->queues, q, next_queue)
				recover_queue(q, &r->waiter);
	waiter_done(&r->waiter, status, text);
}

void recover_start(struct broker *b,
		   void (*on_done)(struct broker *b, int status, const char *text))
{
	struct recovery *r = mem_zalloc(sizeof(*r));

	r->broker = b;
	r->on_done = on_done;
	waiter_init(&r->waiter, on_shards);
	store_load(b->store, on_definition, on_end, r);
}
