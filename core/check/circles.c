#include "steps.h"

#include "base/mem.h"
#include "broker/death.h"
#include "broker/decide.h"
#include "broker/exchange.h"
#include "broker/queue.h"
#include "graph.h"

#define WAY_SHOWN_MAX 64

struct circles {
	struct model *model;
	const char *kind; /* of the nodes: "queue" */
	const char *what; /* happens in the circle: "is bound to itself" */
	struct graph graph;
};

/* Begins with the first name in the alphabet, at whatever node the circle was found. */
static void on_circle(void *ctx, struct graph_node *const *way, size_t count)
{
	struct circles *c = ctx;
	const char *first;
	struct buf text = { 0 };
	size_t start = 0;

	for (size_t i = 0; i < count; i++)
		if (strcmp(way[i]->name, way[start]->name) < 0)
			start = i;
	first = way[start]->name;
	buf_printf(&text, "%s '%s' %s: ", c->kind, first, c->what);
	for (size_t i = 0; i < count && i < WAY_SHOWN_MAX; i++)
		buf_printf(&text, "%s -> ", way[(start + i) % count]->name);
	buf_printf(&text, "%s%s", count > WAY_SHOWN_MAX ? "... -> " : "", first);
	model_report(c->model, c->kind, first, buf_cstr(&text));
	buf_deinit(&text);
}

static void report(struct circles *c)
{
	graph_each_circle(&c->graph, on_circle, c);
	graph_deinit(&c->graph);
}

static void check_bindings(struct model *m)
{
	struct circles c = { .model = m,
			     .kind = "exchange",
			     .what = "is bound to itself in the end" };

	for (const struct exchange *x = m->vhost->exchanges; x; x = x->hh.next) {
		for (uint32_t i = 0; i < x->binding_cap; i++) {
			const struct binding *b = x->bindings[i];

			if (b && b->exchange)
				graph_link(&c.graph, x->name, b->exchange->name);
		}
	}
	report(&c);
}

static struct msg *make_dead_letter(const struct queue *q, const char *key)
{
	const int64_t now_ms = q->vhost->broker->now_ms;
	const struct death death = { .queue = queue_slice(q),
				     .reason = "nack",
				     .rule = "consumer",
				     .attempts = 1,
				     .now_ms = now_ms };
	struct death_headers headers;
	struct msg spec = {
		.id = 1,
		.ts_unix_ms = now_ms,
		.key = slice_from(key),
		.payload = "",
	};

	death_write(&spec, &death, &headers);
	spec.exchange = slice_from(q->config.dead_exchange);
	spec.headers = headers.items;
	spec.header_count = (uint8_t)headers.count;
	return msg_create(&spec);
}

static void link_outcome(struct circles *c, const struct queue *q,
			 const struct outcome *o)
{
	for (unsigned i = 0; i < o->count; i++)
		graph_link(&c->graph, q->name, o->picks[i].queue->name);
}

/* Links the queue to those that take its dead letters under this key. */
static void link_dead_letter(struct circles *c, const struct queue *q, const char *key)
{
	struct msg *dead = make_dead_letter(q, key);
	const struct broker *b = c->model->vhost->broker;
	struct decide_spec spec = { .rules = &b->active_rules,
				    .vhost = c->model->vhost,
				    .msg = dead,
				    .now_ms = b->now_ms };
	struct decision d;
	struct error err;

	if (!dead)
		return;
	if (decide(&d, &spec, &err) == TIDE_OK) {
		link_outcome(c, q, &d.first);
		for (unsigned i = 0; i < d.copy_count; i++)
			link_outcome(c, q, &d.copies[i]);
	}
	decide_deinit(&d);
	msg_unref(dead);
}

/* A key that the pattern of a binding is likely to match. */
static char *key_of(const char *pattern)
{
	char *key = mem_strdup(pattern);

	for (char *c = key; *c; c++)
		if (*c == '*' || *c == '#')
			*c = 'a';
	return key;
}

/* A dead letter keeps the key of its message unless the queue sets one. */
static void link_dead_letters(struct circles *c, const struct queue *q)
{
	const struct binding *b;

	if (!q->config.dead_exchange)
		return;
	if (q->config.dead_key) {
		link_dead_letter(c, q, q->config.dead_key);
		return;
	}
	link_dead_letter(c, q, q->name);
	TAILQ_FOREACH (b, &q->incoming, dest_link) {
		char *key = key_of(b->pattern);

		link_dead_letter(c, q, key);
		mem_free(key);
	}
}

static void check_dead_letters(struct model *m)
{
	struct circles c = { .model = m,
			     .kind = "queue",
			     .what = "dead-letters to itself in the end" };

	for (const struct queue *q = m->vhost->queues; q; q = q->hh.next)
		link_dead_letters(&c, q);
	report(&c);
}

void circles_check(struct model *m)
{
	check_dead_letters(m);
	check_bindings(m);
}
