#include "exchange.h"

#include "base/mem.h"
#include "queue.h"
#include "rules/engine/index.h"
#include "unusable.h"
#include "walk.h"

static struct binding_list *incoming(const struct binding *b);

/* ---- what exchanges remember of routes ----------------------------------------------
 */

/* * Where every script on the way says that its decision depends on the routing
 * key alone, the exchange remembers the whole of it and no script is called
 * until a binding or a generation changes. Where that becomes too much, the
 * oldest go, so those that have been outdated by a change go first. */

#define ROUTE_CACHE_MAX 8192 /* keys that an exchange remembers */
/* The share of the memory for messages that the routes of all exchanges may take: one
 * part in so many. */
#define ROUTE_CACHE_SHARE 16

struct route *route_cache_new(struct slice key)
{
	struct route *r = mem_zalloc(sizeof(*r) + key.len);

	r->key_len = key.len;
	if (key.len)
		memcpy(r->key, key.data, key.len);
	return r;
}

void route_cache_free(struct route *r)
{
	if (!r)
		return;
	mem_free(r->targets);
	mem_free(r);
}

static size_t route_size(const struct route *r)
{
	return sizeof(*r) + r->key_len + r->cap * sizeof(*r->targets);
}

static void forget_route(struct route *r)
{
	struct exchange *x = r->exchange;
	struct broker *b = x->vhost->broker;

	HASH_DEL(x->routes, r);
	x->route_count--;
	TAILQ_REMOVE(&b->routes, r, memory_link);
	b->route_bytes -= route_size(r);
	route_cache_free(r);
}

void route_cache_add(struct exchange *x, struct route *r)
{
	struct broker *b = x->vhost->broker;
	struct route *old;

	HASH_FIND(hh, x->routes, r->key, r->key_len, old);
	if (old)
		forget_route(old);
	/* The first of the table is the oldest. */
	if (x->route_count >= ROUTE_CACHE_MAX)
		forget_route(x->routes);
	if (r->count && r->count < r->cap) {
		r->cap = r->count;
		r->targets = mem_realloc(r->targets, r->cap * sizeof(*r->targets));
	}
	r->exchange = x;
	HASH_ADD_KEYPTR(hh, x->routes, r->key, r->key_len, r);
	x->route_count++;
	TAILQ_INSERT_TAIL(&b->routes, r, memory_link);
	b->route_bytes += route_size(r);
	while (b->route_bytes > b->config.memory_max_bytes / ROUTE_CACHE_SHARE &&
	       TAILQ_FIRST(&b->routes) != r)
		forget_route(TAILQ_FIRST(&b->routes));
}

static void forget_routes(struct exchange *x)
{
	while (x->routes)
		forget_route(x->routes);
}

/* "queue <name>" or "exchange <name>", of the text of a binding. */
static struct slice text_dest(struct slice text)
{
	struct slice rest = text;

	slice_cut(&rest, ' ');
	slice_cut(&rest, ' ');
	return (struct slice){ text.data, text.len - rest.len - 1 };
}

/* As routing scripts know it. */
static struct index_binding to_index_binding(const struct binding *b)
{
	const struct slice text = { b->text, b->text_len };

	return (struct index_binding){ b->number, b->number, slice_from(b->pattern),
				       &b->args, text_dest(text) };
}

static void finish_first(struct exchange *x);

/* The exchange goes, and its index as a whole. */
static void drop_released(struct exchange *x)
{
	while (!TAILQ_EMPTY(&x->unbinding))
		finish_first(x);
}

/* ---- exchanges ----------------------------------------------------------------------
 */

/* In each vhost, as in each of RabbitMQ: clients of its know that they are there. That of
 * the events is in the default vhost alone, and no client publishes to it. */
static const struct predeclared {
	const char *name, *type;
	bool is_of_events;
} predeclared[] = {
	{ "amq.direct", "direct", false },   { "amq.fanout", "fanout", false },
	{ "amq.headers", "headers", false }, { "amq.topic", "topic", false },
	{ EVENT_EXCHANGE, "topic", true },
};

/* The predeclared exchange of that name, or NULL. */
static const struct predeclared *find_predeclared(const struct vhost *v,
						  struct slice name)
{
	for (size_t i = 0; i < sizeof(predeclared) / sizeof(predeclared[0]); i++)
		if (slice_is(name, predeclared[i].name) &&
		    (!predeclared[i].is_of_events || slice_is(vhost_slice(v), "/")))
			return &predeclared[i];
	return NULL;
}

bool exchange_is_predeclared(const struct exchange *x)
{
	const struct predeclared *p = find_predeclared(x->vhost, exchange_slice(x));

	return p && strcmp(p->type, x->type) == 0;
}

