#include "exchange.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/percent.h"
#include "base/waiter.h"
#include "host/log.h"
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

/* What can change is no part of the index, and of no message. */
static const struct flag {
	const char *name;
	size_t offset;
	const char *fixed; /* why it cannot change; NULL: it can */
} flags[] = {
	{ "durable", offsetof(struct exchange, is_durable),
	  "its bindings are in Redis, or they are not" },
	{ "auto-delete", offsetof(struct exchange, is_auto_delete), NULL },
	{ "internal", offsetof(struct exchange, is_internal), NULL },
};
#define FLAGS (sizeof(flags) / sizeof(flags[0]))
#define HINT "; the option update changes that"

static bool *flag_of(const struct exchange *x, const struct flag *f)
{
	return (bool *)((char *)x + f->offset);
}

static int refuse_flag(const struct exchange *x, const struct flag *f, struct error *err)
{
	bool has = *flag_of(x, f);

	return error_set(err, TIDE_EMISMATCH,
			 "exchange '%s' exists with other options: it has %s=%d, not "
			 "%s=%d%s",
			 x->name, f->name, has, f->name, !has, f->fixed ? "" : HINT);
}

static int refuse_text(const struct exchange *x, const struct option_difference *d,
		       const char *hint, struct error *err)
{
	return error_set(err, TIDE_EMISMATCH,
			 "exchange '%s' exists with other options: it has %s=%s, not "
			 "%s=%s%s",
			 x->name, d->name, d->has ? d->has : "(none)", d->name,
			 d->wanted ? d->wanted : "(none)", hint);
}

static bool has_other_alternate(const struct exchange *x, const struct exchange *other,
				struct option_difference *d)
{
	*d = (struct option_difference){ "alternate", x->alternate, other->alternate };
	return x->alternate && other->alternate
		       ? strcmp(x->alternate, other->alternate) != 0
		       : x->alternate != other->alternate;
}

static int check_type(const struct exchange *x, const char *type, struct error *err)
{
	if (strcmp(x->type, type) == 0)
		return TIDE_OK;
	return error_set(err, TIDE_EMISMATCH, "exchange '%s' exists with type %s, not %s",
			 x->name, x->type, type);
}

/* @param is_given  look at what the DECLARE gives; false: at the rest */
static int compare_part(const struct exchange *x, const struct exchange *other,
			const struct args *given, bool is_given, struct error *err)
{
	struct option_difference d;

	for (size_t i = 0; i < FLAGS; i++)
		if ((args_get(given, flags[i].name) != NULL) == is_given &&
		    *flag_of(x, &flags[i]) != *flag_of(other, &flags[i]))
			return refuse_flag(x, &flags[i], err);
	if (has_other_alternate(x, other, &d) &&
	    (args_get(given, d.name) != NULL) == is_given)
		return refuse_text(x, &d, HINT, err);
	if (index_differs(x->indexes[RULESET_ACTIVE], &x->args, &other->args, &d) &&
	    (args_get(given, d.name) != NULL) == is_given)
		return refuse_text(x, &d, "", err);
	return TIDE_OK;
}

