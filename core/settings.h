/* settings.h: --rules-set: the texts that tide.setting gives to scripts.
 *
 * A broker tries rules in processes of its own (trial, check, test). They find what it
 * was given in an environment variable. */
#pragma once

#include "base/args.h"

/* NAME=VALUE; NAME alone: the value of the environment variable NAME. A later one
 * replaces an earlier one. */
TIDE_MUST_USE int settings_add(struct args *settings, const char *text,
			       struct error *err);
/* The settings of the broker that started this process; `out` is empty before. */
void settings_inherit(struct args *out);
/* For processes that this one starts. Before any thread. */
void settings_pass_on(const struct args *settings);
