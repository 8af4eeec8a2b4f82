#include "unusable.h"

#include "base/mem.h"
#include "base/container.h"
#include "base/json.h"
#include "host/log.h"
#include "base/waiter.h"

#define LINES_MAX 50    /* in the log */
#define WRITTEN_MAX 100 /* in a document */

static void set(struct broker *b, char **to, const char *why)
{
	b->unusable += *to == NULL;
	mem_free(*to);
	*to = mem_strdup(why);
}

static void clear(struct broker *b, char **to)
{
	b->unusable -= *to != NULL;
	mem_free(*to);
	*to = NULL;
	/* Routes that found it so were not remembered; those that did not find it,
	 * being older, are. */
	b->route_version++;
}

void unusable_set_queue(struct queue *q, const char *why)
{
	set(q->vhost->broker, &q->unusable, why);
}

void unusable_set_exchange(struct exchange *x, const char *why)
{
	set(x->vhost->broker, &x->unusable, why);
}

void unusable_clear_queue(struct queue *q)
{
	if (q->unusable)
		clear(q->vhost->broker, &q->unusable);
}

void unusable_clear_exchange(struct exchange *x)
{
	if (x->unusable)
		clear(x->vhost->broker, &x->unusable);
}

int unusable_queue_error(const struct queue *q, struct error *err)
{
	if (q->is_recovering)
		return error_set(err, TIDE_EBUSY,
				 "the messages of queue '%s' are being read; ask again",
				 q->name);
	return error_set(err, TIDE_ERULE, "queue '%s' is not usable: it %s", q->name,
			 q->unusable);
}

int unusable_exchange_error(const struct exchange *x, struct error *err)
{
	return error_set(err, TIDE_ERULE, "exchange '%s' is not usable: it %s", x->name,
			 x->unusable);
}

int unusable_explain(enum script_kind kind, const char *script, const struct error *cause,
		     struct error *err)
{
	const char *folder = script_kind_name(kind);

	if (cause->code == TIDE_ENOTFOUND)
		return error_set(err, cause->code, "uses %s/%s.lua, which is gone",
				 folder, script);
	if (cause->code == TIDE_EMISMATCH)
		return error_set(err, cause->code,
				 "uses %s/%s.lua, which refuses its options: %s", folder,
				 script, cause->text);
	return error_set(err, cause->code, "uses %s/%s.lua, which fails: %s", folder,
			 script, cause->text);
}

struct visitor {
	void (*on_exchange)(struct visitor *v, struct exchange *x);
	void (*on_queue)(struct visitor *v, struct queue *q);
};

static void visit_all(const struct broker *b, struct visitor *v)
{
	struct vhost *vhost, *next_vhost;
	struct exchange *x, *next_exchange;
	struct queue *q, *next_queue;

	HASH_ITER (hh, b->vhosts, vhost, next_vhost) {
		HASH_ITER (hh, vhost->exchanges, x, next_exchange)
			v->on_exchange(v, x);
		HASH_ITER (hh, vhost->queues, q, next_queue)
			v->on_queue(v, q);
	}
}

/* Those that are unusable alone. */
static void visit(const struct broker *b, struct visitor *v)
{
	struct vhost *vhost, *next_vhost;
	struct exchange *x, *next_exchange;
	struct queue *q, *next_queue;

	if (b->unusable == 0)
		return;
	HASH_ITER (hh, b->vhosts, vhost, next_vhost) {
		HASH_ITER (hh, vhost->exchanges, x, next_exchange)
			if (x->unusable)
				v->on_exchange(v, x);
		HASH_ITER (hh, vhost->queues, q, next_queue)
			if (q->unusable)
				v->on_queue(v, q);
	}
}

static void attach_exchange(struct visitor *v, struct exchange *x)
{
	struct error why;

	if (x->indexes[RULESET_ACTIVE] || x->is_unreadable)
		return;
	if (exchange_attach(x, &x->vhost->broker->active_rules, &why) == TIDE_OK)
		unusable_clear_exchange(x);
	else
		unusable_set_exchange(x, why.text);
}

static void attach_queue(struct visitor *v, struct queue *q)
{
	struct error why;

	if (queue_is_attached(q, RULESET_ACTIVE) || q->is_unreadable)
		return;
	if (queue_attach(q, &q->vhost->broker->active_rules, &why) == TIDE_OK)
		unusable_clear_queue(q);
	else
		unusable_set_queue(q, why.text);
}

unsigned unusable_attach_all(struct broker *b)
{
	struct visitor v = { attach_exchange, attach_queue };

	visit_all(b, &v);
	return b->unusable;
}

static void detach_exchange(struct visitor *v, struct exchange *x)
{
	exchange_detach(x, RULESET_ACTIVE);
}

static void detach_queue(struct visitor *v, struct queue *q)
{
	queue_detach(q, RULESET_ACTIVE);
}

void unusable_detach_all(struct broker *b)
{
	struct visitor v = { detach_exchange, detach_queue };

	visit_all(b, &v);
}

/* The messages of a queue that can be used are read. It may be deleted meanwhile. */
struct revival {
	struct waiter waiter;
	struct broker *broker;
	uint64_t serial; /* of the queue */
};