/* A predeclared exchange is made when somebody names it. NULL: no script of the rules
 * routes for it, a policy does not want it, or those of Redis are still being read. */
static struct exchange *make_predeclared(struct vhost *v, struct slice name)
{
	const struct predeclared *p = find_predeclared(v, name);
	struct args args = { 0 };
	struct terms_spec spec = { .kind = CONFIG_EXCHANGE, .name = name, .args = &args };
	struct terms terms;
	struct exchange *x;
	struct error ignored;
	int rc;

	if (!p || v->is_deleted || engine_epoch(v->broker->active_rules.engine) == 0)
		return NULL;
	spec.type = slice_from(p->type);
	rc = p->is_of_events ? args_add(&args, SLICE("internal"), SLICE("1")) : TIDE_OK;
	if (rc == TIDE_OK)
		rc = terms_read(v, &spec, &terms, &ignored);
	args_deinit(&args);
	if (rc < 0 || exchange_create(v, &spec, &terms, &x, &ignored) < 0)
		return NULL;
	definition_send(&x->definition, NULL);
	return x;
}

struct exchange *exchange_find(struct vhost *v, struct slice name)
{
	struct exchange *x;

	HASH_FIND(hh, v->exchanges, name.data, name.len, x);
	return x ? x : make_predeclared(v, name);
}

static struct exchange *make(struct vhost *v, struct slice name, struct slice type,
			     struct terms *terms_take)
{
	struct exchange *x = mem_zalloc(sizeof(*x));

	x->vhost = v;
	x->definition.table = STORE_EXCHANGES;
	x->name = mem_strndup(name.data, name.len);
	x->name_len = name.len;
	x->type = mem_strndup(type.data, type.len);
	x->terms = *terms_take;
	TAILQ_INIT(&x->incoming);
	TAILQ_INIT(&x->unbinding);
	return x;
}

static bool is_of_events(const struct exchange *x)
{
	const struct predeclared *p = find_predeclared(x->vhost, exchange_slice(x));

	return p && p->is_of_events;
}

static void enter(struct exchange *x)
{
	struct vhost *v = x->vhost;

	x->serial = ++v->broker->last_serial;
	HASH_ADD_KEYPTR(hh, v->exchanges, x->name, x->name_len, x);
	v->broker->exchange_count++;
	v->broker->route_version++;
	if (is_of_events(x))
		v->broker->events.exchange = x;
}

static void tell_event(const struct exchange *x, enum event_name kind, struct slice user)
{
	if (!is_of_events(x))
		EVENT_TELL(x->vhost->broker, kind, vhost_slice(x->vhost),
			   exchange_slice(x), user);
}

static void free_memory(struct exchange *x)
{
	terms_deinit(&x->terms);
	unroutable_deinit(&x->unroutable);
	mem_free(x->bindings);
	mem_free(x->free_numbers);
	mem_free(x->type);
	mem_free(x->name);
	mem_free(x);
}

static bool next_binding(const void *ctx, struct index_binding *b)
{
	const struct exchange *x = ctx;

	while (b->place < x->number_count && !x->bindings[b->place])
		b->place++;
	if (b->place == x->number_count)
		return false;
	*b = to_index_binding(x->bindings[b->place]);
	return true;
}

static bool is_dest(const void *ctx, uint32_t number)
{
	const struct exchange *x = ctx;

	return number < x->number_count && x->bindings[number];
}

static int create_index(const struct exchange *x, const struct config *c,
			struct engine *e, struct index **out, struct error *err)
{
	char user[VHOST_USER_MAX];
	const struct index_spec spec = {
		.type = slice_from(x->type),
		.options = &c->script_args[SCRIPT_ROUTING],
		.user = user,
		.vhost = vhost_slice(x->vhost),
		.source = { x, next_binding, is_dest },
	};

	vhost_format_user(x->vhost, "exchange", exchange_slice(x), user);
	return index_create(e, &spec, out, err);
}

void exchange_restore(struct vhost *v, struct slice name, struct slice type,
		      const struct args *args, struct error *err)
{
	struct terms terms = { .own = NULL };
	bool is_readable = args && config_parse(&terms.config, CONFIG_EXCHANGE, args,
						err) == TIDE_OK;
	struct exchange *x;

	terms.config.kind = CONFIG_EXCHANGE;
	terms.config.is_durable = true;
	if (!is_readable && args)
		args_copy(&terms.config.script_args[SCRIPT_ROUTING], args);
	x = make(v, name, type, &terms);
	enter(x);
	x->definition.is_stored = true;
	if (!is_readable)
		unusable_set_unreadable(&x->definition,
					"has a definition that cannot be read", err);
}

