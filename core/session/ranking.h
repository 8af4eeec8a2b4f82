/* ranking.h: the first so many of many rows, in the order of a figure or of their names.
 *
 * Rows are offered in any order. Of all that were offered, the ranking keeps those that
 * come first. Rows with equal figures are in the order of their names, and those with
 * equal names in the order in which they were offered. */
#pragma once

#include <stdbool.h>

#include "base/slice.h"

struct ranking_row {
	double figure;
	uint64_t number; /* in the order of the offers */
	char *name;      /* owned, like the text */
	size_t name_len;
	char *text; /* what the owner keeps with it; may be NULL */
	size_t text_len;
};

struct ranking {
	struct ranking_row *rows; /* in order once ranking_sort has returned false */
	size_t count;
	size_t cap;
	size_t max; /* rows that are kept */
	bool is_by_name;
	bool is_descending;
	uint64_t offered;
	size_t unsorted; /* rows at the front that are a heap still */
	bool is_sorting;
};

void ranking_init(struct ranking *r, size_t max, bool is_by_name, bool is_descending);
void ranking_deinit(struct ranking *r);
/* The row that is offered next would be kept, until a better one comes. */
bool ranking_wants(const struct ranking *r, double figure, struct slice name);
/* Keep it, in place of another if there are too many. Name and text are copied; the text
 * may have no data. */
void ranking_add(struct ranking *r, double figure, struct slice name, struct slice text);
/* A row that is not kept. */
static inline void ranking_pass(struct ranking *r)
{
	r->offered++;
}
/* When all were offered: a step of the sorting. False: there was nothing left to do. */
bool ranking_sort(struct ranking *r);
