/* model_check.c: where dead letters and bindings lead. */
#include <stdio.h>

#include "base/mem.h"
#include "broker/decide.h"
#include "broker/exchange.h"
#include "broker/queue.h"
#include "model.h"

#define KEYS_MAX 64
#define EDGES_MAX 256
#define WAY_MAX 64

/* A step of a way, by the names on it. */
struct node {
	const char *name;
	const struct queue *queue;
	const struct exchange *exchange;
};

struct way {
	struct node nodes[WAY_MAX];
	unsigned count;
};

/* Those that a node leads to; gives how many. */
typedef unsigned next_fn(struct model *m, const struct node *from, struct node *out);

/* ---- circles --------------------------------------------------------------------------
 */

static bool is_on_way(const struct way *way, const char *name)
{
	for (unsigned i = 0; i < way->count; i++)
		if (strcmp(way->nodes[i].name, name) == 0)
			return true;
	return false;
}

/* Each circle is looked for from its first name alone: the others come later. A
 * node from which no way leads back is not tried again: `tried`. */
struct circle {
	struct model *model;
	next_fn *next;
	struct way way;
	const char **tried;
	size_t tried_count;
};

static bool was_tried(const struct circle *c, const char *name)
{
	for (size_t i = 0; i < c->tried_count; i++)
		if (strcmp(c->tried[i], name) == 0)
			return true;
	return false;
}

static void note_tried(struct circle *c, const char *name)
{
	c->tried = mem_realloc(c->tried, (c->tried_count + 1) * sizeof(*c->tried));
	c->tried[c->tried_count++] = name;
}

static bool close_circle(struct circle *c)
{
	struct node next[EDGES_MAX];
	const struct node *start = &c->way.nodes[0];
	unsigned count = c->next(c->model, &c->way.nodes[c->way.count - 1], next);

	for (unsigned i = 0; i < count; i++) {
		if (strcmp(next[i].name, start->name) == 0)
			return true;
		if (strcmp(next[i].name, start->name) < 0 || c->way.count == WAY_MAX ||
		    is_on_way(&c->way, next[i].name) || was_tried(c, next[i].name))
			continue;
		c->way.nodes[c->way.count++] = next[i];
		if (close_circle(c))
			return true;
		c->way.count--;
		note_tried(c, next[i].name);
	}
	return false;
}

static void describe_way(const struct way *way, struct buf *out)
{
	for (unsigned i = 0; i < way->count; i++)
		buf_printf(out, "%s -> ", way->nodes[i].name);
	buf_append_text(out, way->nodes[0].name);
}

/* @param what  it does: "is bound to itself" */
static void check_circle(struct model *m, const struct node *start, next_fn *next,
			 const char *what)
{
	const char *kind = start->queue ? "queue" : "exchange";
	struct circle *c = mem_zalloc(sizeof(*c));
	struct buf path;
	char id[NAME_LEN_MAX + 16];

	c->model = m;
	c->next = next;
	c->way.nodes[0] = *start;
	c->way.count = 1;
	if (close_circle(c)) {
		buf_init(&path);
		describe_way(&c->way, &path);
		snprintf(id, sizeof(id), "%s %s", kind, start->name);
		model_find(m, id, "%s '%s' %s: %s", kind, start->name, what,
			   buf_cstr(&path));
		buf_deinit(&path);
	}
	mem_free(c->tried);
	mem_free(c);
}

/* ---- bindings
 * --------------------------------------------------------------------------- */

static unsigned bound_exchanges(struct model *m, const struct node *from,
				struct node *out)
{
	const struct exchange *x = from->exchange;
	unsigned count = 0;

	for (uint32_t i = 0; i < x->binding_cap && count < EDGES_MAX; i++) {
		const struct binding *b = x->bindings[i];

		if (b && b->exchange)
			out[count++] = (struct node){ .name = b->exchange->name,
						      .exchange = b->exchange };
	}
	return count;
}

/* ---- dead letters
 * ------------------------------------------------------------------------ */

/* A key that the pattern of a binding is likely to let through. */
static char *key_of(const char *pattern)
{
	char *key = mem_strdup(pattern);

	for (char *c = key; *c; c++)
		if (*c == '*' || *c == '#')
			*c = 'a';
	return key;
}

