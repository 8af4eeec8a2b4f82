/* canary.h: rules are loaded in a child process before the broker loads them.
 *
 * A script that crashes the process, hangs in it or takes all its memory kills the child:
 * the rules are refused, and the refusal names the file. What the child has loaded is
 * what the broker loads, byte for byte. A thread waits for the child; trials follow each
 * other in the order of the asking.
 *
 * Files that have passed are not tried again.
 *
 * Files are installed into the rules directory (install.h) in the same order, so that no
 * trial reads it meanwhile. What was interrupted is finished before it is tried. */
#pragma once

#include "broker/broker.h"
#include "rules/sandbox/bundle.h"

struct canary;
struct canary_trial;

struct canary_spec {
	const char *dir;      /* copied */
	struct bundle *files; /* instead of the directory's; NULL: those */
	/* Has the directory, or the framework, changed since these were read? NULL:
	 * certainly. */
	struct bundle *known, *framework;
	/* Files must lie below this path and be as safe as the rules directory; NULL:
	 * anywhere. */
	const char *within;
	bool is_install; /* do not try the files, but put them into the directory */
};

struct canary_result {
	struct error error; /* code TIDE_OK: the rules may be loaded */
	/* What to load, or what was refused; NULL: nothing was read. Without a program in
	 * the configuration nothing is: then the directory is loaded as it is. */
	struct bundle *files;
	bool is_known; /* nothing has changed: nothing was tried */
	/* Files that nothing loads, as one line; "" for none. */
	const char *unread;
};

/* The result is borrowed. May come within the call. */
typedef void canary_done_fn(void *ctx, const struct canary_result *result);

struct canary *canary_create(struct broker *b);
/* Accepts NULL. Ends the child. Who asked is told TIDE_ESHUTDOWN. */
void canary_destroy(struct canary *c);

/* NULL when it has been answered already. */
struct canary_trial *canary_ask(struct canary *c, const struct canary_spec *spec,
				canary_done_fn *on_done, void *ctx);
/* on_done is not called any more. Accepts NULL. */
void canary_forget(struct canary_trial *t);

/* The same, before it returns: at the start, which may block. */
void canary_ask_now(struct canary *c, const struct canary_spec *spec,
		    canary_done_fn *on_done, void *ctx);