static int bind_all(const struct exchange *x, struct index *index, struct error *err)
{
	struct index_binding b = { .place = 0 };
	struct error cause;
	int rc = TIDE_OK;

	for (; rc == TIDE_OK && next_binding(x, &b); b.place++)
		rc = index_bind(index, &b, &cause);
	if (rc == TIDE_OK)
		return TIDE_OK;
	return error_set(err, rc, "has a binding that routing/%s.lua refuses, '%s': %s",
			 x->type, x->bindings[b.place - 1]->text, cause.text);
}

int exchange_attach(struct exchange *x, const struct ruleset *r, struct error *err)
{
	struct error cause;
	int rc = create_index(x, &x->config, r->engine, &x->indexes[r->slot], &cause);

	if (rc < 0)
		return unusable_explain(SCRIPT_ROUTING, x->type, &cause, err);
	/* Without scripts yet: the first generation binds what there is. */
	if (engine_epoch(r->engine) == 0)
		return TIDE_OK;
	rc = bind_all(x, x->indexes[r->slot], err);
	if (rc < 0)
		exchange_detach(x, r->slot);
	return rc;
}

void exchange_detach(struct exchange *x, enum ruleset_slot slot)
{
	index_destroy(x->indexes[slot]);
	x->indexes[slot] = NULL;
}

int exchange_try(const struct exchange *x, const struct config *c, struct error *err)
{
	struct index *index;
	struct error cause;
	int rc =
		create_index(x, c, x->vhost->broker->active_rules.engine, &index, &cause);

	if (rc < 0)
		return unusable_explain(SCRIPT_ROUTING, x->type, &cause, err);
	rc = bind_all(x, index, err);
	index_destroy(index);
	return rc;
}

int exchange_create(struct vhost *v, const struct terms_spec *spec,
		    struct terms *terms_take, struct exchange **out, struct error *err)
{
	struct exchange *x = make(v, spec->name, spec->type, terms_take);
	const struct ruleset *r = &v->broker->active_rules;
	int rc = create_index(x, &x->config, r->engine, &x->indexes[r->slot], err);

	if (rc < 0) {
		free_memory(x);
		return rc;
	}
	enter(x);
	tell_event(x, EVENT_EXCHANGE_DECLARED, spec->user);
	definition_follow(&x->definition);
	*out = x;
	return TIDE_OK;
}

void exchange_erase(struct exchange *x, struct waiter *waiter)
{
	struct binding *b, *next;

	/* First: a start removes bindings whose exchange is not there. */
	definition_remove(&x->definition, waiter);
	HASH_ITER (hh, x->by_text, b, next)
		definition_remove(&b->definition, NULL);
	binding_erase_all(&x->incoming);
}

static void free_parts(struct exchange *x)
{
	forget_routes(x);
	definition_deinit(&x->definition);
	unusable_clear(&x->definition);
	for (int slot = 0; slot < RULESET_SLOTS; slot++)
		exchange_detach(x, slot);
	walk_leave_exchange(x);
	tell_event(x, EVENT_EXCHANGE_DELETED, SLICE(""));
	if (x->vhost->broker->events.exchange == x)
		x->vhost->broker->events.exchange = NULL;
	HASH_DEL(x->vhost->exchanges, x);
	x->vhost->broker->exchange_count--;
	vhost_check(x->vhost);
	x->vhost->broker->route_version++;
	free_memory(x);
}

/* A broker that stops deletes nothing for want of bindings. */
static bool is_unneeded(const struct exchange *x)
{
	return x->config.is_auto_delete && x->binding_count == 0 && !x->is_going &&
	       !x->vhost->broker->is_draining;
}

/* With it go the auto-delete exchanges whose last binding led to it, and so on:
 * a list, since a chain of them may be long. */
void exchange_destroy(struct exchange *x)
{
	struct exchange *going = x;
	struct binding *b;

	x->is_going = true;
	x->next_going = NULL;
	while ((x = going) != NULL) {
		going = x->next_going;
		drop_released(x);
		for (uint32_t i = 0; i < x->number_count; i++)
			if (x->bindings[i])
				binding_destroy(x->bindings[i]);
		while ((b = TAILQ_FIRST(&x->incoming)) != NULL) {
			struct exchange *source = b->source;

			binding_release(b);
			if (!is_unneeded(source))
				continue;
			exchange_erase(source, NULL);
			source->is_going = true;
			source->next_going = going;
			going = source;
		}
		free_parts(x);
	}
}

