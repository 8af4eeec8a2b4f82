#include "cli_top_view.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define NAME_MIN 16
#define GAP 1
#define CELL_MAX 48 /* bytes of a figure */

static const struct cli_top_column queue_columns[] = {
	{ "QUEUE", "name", CLI_TOP_NAME, 0, 0, 'n', "name", "name" },
	{ "READY", "ready", CLI_TOP_COUNT, 7, 0, 'b', "ready", "backlog: ready" },
	{ "UNACKED", "unacked", CLI_TOP_COUNT, 7, 0, 'u', "unacked", "unacked" },
	{ "DELAYED", "delayed", CLI_TOP_COUNT, 7, 2, 'd', "delayed", "delayed" },
	{ "BURIED", "buried", CLI_TOP_COUNT, 6, 4, 0, "buried", NULL },
	{ "IN/S", "in_10s", CLI_TOP_RATE, 7, 0, 'i', "in", "rate in" },
	{ "OUT/S", "out_10s", CLI_TOP_RATE, 7, 0, 'o', "out", "rate out" },
	{ "OLDEST", "oldest_ready_ms", CLI_TOP_DURATION, 7, 0, 'a', "age",
	  "age of the oldest ready message" },
	{ "CONS", "consumers", CLI_TOP_COUNT, 5, 1, 'm', "consumers", "consumers" },
	{ "STATE", "paused", CLI_TOP_STATE, 8, 3, 0, NULL, NULL },
	{ .title = NULL },
};

static const struct cli_top_column topic_columns[] = {
	{ "TOPIC", "name", CLI_TOP_NAME, 0, 0, 'n', "name", "name" },
	{ "PARTS", "partitions", CLI_TOP_COUNT, 5, 2, 0, "partitions", NULL },
	{ "MESSAGES", "messages", CLI_TOP_COUNT, 8, 0, 'u', "messages", "messages" },
	{ "BYTES", "bytes", CLI_TOP_BYTES, 7, 3, 'd', "bytes", "bytes" },
	{ "IN/S", "in_10s", CLI_TOP_RATE, 7, 0, 'i', "in", "rate in" },
	{ "OUT/S", "out_10s", CLI_TOP_RATE, 7, 0, 'o', "out", "rate out" },
	{ "GROUPS", "groups", CLI_TOP_COUNT, 6, 1, 0, NULL, NULL },
	{ "LAG", "lag", CLI_TOP_COUNT, 8, 0, 'b', "lag",
	  "backlog: lag of the group that is the furthest behind" },
	{ "CONS", "consumers", CLI_TOP_COUNT, 5, 4, 'm', "consumers", "consumers" },
	{ .title = NULL },
};

static const struct cli_top_column connection_columns[] = {
	{ "CONNECTION", "connection", CLI_TOP_COUNT, 10, 0, 'a', "connection", "age" },
	{ "NAME", "name", CLI_TOP_NAME, 0, 0, 'n', "name", "name" },
	{ "USER", "user", CLI_TOP_TEXT, 10, 2, 0, "user", NULL },
	{ "PEER", "peer", CLI_TOP_TEXT, 21, 4, 0, NULL, NULL },
	{ "PROTOCOL", "protocol", CLI_TOP_TEXT, 11, 3, 0, NULL, NULL },
	{ "VHOST", "vhost", CLI_TOP_TEXT, 8, 5, 0, NULL, NULL },
	{ "CHAN", "channels", CLI_TOP_COUNT, 5, 1, 'm', "channels", "channels" },
	{ "PENDING", "pending", CLI_TOP_COUNT, 7, 0, 'u', "pending",
	  "requests without an answer" },
	{ "OUTPUT", "output", CLI_TOP_BYTES, 7, 0, 'b', "output",
	  "backlog: bytes that wait for the client" },
	{ "IN", "bytes_in", CLI_TOP_BYTES, 7, 0, 'i', "bytes_in", "bytes from it" },
	{ "OUT", "bytes_out", CLI_TOP_BYTES, 7, 0, 'o', "bytes_out", "bytes to it" },
	{ .title = NULL },
};

const struct cli_top_view cli_top_view_all[] = {
	{ "queues", 'Q', queue_columns },
	{ "topics", 't', topic_columns },
	{ "connections", 'c', connection_columns },
	{ .name = NULL },
};

const struct cli_top_column *cli_top_view_by_key(const struct cli_top_view *view, int key)
{
	for (const struct cli_top_column *c = view->columns; c->title; c++)
		if (c->key && c->key == key)
			return c;
	return NULL;
}

