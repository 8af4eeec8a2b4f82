#include "cli_table.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#define COLUMNS_MAX 24
#define NAME_MAX_BYTES 32
#define CELL_WIDTH_MAX 60
#define CELL_WIDTH_MIN 24 /* not shortened further to fit a line: ids, hashes, times */
#define GAP 2
#define FOLD_INDENT 4 /* of the further lines of a row */
#define DEPTH_MAX 32  /* of objects and lists in each other */

enum unit { NO_UNIT, TIME, DURATION, PAYLOAD, DECISION };

struct column {
	char name[NAME_MAX_BYTES];
	char title[NAME_MAX_BYTES]; /* "": made from the name */
	enum unit unit;
	bool is_optional; /* left out also when all values are 0 */
	bool is_wide;     /* left out also when a row would not fit */
};

struct columns {
	size_t count;
	struct column items[COLUMNS_MAX];
};

struct cell {
	struct buf text;
	bool is_number;
};

/* "name:unit/title?+" */
static struct column parse_column(const char *text, size_t len)
{
	static const char *const units[] = { [TIME] = ":time",
					     [DURATION] = ":duration",
					     [PAYLOAD] = ":payload",
					     [DECISION] = ":decision" };
	struct column c = { .is_optional = memchr(text, '?', len) != NULL,
			    .is_wide = memchr(text, '+', len) != NULL };
	size_t name_len = strcspn(text, ":/?+ ");
	const char *title = memchr(text, '/', len);

	snprintf(c.name, sizeof(c.name), "%.*s", (int)name_len, text);
	if (title)
		snprintf(c.title, sizeof(c.title), "%.*s", (int)strcspn(title + 1, "?+ "),
			 title + 1);
	for (enum unit unit = TIME; unit <= DECISION; unit++)
		if (strncmp(text + name_len, units[unit], strlen(units[unit])) == 0)
			c.unit = unit;
	return c;
}

static void parse_columns(const char *list, struct columns *out)
{
	out->count = 0;
	while (list && *list && out->count < COLUMNS_MAX) {
		size_t len = strcspn(list, " ");

		out->items[out->count++] = parse_column(list, len);
		list += len + (list[len] == ' ');
	}
}

static enum unit unit_of(const struct columns *units, const char *name)
{
	for (size_t i = 0; units && i < units->count; i++)
		if (strcmp(units->items[i].name, name) == 0)
			return units->items[i].unit;
	return NO_UNIT;
}

/* Bytes of messages must not drive the terminal. */
static void append_printable(struct buf *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		bool is_c1 =
			c == 0xc2 && i + 1 < len && (unsigned char)text[i + 1] < 0xa0;

		if (is_c1)
			i++;
		buf_append_char(out, c < 0x20 || c == 0x7f || is_c1 ? '.' : text[i]);
	}
}

static void append_time(struct buf *out, json_int_t unix_ms)
{
	time_t seconds = (time_t)(unix_ms / 1000);
	struct tm tm;
	char text[32];

	if (unix_ms <= 0 || !gmtime_r(&seconds, &tm) ||
	    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm) == 0) {
		buf_append_char(out, '-');
		return;
	}
	buf_printf(out, "%s.%03dZ", text, (int)(unix_ms % 1000));
}

/* A duration for reading: 250ms, 43.216s, 5h2m1s. */
static void append_duration(struct buf *out, json_int_t ms)
{
	static const struct {
		json_int_t ms;
		char unit;
	} units[] = { { 86400000, 'd' }, { 3600000, 'h' }, { 60000, 'm' } };
	if (ms < 1000) {
		buf_printf(out, ms == 0 ? "0s" : "%" JSON_INTEGER_FORMAT "ms", ms);
		return;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (ms >= units[i].ms)
			buf_printf(out, "%" JSON_INTEGER_FORMAT "%c", ms / units[i].ms,
				   units[i].unit);
		ms %= units[i].ms;
	}
	if (ms % 1000)
		buf_printf(out, "%d.%03ds", (int)(ms / 1000), (int)(ms % 1000));
	else if (ms > 0)
		buf_printf(out, "%ds", (int)(ms / 1000));
}

