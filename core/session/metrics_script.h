/* metrics_script.h: the metrics that scripts make: tide.counter, tide.gauge,
 * tide.histogram.
 *
 * Each is a family of its own, "tidemq_custom_" and its name. A counter whose name is
 * none for Prometheus is a sample of tidemq_script_counter. */
#pragma once

#include "base/exposition.h"

struct service;

void metrics_script_write(struct service *s, struct exposition *e);
