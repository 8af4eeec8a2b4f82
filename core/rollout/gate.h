/* gate.h: no rules become active before their specs pass.
 *
 * With --rules-gate test, the start and everything that loads rules first runs
 * `tidemq test` in a child process of this binary. The broker goes on meanwhile.
 * Without it, or where there are no specs, the answer is yes at once. Runs follow each
 * other in the order of the asking. All who ask about the directory while it is being
 * tested share the next run. */
#ifndef TIDE_ROLLOUT_GATE_H
#define TIDE_ROLLOUT_GATE_H

#include "rules/sandbox/bundle.h"
#include "rules/engine/rules_dir.h"
#include "broker/broker.h"

#define GATE_TIMEOUT_MS 60000

struct gate;

struct gate *gate_create(struct broker *b);
/* Accepts NULL. Who asked and was not answered is told TIDE_ESHUTDOWN. */
void gate_destroy(struct gate *g);

/* May the rules in the directory, as it is now, become active? The answer is TIDE_OK, or
 * why not, and may come within the call. A NULL gate says yes. */
typedef void (*gate_answer_fn)(void *ctx, const struct error *answer);
void gate_ask(struct gate *g, gate_answer_fn on_answer, void *ctx);

/* May these files? What has passed before, by the history, need not again. They are
 * tested by the specs in `specs_dir`, or if it has none by those in the rules
 * directory. */
void gate_ask_files(struct gate *g, struct bundle *files, const char *specs_dir,
		    gate_answer_fn on_answer, void *ctx);

#endif