static void append_integer(struct buf *out, enum unit unit, json_int_t n)
{
	if (unit == TIME)
		append_time(out, n);
	else if (unit == DURATION)
		append_duration(out, n);
	else
		buf_printf(out, "%" JSON_INTEGER_FORMAT, n);
}

static void append_value(struct buf *out, const struct columns *units, enum unit unit,
			 const json_t *value, int depth);

static void append_list(struct buf *out, const struct columns *units, const json_t *array,
			int depth)
{
	size_t i;
	json_t *item;

	json_array_foreach(array, i, item)
	{
		if (i > 0)
			buf_append_text(out, ", ");
		append_value(out, units, NO_UNIT, item, depth);
	}
}

static void append_members(struct buf *out, const struct columns *units, json_t *object,
			   int depth)
{
	size_t start = buf_len(out);
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
	{
		if (buf_len(out) > start)
			buf_append_char(out, ' ');
		append_printable(out, name, strlen(name));
		buf_append_char(out, '=');
		if (!json_is_string(value) || json_string_length(value) > 0)
			append_value(out, units, unit_of(units, name), value, depth);
	}
}

/* "a|b": the first of these members that is there; "-" without one. */
static void add_member(struct buf *out, struct slice names, const json_t *object)
{
	const json_t *value = NULL;

	while (!value && names.len > 0) {
		struct slice name = slice_cut(&names, '|');

		value = json_object_getn(object, name.data, name.len);
		value = json_is_null(value) ? NULL : value;
	}
	if (json_is_integer(value))
		buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_number(value))
		buf_printf(out, "%g", json_number_value(value));
	else
		buf_append_text(out,
				json_is_string(value) ? json_string_value(value) : "-");
}

/* Returns what follows the template, which ends with the text or before a ']'. */
static const char *add_template(struct buf *out, const char *text, const json_t *object,
				bool is_shown)
{
	size_t len;

	while (*text && *text != ']') {
		len = strcspn(text + 1, *text == '[' ? "?!" : "}");
		if (*text == '[') {
			const json_t *value = json_object_getn(object, text + 1, len);
			bool has = value && !json_is_null(value);

			text = add_template(out, text + len + 2, object,
					    is_shown && has == (text[len + 1] == '?'));
			text += *text == ']';
		} else if (*text == '{') {
			if (is_shown)
				add_member(out, (struct slice){ text + 1, len }, object);
			text += len + 2;
		} else {
			if (is_shown)
				buf_append_char(out, *text);
			text++;
		}
	}
	return text;
}

void cli_table_fill(struct buf *out, const char *text, const json_t *object)
{
	add_template(out, text, object, true);
}

void cli_table_join(struct buf *out, const char *text, const json_t *array)
{
	for (size_t i = 0; i < json_array_size(array); i++) {
		buf_append_text(out, i ? ", " : "");
		cli_table_fill(out, text, json_array_get(array, i));
	}
}

/* "jobs (shard 0, rank 0), 3 more", or why not. */
static void append_decision(struct buf *out, const json_t *decision)
{
	const json_t *queues = json_object_get(decision, "queues"), *queue;
	json_int_t more = json_integer_value(json_object_get(decision, "count")) -
			  (json_int_t)json_array_size(queues);
	size_t i;

	json_array_foreach(queues, i, queue)
	{
		const char *name = cli_table_text(queue, "queue", "");

		buf_append_text(out, i ? ", " : "");
		append_printable(out, name, strlen(name));
		cli_table_fill(out,
			       "[partition? (partition {partition})]"
			       "[partition! (shard {shard}, rank {rank})]",
			       queue);
	}
	if (more > 0)
		buf_printf(out, ", %" JSON_INTEGER_FORMAT " more", more);
	else if (i == 0)
		buf_append_text(out, "no queue");
}

static bool is_failure(const json_t *decision)
{
	return json_object_get(decision, "code") != NULL;
}

static void append_failure(struct buf *out, const json_t *decision)
{
	const char *error = cli_table_text(decision, "error", "");

	buf_printf(out, "%s: ", cli_table_text(decision, "code", ""));
	append_printable(out, error, strlen(error));
}

