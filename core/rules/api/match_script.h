/* match_script.h: match=lua:<expression>: messages that an expression of Lua is true for.
 *
 * Whoever may use match= may write one, so the expressions have a state of their own,
 * beside those of the rules, with a ceiling of memory and a budget of time. They have
 * `msg`, tide.now, tide.duration and the safe libraries, all of it read-only. Nothing is
 * left of one evaluation for the next, or for another expression.
 *
 * An expression that fails, or uses up its budget, matches nothing from then on, and
 * msg_match_error says why. */
#pragma once

#include "base/msg.h"

#define MATCH_SCRIPT_PREFIX "lua:"
#define MATCH_SCRIPT_BUDGET_MS 10 /* of one message */
#define MATCH_SCRIPT_MEMORY_BYTES ((size_t)16 << 20)

/* The state of all expressions. */
struct match_scripts;

/* Compile it; the first one makes `*all`. TIDE_ESYNTAX: it is no expression. End it with
 * msg_match_deinit.
 *
 * @param text  behind the prefix */
TIDE_MUST_USE int match_script_create(struct match_scripts **all, struct slice text,
				      struct msg_match *out, struct error *err);
/* The owner goes; those that are left keep the state. Accepts NULL. */
void match_scripts_unref(struct match_scripts *all);