const struct cli_top_column *cli_top_view_by_sort(const struct cli_top_view *view,
						  const char *sort)
{
	for (const struct cli_top_column *c = view->columns; c->title; c++)
		if (c->sort && strcmp(c->sort, sort) == 0)
			return c;
	return NULL;
}

bool cli_top_view_is_falling(const struct cli_top_column *column)
{
	return column->kind != CLI_TOP_NAME && column->kind != CLI_TOP_TEXT &&
	       strcmp(column->sort, "connection") != 0;
}

/* One code point a column, near enough, as in tables. */
int cli_top_view_clip(const char *text, int width, struct buf *out)
{
	size_t len = strlen(text), i = 0;
	int taken = 0;

	for (; i < len && taken < width; taken++) {
		uint32_t point = (unsigned char)text[i];
		size_t n = point < 0x80 ? 1 : utf8_decode(text + i, len - i, &point);

		if (n == 0 || point < 0x20 || (point >= 0x7f && point < 0xa0)) {
			buf_append_char(out, '.');
			i += n ? n : 1;
			continue;
		}
		buf_append(out, text + i, n);
		i += n;
	}
	return taken;
}

static void pad(struct buf *out, int count)
{
	for (int i = 0; i < count; i++)
		buf_append_char(out, ' ');
}

static void format_large(double n, char out[CELL_MAX])
{
	static const char units[] = " kMGTPE";
	unsigned unit = 0;

	while (n >= 999.5 && unit + 1 < sizeof(units) - 1) {
		n /= 1000;
		unit++;
	}
	snprintf(out, CELL_MAX,
		 n < 9.995   ? "%.2f%c"
		 : n < 99.95 ? "%.1f%c"
			     : "%.0f%c",
		 n, units[unit]);
}

static void format_count(double n, char out[CELL_MAX])
{
	if (n < 1e6)
		snprintf(out, CELL_MAX, "%.0f", n);
	else
		format_large(n, out);
}

static void format_rate(double n, char out[CELL_MAX])
{
	if (n < 99999.95)
		snprintf(out, CELL_MAX, "%.1f", n);
	else
		format_large(n, out);
}

static void format_bytes(double n, char out[CELL_MAX])
{
	static const char units[] = " KMGTPE";
	unsigned unit = 0;

	while (n >= 1023.5 && unit + 1 < sizeof(units) - 1) {
		n /= 1024;
		unit++;
	}
	if (unit == 0)
		snprintf(out, CELL_MAX, "%.0f", n);
	else
		snprintf(out, CELL_MAX, n < 99.95 ? "%.1f%c" : "%.0f%c", n, units[unit]);
}

static void format_duration(double ms, char out[CELL_MAX])
{
	const long long s = (long long)(ms / 1000);

	if (ms < 1000)
		snprintf(out, CELL_MAX, "%.0fms", ms);
	else if (ms < 60000)
		snprintf(out, CELL_MAX, "%.1fs", ms / 1000);
	else if (s < 3600)
		snprintf(out, CELL_MAX, "%lldm%02llds", s / 60, s % 60);
	else if (s < 86400)
		snprintf(out, CELL_MAX, "%lldh%02lldm", s / 3600, s / 60 % 60);
	else
		snprintf(out, CELL_MAX, "%lldd%02lldh", s / 86400, s / 3600 % 24);
}

static const char *state_of(const json_t *row)
{
	const char *paused = json_string_value(json_object_get(row, "paused"));

	if (json_object_get(row, "unusable"))
		return "unusable";
	if (!paused || strcmp(paused, "no") == 0)
		return "-";
	return strcmp(paused, "both") == 0 ? "paused"
	       : strcmp(paused, "in") == 0 ? "no in"
					   : "no out";
}

static const char *cell_of(const struct cli_top_column *c, const json_t *row,
			   char text[CELL_MAX])
{
	static void (*const formats[])(double, char[CELL_MAX]) = {
		[CLI_TOP_COUNT] = format_count,
		[CLI_TOP_RATE] = format_rate,
		[CLI_TOP_BYTES] = format_bytes,
		[CLI_TOP_DURATION] = format_duration,
	};
	const json_t *value = json_object_get(row, c->member);

	if (c->kind == CLI_TOP_STATE)
		return state_of(row);
	if (c->kind == CLI_TOP_NAME || c->kind == CLI_TOP_TEXT)
		return json_is_string(value) ? json_string_value(value) : "-";
	if (!json_is_number(value))
		return "-";
	formats[c->kind](json_number_value(value), text);
	return text;
}

