/* cli_table.c: JSON documents as aligned text. */
#include <inttypes.h>
#include <time.h>

#include <jansson.h>

#include "base/mem.h"
#include "cli.h"

#define COLUMNS_MAX 16
#define CELL_WIDTH_MAX 60
#define GAP 2

struct cell {
	struct buf text;
	bool is_number;
};

/* ---- values as text ------------------------------------------------------ */

/* What comes from messages must not drive the terminal. */
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

static bool is_time(const char *name)
{
	static const char *const names[] = { "ts", "due", "expires", "connected" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool is_milliseconds(const char *name)
{
	size_t len = strlen(name);
	return strcmp(name, "ms") == 0 || (len > 3 && strcmp(name + len - 3, "_ms") == 0);
}

/* Milliseconds above this are a time since 1970, below it a duration: 31 years
 * (a delay has at most ten), or 2001. */
#define DURATION_OR_TIME_MS INT64_C(1000000000000)

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

static void append_integer(struct buf *out, const char *name, json_int_t n)
{
	if (is_time(name) || (is_milliseconds(name) && n >= DURATION_OR_TIME_MS)) {
		append_time(out, n);
	} else if (is_milliseconds(name)) {
		append_duration(out, n);
	} else {
		buf_printf(out, "%" JSON_INTEGER_FORMAT, n);
	}
}

static void append_value(struct buf *out, const char *name, const json_t *value);

static void append_list(struct buf *out, const json_t *array)
{
	for (size_t i = 0; i < json_array_size(array); i++) {
		if (i > 0)
			buf_append_text(out, ", ");
		append_value(out, "", json_array_get(array, i));
	}
}

static void append_members(struct buf *out, json_t *object)
{
	const char *name;
	json_t *value;
	bool is_first = true;
	json_object_foreach(object, name, value)
	{
		if (!is_first)
			buf_append_char(out, ' ');
		is_first = false;
		append_printable(out, name, strlen(name));
		buf_append_char(out, '=');
		if (!json_is_string(value) || json_string_length(value) > 0)
			append_value(out, name, value);
	}
}

static void append_value(struct buf *out, const char *name, const json_t *value)
{
	size_t before = buf_len(out);
	switch (json_typeof(value)) {
	case JSON_STRING:
		append_printable(out, json_string_value(value),
				 json_string_length(value));
		break;
	case JSON_INTEGER:
		append_integer(out, name, json_integer_value(value));
		break;
	case JSON_REAL:
		buf_printf(out, "%.6g", json_real_value(value));
		break;
	case JSON_TRUE:
		buf_append_text(out, "yes");
		break;
	case JSON_FALSE:
		buf_append_text(out, "no");
		break;
	case JSON_ARRAY:
		append_list(out, value);
		break;
	case JSON_OBJECT:
		append_members(out, (json_t *)(uintptr_t)value);
		break;
	case JSON_NULL:
		break;
	}
	if (buf_len(out) == before)
		buf_append_char(out, '-');
}

/* ---- tables -------------------------------------------------------------- */

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

/* Payloads can be long; a table shows how they begin. */
static void shorten(struct cell *cell)
{
	struct slice s = buf_slice(&cell->text);
	size_t points = 0, i = 0;
	if (width(cell) <= CELL_WIDTH_MAX)
		return;
	for (; i < s.len; i++)
		if (!is_continuation(s.data[i]) && points++ == CELL_WIDTH_MAX - 3)
			break;
	cell->text.end = cell->text.start + i;
	buf_append_text(&cell->text, "...");
}

static void fill_cell(struct cell *cell, const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	if (!value && strcmp(name, "payload") == 0)
		value = json_object_get(object, "payload_base64");
	if (value)
		append_value(&cell->text, name, value);
	else
		buf_append_char(&cell->text, '-');
	cell->is_number = json_is_number(value) && !is_time(name);
	if (strcmp(name, "payload") == 0)
		shorten(cell);
}

static void fill_title(struct cell *cell, const char *name)
{
	/* The values have their unit with them. */
	size_t len = strlen(name) - (is_milliseconds(name) && name[2] ? 3 : 0);
	for (const char *end = name + len; name < end; name++)
		buf_append_char(&cell->text, *name == '_'                   ? ' '
					     : *name >= 'a' && *name <= 'z' ? *name - 32
									    : *name);
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

static size_t split(const char *members, char names[COLUMNS_MAX][32])
{
	size_t count = 0;
	while (*members && count < COLUMNS_MAX) {
		size_t len = strcspn(members, " ");
		snprintf(names[count++], 32, "%.*s", (int)len, members);
		members += len + (members[len] == ' ');
	}
	return count;
}

static void print_rows(struct cell *cells, size_t rows, size_t columns, int indent)
{
	size_t widths[COLUMNS_MAX] = { 0 };
	for (size_t i = 0; i < rows * columns; i++) {
		size_t w = width(&cells[i]);
		if (w > widths[i % columns])
			widths[i % columns] = w;
		/* A title stands over its numbers. */
		if (i < columns && rows > 1)
			cells[i].is_number = cells[i + columns].is_number;
	}
	for (size_t i = 0; i < rows * columns; i++) {
		bool is_last = i % columns == columns - 1;
		if (i % columns == 0)
			printf("%*s", indent, "");
		print_cell(&cells[i], widths[i % columns], is_last);
		if (is_last)
			putchar('\n');
	}
}

static void print_array(const json_t *array, const char *members, int indent)
{
	char names[COLUMNS_MAX][32];
	size_t columns = split(members, names);
	size_t rows = json_array_size(array) + 1;
	struct cell *cells = mem_zalloc(rows * columns * sizeof(*cells));
	for (size_t i = 0; i < columns; i++)
		fill_title(&cells[i], names[i]);
	for (size_t i = columns; i < rows * columns; i++)
		fill_cell(&cells[i], json_array_get(array, i / columns - 1),
			  names[i % columns]);
	print_rows(cells, rows, columns, indent);
	for (size_t i = 0; i < rows * columns; i++)
		buf_deinit(&cells[i].text);
	mem_free(cells);
}

/* ---- objects ------------------------------------------------------------- */

static bool is_array_of_objects(const json_t *value)
{
	return json_array_size(value) > 0 && json_is_object(json_array_get(value, 0));
}

/* The members of the first object are the columns, without nested arrays. */
static void print_nested_array(const json_t *array, int indent)
{
	struct buf members;
	const char *name;
	json_t *value;
	size_t count = 0;
	buf_init(&members);
	json_object_foreach(json_array_get(array, 0), name, value)
	{
		if (json_is_array(value))
			continue;
		if (count++ > 0)
			buf_append_char(&members, ' ');
		buf_append_text(&members, name);
	}
	print_array(array, buf_cstr(&members), indent);
	buf_deinit(&members);
}

static void print_members(json_t *object, int indent)
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
		struct cell cell = { 0 };
		bool is_nested =
			is_array_of_objects(value) || json_object_size(value) > 0;
		append_printable(&cell.text, name, strlen(name));
		printf("%*s%s%*s", indent, "", buf_cstr(&cell.text),
		       is_nested ? 0 : (int)(longest - strlen(name)) + GAP, "");
		buf_clear(&cell.text);
		if (is_nested) {
			putchar('\n');
			if (json_is_object(value))
				print_members(value, indent + GAP);
			else
				print_nested_array(value, indent + GAP);
		} else {
			append_value(&cell.text, name, value);
			puts(buf_cstr(&cell.text));
		}
		buf_deinit(&cell.text);
	}
}

/* ---- documents ----------------------------------------------------------- */

static json_t *parse(const char *document, size_t len, bool (*is_right)(const json_t *))
{
	json_error_t err;
	json_t *root = json_loadb(document, len, 0, &err);
	if (root && is_right(root))
		return root;
	cli_failure("the broker's document is not understood; --json shows it");
	json_decref(root);
	return NULL;
}

static bool is_array(const json_t *value)
{
	return json_is_array(value);
}

static bool is_object(const json_t *value)
{
	return json_is_object(value);
}

int cli_table_print(const char *document, size_t len, const char *member,
		    const char *members)
{
	json_t *root = parse(document, len, member ? is_object : is_array);
	if (!root)
		return CLI_FAILED;
	print_array(member ? json_object_get(root, member) : root, members, 0);
	json_decref(root);
	return CLI_DONE;
}

int cli_table_print_object(const char *document, size_t len)
{
	json_t *root = parse(document, len, is_object);
	if (!root)
		return CLI_FAILED;
	print_members(root, 0);
	json_decref(root);
	return CLI_DONE;
}

int cli_table_print_object_without(const char *document, size_t len, const char *member)
{
	json_t *root = parse(document, len, is_object);
	if (!root)
		return CLI_FAILED;
	json_object_del(root, member);
	print_members(root, 0);
	json_decref(root);
	return CLI_DONE;
}
