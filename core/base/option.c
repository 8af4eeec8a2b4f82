#include "option.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "duration.h"

#define KNOWN_MAX 128

/* ---- types ------------------------------------------------------------------------- */

static bool read_integer(const char *text, struct option_value *out)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(text, &end, 10);
	*out = (struct option_value){ (uint64_t)n, (double)n };
	return end != text && *end == '\0' && errno == 0 && !strchr(" \t\n\v\f\r", *text);
}

static bool read_number(const char *text, struct option_value *out)
{
	char *end;

	if (text[0] == '\0' || strspn(text, "0123456789+-.eE") != strlen(text))
		return false;
	out->number = strtod(text, &end);
	return *end == '\0' && isfinite(out->number);
}

static bool read_boolean(const char *text, struct option_value *out)
{
	out->integer = strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
	return out->integer || strcmp(text, "0") == 0 || strcmp(text, "false") == 0;
}

static bool read_duration(const char *text, struct option_value *out)
{
	int64_t ms;

	if (duration_parse(slice_from(text), &ms) != TIDE_OK)
		return false;
	*out = (struct option_value){ (uint64_t)ms, (double)ms };
	return true;
}

static bool read_count(const char *text, struct option_value *out)
{
	bool is_count = slice_to_uint(slice_from(text), UINT64_MAX, &out->integer);

	out->number = (double)out->integer;
	return is_count;
}

static bool read_bytes(const char *text, struct option_value *out)
{
	static const char units[] = "KMG";
	struct slice s = slice_from(text);
	const char *unit = s.len ? strchr(units, s.data[s.len - 1]) : NULL;
	unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;

	if (unit)
		s.len--;
	if (!slice_to_uint(s, UINT64_MAX >> shift, &out->integer))
		return false;
	out->integer <<= shift;
	out->number = (double)out->integer;
	return true;
}

/* By enum option_type. */
static const struct {
	const char *name; /* for scripts; NULL: they have none of it */
	const char *what;
	bool is_ordered;
	bool (*read)(const char *text, struct option_value *out); /* NULL: any text */
} types[] = {
	{ "string", "a text", false, NULL },
	{ "integer", "an integer", true, read_integer },
	{ "number", "a number", true, read_number },
	{ "boolean", "1, 0, true or false", false, read_boolean },
	{ "duration", "a duration such as 500ms, 30s or 5m", true, read_duration },
	{ "list", "a list: values with commas between them", false, NULL },
	{ NULL, "a number", true, read_count },
	{ NULL, "a number of bytes such as 512K, 16M or 1G", true, read_bytes },
	{ NULL, "a word", false, NULL },
};

const char *option_type_name(enum option_type type)
{
	return types[type].name;
}

bool option_type_find(const char *name, enum option_type *out)
{
	for (unsigned i = 0; types[i].name; i++)
		if (strcmp(types[i].name, name) == 0) {
			*out = (enum option_type)i;
			return true;
		}
	return false;
}

bool option_type_is_ordered(enum option_type type)
{
	return types[type].is_ordered;
}

/* ---- values ------------------------------------------------------------------------ */

const struct option_row *option_find(const struct option_row *rows, const char *name)
{
	for (const struct option_row *o = rows; o && o->name; o++)
		if (strcmp(o->name, name) == 0)
			return o;
	return NULL;
}

static bool read_choice(struct slice choices, struct slice text, uint64_t *out)
{
	for (*out = 0; choices.len > 0; ++*out)
		if (slice_is_equal(slice_cut(&choices, '|'), text))
			return text.len > 0;
	return false;
}

bool option_read(const struct option_row *row, enum option_type type, const char *text,
		 struct option_value *out)
{
	*out = (struct option_value){ 0 };
	if (type == OPTION_CHOICE)
		return read_choice(slice_from(row->arg), slice_from(text), &out->integer);
	if (types[type].read && !types[type].read(text, out))
		return false;
	return !types[type].is_ordered || (!(row->has_min && out->number < row->min) &&
					   !(row->has_max && out->number > row->max));
}

bool option_next_element(const char **list, struct buf *out)
{
	if (!*list)
		return false;
	size_t len = strcspn(*list, ",");
	buf_clear(out);
	buf_append(out, *list, len);
	*list = (*list)[len] == ',' ? *list + len + 1 : NULL;
	return true;
}

bool option_is_allowed(const struct option_row *row, const char *text)
{
	struct option_value ignored;
	struct buf element = { 0 };
	bool is_ok = true;

	if (row->type != OPTION_LIST)
		return option_read(row, row->type, text, &ignored);
	while (is_ok && option_next_element(&text, &element))
		is_ok = option_read(row, row->of, buf_cstr(&element), &ignored);
	buf_deinit(&element);
	return is_ok;
}

