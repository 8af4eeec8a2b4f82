/* metrics_table.h: which things have the metrics of a table of figures, and their labels.
 */
#pragma once

#include "base/exposition.h"
#include "broker/queue_figures.h"
#include "broker/walk.h"

struct metrics_table {
	const struct figure_table *figures;
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