void exchange_collect(struct exchange *x, struct waiter *waiter)
{
	if (!is_unneeded(x))
		return;
	exchange_erase(x, waiter);
	exchange_destroy(x);
}

/* A link from an exchange to a queue or to another exchange.
 *
 * A binding is in three places: by number in its source's table (the number is
 * what the routing script knows it by), by text in its source's hash, and in
 * the list of its destination. Destroying it takes it out of all three. From the table
 * generations of rules are built: it keeps what a script has not been told of. */

static void format(const struct binding_spec *spec, struct buf *out)
{
	struct slice dest =
		spec->queue ? queue_slice(spec->queue) : exchange_slice(spec->exchange);

	buf_append_text(out, spec->queue ? "queue " : "exchange ");
	buf_append(out, dest.data, dest.len);
	buf_append_char(out, ' ');
	buf_append(out, spec->source->name, spec->source->name_len);
	buf_append_char(out, ' ');
	if (spec->pattern.len)
		buf_append(out, spec->pattern.data, spec->pattern.len);
	else
		buf_append_char(out, '-');
	if (spec->args->count) {
		buf_append_char(out, ' ');
		args_format(spec->args, out);
	}
}

struct binding *binding_find_text(const struct exchange *source, struct slice text)
{
	struct binding *b;

	HASH_FIND(hh, source->by_text, text.data, text.len, b);
	return b;
}

struct binding *binding_find(const struct binding_spec *spec)
{
	struct binding *b;
	struct buf text = { 0 };

	format(spec, &text);
	b = binding_find_text(spec->source, buf_slice(&text));
	buf_deinit(&text);
	return b;
}

static uint32_t take_number(struct exchange *x)
{
	if (x->free_count > 0)
		return x->free_numbers[--x->free_count];
	if (x->number_count == x->binding_cap) {
		uint32_t cap = x->binding_cap ? x->binding_cap * 2 : 8;

		x->bindings = mem_realloc(x->bindings, cap * sizeof(*x->bindings));
		memset(x->bindings + x->binding_cap, 0,
		       (cap - x->binding_cap) * sizeof(*x->bindings));
		x->free_numbers =
			mem_realloc(x->free_numbers, cap * sizeof(*x->free_numbers));
		x->binding_cap = cap;
	}
	return x->number_count++;
}

static void give_number(struct exchange *x, uint32_t number)
{
	x->free_numbers[x->free_count++] = number;
}

static struct binding_list *incoming(const struct binding *b)
{
	return b->queue ? &b->queue->incoming : &b->exchange->incoming;
}

static struct binding *add(const struct binding_spec *spec, uint32_t number,
			   struct slice text)
{
	struct exchange *x = spec->source;
	struct binding *b = mem_zalloc(sizeof(*b));

	b->number = number;
	b->definition.table = STORE_BINDINGS;
	b->source = x;
	b->queue = spec->queue;
	b->exchange = spec->exchange;
	b->pattern = mem_strndup(spec->pattern.data, spec->pattern.len);
	b->text = mem_strndup(text.data, text.len);
	b->text_len = text.len;
	args_copy(&b->args, spec->args);
	args_sort(&b->args);
	x->bindings[number] = b;
	x->binding_count++;
	x->vhost->broker->binding_count++;
	HASH_ADD_KEYPTR(hh, x->by_text, b->text, b->text_len, b);
	TAILQ_INSERT_TAIL(incoming(b), b, dest_link);
	x->vhost->broker->route_version++;
	return b;
}

/* Rules that refuse it go without. */
static void bind_candidates(const struct binding *b)
{
	const struct index_binding added = to_index_binding(b);
	struct exchange *x = b->source;
	struct error why;

	for (int slot = RULESET_ACTIVE + 1; slot < RULESET_SLOTS; slot++)
		if (x->indexes[slot] && index_bind(x->indexes[slot], &added, &why) < 0)
			ruleset_note_failure(x->vhost->broker->candidates[slot],
					     "exchange", x->name, &why);
}

static void tell_binding(const struct binding *b, enum event_name kind)
{
	const struct vhost *v = b->source->vhost;

	if (!is_of_events(b->source))
		EVENT_TELL(v->broker, kind, vhost_slice(v), exchange_slice(b->source),
			   slice_from(definition_kind(
				   b->queue ? b->queue->definition.table
					    : b->exchange->definition.table)),
			   binding_dest(b), slice_from(b->pattern));
}

int binding_create(const struct binding_spec *spec, struct binding **out,
		   struct error *err)
{
	struct exchange *x = spec->source;
	uint32_t number = take_number(x);
	struct buf text = { 0 };