/* Append a value in one line; lists and objects only down to DEPTH_MAX. */
static void append_value(struct buf *out, const struct columns *units, enum unit unit,
			 const json_t *value, int depth)
{
	size_t before = buf_len(out);

	if (json_is_string(value))
		append_printable(out, json_string_value(value),
				 json_string_length(value));
	else if (json_is_integer(value))
		append_integer(out, unit, json_integer_value(value));
	else if (json_is_real(value))
		buf_printf(out, "%.6g", json_real_value(value));
	else if (json_is_boolean(value))
		buf_append_text(out, json_is_true(value) ? "yes" : "no");
	else if (!json_is_null(value) && depth == DEPTH_MAX)
		buf_append_text(out, "...");
	else if (json_is_array(value))
		append_list(out, units, value, depth + 1);
	else if (unit == DECISION && is_failure(value))
		append_failure(out, value);
	else if (unit == DECISION && json_object_get(value, "queues"))
		append_decision(out, value);
	else if (json_is_object(value))
		append_members(out, units, (json_t *)(uintptr_t)value, depth + 1);
	if (buf_len(out) == before)
		buf_append_char(out, '-');
}

static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Columns on a terminal, near enough: one a code point. */
static size_t width(const struct cell *cell)
{
	struct slice s = buf_slice(&cell->text);
	size_t n = 0;

	for (size_t i = 0; i < s.len; i++)
		n += !is_continuation(s.data[i]);
	return n;
}

/* A table shows how a long text begins. @param max  3 or more */
static void shorten(struct cell *cell, size_t max)
{
	struct slice s = buf_slice(&cell->text);
	size_t points = 0, i = 0;

	if (width(cell) <= max)
		return;
	for (; i < s.len; i++)
		if (!is_continuation(s.data[i]) && points++ == max - 3)
			break;
	cell->text.end = cell->text.start + i;
	buf_append_text(&cell->text, "...");
}

/* Behind so many code points. */
static size_t skip_points(struct slice s, size_t count)
{
	size_t i = 0;

	for (; i < s.len; i++)
		if (!is_continuation(s.data[i]) && count-- == 0)
			break;
	return i;
}

/* Of a name the end tells as much as the beginning. */
static void shorten_name(struct cell *cell, size_t max)
{
	struct slice s = buf_slice(&cell->text);
	size_t points = width(cell), head = (max - 3) / 2, tail = max - 3 - head;
	struct buf out = { 0 };

	if (points <= max)
		return;
	buf_append(&out, s.data, skip_points(s, head));
	buf_append_text(&out, "...");
	buf_append_slice(&out, slice_skip(s, skip_points(s, points - tail)));
	buf_deinit(&cell->text);
	cell->text = out;
}

/* A payload that is not UTF-8 stands in a member of its own. */
static const json_t *member_of(const json_t *object, const struct column *c)
{
	const json_t *value = json_object_get(object, c->name);

	return value || c->unit != PAYLOAD ? value
					   : json_object_get(object, "payload_base64");
}

static void fill_cell(struct cell *cell, const json_t *object, const struct column *c,
		      const struct columns *units)
{
	const json_t *value = member_of(object, c);

	if (value)
		append_value(&cell->text, units, c->unit, value, 0);
	else
		buf_append_char(&cell->text, '-');
	cell->is_number = json_is_number(value) && c->unit != TIME;
	if (c->unit == PAYLOAD)
		shorten(cell, CELL_WIDTH_MAX);
}

static void fill_title(struct cell *cell, const struct column *c)
{
	const char *title = c->title[0] ? c->title : c->name;
	size_t len = strlen(title);

	/* The values have their unit with them. */
	if (c->unit && len > 3 && strcmp(title + len - 3, "_ms") == 0)
		len -= 3;
	for (size_t i = 0; i < len; i++)
		buf_append_char(&cell->text,
				title[i] == '_' ? ' ' : (char)toupper(title[i]));
}

static void print_cell(const struct cell *cell, size_t column_width, bool is_last)
{
	struct slice s = buf_slice(&cell->text);
	int padding = (int)(column_width - width(cell));

	if (cell->is_number)
		printf("%*s", padding, "");
	fwrite(s.data, 1, s.len, stdout);
	if (!is_last)
		printf("%*s", (cell->is_number ? 0 : padding) + GAP, "");
}