static bool is_same_value(enum option_type type, const char *a, const char *b)
{
	struct option_value x = { 0 }, y = { 0 };

	if (!types[type].read || !types[type].read(a, &x) || !types[type].read(b, &y))
		return strcmp(a, b) == 0;
	return x.integer == y.integer && x.number == y.number;
}

bool option_is_same_text(const struct option_row *row, const char *a, const char *b)
{
	struct buf x = { 0 }, y = { 0 };
	bool is_same = true;

	if (row->type != OPTION_LIST)
		return is_same_value(row->type, a, b);
	while (is_same && a && b) {
		(void)option_next_element(&a, &x);
		(void)option_next_element(&b, &y);
		is_same = is_same_value(row->of, buf_cstr(&x), buf_cstr(&y));
	}
	buf_deinit(&x);
	buf_deinit(&y);
	return is_same && !a && !b;
}

bool option_is_same_field(const struct option_row *row, const void *a, const void *b)
{
	const void *x = (const char *)a + row->offset, *y = (const char *)b + row->offset;
	const char *p, *q;

	if (row->type != OPTION_TEXT || row->size != sizeof(p))
		return memcmp(x, y, row->size) == 0;
	p = *(const char *const *)x;
	q = *(const char *const *)y;
	return p && q ? strcmp(p, q) == 0 : p == q;
}

void option_set_field(const struct option_row *row, void *object, uint64_t value)
{
	void *field = (char *)object + row->offset;

	if (row->size == sizeof(uint64_t))
		*(uint64_t *)field = value;
	else if (row->size == sizeof(unsigned))
		*(unsigned *)field = (unsigned)value;
	else
		*(bool *)field = value != 0;
}

/* ---- texts ------------------------------------------------------------------------- */

/* ", at least 30s" */
static void describe_bound(const struct option_row *o, const char *words, double bound,
			   struct buf *out)
{
	char text[DURATION_TEXT_MAX];

	if ((o->type == OPTION_LIST ? o->of : o->type) != OPTION_DURATION) {
		buf_printf(out, ", %s %.14g", words, bound);
		return;
	}
	duration_format((int64_t)bound, text);
	buf_printf(out, ", %s %s", words, text);
}

void option_describe(const struct option_row *row, struct buf *out)
{
	buf_append_text(out, types[row->type].what);
	if (row->type == OPTION_LIST && row->of != OPTION_TEXT)
		buf_printf(out, ", each %s", types[row->of].what);
	if (row->has_min)
		describe_bound(row, "at least", row->min, out);
	if (row->has_max)
		describe_bound(row, "at most", row->max, out);
}

/* 1,000,000, 10^12, 64M or 30s */
static void document_bound(const struct option_row *row, double bound, struct buf *out)
{
	char text[DURATION_TEXT_MAX];
	uint64_t n = (uint64_t)bound;
	int len, shift = 0;

	if (row->type == OPTION_DURATION) {
		duration_format((int64_t)bound, text);
		buf_append_text(out, text);
		return;
	}
	while (row->type == OPTION_BYTES && shift < 3 && n > 0 && n % 1024 == 0) {
		n /= 1024;
		shift++;
	}
	if (n == UINT64_C(1000000000000)) {
		buf_append_text(out, "10^12");
		return;
	}
	len = snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	for (int i = 0; i < len; i++)
		buf_printf(out, "%s%c", i > 0 && (len - i) % 3 == 0 ? "," : "", text[i]);
	if (shift > 0)
		buf_append_char(out, "KMG"[shift - 1]);
}

/* "duration, 10ms–1d: " */
static void document_range(const struct option_row *row, struct buf *out)
{
	struct slice words = slice_from(row->arg);

	if (row->type == OPTION_CHOICE) {
		while (words.len > 0) {
			struct slice word = slice_cut(&words, '|');

			buf_printf(out, "`%" SLICE_FMT "`%s", SLICE_ARG(word),
				   !words.len                           ? ": "
				   : memchr(words.data, '|', words.len) ? ", "
									: " or ");
		}
	} else if (row->has_max && row->arg && types[row->type].is_ordered) {
		bool has_end = row->max < (double)DURATION_MAX_MS ||
			       row->type != OPTION_DURATION;

		buf_append_text(out, row->type == OPTION_DURATION ? "duration"
				     : row->type == OPTION_BYTES  ? "bytes"
								  : "");
		buf_append_text(
			out, row->type != OPTION_COUNT && (has_end || row->min > 0) ? ", "
										    : "");
		if (row->min > 0)
			document_bound(row, row->min, out);
		if (has_end) {
			buf_append_text(out, row->min > 0 ? "–" : "up to ");
			document_bound(row, row->max, out);
		}
		buf_append_text(out, ": ");
	}
}