static int compare(const struct exchange *x, const struct exchange *other,
		   const struct args *given, struct error *err)
{
	int rc = check_type(x, other->type, err);

	if (rc == TIDE_OK)
		rc = compare_part(x, other, given, true, err);
	return rc == TIDE_OK ? compare_part(x, other, given, false, err) : rc;
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
		rc = compare(has, x, args, err);
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

/* ---- another declaration ----------------------------------------------------------- */

/* Redis is being told. The exchange may be deleted meanwhile. */
struct exchange_update {
	struct broker *broker;
	uint64_t serial;
	char *vhost, *name;
	bool is_auto_delete, is_internal;
	char *alternate;
	struct waiter *waiter; /* NULL: Redis is not told */
};

static void apply(struct exchange *x, struct exchange_update *u)
{
	mem_free(x->alternate);
	x->alternate = u->alternate;
	u->alternate = NULL;
	x->is_auto_delete = u->is_auto_delete;
	x->is_internal = u->is_internal;
	x->vhost->broker->route_version++;
	log_info("exchange '%s' of vhost '%s' has other options: auto-delete=%d "
		 "internal=%d alternate=%s",
		 x->name, x->vhost->name, x->is_auto_delete, x->is_internal,
		 x->alternate ? x->alternate : "(none)");
}

static void on_updated(void *ctx, int status, const char *text)
{
	struct exchange_update *u = ctx;
	struct vhost *v = vhost_find(u->broker, slice_from(u->vhost));
	struct exchange *x = v ? exchange_find(v, slice_from(u->name)) : NULL;

	if (x && x->serial == u->serial) {
		x->is_updating = false;
		if (status == TIDE_OK)
			apply(x, u);
	}
	if (u->waiter)
		waiter_done(u->waiter, status, text);
	mem_free(u->alternate);
	mem_free(u->vhost);
	mem_free(u->name);
	mem_free(u);
}

/* What is given over what it has; without a value the default. Gives a new exchange that
 * is none of the vhost. */
static int merge(const struct exchange *x, const struct args *given,
		 struct exchange **out, struct error *err)
{
	struct exchange *next = *out =
		make(x->vhost, exchange_slice(x), slice_from(x->type));
	struct args rest = { 0 };
	int rc = TIDE_OK;

	for (size_t i = 0; i < FLAGS; i++)
		if (!args_get(given, flags[i].name))
			*flag_of(next, &flags[i]) = *flag_of(x, &flags[i]);
	if (x->alternate && !args_get(given, "alternate"))
		next->alternate = mem_strdup(x->alternate);
	for (size_t i = 0; i < x->args.count && rc == TIDE_OK; i++) {
		const struct arg *a = &x->args.items[i];

		if (!args_get(given, a->name))
			rc = args_add(&rest, slice_from(a->name),
				      (struct slice){ a->value, a->value_len });
	}
	for (size_t i = 0; i < given->count && rc == TIDE_OK; i++) {
		const struct arg *a = &given->items[i];

		if (a->value_len > 0)
			rc = args_add(&rest, slice_from(a->name),
				      (struct slice){ a->value, a->value_len });
	}
	if (rc < 0)
		error_set(err, rc, "too many options");
	else
		rc = read_args(next, &rest, err);
	args_deinit(&rest);
	return rc;
}

static int check_change(const struct exchange *x, const struct exchange *next,
			struct error *err)
{
	struct option_difference d;

	for (size_t i = 0; i < FLAGS; i++)
		if (flags[i].fixed && *flag_of(x, &flags[i]) != *flag_of(next, &flags[i]))
			return error_set(err, TIDE_EMISMATCH,
					 "exchange '%s' cannot change so: it keeps "
					 "%s=%d: %s",
					 x->name, flags[i].name, *flag_of(x, &flags[i]),
					 flags[i].fixed);
	if (index_differs(x->indexes[RULESET_ACTIVE], &x->args, &next->args, &d))
		return error_set(err, TIDE_EMISMATCH,
				 "exchange '%s' cannot change so: it keeps %s=%s: its "
				 "bindings are indexed by it",
				 x->name, d.name, d.has ? d.has : "(none)");
	if (x->is_updating ||
	    (x->is_durable && x->vhost->broker->env.store && !x->definition.is_stored))
		return error_set(err, TIDE_EBUSY,
				 "the last DECLARE of exchange '%s' is not yet stored; "
				 "try again",
				 x->name);
	return TIDE_OK;
}

static void update(struct exchange *x, struct exchange *next, struct waiter *waiter)
{
	struct exchange_update *u = mem_zalloc(sizeof(*u));
	struct buf text = { 0 };

	u->broker = x->vhost->broker;
	u->serial = x->serial;
	u->vhost = mem_strdup(x->vhost->name);
	u->name = mem_strdup(x->name);
	u->is_auto_delete = next->is_auto_delete;
	u->is_internal = next->is_internal;
	u->alternate = next->alternate ? mem_strdup(next->alternate) : NULL;
	if (!x->is_durable || !u->broker->env.store) {
		on_updated(u, TIDE_OK, NULL);
		return;
	}
	u->waiter = waiter;
	waiter_add(waiter);
	x->is_updating = true;
	x->next_alternate = u->alternate;
	exchange_format(next, &text);
	definition_write(&x->definition, buf_slice(&text), on_updated, u);
	buf_deinit(&text);
}

int exchange_change(struct exchange *x, struct slice type, const struct args *given,
		    struct waiter *waiter, struct error *err)
{
	struct exchange *next = NULL;
	struct option_difference d;
	char wanted[NAME_LEN_MAX + 1];
	int rc = unusable_check(&x->definition, err);

	snprintf(wanted, sizeof(wanted), "%" SLICE_FMT, SLICE_ARG(type));
	if (rc == TIDE_OK)
		rc = check_type(x, wanted, err);
	if (rc == TIDE_OK)
		rc = merge(x, given, &next, err);
	if (rc == TIDE_OK)
		rc = check_change(x, next, err);
	if (rc == TIDE_OK &&
	    (x->is_auto_delete != next->is_auto_delete ||
	     x->is_internal != next->is_internal || has_other_alternate(x, next, &d)))
		update(x, next, waiter);
	if (next)
		free_memory(next);
	return rc;
}
