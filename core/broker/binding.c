#include "binding.h"

#include "base/mem.h"
#include "exchange.h"
#include "queue.h"
#include "rules/engine/index.h"

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

struct index_binding binding_to_index(const struct binding *b)
{
	return (struct index_binding){ b->number, b->number, slice_from(b->pattern),
				       &b->args };
}

/* Rules that refuse it go without. */
static void bind_candidates(const struct binding *b)
{
	const struct index_binding added = binding_to_index(b);
	struct exchange *x = b->source;
	struct error why;

	for (int slot = RULESET_ACTIVE + 1; slot < RULESET_SLOTS; slot++)
		if (x->indexes[slot] && index_bind(x->indexes[slot], &added, &why) < 0)
			ruleset_note_failure(x->vhost->broker->candidates[slot],
					     "exchange", x->name, &why);
}

int binding_create(const struct binding_spec *spec, struct binding **out,
		   struct error *err)
{
	struct exchange *x = spec->source;
	uint32_t number = take_number(x);
	const struct index_binding added = { number, number, spec->pattern, spec->args };
	struct buf text = { 0 };
	int rc = index_bind(x->indexes[RULESET_ACTIVE], &added, err);

	if (rc < 0) {
		give_number(x, number);
		return rc;
	}
	format(spec, &text);
	*out = add(spec, number, buf_slice(&text));
	buf_deinit(&text);
	bind_candidates(*out);
	return TIDE_OK;
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
	const struct index_binding gone = binding_to_index(b);
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
	const struct index_binding gone = binding_to_index(b);
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

void binding_drop_released(struct exchange *x)
{
	while (!TAILQ_EMPTY(&x->unbinding))
		finish_first(x);
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