static void on_revived(struct waiter *w)
{
	struct revival *r = container_of(w, struct revival, waiter);
	struct queue *q;

	HASH_FIND(serial_hh, r->broker->queues_by_serial, &r->serial, sizeof(r->serial),
		  q);
	if (q && w->status == TIDE_OK) {
		log_info("queue '%s' of vhost '%s' can be used again", q->name,
			 q->vhost->name);
		q->is_recovering = false;
		unusable_clear_queue(q);
	} else if (q && w->status != TIDE_ESHUTDOWN) {
		struct error why;

		error_set(&why, w->status, "has messages that cannot be read: %s",
			  w->text ? w->text : error_text(w->status));
		log_error("queue '%s' of vhost '%s' %s", q->name, q->vhost->name,
			  why.text);
		q->is_recovering = false;
		queue_detach(q, RULESET_ACTIVE);
		queue_renew_shards(q);
		unusable_set_queue(q, why.text);
	}
	mem_free(r);
}

static void revive(struct queue *q)
{
	struct revival *r = mem_zalloc(sizeof(*r));

	r->broker = q->vhost->broker;
	r->serial = q->serial;
	q->is_recovering = true;
	unusable_set_queue(q, "is being read from Redis");
	waiter_init(&r->waiter, on_revived);
	queue_recover(q, &r->waiter);
	waiter_done(&r->waiter, TIDE_OK, NULL);
}

static void retry_queue(struct visitor *v, struct queue *q)
{
	struct error why;

	if (q->is_recovering || q->is_unreadable)
		return;
	if (queue_attach(q, &q->vhost->broker->active_rules, &why) < 0) {
		unusable_set_queue(q, why.text);
		return;
	}
	queue_follow(q);
	revive(q);
}

static void retry_exchange(struct visitor *v, struct exchange *x)
{
	unusable_retry_exchange(x);
}

void unusable_retry_exchange(struct exchange *x)
{
	struct error why;

	if (!x->unusable || x->is_unreadable)
		return;
	if (exchange_attach(x, &x->vhost->broker->active_rules, &why) < 0) {
		unusable_set_exchange(x, why.text);
		return;
	}
	log_info("exchange '%s' of vhost '%s' can be used again", x->name,
		 x->vhost->name);
	unusable_clear_exchange(x);
	exchange_follow(x);
}

void unusable_retry(struct broker *b)
{
	struct visitor v = { retry_exchange, retry_queue };

	visit(b, &v);
}

struct counter {
	struct visitor visitor;
	struct unusable_count *out;
};

static void take_first(struct unusable_count *out, const char *kind, const char *name,
		       const struct vhost *vhost, const char *why)
{
	if (out->first.code == TIDE_OK)
		error_set(&out->first, TIDE_ERULE, "%s '%s' of vhost '%s' %s", kind, name,
			  vhost->name, why);
}

/* A binding between two that are unusable is counted once: with its source. */
static unsigned count_incoming(const struct binding_list *incoming)
{
	const struct binding *b;
	unsigned n = 0;

	TAILQ_FOREACH (b, incoming, dest_link)
		n += !b->source->unusable;
	return n;
}

static void count_exchange(struct visitor *v, struct exchange *x)
{
	struct unusable_count *out = ((struct counter *)v)->out;

	out->exchanges++;
	out->bindings += x->binding_count + count_incoming(&x->incoming);
	take_first(out, "exchange", x->name, x->vhost, x->unusable);
}

static void count_queue(struct visitor *v, struct queue *q)
{
	struct unusable_count *out = ((struct counter *)v)->out;

	out->queues++;
	out->bindings += count_incoming(&q->incoming);
	take_first(out, "queue", q->name, q->vhost, q->unusable);
}

void unusable_count(const struct broker *b, struct unusable_count *out)
{
	struct counter c = { { count_exchange, count_queue }, out };

	*out = (struct unusable_count){ 0 };
	visit(b, &c.visitor);
}

struct writer {
	struct visitor visitor;
	struct json *out; /* NULL: the log */
	unsigned count;
};

static void write_one(struct visitor *v, const char *kind, const char *name,
		      const struct vhost *vhost, const char *why)
{
	struct writer *w = (struct writer *)v;

	if (!w->out) {
		if (w->count++ < LINES_MAX)
			log_error("%s '%s' of vhost '%s' IS NOT USABLE and left as it is "
				  "in Redis: it %s",
				  kind, name, vhost->name, why);
		return;
	}
	if (w->count++ >= WRITTEN_MAX)
		return;
	json_object_begin(w->out);
	json_member_text(w->out, "kind", kind);
	json_member_text(w->out, "vhost", vhost->name);
	json_member_text(w->out, "name", name);
	json_member_text(w->out, "reason", why);
	json_object_end(w->out);
}

static void write_exchange(struct visitor *v, struct exchange *x)
{
	write_one(v, "exchange", x->name, x->vhost, x->unusable);
}

static void write_queue(struct visitor *v, struct queue *q)
{
	write_one(v, "queue", q->name, q->vhost, q->unusable);
}

void unusable_log(const struct broker *b)
{
	struct writer w = { { write_exchange, write_queue }, NULL, 0 };

	visit(b, &w.visitor);
	if (w.count > LINES_MAX)
		log_error("and %u more are not usable; LIST shows them",
			  w.count - LINES_MAX);
}

void unusable_write(const struct broker *b, struct json *out)
{
	struct writer w = { { write_exchange, write_queue }, out, 0 };

	json_key(out, "unusable");
	json_array_begin(out);
	visit(b, &w.visitor);
	json_array_end(out);
}

void unusable_write_binding(const struct binding *binding, struct json *out)
{
	struct error why;

	if (binding->source->unusable)
		unusable_exchange_error(binding->source, &why);
	else if (binding->queue && binding->queue->unusable)
		unusable_queue_error(binding->queue, &why);
	else if (binding->exchange && binding->exchange->unusable)
		unusable_exchange_error(binding->exchange, &why);
	else
		return;
	json_member_text(out, "unusable", why.text);
}
