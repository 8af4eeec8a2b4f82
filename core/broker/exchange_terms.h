/* exchange_terms.h: what an exchange was declared with, and what policies make of it.
 *
 * As of queues (queue_terms.h): its *own* options are those of DECLARE. A policy may set
 * what can change later: not durable, nor the options of the type. */
#pragma once

#include "exchange_config.h"

struct policy_watch;
struct vhost;

struct exchange_terms {
	struct exchange_config config; /* what the exchange does */
	struct exchange_config *own;   /* NULL: the same */
	char *policy; /* the files of the policies; NULL: none has a say */
};

struct exchange_terms_spec {
	struct slice name, type;
	struct slice user; /* who declares it; empty: the policies are asked again */
	const struct policy_watch *watch; /* NULL: nobody looks on */
};

void exchange_terms_deinit(struct exchange_terms *t);
/* What it was declared with. */
static inline const struct exchange_config *
exchange_terms_own(const struct exchange_terms *t)
{
	return t->own ? t->own : &t->config;
}
/* May a policy set this option to this value? TIDE_ESYNTAX */
TIDE_MUST_USE int exchange_terms_check_option(const struct arg *option,
					      struct error *err);
/* Ask the policies. TIDE_EREJECTED: one refuses it. TIDE_ERULE: one fails, or wants what
 * cannot be. */
TIDE_MUST_USE int exchange_terms_make(const struct vhost *v,
				      const struct exchange_terms_spec *spec,
				      struct exchange_config *own_take,
				      struct exchange_terms *out, struct error *err);