/* What names get, without columns whose `spare` is above the limit. */
static int room_for_name(const struct cli_top_view *view, int width, int spare)
{
	for (const struct cli_top_column *c = view->columns; c->title; c++)
		if (c->kind != CLI_TOP_NAME && c->spare <= spare)
			width -= c->width + GAP;
	return width;
}

static int choose_spare(const struct cli_top_view *view, int width)
{
	int spare = 9;

	while (spare > 0 && room_for_name(view, width, spare) < NAME_MIN)
		spare--;
	return spare;
}

/* A line of cells: titles if there is no row. */
static void append_line(const struct cli_top_view *view, const json_t *row, int width,
			struct buf *out)
{
	int spare = choose_spare(view, width), name = room_for_name(view, width, spare);

	for (const struct cli_top_column *c = view->columns; c->title; c++) {
		bool is_text = c->kind == CLI_TOP_NAME || c->kind == CLI_TOP_TEXT;
		int room = c->kind == CLI_TOP_NAME ? (name < 4 ? 4 : name) : c->width;
		char text[CELL_MAX];
		const char *cell = row ? cell_of(c, row, text) : c->title;
		struct buf clipped = { 0 };
		int taken;

		if (c->spare > spare)
			continue;
		taken = cli_top_view_clip(cell, room, &clipped);
		if (c != view->columns)
			pad(out, GAP);
		if (!is_text)
			pad(out, room - taken);
		buf_append_slice(out, buf_slice(&clipped));
		if (is_text)
			pad(out, room - taken);
		buf_deinit(&clipped);
	}
}

void cli_top_view_titles(const struct cli_top_view *view, int width, struct buf *out)
{
	append_line(view, NULL, width, out);
}

void cli_top_view_row(const struct cli_top_view *view, const json_t *row, int width,
		      struct buf *out)
{
	append_line(view, row, width, out);
}

static double number(const json_t *now, const char *member)
{
	return json_number_value(json_object_get(now, member));
}

static void append_figure(struct buf *out, const char *name, const json_t *now,
			  const struct cli_top_column *c, const char *unit)
{
	char text[CELL_MAX];

	buf_printf(out, "%s%s %s%s", buf_len(out) ? "  " : "", name,
		   cell_of(c, now, text),
		   json_is_number(json_object_get(now, c->member)) ? unit : "");
}

void cli_top_view_head(const json_t *now, int line, struct buf *out)
{
	static const struct {
		const char *name, *member;
		enum cli_top_kind kind;
		const char *unit;
	} figures[CLI_TOP_HEAD_LINES][9] = {
		{ { "in", "published", CLI_TOP_RATE, "/s" },
		  { "out", "delivered", CLI_TOP_RATE, "/s" },
		  { "acked", "acked", CLI_TOP_RATE, "/s" },
		  { "failed", "failed", CLI_TOP_RATE, "/s" },
		  { "ready", "ready", CLI_TOP_COUNT, "" },
		  { "unacked", "unacked", CLI_TOP_COUNT, "" },
		  { "delayed", "delayed", CLI_TOP_COUNT, "" },
		  { "buried", "buried", CLI_TOP_COUNT, "" } },
		{ { "oldest", "oldest_ready_ms", CLI_TOP_DURATION, "" },
		  { "connections", "connections", CLI_TOP_COUNT, "" },
		  { "memory", "memory_bytes", CLI_TOP_BYTES, "" },
		  { "unstored", "unstored_bytes", CLI_TOP_BYTES, "" },
		  { "store", "store_ms", CLI_TOP_RATE, "ms" } },
	};

	for (int i = 0; figures[line][i].unit; i++) {
		const struct cli_top_column column = { .member = figures[line][i].member,
						       .kind = figures[line][i].kind };

		append_figure(out, figures[line][i].name, now, &column,
			      figures[line][i].unit);
	}
	if (line == 1)
		buf_printf(out, "  loop %.1f%%", 100 * number(now, "loop_busy"));
}

bool cli_top_view_help(const struct cli_top_view *view, int line, struct buf *out)
{
	static const char *const keys[] = {
		"r         reverse the order",
		"/         only names with a part; Enter takes it, Esc leaves it",
		"Q t c     queues, topics, connections",
		"v         another vhost",
		"arrows, PgUp, PgDn, Home   other rows",
		"p         pause the display; space asks once",
		"?         this page; any key leaves it",
		"q         quit",
	};
	const struct cli_top_column *c;

	for (c = view->columns; c->title; c++)
		if (c->key && line-- == 0)
			break;
	if (c->title)
		buf_printf(out, "%c         sort by %s", c->key, c->what);
	else if (line < (int)(sizeof(keys) / sizeof(keys[0])))
		buf_append_text(out, keys[line]);
	else
		return false;
	return true;
}
