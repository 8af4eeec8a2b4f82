/* The commands that change definitions: DECLARE, DELETE, BIND, UNBIND. A
 * durable definition is answered when Redis has it. */
#include "../base/log.h"
#include "../base/mem.h"
#include "session.h"

/* Undo a declaration that Redis would not take. */
struct declaration {
	struct waiter *waiter;
	struct broker *broker;
	char *vhost;
	char *name;
	bool is_queue;
};

static void on_defined(void *ctx, int status, const char *text)
{
	struct declaration *d = ctx;
	struct vhost *v = vhost_find(d->broker, slice_from(d->vhost));

	if (status < 0 && status != TIDE_ESHUTDOWN && v) {
		struct queue *q = d->is_queue ? queue_find(v, slice_from(d->name)) : NULL;
		struct exchange *x =
			d->is_queue ? NULL : exchange_find(v, slice_from(d->name));

		if (q)
			queue_destroy(q);
		if (x)
			exchange_destroy(x);
	}
	waiter_done(d->waiter, status, text);
	mem_free(d->vhost);
	mem_free(d->name);
	mem_free(d);
}

static void define(struct session *s, enum store_table table, struct slice name,
		   const struct buf *text, struct reply *r)
{
	struct declaration *d = mem_zalloc(sizeof(*d));
	struct slice vhost = vhost_slice(s->vhost);

	d->waiter = &r->waiter;
	d->broker = s->broker;
	d->vhost = mem_strdup(s->vhost->name);
	d->name = mem_strndup(name.data, name.len);
	d->is_queue = table == STORE_QUEUES;
	waiter_add(&r->waiter);
	store_define(s->broker->store, STORE_VHOSTS, SLICE(""), vhost, SLICE(""), NULL,
		     NULL);
	store_define(s->broker->store, table, vhost, name, buf_slice(text), on_defined,
		     d);
}

static int declare_queue(struct session *s, const struct declare_spec *spec,
			 struct reply *r, struct error *err)
{
	struct queue *q;
	struct buf text;
	bool is_new;
	int rc;

	q = queue_find(s->vhost, spec->name);
	if (q && q->owner && q->owner != s)
		return error_set(err, TIDE_EDENIED,
				 "queue '%s' belongs to another connection", q->name);
	rc = queue_declare(s->vhost, spec->name, spec->args, s, &q, &is_new, err);
	if (rc < 0 || !is_new || !queue_is_durable(q))
		return rc;
	buf_init(&text);
	args_format(&q->config.canonical, &text);
	define(s, STORE_QUEUES, spec->name, &text, r);
	buf_deinit(&text);
	return TIDE_OK;
}

static int declare_exchange(struct session *s, const struct declare_spec *spec,
			    struct reply *r, struct error *err)
{
	struct exchange *x;
	struct buf text;
	bool is_new;
	int rc = exchange_declare(s->vhost, spec->name, spec->type, spec->args, &x,
				  &is_new, err);

	if (rc < 0 || !is_new || !x->is_durable || !s->broker->env.store)
		return rc;
	buf_init(&text);
	exchange_format(x, &text);
	define(s, STORE_EXCHANGES, spec->name, &text, r);
	buf_deinit(&text);
	return TIDE_OK;
}

void session_declare(struct session *s, const struct declare_spec *spec, struct reply *r)
{
	struct error err;
	int rc;

	if (s->broker->is_draining)
		rc = error_set(&err, TIDE_ESHUTDOWN, "the broker is stopping");
	else if (slice_is(spec->name, "-"))
		rc = error_set(
			&err, TIDE_ESYNTAX,
			"'-' stands for the default exchange and cannot be declared");
	else
		rc = spec->is_queue ? declare_queue(s, spec, r, &err)
				    : declare_exchange(s, spec, r, &err);
	if (rc < 0)
		reply_error(r, &err);
	else
		reply_ok(r);
}

/* ---- delete
 * ------------------------------------------------------------------------------ */

static int delete_queue(struct session *s, const struct delete_spec *spec,
			struct reply *r, struct error *err)
{
	struct queue *q;
	int rc = session_queue(s, spec->name, &q, err);

	if (rc < 0)
		return rc;
	if (spec->if_unused && q->consumer_count)
		return error_set(err, TIDE_EEXISTS,
				 "queue '%s' is in use: it has %u consumers", q->name,
				 q->consumer_count);
	for (int state = ENTRY_READY; spec->if_empty && state <= ENTRY_UNACKED; state++)
		if (queue_count(q, (enum entry_state)state))
			return error_set(err, TIDE_EEXISTS, "queue '%s' is not empty",
					 q->name);
	queue_erase(q, &r->waiter);
	queue_destroy(q);
	return TIDE_OK;
}

static int delete_exchange(struct session *s, const struct delete_spec *spec,
			   struct reply *r, struct error *err)
{
	struct exchange *x = exchange_find(s->vhost, spec->name);