void option_document(const struct option_row *row, struct buf *out)
{
	bool is_word = row->fallback &&
		       strspn(row->fallback, "0123456789") != strlen(row->fallback);

	buf_printf(out, "| `%s` | ", row->name);
	document_range(row, out);
	if (row->help)
		buf_append_text(out, row->help);
	if (!row->fallback || !row->fallback[0])
		buf_append_text(out, " | none |\n");
	else
		buf_printf(out, is_word ? " | `%s` |\n" : " | %s |\n", row->fallback);
}

/* ---- the command line -------------------------------------------------------------- */

const struct command_given *option_given(const struct command_line *line,
					 const char *name)
{
	for (int i = line->given_count - 1; i >= 0; i--)
		if (strcmp(line->given[i].option->name, name) == 0)
			return &line->given[i];
	return NULL;
}

static int refuse_number(const struct option_row *o, const char *text, struct error *err)
{
	return error_set(
		err, TIDE_ESYNTAX, "--%s must be %llu-%llu%s, not '%s'", o->name,
		(unsigned long long)o->min,
		o->has_max ? (unsigned long long)o->max : (unsigned long long)UINT64_MAX,
		o->type == OPTION_BYTES ? " bytes, as 512K, 16M or 1G" : "", text);
}

static int refuse_duration(const struct option_row *o, const char *text,
			   struct error *err)
{
	char min[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];

	duration_format((int64_t)o->min, min);
	duration_format(o->has_max ? (int64_t)o->max : DURATION_MAX_MS, max);
	return error_set(err, TIDE_ESYNTAX,
			 "--%s must be a duration like 250ms, 30s, 5m, 2h or 1d, from %s "
			 "to %s, not '%s'",
			 o->name, min, max, text);
}

int option_value(const struct option_row *row, const char *text, uint64_t *out,
		 struct error *err)
{
	struct option_value value;
	bool is_good = option_read(row, row->type, text, &value);

	*out = row->type == OPTION_TEXT ? !row->arg : value.integer;
	if (is_good)
		return TIDE_OK;
	if (row->type == OPTION_CHOICE)
		return error_set(err, TIDE_ESYNTAX, "--%s must be one of %s, not '%s'",
				 row->name, row->arg, text);
	return row->type == OPTION_DURATION ? refuse_duration(row, text, err)
					    : refuse_number(row, text, err);
}

/* The table of getopt_long, and what its rows stand for. */
struct long_options {
	struct option rows[KNOWN_MAX];
	const struct option_row *options[KNOWN_MAX];
	int count;
};

static void know_options(struct long_options *k, const struct option_row *rows)
{
	for (; rows && rows->name; rows++) {
		assert(k->count < KNOWN_MAX - 1);
		k->rows[k->count].name = rows->name;
		k->rows[k->count].has_arg = rows->arg ? required_argument : no_argument;
		k->options[k->count++] = rows;
	}
}

static int add_given(struct command_line *line, const struct option_row *o,
		     const char *text, struct error *err)
{
	struct command_given *given = &line->given[line->given_count];

	if (line->given_count == COMMAND_OPTIONS_MAX)
		return error_set(err, TIDE_ESYNTAX, "more than %d options",
				 COMMAND_OPTIONS_MAX);
	*given = (struct command_given){ .option = o, .text = text };
	line->given_count++;
	return option_value(o, text, &given->value, err);
}

int option_take_line(struct command_line *line, int argc, char **argv, struct error *err)
{
	struct long_options known = { .count = 0 };
	int c, which, rc = TIDE_OK;

	know_options(&known, line->options);
	know_options(&known, line->common);
	opterr = 0;
	optind = 0;
	while (rc == TIDE_OK &&
	       (c = getopt_long(argc, argv, ":h", known.rows, &which)) != -1) {
		const struct option_row *o = NULL;

		if (c == ':')
			return error_set(err, TIDE_ESYNTAX, "option '%s' needs a value",
					 argv[optind - 1]);
		if (c == 0)
			o = known.options[which];
		else if (c == 'h' && !(o = option_find(line->options, "help")))
			o = option_find(line->common, "help");
		if (!o)
			return error_set(err, TIDE_ESYNTAX, "there is no option '%s'",
					 argv[optind - 1]);
		rc = add_given(line, o, o->arg ? optarg : "", err);
		if (strcmp(o->name, "help") == 0)
			break;
	}
	line->words = argv + optind;
	line->word_count = argc - optind;
	return rc;
}

void option_help(const struct option_row *rows, struct buf *out)
{
	for (const struct option_row *o = rows; o && o->name; o++) {
		char head[64];

		snprintf(head, sizeof(head), "--%s%s%s", o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
		buf_printf(out, o->fallback ? "  %-27s %s (%s)\n" : "  %-27s %s\n", head,
			   o->help, o->fallback);
	}
}
