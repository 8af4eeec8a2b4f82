/* session_figures.h: members of the broker's STATS: the loop, the network, the process,
 * and how long Redis takes. */
#pragma once

#include "base/json.h"

struct service;

/* Objects: loop, process, net. */
void session_figures_write(const struct service *s, struct json *j);
/* Of the object store: round_trip, changes, refused_requests, memory. */
void session_figures_write_store(const struct service *s, struct json *j);
