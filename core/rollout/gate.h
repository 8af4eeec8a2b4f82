/* gate.h: no rules become active before their specs pass.
 *
 * With --rules-gate test, the start and everything that loads rules first runs
 * `tidemq test` in a child process of this binary, for a time that is limited. The broker
 * goes on meanwhile. Without it, or where there are no specs, the answer is yes.
 *
 * Newer files of the directory end the run of older ones, and their run answers both.
 * Kept files and candidates run beside it, one after the other. */
#pragma once

#include "rules/sandbox/bundle.h"
#include "rules/engine/rules_dir.h"
#include "rollout.h"

struct gate *gate_create(struct broker *b, struct history *history);
/* Accepts NULL. Who asked and was not answered is told TIDE_ESHUTDOWN. */
void gate_destroy(struct gate *g);

struct gate_question {
	struct bundle *files;
	bool is_directory;     /* they are what the rules directory has now */
	const char *specs_dir; /* when it has none, those in the rules directory test
				* them; NULL: these */
};

/* May these rules become active? The answer is TIDE_OK, or why not, for these files: they
 * may be newer ones of the directory. It may come within the call. A NULL gate says yes.
 * Kept files that have passed before, by the history, need not again. */
typedef void (*gate_answer_fn)(void *ctx, struct bundle *files,
			       const struct error *answer);
void gate_ask(struct gate *g, const struct gate_question *q, gate_answer_fn on_answer,
	      void *ctx);
/* Something else has become active: end the specs of the directory, and answer this.
 * Accepts NULL. */
void gate_supersede(struct gate *g, const struct error *why);
