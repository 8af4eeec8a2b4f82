/* service_figures.h: the figures of the broker itself, one row each (figures/figure.h).
 * STATS without a name and /metrics read them. */
#pragma once

#include "figures/figure.h"
#include "host/machine.h"
#include "service.h"

/* The moment that the rows read. */
struct service_moment {
	const struct service *service;
	struct store_stats store;
	const struct journal_stats *journal;
	struct usage usage;
	unsigned queues, topics, exchanges, connections;
};

void service_figures_take(struct service_moment *m, const struct service *s);
/* Write the members of an object of STATS; "": those outside of any. */
void service_figures_write(const struct service_moment *m, const char *object,
			   struct json *j);
/* Write the masters of the store, an array of STATS. */
void service_figures_write_masters(const struct service_moment *m, struct json *j);
/* Write the families of all rows that are metrics. */
void service_figures_expose(const struct service_moment *m, struct exposition *e);
