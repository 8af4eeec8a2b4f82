/* gate.h: no rules become active before their specs pass.
 *
 * With --rules-gate test, the start and everything that loads rules first runs
 * `tidemq test` in a child process of this binary. The broker goes on meanwhile.
 * Without it, or where there are no specs, the answer is yes at once. Runs follow each
 * other in the order of the asking. All who ask about the directory while it is being
 * tested share the next run. */
#pragma once

#include "rules/sandbox/bundle.h"
#include "rules/engine/rules_dir.h"
#include "rollout.h"

#define GATE_TIMEOUT_MS 60000

struct gate *gate_create(struct broker *b, struct history *history);
/* Accepts NULL. Who asked and was not answered is told TIDE_ESHUTDOWN. */
void gate_destroy(struct gate *g);

/* May these rules become active? The answer is TIDE_OK, or why not, and may come within
 * the call. A NULL gate says yes. What has passed before, by the history, need not again.
 *
 * @param files      NULL: what is in the rules directory now, tested by its specs
 * @param specs_dir  of the files' specs; when it has none, those in the rules directory
 *                   test them */
typedef void (*gate_answer_fn)(void *ctx, const struct error *answer);
void gate_ask(struct gate *g, struct bundle *files, const char *specs_dir,
	      gate_answer_fn on_answer, void *ctx);
