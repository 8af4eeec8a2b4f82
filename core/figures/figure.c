#include "figure.h"

#include <math.h>
#include <string.h>

double figure_round(double rate)
{
	return round(10 * rate) / 10;
}

static double age_ms(double since_ms, int64_t now_ms)
{
	return since_ms > 0 && since_ms < (double)now_ms ? (double)now_ms - since_ms : 0;
}

double figure_rank(const struct figure *f, const void *item)
{
	double value = f->read(item);

	if (isnan(value) || (f->kind == FIGURE_SINCE && value == 0))
		return -INFINITY;
	return f->kind == FIGURE_SINCE ? -value : value;
}

double figure_script(const struct figure *f, const void *item, int64_t now_ms)
{
	double value = f->read(item);

	return f->kind == FIGURE_SINCE && !isnan(value) ? age_ms(value, now_ms) : value;
}

enum exposition_type figure_type(const struct figure *f)
{
	return f->kind == FIGURE_COUNTER ? EXPOSITION_COUNTER : EXPOSITION_GAUGE;
}

double figure_metric(const struct figure *f, const void *item, int64_t now_ms)
{
	double value = figure_script(f, item, now_ms);

	return f->kind == FIGURE_SINCE ? value / 1000 : value;
}

static void write_one(const struct figure *f, double value, int64_t now_ms,
		      struct json *j)
{
	if (f->kind == FIGURE_FLAG)
		json_member_bool(j, f->name, value != 0);
	else if (f->kind == FIGURE_RATE)
		json_member_number(j, f->name, figure_round(value));
	else if (f->kind != FIGURE_SINCE)
		json_member_int(j, f->name, (int64_t)value);
	else if (value > 0 || f->shown & FIGURE_OR_ZERO)
		json_member_int(j, f->name, (int64_t)age_ms(value, now_ms));
}

void figure_write(const struct figure_table *t, unsigned shown, const void *item,
		  int64_t now_ms, struct json *j)
{
	for (const struct figure *f = t->rows; f < t->rows + t->count; f++) {
		double value;

		if ((f->shown & shown) != shown)
			continue;
		value = f->read(item);
		if (!isnan(value))
			write_one(f, value, now_ms, j);
	}
}

static const char *unit_of(const struct figure *f)
{
	const char *last = strrchr(f->metric, '_');

	if (f->kind == FIGURE_SINCE)
		return "s";
	if (f->kind == FIGURE_FLAG)
		return "0, 1";
	return strcmp(last, "_bytes") == 0 ? "bytes" : "number";
}

void figure_document(const struct figure_table *t, struct buf *out)
{
	buf_append_text(out, "| metric | type | unit | meaning |\n"
			     "| --- | --- | --- | --- |\n");
	for (const struct figure *f = t->rows; f < t->rows + t->count; f++) {
		bool is_counter = f->kind == FIGURE_COUNTER;

		if (f->metric)
			buf_printf(out, "| `%s%s` | %s | %s | %s |\n", f->metric,
				   is_counter ? "_total" : "",
				   is_counter ? "counter" : "gauge", unit_of(f), f->help);
	}
}