/* Of the terminal, as $COLUMNS or the terminal itself has it; 0: there is none. */
static size_t line_width(void)
{
	const char *given = getenv("COLUMNS");
	struct winsize size;
	uint64_t columns;

	if (given && slice_to_uint(slice_from(given), 10000, &columns))
		return (size_t)columns;
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* A table on the terminal: its columns, and where its lines begin. */
struct layout {
	size_t columns;
	size_t widths[COLUMNS_MAX];
	bool begins_line[COLUMNS_MAX]; /* all but the first begin a further line */
	int indent;
};

/* Take from the widest columns of texts until a line has the width, and nothing from the
 * first column: it says what a row is about.
 *
 * @return  false, and nothing is changed: they would have to be narrower than
 *          CELL_WIDTH_MIN */
static bool fit(struct layout *l, const struct cell *last_row, size_t room)
{
	struct layout fitted = *l;
	size_t used = 0;

	for (size_t i = 0; i < l->columns; i++)
		used += l->widths[i] + (i ? GAP : 0);
	while (used > room) {
		size_t widest = l->columns;

		for (size_t i = 1; i < l->columns; i++)
			if (!last_row[i].is_number && fitted.widths[i] > CELL_WIDTH_MIN &&
			    (widest == l->columns ||
			     fitted.widths[i] > fitted.widths[widest]))
				widest = i;
		if (widest == l->columns)
			return false;
		fitted.widths[widest]--;
		used--;
	}
	*l = fitted;
	return true;
}

/* Give a row as many lines as it needs. What is too wide for one is wrapped. */
static void fold(struct layout *l, size_t room)
{
	size_t used = 0;

	for (size_t i = 0; i < l->columns; i++) {
		size_t longest = room > FOLD_INDENT + CELL_WIDTH_MIN ? room - FOLD_INDENT
								     : CELL_WIDTH_MIN;

		if (l->widths[i] > longest)
			l->widths[i] = longest;
		l->begins_line[i] = i > 0 && used + GAP + l->widths[i] > room;
		used = l->begins_line[i] ? FOLD_INDENT + l->widths[i]
					 : used + (i ? GAP : 0) + l->widths[i];
	}
}

static void measure(struct layout *l, struct cell *cells, size_t rows)
{
	for (size_t i = 0; i < rows * l->columns; i++) {
		size_t w = width(&cells[i]);

		if (w > l->widths[i % l->columns])
			l->widths[i % l->columns] = w;
		/* A title stands over its numbers. */
		if (i < l->columns && rows > 1)
			cells[i].is_number = cells[i + l->columns].is_number;
	}
}

static void lay_out(struct layout *l, struct cell *cells, size_t rows)
{
	size_t room = line_width();

	measure(l, cells, rows);
	if (room <= (size_t)l->indent)
		return;
	room -= (size_t)l->indent;
	if (!fit(l, cells + (rows - 1) * l->columns, room))
		fold(l, room);
}

/* Is anything in the line that begins with this cell? */
static bool has_content(const struct layout *l, const struct cell *row, size_t column)
{
	do {
		if (!slice_is_equal(buf_slice(&row[column].text), SLICE("-")))
			return true;
	} while (++column < l->columns && !l->begins_line[column]);
	return false;
}

/* How many bytes go into a line of so many code points, at a blank if there is one. */
static size_t wrap_at(struct slice s, size_t max)
{
	size_t points = 0, blank = 0, i = 0;

	for (; i < s.len; i++) {
		if (!is_continuation(s.data[i]) && points++ == max)
			return blank ? blank : i;
		if (s.data[i] == ' ')
			blank = i;
	}
	return i;
}

/* A text that has lines of its own. */
static void print_wrapped(const struct cell *cell, size_t max, int indent)
{
	struct slice s = buf_slice(&cell->text);

	for (;;) {
		size_t len = wrap_at(s, max);

		fwrite(s.data, 1, len, stdout);
		if (len < s.len && s.data[len] == ' ')
			len++;
		s = slice_skip(s, len);
		putchar('\n');
		if (s.len == 0)
			return;
		printf("%*s", indent, "");
	}
}

static void print_row(const struct layout *l, struct cell *row)
{
	bool is_shown = true;

	for (size_t i = 0; i < l->columns; i++) {
		bool is_last = i + 1 == l->columns || l->begins_line[i + 1];
		bool is_alone = is_last && l->begins_line[i];

		if (i == 0 || l->begins_line[i]) {
			is_shown = i == 0 || has_content(l, row, i);
			if (is_shown)
				printf("%*s", l->indent + (i ? FOLD_INDENT : 0), "");
		}
		if (!is_shown)
			continue;
		if (is_alone && width(&row[i]) > l->widths[i]) {
			print_wrapped(&row[i], l->widths[i], l->indent + FOLD_INDENT);
			continue;
		}
		shorten(&row[i], l->widths[i]);
		print_cell(&row[i], l->widths[i], is_last);
		if (is_last)
			putchar('\n');
	}
}

static void print_rows(struct cell *cells, size_t rows, size_t columns, int indent)
{
	struct layout l = { .columns = columns, .indent = indent };

	lay_out(&l, cells, rows);
	for (size_t i = 0; i < rows; i++)
		print_row(&l, cells + i * columns);
}

static bool is_empty(const json_t *value, const struct column *c)
{
	if (json_is_string(value))
		return json_string_length(value) == 0;
	if (json_is_array(value) || json_is_object(value))
		return json_array_size(value) + json_object_size(value) == 0;
	if (json_is_number(value))
		return c->is_optional && json_number_value(value) == 0;
	return !value || json_is_null(value);
}

static bool has_column(const json_t *array, const struct column *c)
{
	for (size_t i = 0; i < json_array_size(array); i++)
		if (!is_empty(member_of(json_array_get(array, i), c), c))
			return true;
	return json_array_size(array) == 0 && !c->is_optional;
}

static void leave_out_columns(const json_t *array, struct columns *columns)
{
	size_t count = 0;

	for (size_t i = 0; i < columns->count; i++)
		if (has_column(array, &columns->items[i]))
			columns->items[count++] = columns->items[i];
	columns->count = count;
}

/* The title and a row for each item; for free_cells. */
static struct cell *fill_cells(const json_t *array, const struct columns *columns,
			       const struct columns *units)
{
	size_t count = columns->count, rows = json_array_size(array) + 1;
	struct cell *cells = mem_zalloc(rows * count * sizeof(*cells));

	for (size_t i = 0; i < count; i++)
		fill_title(&cells[i], &columns->items[i]);
	for (size_t i = count; i < rows * count; i++)
		fill_cell(&cells[i], json_array_get(array, i / count - 1),
			  &columns->items[i % count], units);
	return cells;
}

static void free_cells(struct cell *cells, size_t count)
{
	for (size_t i = 0; i < count; i++)
		buf_deinit(&cells[i].text);
	mem_free(cells);
}

static bool is_fitting(struct cell *cells, size_t rows, size_t columns)
{
	struct layout l = { .columns = columns };
	size_t room = line_width();

	measure(&l, cells, rows);
	return room == 0 || fit(&l, cells + (rows - 1) * columns, room);
}

/* Leave out the last of the columns for --wide. False: there is none. */
static bool drop_wide(struct columns *columns, struct buf *dropped)
{
	size_t last = columns->count;

	while (last > 0 && !columns->items[last - 1].is_wide)
		last--;
	if (last == 0)
		return false;
	buf_printf(dropped, "%s%s", buf_len(dropped) ? ", " : "",
		   columns->items[last - 1].title[0] ? columns->items[last - 1].title
						     : columns->items[last - 1].name);
	memmove(columns->items + last - 1, columns->items + last,
		(columns->count - last) * sizeof(columns->items[0]));
	columns->count--;
	return true;
}

/* Cut the names of the first column if that is all that a row needs to fit. */
static bool cut_names(struct cell *cells, size_t rows, size_t columns)
{
	struct layout l = { .columns = columns };
	size_t room = line_width(), others = 0;

	measure(&l, cells, rows);
	for (size_t i = 1; i < columns; i++)
		others += GAP + (cells[i + (rows - 1) * columns].is_number ||
						 l.widths[i] < CELL_WIDTH_MIN
					 ? l.widths[i]
					 : CELL_WIDTH_MIN);
	if (room < others + CELL_WIDTH_MIN || l.widths[0] <= room - others)
		return false;
	for (size_t i = 0; i < rows; i++)
		shorten_name(&cells[i * columns], room - others);
	return true;
}

static void print_array(const json_t *array, const struct cli_table_view *view,
			const char *members, const struct columns *units, int indent)
{
	size_t rows = json_array_size(array) + 1;
	struct buf dropped = { 0 };
	struct columns columns;
	struct cell *cells;

	parse_columns(members, &columns);
	leave_out_columns(array, &columns);
	cells = fill_cells(array, &columns, units);
	while (!view->is_wide && !is_fitting(cells, rows, columns.count)) {
		size_t count = rows * columns.count;

		if (!drop_wide(&columns, &dropped)) {
			if (cut_names(cells, rows, columns.count))
				buf_printf(&dropped, "%swhole names",
					   buf_len(&dropped) ? ", " : "");
			break;
		}
		free_cells(cells, count);
		cells = fill_cells(array, &columns, units);
	}
	print_rows(cells, rows, columns.count, indent);
	free_cells(cells, rows * columns.count);
	if (buf_len(&dropped))
		fprintf(stderr, "--wide shows also: %s\n", buf_cstr(&dropped));
	buf_deinit(&dropped);
}

static const char *columns_of(const struct cli_table_view *view, const char *member)
{
	const struct cli_table_array *a = view->arrays;

	while (a->member && strcmp(a->member, member) != 0)
		a++;
	return a->columns;
}

static void print_name(const char *name, size_t column_width, int indent)
{
	struct cell cell = { .is_number = false };

	append_printable(&cell.text, name, strlen(name));
	printf("%*s", indent, "");
	print_cell(&cell, column_width ? column_width : width(&cell), column_width == 0);
	buf_deinit(&cell.text);
}

static void print_line(const json_t *value, enum unit unit, const struct columns *units)
{
	struct buf text = { 0 };

	append_value(&text, units, unit, value, 0);
	puts(buf_cstr(&text));
	buf_deinit(&text);
}

static void print_members(json_t *object, const struct cli_table_view *view,
			  const struct columns *units, int indent)
{
	const char *name;
	json_t *value;
	size_t longest = 0;

	json_object_foreach(object, name, value)
	{
		if (strlen(name) > longest)
			longest = strlen(name);
	}
	json_object_foreach(object, name, value)
	{
		const char *columns = columns_of(view, name);
		bool is_table = columns && json_array_size(value) > 0;
		bool is_nested = is_table || (json_object_size(value) > 0 &&
					      indent < DEPTH_MAX * GAP);

		print_name(name, is_nested ? 0 : longest, indent);
		if (is_nested)
			putchar('\n');
		if (is_table)
			print_array(value, view, columns, units, indent + GAP);
		else if (is_nested)
			print_members(value, view, units, indent + GAP);
		else
			print_line(value, unit_of(units, name), units);
	}
}

int cli_table_print_take(json_t *document, const struct cli_table_view *view)
{
	const json_t *table =
		view->array ? json_object_get(document, view->array) : document;
	int status = CLI_DONE;
	struct columns units;

	parse_columns(view->units, &units);
	if (view->columns && json_is_array(table)) {
		print_array(table, view, view->columns, &units, 0);
	} else if (!view->columns && json_is_object(document)) {
		if (view->without)
			json_object_del(document, view->without);
		print_members(document, view, &units, 0);
	} else {
		status =
			cli_failure("cannot read the broker's document; --json shows it");
	}
	json_decref(document);
	return status;
}

json_t *cli_table_parse(struct cli *cli, const struct tidemq_reply *reply)
{
	json_t *document = json_loadb(reply->text, reply->len, 0, NULL);

	if (!document)
		cli->status = cli_failure("the broker's answer is not JSON");
	return document;
}

json_t *cli_table_ask_document(struct cli *cli)
{
	struct tidemq_reply reply;

	if (cli_ask(cli, &reply) != CLI_DONE)
		return NULL;
	if (reply.is_document && !cli->json)
		return cli_table_parse(cli, &reply);
	if (reply.is_document)
		puts(reply.text);
	else
		puts(cli->json ? "{\"ok\":true}" : "OK");
	return NULL;
}

const char *cli_table_text(const json_t *object, const char *name, const char *fallback)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : fallback;
}
