#include "exchange.h"

#include "base/mem.h"
#include "queue.h"
#include "route_cache.h"
#include "unusable.h"
#include "walk.h"
#include "rules/engine/index.h"

/* In each vhost, as in each of RabbitMQ: clients of its know that they are there. */
static const struct {
	const char *name, *type;
} predeclared[] = {
	{ "amq.direct", "direct" },
	{ "amq.fanout", "fanout" },
	{ "amq.headers", "headers" },
	{ "amq.topic", "topic" },
};

/* The type of the predeclared exchange of that name, or NULL. */
static const char *predeclared_type(struct slice name)
{
	for (size_t i = 0; i < sizeof(predeclared) / sizeof(predeclared[0]); i++)
		if (slice_is(name, predeclared[i].name))
			return predeclared[i].type;
	return NULL;
}

bool exchange_is_predeclared(const struct exchange *x)
{
	const char *type = predeclared_type(exchange_slice(x));

	return type && strcmp(type, x->type) == 0;
}

/* A predeclared exchange is made when somebody names it. NULL: no script of the rules
 * routes for it, a policy does not want it, or those of Redis are still being read. */
static struct exchange *make_predeclared(struct vhost *v, struct slice name)
{
	static const struct args no_args;
	const char *type = predeclared_type(name);
	struct terms_spec spec = { .kind = CONFIG_EXCHANGE,
				   .name = name,
				   .args = &no_args };
	struct terms terms;
	struct exchange *x;
	struct error ignored;

	if (!type || engine_epoch(v->broker->active_rules.engine) == 0)
		return NULL;
	spec.type = slice_from(type);
	if (terms_read(v, &spec, &terms, &ignored) < 0 ||
	    exchange_create(v, &spec, &terms, &x, &ignored) < 0)
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

static void enter(struct exchange *x)
{
	struct vhost *v = x->vhost;

	x->serial = ++v->broker->last_serial;
	HASH_ADD_KEYPTR(hh, v->exchanges, x->name, x->name_len, x);
	v->broker->exchange_count++;
	v->broker->route_version++;
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
	*b = binding_to_index(x->bindings[b->place]);
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
	route_cache_clear(x);
	definition_deinit(&x->definition);
	unusable_clear(&x->definition);
	for (int slot = 0; slot < RULESET_SLOTS; slot++)
		exchange_detach(x, slot);
	walk_leave_exchange(x);
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
		binding_drop_released(x);
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
