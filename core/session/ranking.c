#include "ranking.h"

#include <string.h>

#include "base/mem.h"

void ranking_init(struct ranking *r, size_t max, bool is_by_name, bool is_descending)
{
	*r = (struct ranking){ .max = max,
			       .is_by_name = is_by_name,
			       .is_descending = is_descending };
}

static void drop(struct ranking_row *row)
{
	mem_free(row->name);
	mem_free(row->text);
}

void ranking_deinit(struct ranking *r)
{
	for (size_t i = 0; i < r->count; i++)
		drop(&r->rows[i]);
	mem_free(r->rows);
	*r = (struct ranking){ 0 };
}

static int compare_names(const struct ranking_row *a, const struct ranking_row *b)
{
	size_t len = a->name_len < b->name_len ? a->name_len : b->name_len;
	int rc = len ? memcmp(a->name, b->name, len) : 0;

	if (rc == 0)
		rc = (a->name_len > b->name_len) - (a->name_len < b->name_len);
	return rc;
}

static bool comes_before(const struct ranking *r, const struct ranking_row *a,
			 const struct ranking_row *b)
{
	int rc;

	if (!r->is_by_name && a->figure != b->figure)
		return (a->figure < b->figure) != r->is_descending;
	rc = compare_names(a, b);
	if (rc != 0)
		return (rc < 0) != (r->is_by_name && r->is_descending);
	return a->number < b->number;
}

static void swap(struct ranking_row *a, struct ranking_row *b)
{
	struct ranking_row kept = *a;

	*a = *b;
	*b = kept;
}

/* The last one of the first `count` rows is at the top. */
static void sift_down(struct ranking *r, size_t count)
{
	struct ranking_row *rows = r->rows;
	size_t at = 0, child;

	while ((child = 2 * at + 1) < count) {
		if (child + 1 < count && comes_before(r, &rows[child], &rows[child + 1]))
			child++;
		if (!comes_before(r, &rows[at], &rows[child]))
			return;
		swap(&rows[at], &rows[child]);
		at = child;
	}
}

static void sift_up(struct ranking *r, size_t at)
{
	struct ranking_row *rows = r->rows;

	while (at > 0 && comes_before(r, &rows[(at - 1) / 2], &rows[at])) {
		swap(&rows[(at - 1) / 2], &rows[at]);
		at = (at - 1) / 2;
	}
}

bool ranking_wants(const struct ranking *r, double figure, struct slice name)
{
	const struct ranking_row row = { .figure = figure,
					 .number = r->offered,
					 .name = (char *)name.data,
					 .name_len = name.len };

	return r->count < r->max || (r->max > 0 && comes_before(r, &row, &r->rows[0]));
}

void ranking_add(struct ranking *r, double figure, struct slice name, struct slice text)
{
	const struct ranking_row row = {
		.figure = figure,
		.number = r->offered++,
		.name = mem_strndup(name.data, name.len),
		.name_len = name.len,
		.text = text.data ? mem_strndup(text.data, text.len) : NULL,
		.text_len = text.len,
	};

	if (r->count < r->max) {
		MEM_GROW(r->rows, r->count, r->cap, 64);
		r->rows[r->count++] = row;
		sift_up(r, r->count - 1);
	} else {
		drop(&r->rows[0]);
		r->rows[0] = row;
		sift_down(r, r->count);
	}
}

bool ranking_sort(struct ranking *r)
{
	if (!r->is_sorting) {
		r->is_sorting = true;
		r->unsorted = r->count;
	}
	if (r->unsorted < 2)
		return false;
	swap(&r->rows[0], &r->rows[--r->unsorted]);
	sift_down(r, r->unsorted);
	return true;
}
