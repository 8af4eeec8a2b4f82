/* figure.h: what is told of a thing in one number. A figure is one row of a table
 * (figure_rows.h), and LIST, `sort=`, STATS, /metrics and tide.queue read that row. */
#pragma once

#include <stdint.h>

#include "base/tally.h"
#include "base/json.h"

enum figure_kind {
	FIGURE_GAUGE,
	FIGURE_COUNTER, /* only grows */
	FIGURE_FLAG,    /* a boolean in documents; 0 or 1 */
	FIGURE_RATE,    /* messages a second, over ten seconds */
	FIGURE_SINCE, /* Unix ms: documents and metrics have the time since then; 0: none
		       */
};

/* The documents that have a figure. */
enum figure_shown {
	FIGURE_LIST = 1,
	FIGURE_STATS = 2,
	FIGURE_BOTH = FIGURE_LIST | FIGURE_STATS,
	FIGURE_OF_UNUSABLE = 4, /* known also of a thing that cannot be used */
	FIGURE_OR_ZERO = 8,     /* a FIGURE_SINCE without a time is 0, not left out */
};

struct figure {
	const char *name; /* in documents; NULL: a metric, or a field of scripts alone */
	unsigned shown;
	const char *sort;   /* the key of LIST sort=; NULL: not sorted by it */
	const char *script; /* the field of tide.queue; NULL: none */
	const char *metric; /* without "_total"; NULL: none */
	enum figure_kind kind;
	double (*read)(const void *item); /* NAN: not known */
	const char *help;                 /* of the metric */
};

#define FIGURE_ROWS_MAX 64 /* of a table */

/* All figures of a kind of things. */
struct figure_table {
	const struct figure *rows;
	unsigned count;
};

/* The rank by which LIST sorts: of ages the moments when they began, which do not
 * change while a long list is made. -INFINITY: not known. */
double figure_rank(const struct figure *f, const void *item);
enum exposition_type figure_type(const struct figure *f);
/* The value of the metric, with times in seconds. NAN: not known. */
double figure_metric(const struct figure *f, const void *item, int64_t now_ms);
/* The value that a script sees, with times in ms. NAN: not known. */
double figure_script(const struct figure *f, const void *item, int64_t now_ms);
/* Write the members of one document, in the order of the table.
 *
 * @param shown  FIGURE_LIST or FIGURE_STATS; with FIGURE_OF_UNUSABLE these alone */
void figure_write(const struct figure_table *t, unsigned shown, const void *item,
		  int64_t now_ms, struct json *j);
/* A rate as documents show it. */
double figure_round(double rate);
/* The rows of a table of metrics in the documents. */
void figure_document(const struct figure_table *t, struct buf *out);
