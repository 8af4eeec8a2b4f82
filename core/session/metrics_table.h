/* metrics_table.h: the metrics of queues, topics, groups and exchanges: one row each. */
#pragma once

#include "base/exposition.h"
#include "broker/walk.h"

struct metric {
	struct exposition_family family;
	bool is_largest; /* of many things together it is the largest, not the sum */
	double (*value)(const void *item); /* NAN: not known */
};

#define METRICS_TABLE_MAX 32

/* Metrics of the same things. */
struct metrics_table {
	const struct metric *metrics;
	unsigned count;
	/* What the walk meets next; NULL: that was the last. */
	const void *(*next)(struct walk *w);
	/* What it has several of: these are what is measured. NULL: it is itself.
	 * @param part  NULL: the first */
	const void *(*next_part)(const void *met, const void *part);
	struct vhost *(*vhost)(const void *met);
	/* Behind the label "vhost". Returns how many. */
	unsigned (*label)(const void *item, struct exposition_label *out);
};

#define METRICS_LABELS_MAX 3
#define METRICS_TABLES 4
extern const struct metrics_table metrics_table_all[METRICS_TABLES];
