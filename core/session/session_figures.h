/* session_figures.h: STATS without a name: the document of the broker itself. */
#pragma once

#include "base/json.h"

struct service;

/* Write its members. */
void session_figures_write(const struct service *s, struct json *j);
