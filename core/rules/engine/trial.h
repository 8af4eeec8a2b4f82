/* trial.h: filters tried in the real engine on messages made up for them, to see
 * where they send messages: in a circle, or past each other.
 *
 * What a filter does is undecidable from its text. So it is called, some ten
 * thousand times, with messages made of its own literals; those that reach a line
 * which none has reached before are kept and changed further. What is told was
 * seen to happen. What was not seen may happen all the same. */
#ifndef TIDE_RULES_ENGINE_TRIAL_H
#define TIDE_RULES_ENGINE_TRIAL_H

#include <uv.h>

#include "inspect.h"

/* An address that a script was seen to send to, or that stands in its text. */
struct trial_target {
	const char *file;
	int line;
	const char *exchange; /* "" is the default one */
	const char *key;
	bool is_own_key; /* it stands in the script's text */
};

struct trial {
	const struct inspection *rules; /* with `good` */
	bool knows_exchanges;
	const char *const *exchanges; /* that there are, when they are known */
	size_t exchange_count;
	void (*on_target)(void *ctx, const struct trial_target *t);
	void *ctx;
};

/* Findings go where those of the inspection go. Does nothing when no filter is
 * active. */
void trial_filters(const struct trial *t);
/* Each active schedule is run; what it publishes goes to on_target. */
void trial_schedules(const struct trial *t);

/* ---- for the engine's own files -------------------------------------------- */

struct engine;
struct rule;

/* The line of `field = "value"` in the file; 0 when it is not there. */
int trial_line_of(const struct bundle_file *file, const char *field, const char *value);
/* Hand a target to on_target, with the line of its name where the text has it. */
void trial_tell(const struct trial *t, struct trial_target target);
/* The exchanges that stand in the rule's text as `exchange = "name"`, whether a
 * message was seen to go there or not. */
void trial_tell_literals(const struct trial *t, const struct rule *r);

/* An engine with the scripts that load, and no other; NULL, with a finding, when
 * it cannot be. End it with trial_close. */
struct engine *trial_open(const struct trial *t, uv_loop_t *loop);
void trial_close(struct engine *e);

#endif
