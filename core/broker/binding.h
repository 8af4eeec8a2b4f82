/* binding.h: what leads from an exchange to a queue or to another exchange.
 *
 * A binding is in three places: by number in its source's table (the number is
 * what the routing script knows it by), by text in its source's hash, and in
 * the list of its destination. Destroying it takes it out of all three. From the table
 * generations of rules are built: it keeps what a script has not been told of. */
#pragma once

#include <sys/queue.h>

#include "base/table.h"
#include "base/args.h"
#include "base/error.h"
#include "definition.h"

struct broker;
struct index_binding;
struct exchange;
struct queue;

struct binding {
	UT_hash_handle hh; /* by text, in the source's hash */
	uint32_t number;   /* its place in the source's table */
	bool is_released;  /* it has gone, but a script may still lead to it */
	struct exchange *source;
	struct queue *queue; /* one of the two is the destination */
	struct exchange *exchange;
	char *pattern;    /* "" is written "-" on the wire */
	struct args args; /* sorted, without dest= */
	/* "queue <name> <exchange> <pattern|-> <options>": the member of the set
	 * in Redis; no two bindings of a vhost have the same. */
	char *text;
	size_t text_len;
	struct definition definition;
	TAILQ_ENTRY(binding) dest_link; /* in the destination's list */
};

TAILQ_HEAD(binding_list, binding);

struct binding_spec {
	struct exchange *source;
	struct queue *queue;
	struct exchange *exchange;
	struct slice pattern;
	const struct args *args;
};

/* The one with the same ends, pattern and options, or NULL. */
struct binding *binding_find(const struct binding_spec *spec);
/* By the text of its definition. */
struct binding *binding_find_text(const struct exchange *source, struct slice text);
/* There is none like it. The routing script is asked, and may refuse. */
TIDE_MUST_USE int binding_create(const struct binding_spec *spec, struct binding **out,
				 struct error *err);
/* One that Redis has, of an exchange that is not attached to its script: no script is
 * asked. @param text  the member of the set */
void binding_restore(const struct binding_spec *spec, struct slice text);
void binding_destroy(struct binding *b);
/* One of many that go together. It leads nowhere from now on. When the turn has been
 * long, the routing script is told in one of the next. Until then its number is not used
 * again. */
void binding_release(struct binding *b);
/* Go on telling scripts. */
void binding_turn(struct broker *broker);
/* The exchange goes, and its index as a whole. */
void binding_drop_released(struct exchange *x);
/* As routing scripts know it. */
struct index_binding binding_to_index(const struct binding *b);
/* The destination's name. */
struct slice binding_dest(const struct binding *b);
/* Remove those of a destination from Redis. */
void binding_erase_all(const struct binding_list *incoming);
