/* queue_terms.h: what a queue or a topic was declared with, and what policies make of it.
 *
 * Its *own* options are those of DECLARE: Redis keeps them, and a mismatch compares them.
 * The queue does what its policies (declare/) make of them. A policy may set what can
 * change later, and what says nothing about where messages lie. */
#pragma once

#include "queue_config.h"

struct policy_watch;
struct vhost;

struct queue_terms {
	struct queue_config config; /* what the queue does */
	struct queue_config *own;   /* NULL: the same */
	char *policy;               /* the files of the policies; NULL: none has a say */
};

struct queue_terms_spec {
	struct slice name;
	struct slice user; /* who declares it; empty: the policies are asked again */
	const struct policy_watch *watch; /* NULL: nobody looks on */
};

void queue_terms_deinit(struct queue_terms *t);
/* What it was declared with. */
static inline const struct queue_config *queue_terms_own(const struct queue_terms *t)
{
	return t->own ? t->own : &t->config;
}
/* A script refuses its options: is it a policy that has given them? Replaces the error.
 */
int queue_terms_blame(const char *policy, struct error *err);
/* May a policy set this option to this value? Other options may still refuse it.
 * TIDE_ESYNTAX */
TIDE_MUST_USE int queue_terms_check_option(bool is_topic, const struct arg *option,
					   struct error *err);
/* Ask the policies. TIDE_EREJECTED: one refuses it. TIDE_ERULE: one fails, or wants what
 * cannot be. */
TIDE_MUST_USE int queue_terms_make(const struct vhost *v,
				   const struct queue_terms_spec *spec,
				   struct queue_config *own_take, struct queue_terms *out,
				   struct error *err);
