/* trials.h: rules are tried before they become active.
 *
 * First they are loaded in a child process. A script that crashes the process, hangs in
 * it or takes all its memory kills the child: the rules are refused, and the refusal
 * names the file. What the child has loaded is what the broker loads, byte for byte.
 * These trials follow each other, and so does the installation of files into the rules
 * directory (files.h). Files that have passed are not tried again.
 *
 * Then, with --rules-gate test, their specs run in a child, for a time that is limited.
 * Newer files of the directory end the run of older ones, and their run answers both.
 * Kept files and candidates run beside it, one after the other.
 *
 * Threads wait for the children; the broker goes on meanwhile. */
#pragma once

#include "broker/broker.h"
#include "rules/sandbox/bundle.h"

struct history;
struct trial;
struct trials;

struct trials *trials_create(struct broker *b, struct history *history);
/* Accepts NULL. Ends the children. Who asked is told TIDE_ESHUTDOWN. */
void trials_destroy(struct trials *t);

struct trial_question {
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

struct trial_result {
	struct error error; /* code TIDE_OK: the rules may be loaded */
	/* The files to load, or those that were refused; NULL: none were read. So it
	 * is without a program in the configuration: then the directory is loaded as
	 * it is. */
	struct bundle *files;
	bool is_known; /* nothing has changed: nothing was tried */
	/* Files that nothing loads, as one line; "" for none. */
	const char *unread;
};

/* The result is borrowed. May come within the call. */
typedef void trial_done_fn(void *ctx, const struct trial_result *result);

/* Load the rules in a child. NULL when it has been answered already. */
struct trial *trials_load(struct trials *t, const struct trial_question *q,
			  trial_done_fn *on_done, void *ctx);
/* on_done is not called any more. Accepts NULL. */
void trials_forget(struct trial *t);
/* The same, before it returns: at the start, which may block. */
void trials_load_now(struct trials *t, const struct trial_question *q,
		     trial_done_fn *on_done, void *ctx);

struct spec_question {
	struct bundle *files;
	bool is_directory;     /* they are what the rules directory has now */
	const char *specs_dir; /* when it has none, those in the rules directory test
				* them; NULL: these */
};

/* The answer is TIDE_OK, or why not, for these files: they may be newer ones of the
 * directory. */
typedef void spec_done_fn(void *ctx, struct bundle *files, const struct error *answer);

/* Run the specs. Without --rules-gate, or where there are no specs, the answer is yes,
 * and may come within the call. Kept files that have passed before, by the history, need
 * not again. Accepts NULL: yes. */
void trials_test(struct trials *t, const struct spec_question *q, spec_done_fn *on_done,
		 void *ctx);
/* Something else has become active: end the specs of the directory, and answer this.
 * Accepts NULL. */
void trials_supersede(struct trials *t, const struct error *why);