	if (!x)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no exchange '%" SLICE_FMT "'",
				 SLICE_ARG(spec->name));
	if (spec->if_unused && x->binding_count)
		return error_set(err, TIDE_EEXISTS,
				 "exchange '%s' is in use: it has %u bindings", x->name,
				 x->binding_count);
	exchange_erase(x, &r->waiter);
	exchange_destroy(x);
	return TIDE_OK;
}

void session_delete(struct session *s, const struct delete_spec *spec, struct reply *r)
{
	struct error err;
	int rc = spec->is_queue ? delete_queue(s, spec, r, &err)
				: delete_exchange(s, spec, r, &err);

	if (rc < 0)
		reply_error(r, &err);
	else
		reply_ok(r);
}

/* ---- bind
 * -------------------------------------------------------------------------------- */

static int resolve(struct session *s, const struct bind_spec *spec,
		   struct binding_spec *out, struct error *err)
{
	*out = (struct binding_spec){ .pattern = spec->pattern, .args = spec->args };
	if (spec->exchange.len == 0 || slice_is(spec->exchange, "-"))
		return error_set(
			err, TIDE_EDENIED,
			"the default exchange routes to the queue that the key names and "
			"takes no bindings");
	out->source = exchange_find(s->vhost, spec->exchange);
	if (!out->source)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no exchange '%" SLICE_FMT "'",
				 SLICE_ARG(spec->exchange));
	if (!spec->to_exchange)
		return session_queue(s, spec->dest, &out->queue, err);
	out->exchange = exchange_find(s->vhost, spec->dest);
	if (!out->exchange)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no exchange '%" SLICE_FMT "'",
				 SLICE_ARG(spec->dest));
	return TIDE_OK;
}

struct binding_job {
	struct waiter *waiter;
	struct broker *broker;
	char *vhost;
	char *exchange;
	char *text;
};

/* Undo a binding that Redis would not take. */
static void undo_binding(struct binding_job *job)
{
	struct vhost *v = vhost_find(job->broker, slice_from(job->vhost));
	struct exchange *x = v ? exchange_find(v, slice_from(job->exchange)) : NULL;
	struct buf text;

	buf_init(&text);
	for (uint32_t i = 0; x && i < x->binding_cap; i++) {
		if (!x->bindings[i])
			continue;
		buf_clear(&text);
		binding_format(x->bindings[i], &text);
		if (slice_is(buf_slice(&text), job->text)) {
			binding_destroy(x->bindings[i]);
			break;
		}
	}
	buf_deinit(&text);
}

static void on_bound(void *ctx, int status, const char *text)
{
	struct binding_job *job = ctx;

	if (status < 0 && status != TIDE_ESHUTDOWN)
		undo_binding(job);
	waiter_done(job->waiter, status, text);
	mem_free(job->vhost);
	mem_free(job->exchange);
	mem_free(job->text);
	mem_free(job);
}

static void define_binding(struct session *s, struct binding *b, struct reply *r)
{
	struct binding_job *job;
	struct buf text;

	if (!s->broker->env.store || !binding_is_durable(b))
		return;
	buf_init(&text);
	binding_format(b, &text);
	job = mem_zalloc(sizeof(*job));
	job->waiter = &r->waiter;
	job->broker = s->broker;
	job->vhost = mem_strdup(s->vhost->name);
	job->exchange = mem_strdup(b->source->name);
	job->text = mem_strdup(buf_cstr(&text));
	waiter_add(&r->waiter);
	store_define(s->broker->store, STORE_BINDINGS, vhost_slice(s->vhost),
		     buf_slice(&text), SLICE(""), on_bound, job);
	buf_deinit(&text);
}

void session_bind(struct session *s, const struct bind_spec *spec, struct reply *r)
{
	struct binding_spec binding;
	struct binding *b;
	struct error err;

	if (resolve(s, spec, &binding, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	if (!binding_find(&binding)) {
		if (binding_create(&binding, &b, &err) < 0) {
			reply_error(r, &err);
			return;
		}
		define_binding(s, b, r);
	}
	reply_ok(r);
}

void session_unbind(struct session *s, const struct bind_spec *spec, struct reply *r)
{
	struct binding_spec binding;
	struct binding *b;
	struct exchange *source;
	struct error err;
	struct buf text;

	if (resolve(s, spec, &binding, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	b = binding_find(&binding);
	if (!b) {
		reply_refuse(r, TIDE_ENOTFOUND, "there is no such binding");
		return;
	}
	if (s->broker->env.store && binding_is_durable(b)) {
		buf_init(&text);
		binding_format(b, &text);
		waiter_add(&r->waiter);
		store_undefine(s->broker->store, STORE_BINDINGS, vhost_slice(s->vhost),
			       buf_slice(&text), waiter_store_done, &r->waiter);
		buf_deinit(&text);
	}
	source = b->source;
	binding_destroy(b);
	exchange_collect(source, &r->waiter);
	reply_ok(r);
}
