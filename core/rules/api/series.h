/* series.h: the name and the labels of a metric as one text:
 * orders{country="de",kind="new"}.
 *
 * Labels are sorted by name, without a value they are left out, and values are escaped as
 * Prometheus does. So one set of labels has one text. Values come from clients: what is
 * too long is cut, what is not UTF-8 becomes '?'. */
#pragma once

#include <stdbool.h>

#include "base/slice.h"

#define SERIES_NAME_MAX 64
#define SERIES_LABELS_MAX 6
#define SERIES_LABEL_MAX 32 /* of the name of a label */
#define SERIES_VALUE_MAX 64 /* bytes of a value that are kept */
#define SERIES_TEXT_MAX 1100

/* Every metric may have so many sets of labels. Further ones are counted together, under
 * the value "other". */
#define SERIES_PER_METRIC 500
/* The counters with labels, and again the lines of gauges and histograms: what is
 * exported costs the event loop some 2 ms at most. */
#define SERIES_IN_ALL 2000

struct series_label {
	struct slice name, value;
};

struct series {
	struct slice name;
	unsigned count;
	struct series_label labels[SERIES_LABELS_MAX];
	char values[SERIES_TEXT_MAX];
};

/* Letters, digits and '_', no digit first. A metric does not end in what Prometheus
 * appends ("_total"); a label is not "le", and does not begin with "__". */
bool series_is_name(struct slice name);
bool series_is_label(struct slice name);

/* Both are such. Sorts the labels. Returns the length of the text. */
size_t series_write(char out[SERIES_TEXT_MAX], struct slice name,
		    struct series_label *labels, unsigned count);
/* The same with the value "other" for each label. */
size_t series_write_other(char out[SERIES_TEXT_MAX], struct slice text);
/* False: it is no such text. */
bool series_read(struct slice text, struct series *out);
