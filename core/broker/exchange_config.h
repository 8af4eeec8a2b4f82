/* exchange_config.h: what DECLARE says of an exchange, read, compared and written out. */
#pragma once

#include "base/args.h"
#include "base/buf.h"

struct exchange_config {
	bool is_durable;
	bool is_auto_delete;
	bool is_internal; /* clients do not publish to it */
	char *alternate;  /* what gets the messages that lead nowhere; NULL: none */
	struct args args; /* the routing script's options, sorted */
};

/* TIDE_ESYNTAX with what is wrong and what is allowed; nothing is owned then. */
TIDE_MUST_USE int exchange_config_parse(struct exchange_config *c,
					const struct args *args, struct error *err);
void exchange_config_deinit(struct exchange_config *c);
/* The options that do not have their defaults, as DECLARE takes them. */
void exchange_config_options(const struct exchange_config *c, struct args *out);
/* Name the first option in which they differ, with both values. Those of the script are
 * the index's business (index_differs).
 *
 * @param is_given  look at those that are in `given`; false: at the others */
TIDE_MUST_USE int exchange_config_compare(const struct exchange_config *has,
					  const struct exchange_config *wanted,
					  const struct args *given, bool is_given,
					  struct error *err);
/* They do the same, but for what the options of their script say. */
bool exchange_config_is_same(const struct exchange_config *a,
			     const struct exchange_config *b);
/* What is given over what it has. A value without text is the default. */
TIDE_MUST_USE int exchange_config_merge(const struct exchange_config *has,
					const struct args *given,
					struct exchange_config *out, struct error *err);
/* "durable=1 auto-delete=0 …": as Redis keeps it. */
void exchange_config_format(const struct exchange_config *c, struct buf *out);
