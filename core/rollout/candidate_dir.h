/* candidate_dir.h: where candidate rules may come from.
 *
 * Whoever may ask for a shadow or a replay runs the scripts of a directory in the broker,
 * and reads in the answer what does not load. The directory must lie below a configured
 * one (--rules-candidates), by default the one that the rules directory lies in, and be
 * closed to others than those who may change the rules (host/trust.h). */
#pragma once

#include <limits.h>

#include "broker/broker.h"

/* @param dir     absolute, or relative to the configured directory
 * @param out     its path without links
 * @param within  that of the configured directory
 * @return        TIDE_OK; TIDE_ENOTFOUND there is none; TIDE_EDENIED it may not be used
 */
TIDE_MUST_USE int candidate_dir_find(const struct broker_config *config, struct slice dir,
				     char out[PATH_MAX], char within[PATH_MAX],
				     struct error *err);
/* The configured directory without links, or TIDE_ENOTFOUND. */
TIDE_MUST_USE int candidate_dir_base(const struct broker_config *config,
				     char out[PATH_MAX], struct error *err);