	format(spec, &text);
	const struct index_binding added = { number, number, spec->pattern, spec->args,
					     text_dest(buf_slice(&text)) };
	int rc = index_bind(x->indexes[RULESET_ACTIVE], &added, err);
	if (rc < 0) {
		give_number(x, number);
	} else {
		*out = add(spec, number, buf_slice(&text));
		bind_candidates(*out);
		tell_binding(*out, EVENT_BINDING_DECLARED);
	}
	buf_deinit(&text);
	return rc < 0 ? rc : TIDE_OK;
}

void binding_restore(const struct binding_spec *spec, struct slice text)
{
	if (!binding_find_text(spec->source, text))
		add(spec, take_number(spec->source), text)->definition.is_stored = true;
}

/* Take the binding out of its index; its number stays taken. */
static void take_out(struct binding *b)
{
	struct exchange *x = b->source;

	b->is_released = true;
	tell_binding(b, EVENT_BINDING_DELETED);
	definition_deinit(&b->definition);
	TAILQ_REMOVE(incoming(b), b, dest_link);
	HASH_DEL(x->by_text, b);
	x->binding_count--;
	x->vhost->broker->binding_count--;
	x->vhost->broker->route_version++;
}

/* Where the index of rules that fail at it leads now, nobody knows: they go without. */
static void unbind_candidates(const struct binding *b)
{
	const struct index_binding gone = to_index_binding(b);
	struct exchange *x = b->source;
	struct error why;

	for (int slot = RULESET_ACTIVE + 1; slot < RULESET_SLOTS; slot++) {
		if (!x->indexes[slot] ||
		    index_unbind(x->indexes[slot], &gone, &why) == TIDE_OK)
			continue;
		ruleset_note_failure(x->vhost->broker->candidates[slot], "exchange",
				     x->name, &why);
		exchange_detach(x, (enum ruleset_slot)slot);
	}
}

/* False when the active script fails at it, which the engine counts. */
static bool unbind(const struct binding *b)
{
	const struct index_binding gone = to_index_binding(b);
	struct index *index = b->source->indexes[RULESET_ACTIVE];
	struct error ignored;

	unbind_candidates(b);
	return !index || index_unbind(index, &gone, &ignored) == TIDE_OK;
}

/* The scripts are told, unless the index goes as a whole. A number to which one may
 * still lead is not given again. */
static void finish(struct binding *b)
{
	struct exchange *x = b->source;

	x->bindings[b->number] = NULL;
	if (!x->is_going && !unbind(b)) {
		x->bindings[b->number] = b;
		return;
	}
	give_number(x, b->number);
	args_deinit(&b->args);
	mem_free(b->pattern);
	mem_free(b->text);
	mem_free(b);
}

void binding_destroy(struct binding *b)
{
	if (!b->is_released)
		take_out(b);
	finish(b);
}

void binding_release(struct binding *b)
{
	struct exchange *x = b->source;
	struct broker *broker = x->vhost->broker;

	/* Once one has been left for later all are, for a while. */
	if (x->is_going || !x->indexes[RULESET_ACTIVE] ||
	    (TAILQ_EMPTY(&broker->unbinding) && !pace_is_spent(&broker->pace, true))) {
		binding_destroy(b);
		return;
	}
	take_out(b);
	if (TAILQ_EMPTY(&x->unbinding))
		TAILQ_INSERT_TAIL(&broker->unbinding, x, unbinding_link);
	TAILQ_INSERT_TAIL(&x->unbinding, b, dest_link);
}

static void finish_first(struct exchange *x)
{
	struct binding *b = TAILQ_FIRST(&x->unbinding);

	TAILQ_REMOVE(&x->unbinding, b, dest_link);
	if (TAILQ_EMPTY(&x->unbinding))
		TAILQ_REMOVE(&x->vhost->broker->unbinding, x, unbinding_link);
	finish(b);
}

void binding_turn(struct broker *broker)
{
	struct exchange *x;

	if (TAILQ_EMPTY(&broker->unbinding))
		return;
	pace_begin(&broker->pace);
	while ((x = TAILQ_FIRST(&broker->unbinding)) != NULL) {
		finish_first(x);
		if (pace_is_spent(&broker->pace, true))
			return;
	}
}

struct slice binding_dest(const struct binding *b)
{
	return b->queue ? queue_slice(b->queue) : exchange_slice(b->exchange);
}

void binding_erase_all(const struct binding_list *incoming)
{
	const struct binding *b;

	TAILQ_FOREACH (b, incoming, dest_link)
		definition_remove(&b->definition, NULL);
}
