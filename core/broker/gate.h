/* gate.h: nothing from the rules directory goes in force before its specs pass.
 *
 * With --rules-gate test each reload of the directory, and the start, first run
 * `tidemq test DIR` in a child process of this binary; the broker goes on
 * meanwhile. Without it, or when the directory has no specs, the answer is yes
 * at once. */
#ifndef TIDE_BROKER_GATE_H
#define TIDE_BROKER_GATE_H

#include "broker.h"

#define GATE_TIMEOUT_MS 60000

struct gate;

struct gate *gate_create(struct broker *b);
/* Accepts NULL. Who asked and was not answered is told TIDE_ESHUTDOWN. */
void gate_destroy(struct gate *g);

/* May the directory, as it is now, go in force? The answer is TIDE_OK, or why
 * not, and may come within the call. A NULL gate says yes. */
typedef void (*gate_answer_fn)(void *ctx, const struct error *answer);
void gate_ask(struct gate *g, gate_answer_fn on_answer, void *ctx);

#endif
