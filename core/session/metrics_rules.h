/* metrics_rules.h: the metrics of the rules, and of each script. */
#pragma once

#include "base/exposition.h"

struct service;

void metrics_rules_write(struct service *s, struct exposition *e);