/* What is dead-lettered has the keys under which it came. */
static unsigned likely_keys(const struct queue *q, char **keys)
{
	const struct binding *b;
	unsigned count = 0;

	if (q->config.dead_key) {
		keys[0] = mem_strdup(q->config.dead_key);
		return 1;
	}
	keys[count++] = mem_strdup(q->name);
	TAILQ_FOREACH (b, &q->incoming, dest_link)
		if (count < KEYS_MAX)
			keys[count++] = key_of(b->pattern);
	return count;
}

static struct msg *make_dead(const struct queue *q, const char *key)
{
	const struct msg_header headers[] = {
		{ SLICE("x-death-reason"), SLICE("nack") },
		{ SLICE("x-death-queue"), queue_slice(q) },
		{ SLICE("x-death-exchange"), SLICE("-") },
		{ SLICE("x-death-key"), slice_from(key) },
		{ SLICE("x-death-attempts"), SLICE("1") },
	};
	const struct msg_spec spec = {
		.id = 1,
		.ts_unix_ms = q->vhost->broker->now_ms,
		.exchange = slice_from(q->config.dead_exchange),
		.key = slice_from(key),
		.headers = headers,
		.header_count = sizeof(headers) / sizeof(headers[0]),
		.payload = "",
	};

	return msg_create(&spec);
}

static unsigned add_outcome(const struct outcome *o, struct node *out, unsigned count)
{
	for (unsigned i = 0; i < o->count && count < EDGES_MAX; i++)
		out[count++] = (struct node){ .name = o->picks[i].queue->name,
					      .queue = o->picks[i].queue };
	return count;
}

/* The queues that take what is dead-lettered under this key: decided as a broker
 * decides it, by the filters too. */
static unsigned decide_dead(struct model *m, const struct queue *q, const char *key,
			    struct node *out, unsigned count)
{
	struct msg *dead = make_dead(q, key);
	const struct broker *b = m->vhost->broker;
	struct decide_spec spec = { .rules = &b->active_rules,
				    .vhost = m->vhost,
				    .msg = dead,
				    .now_ms = b->now_ms };
	struct decision d;
	struct error err;

	if (!dead)
		return count;
	if (decide(&d, &spec, &err) == TIDE_OK) {
		count = add_outcome(&d.first, out, count);
		for (unsigned i = 0; i < d.copy_count; i++)
			count = add_outcome(&d.copies[i], out, count);
	}
	decision_deinit(&d);
	msg_unref(dead);
	return count;
}

static unsigned dead_queues(struct model *m, const struct node *from, struct node *out)
{
	char *keys[KEYS_MAX];
	unsigned count = 0, key_count;

	if (!from->queue->config.dead_exchange)
		return 0;
	key_count = likely_keys(from->queue, keys);
	for (unsigned i = 0; i < key_count; i++) {
		count = decide_dead(m, from->queue, keys[i], out, count);
		mem_free(keys[i]);
	}
	return count;
}

static void check_dead_target(struct model *m, const struct queue *q)
{
	const char *exchange = q->config.dead_exchange, *key = q->config.dead_key;
	const struct exchange *x;
	char id[NAME_LEN_MAX + 16];

	if (!exchange)
		return;
	snprintf(id, sizeof(id), "queue %s", q->name);
	x = exchange[0] ? exchange_find(m->vhost, slice_from(exchange)) : NULL;
	if (!exchange[0] && !queue_find(m->vhost, slice_from(key)) &&
	    !model_knows(m, "queue", key))
		model_find(m, id,
			   "queue '%s' dead-letters to queue '%s', which does not "
			   "exist: its dead letters are buried",
			   q->name, key);
	else if (exchange[0] && !x && !model_knows(m, "exchange", exchange))
		model_find(m, id,
			   "queue '%s' dead-letters to exchange '%s', which does not "
			   "exist: its dead letters are buried",
			   q->name, exchange);
	else if (x && x->binding_count == 0)
		model_find(m, id,
			   "queue '%s' dead-letters to exchange '%s', which has no "
			   "bindings: its dead letters are buried",
			   q->name, exchange);
}

/* ---- all of them
 * -------------------------------------------------------------------------- */

void model_check(struct model *m)
{
	struct exchange *x, *next_exchange;
	struct queue *q, *next_queue;

	HASH_ITER (hh, m->vhost->queues, q, next_queue) {
		const struct node start = { .name = q->name, .queue = q };

		check_dead_target(m, q);
		check_circle(m, &start, dead_queues, "dead-letters to itself in the end");
	}
	HASH_ITER (hh, m->vhost->exchanges, x, next_exchange) {
		const struct node start = { .name = x->name, .exchange = x };

		check_circle(m, &start, bound_exchanges, "is bound to itself in the end");
	}
}
