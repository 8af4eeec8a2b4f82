#include "definition.h"

#include "base/mem.h"
#include "queue.h"
#include "base/waiter.h"

/* The thing may be deleted, and another one made under its name, before Redis
 * answers: so it is looked up, and known by its serial. */
struct job {
	struct waiter *waiter;
	struct broker *broker;
	enum store_table table;
	uint64_t serial;
	char *vhost;
	char *name;
	char *source; /* of a binding */
};

struct target {
	struct queue *queue;
	struct exchange *exchange;
	struct binding *binding;
};

static struct definition *find(const struct job *job, struct target *t)
{
	struct vhost *v = vhost_find(job->broker, slice_from(job->vhost));
	struct slice name = slice_from(job->name);

	*t = (struct target){ 0 };
	if (!v)
		return NULL;
	if (job->table == STORE_QUEUES) {
		t->queue = queue_find(v, name);
		return t->queue && t->queue->serial == job->serial ? &t->queue->definition
								   : NULL;
	}
	t->exchange = exchange_find(v, job->source ? slice_from(job->source) : name);
	if (!t->exchange)
		return NULL;
	if (job->table == STORE_EXCHANGES)
		return t->exchange->serial == job->serial ? &t->exchange->definition
							  : NULL;
	t->binding = binding_find_text(t->exchange, name);
	return t->binding && t->binding->serial == job->serial ? &t->binding->definition
							       : NULL;
}

static void drop(const struct target *t)
{
	if (t->queue)
		queue_destroy(t->queue);
	else if (t->binding)
		binding_destroy(t->binding);
	else
		exchange_destroy(t->exchange);
}

static void on_answer(void *ctx, int status, const char *text)
{
	struct job *job = ctx;
	struct target t;
	struct definition *d = find(job, &t);

	if (d) {
		d->pending--;
		d->is_stored |= status == TIDE_OK;
		if (status < 0 && status != TIDE_ESHUTDOWN && !d->is_stored &&
		    d->pending == 0)
			drop(&t);
	}
	waiter_done(job->waiter, status, text);
	mem_free(job->vhost);
	mem_free(job->name);
	mem_free(job->source);
	mem_free(job);
}

static struct job *job_create(struct definition *d, const struct vhost *v,
			      struct slice name, struct waiter *waiter)
{
	struct job *job = mem_zalloc(sizeof(*job));

	job->waiter = waiter;
	job->broker = v->broker;
	job->vhost = mem_strdup(v->name);
	job->name = mem_strndup(name.data, name.len);
	waiter_add(waiter);
	d->pending++;
	return job;
}

static void job_send(struct job *job, struct slice text)
{
	struct store *store = job->broker->store;
	struct slice vhost = slice_from(job->vhost);

	store_definition_set(store, STORE_VHOSTS, SLICE(""), vhost, SLICE(""), NULL,
			     NULL);
	store_definition_set(store, job->table, vhost, slice_from(job->name), text,
			     on_answer, job);
}

void definition_send_queue(struct queue *q, struct waiter *waiter)
{
	struct job *job;
	struct buf text = { 0 };

	if (!queue_is_durable(q) || q->definition.is_stored)
		return;
	job = job_create(&q->definition, q->vhost, queue_slice(q), waiter);
	job->table = STORE_QUEUES;
	job->serial = q->serial;
	args_format(&q->config.canonical, &text);
	job_send(job, buf_slice(&text));
	buf_deinit(&text);
}

void definition_send_exchange(struct exchange *x, struct waiter *waiter)
{
	struct job *job;
	struct buf text = { 0 };

	if (!x->vhost->broker->env.store || !x->is_durable || x->definition.is_stored)
		return;
	job = job_create(&x->definition, x->vhost, exchange_slice(x), waiter);
	job->table = STORE_EXCHANGES;
	job->serial = x->serial;
	exchange_format(x, &text);
	job_send(job, buf_slice(&text));
	buf_deinit(&text);
}

void definition_send_binding(struct binding *b, struct waiter *waiter)
{
	struct vhost *v = b->source->vhost;
	struct job *job;

	if (!v->broker->env.store || !binding_is_durable(b) || b->definition.is_stored)
		return;
	job = job_create(&b->definition, v, binding_slice(b), waiter);
	job->table = STORE_BINDINGS;
	job->serial = b->serial;
	job->source = mem_strndup(b->source->name, b->source->name_len);
	job_send(job, SLICE(""));
}
