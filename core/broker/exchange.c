#include "exchange.h"

#include "base/mem.h"
#include "base/percent.h"
#include "queue.h"
#include "route_cache.h"
#include "unusable.h"
#include "walk.h"
#include "rules/engine/index.h"

struct exchange *exchange_find(struct vhost *v, struct slice name)
{
	struct exchange *x;

	HASH_FIND(hh, v->exchanges, name.data, name.len, x);
	return x;
}

static int read_flag(const char *name, const char *value, bool *out, struct error *err)
{
	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return error_set(err, TIDE_ESYNTAX, "%s=%s: expected 0 or 1", name,
				 value);
	*out = value[0] == '1';
	return TIDE_OK;
}

static int read_alternate(struct exchange *x, const struct arg *a, struct error *err)
{
	struct slice name = { a->value, a->value_len };

	if (!slice_is_name(name) || slice_is(name, "-"))
		return error_set(err, TIDE_ESYNTAX,
				 "alternate=%s: expected the name of an exchange other "
				 "than the default one",
				 a->value);
	x->alternate = mem_strndup(name.data, name.len);
	return TIDE_OK;
}

static int read_args(struct exchange *x, const struct args *args, struct error *err)
{
	int rc = TIDE_OK;

	for (size_t i = 0; i < args->count && rc == TIDE_OK; i++) {
		const struct arg *a = &args->items[i];

		if (strcmp(a->name, "durable") == 0)
			rc = read_flag(a->name, a->value, &x->is_durable, err);
		else if (strcmp(a->name, "auto-delete") == 0)
			rc = read_flag(a->name, a->value, &x->is_auto_delete, err);
		else if (strcmp(a->name, "internal") == 0)
			rc = read_flag(a->name, a->value, &x->is_internal, err);
		else if (strcmp(a->name, "alternate") == 0)
			rc = read_alternate(x, a, err);
		else if (args_add(&x->args, slice_from(a->name),
				  (struct slice){ a->value, a->value_len }) < 0)
			rc = error_set(err, TIDE_ESYNTAX, "option '%s' appears twice",
				       a->name);
	}
	args_sort(&x->args);
	return rc;
}

static int refuse_flag(const struct exchange *x, const char *name, bool has,
		       struct error *err)
{
	return error_set(err, TIDE_EMISMATCH,
			 "exchange '%s' exists with other options: it has %s=%d, not "
			 "%s=%d",
			 x->name, name, has, name, !has);
}

static int refuse_text(const struct exchange *x, const struct option_difference *d,
		       struct error *err)
{
	return error_set(err, TIDE_EMISMATCH,
			 "exchange '%s' exists with other options: it has %s=%s, not "
			 "%s=%s",
			 x->name, d->name, d->has ? d->has : "(none)", d->name,
			 d->wanted ? d->wanted : "(none)");
}

static bool has_other_alternate(const struct exchange *x, const struct exchange *other,
				struct option_difference *d)
{
	*d = (struct option_difference){ "alternate", x->alternate, other->alternate };
	return x->alternate && other->alternate
		       ? strcmp(x->alternate, other->alternate) != 0
		       : x->alternate != other->alternate;
}

static int compare(const struct exchange *x, const struct exchange *other,
		   struct error *err)
{
	struct option_difference d;

	if (strcmp(x->type, other->type) != 0)
		return error_set(err, TIDE_EMISMATCH,
				 "exchange '%s' exists with type %s, not %s", x->name,
				 x->type, other->type);
	if (x->is_durable != other->is_durable)
		return refuse_flag(x, "durable", x->is_durable, err);
	if (x->is_auto_delete != other->is_auto_delete)
		return refuse_flag(x, "auto-delete", x->is_auto_delete, err);
	if (x->is_internal != other->is_internal)
		return refuse_flag(x, "internal", x->is_internal, err);
	if (has_other_alternate(x, other, &d) ||
	    index_differs(x->indexes[RULESET_ACTIVE], &x->args, &other->args, &d))
		return refuse_text(x, &d, err);
	return TIDE_OK;
}

static struct exchange *make(struct vhost *v, struct slice name, struct slice type)
{
	struct exchange *x = mem_zalloc(sizeof(*x));

	x->vhost = v;
	x->definition.table = STORE_EXCHANGES;
	x->name = mem_strndup(name.data, name.len);
	x->name_len = name.len;
	x->type = mem_strndup(type.data, type.len);
	x->is_durable = true;
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
	args_deinit(&x->args);
	unroutable_deinit(&x->unroutable);
	mem_free(x->alternate);
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

static int create_index(struct exchange *x, const struct ruleset *r, struct error *err)
{
	char user[VHOST_USER_MAX];
	const struct index_spec spec = {
		.type = slice_from(x->type),
		.options = &x->args,
		.user = user,
		.vhost = vhost_slice(x->vhost),
		.source = { x, next_binding, is_dest },
	};

	vhost_format_user(x->vhost, "exchange", exchange_slice(x), user);
	return index_create(r->engine, &spec, &x->indexes[r->slot], err);
}

void exchange_restore(struct vhost *v, struct slice name, struct slice type,
		      const struct args *args, struct error *err)
{
	struct exchange *x = make(v, name, type);
	bool is_readable = args && read_args(x, args, err) == TIDE_OK;

	enter(x);
	x->definition.is_stored = true;
	if (is_readable)
		return;
	x->is_durable = true;
	x->is_auto_delete = x->is_internal = false;
	mem_free(x->alternate);
	x->alternate = NULL;
	args_deinit(&x->args);
	if (args)
		args_copy(&x->args, args);
	unusable_set_unreadable(&x->definition, "has a definition that cannot be read",
				err);
}

static int bind_all(struct exchange *x, struct index *index, struct error *err)
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
	int rc = create_index(x, r, &cause);

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

int exchange_declare(struct vhost *v, struct slice name, struct slice type,
		     const struct args *args, struct exchange **out, struct error *err)
{
	struct exchange *has = exchange_find(v, name);
	struct exchange *x = make(v, name, type);
	int rc = read_args(x, args, err);

	if (rc == TIDE_OK && has && !has->definition.is_unreadable)
		rc = compare(has, x, err);
	if (rc == TIDE_OK && has)
		rc = unusable_check(&has->definition, err);
	if (rc == TIDE_OK && !has)
		rc = create_index(x, &v->broker->active_rules, err);
	if (rc == TIDE_OK)
		*out = has ? has : x;
	if (rc < 0 || has) {
		free_memory(x);
		return rc;
	}
	enter(x);
	definition_follow(&x->definition);
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
	return x->is_auto_delete && x->binding_count == 0 && !x->is_going &&
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

void exchange_format(const struct exchange *x, struct buf *out)
{
	buf_printf(out, "type=%s durable=%d auto-delete=%d", x->type, x->is_durable,
		   x->is_auto_delete);
	if (x->is_internal)
		buf_append_text(out, " internal=1");
	if (x->alternate) {
		buf_append_text(out, " alternate=");
		percent_encode(out, slice_from(x->alternate));
	}
	if (x->args.count) {
		buf_append_char(out, ' ');
		args_format(&x->args, out);
	}
}
