/* policy.h: declare/: the policies, which decide what options a queue or a topic has, and
 * whether a definition may be declared. */
#pragma once

#include "base/args.h"
#include "engine.h"

#define POLICY_FILES_MAX 256

/* The deed of one policy, if it did not fail. */
struct policy_step {
	const char *file;
	const char *model; /* whose lines they are; NULL: the file's */
	const struct args *before, *after;
	const char *rejected; /* NULL: it has not */
};

/* The observer of a decision of policies. */
struct policy_watch {
	struct decision_context *context; /* a dry run; or NULL: live */
	/* May be NULL. */
	void (*on_step)(void *ctx, const struct policy_step *step);
	void *ctx;
};

struct policy_call {
	const char *kind; /* "queue", "topic", "exchange" */
	const char *type; /* of an exchange; else NULL */
	struct slice vhost, name;
	struct slice user;   /* who declares it; empty: nobody does just now */
	struct args options; /* in and out; the owner of the call frees them */
	const struct policy_watch *watch; /* NULL: nobody does */
	/* Out: who changed them, "declare/a.lua, declare/b.lua"; "" for nobody. */
	char files[POLICY_FILES_MAX];
	/* For policy.c alone. */
	struct args next;
};

/* TIDE_EREJECTED: a policy refuses it, with the reason and its file. TIDE_ERULE: one has
 * failed. */
TIDE_MUST_USE int policy_ask(struct engine *e, struct policy_call *c, struct error *err);
