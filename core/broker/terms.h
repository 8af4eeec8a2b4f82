/* terms.h: what a queue, a topic or an exchange was declared with, and what policies make
 * of it.
 *
 * Its *own* options are those of DECLARE: Redis keeps them, and a mismatch compares them.
 * It does what its policies (declare/) make of them. A policy may set what can change
 * later, and says nothing about where messages lie or how bindings are indexed. */
#pragma once

#include "config.h"

struct policy_watch;
struct queue_list;
struct vhost;

struct terms {
	struct config config; /* what the thing does */
	struct config *own;   /* NULL: the same */
	char *policy;         /* the files of the policies; NULL: none has a say */
};

/* The terms of a DECLARE, and who asks. */
struct terms_spec {
	enum config_kind kind;
	struct slice name;
	struct slice type; /* of an exchange */
	const struct args *args;
	struct slice user;                /* empty: the policies are asked again */
	const struct policy_watch *watch; /* of the policies; NULL: nobody looks on */
	struct queue_list *owner;         /* that an exclusive queue goes to */
	bool is_its_turn;                 /* it has waited: definition_wait */
};

void terms_deinit(struct terms *t);
/* The options of the declaration itself. */
static inline const struct config *terms_own(const struct terms *t)
{
	return t->own ? t->own : &t->config;
}
/* A script refuses its options: was it a policy that set them? Replaces the error. */
int terms_blame(const char *policy, struct error *err);
/* Ask the policies. TIDE_EREJECTED: one refuses it. TIDE_ERULE: one fails, or wants what
 * cannot be. */
TIDE_MUST_USE int terms_make(const struct vhost *v, const struct terms_spec *spec,
			     struct config *own_take, struct terms *out,
			     struct error *err);
/* The same for what a DECLARE gives: its options are read first. */
TIDE_MUST_USE int terms_read(const struct vhost *v, const struct terms_spec *spec,
			     struct terms *out, struct error *err);
/* Likewise for what exists: given options over its own. */
TIDE_MUST_USE int terms_merge(const struct vhost *v, const struct terms_spec *spec,
			      const struct config *own, struct terms *out,
			      struct error *err);
/* The answer of tide.check_option: may a policy set this?
 *
 * @param kind  "queue", "topic" or "exchange" */
int terms_check_option(const char *kind, const struct arg *option, struct error *err);
