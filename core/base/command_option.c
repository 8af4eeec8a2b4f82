#include "command_option.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>

#include "duration.h"

#define KIB UINT64_C(1024)
#define KNOWN_MAX 128

const struct command_option *command_option_find(const struct command_option *table,
						 const char *name)
{
	for (const struct command_option *o = table; o && o->name; o++)
		if (strcmp(o->name, name) == 0)
			return o;
	return NULL;
}

const struct command_given *command_option_given(const struct command_line *line,
						 const char *name)
{
	for (int i = line->given_count - 1; i >= 0; i--)
		if (strcmp(line->given[i].option->name, name) == 0)
			return &line->given[i];
	return NULL;
}

static bool read_choice(struct slice choices, struct slice text, uint64_t *out)
{
	for (*out = 0; choices.len > 0; ++*out)
		if (slice_is_equal(slice_cut(&choices, '|'), text))
			return text.len > 0;
	return false;
}

static bool read_bytes(struct slice s, uint64_t max, uint64_t *out)
{
	static const char units[] = "KMG";
	const char *unit = s.len ? strchr(units, s.data[s.len - 1]) : NULL;
	unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;

	if (unit)
		s.len--;
	if (!slice_to_uint(s, max >> shift, out))
		return false;
	*out <<= shift;
	return true;
}

static int refuse_number(const struct command_option *o, const char *text,
			 struct error *err)
{
	return error_set(err, TIDE_ESYNTAX, "--%s must be %llu-%llu%s, not '%s'", o->name,
			 (unsigned long long)o->min,
			 (unsigned long long)(o->max ? o->max : UINT64_MAX),
			 o->type == COMMAND_OPTION_BYTES ? " bytes, as 512K, 16M or 1G"
							 : "",
			 text);
}

static int refuse_duration(const struct command_option *o, const char *text,
			   struct error *err)
{
	char min[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];

	duration_format((int64_t)o->min, min);
	duration_format((int64_t)(o->max ? o->max : (uint64_t)DURATION_MAX_MS), max);
	return error_set(err, TIDE_ESYNTAX,
			 "--%s must be a duration like 250ms, 30s, 5m, 2h or 1d, from %s "
			 "to %s, not '%s'",
			 o->name, min, max, text);
}

int command_option_value(const struct command_option *o, const char *text, uint64_t *out,
			 struct error *err)
{
	uint64_t max = o->max ? o->max : UINT64_MAX;
	struct slice s = slice_from(text);
	int64_t ms;

	*out = 0;
	switch (o->type) {
	case COMMAND_OPTION_TEXT:
		*out = !o->arg; /* a flag that is given */
		break;
	case COMMAND_OPTION_CHOICE:
		if (!read_choice(slice_from(o->arg), s, out))
			return error_set(err, TIDE_ESYNTAX,
					 "--%s must be one of %s, not '%s'", o->name,
					 o->arg, text);
		break;
	case COMMAND_OPTION_NUMBER:
		if (!slice_to_uint(s, max, out) || *out < o->min)
			return refuse_number(o, text, err);
		break;
	case COMMAND_OPTION_BYTES:
		if (!read_bytes(s, max, out) || *out < o->min)
			return refuse_number(o, text, err);
		break;
	case COMMAND_OPTION_DURATION:
		if (duration_parse(s, &ms) < 0 || (uint64_t)ms < o->min ||
		    (uint64_t)ms > max)
			return refuse_duration(o, text, err);
		*out = (uint64_t)ms;
		break;
	}
	return TIDE_OK;
}

/* The table of getopt_long, and what its rows stand for. */
struct long_options {
	struct option rows[KNOWN_MAX];
	const struct command_option *options[KNOWN_MAX];
	int count;
};

static void know(struct long_options *k, const struct command_option *table)
{
	for (; table && table->name; table++) {
		assert(k->count < KNOWN_MAX - 1);
		k->rows[k->count].name = table->name;
		k->rows[k->count].has_arg = table->arg ? required_argument : no_argument;
		k->options[k->count++] = table;
	}
}

static int add_given(struct command_line *line, const struct command_option *o,
		     const char *text, struct error *err)
{
	struct command_given *given = &line->given[line->given_count];

	if (line->given_count == COMMAND_OPTIONS_MAX)
		return error_set(err, TIDE_ESYNTAX, "more than %d options",
				 COMMAND_OPTIONS_MAX);
	*given = (struct command_given){ .option = o, .text = text };
	line->given_count++;
	return command_option_value(o, text, &given->value, err);
}

int command_option_parse(struct command_line *line, int argc, char **argv,
			 struct error *err)
{
	struct long_options known = { .count = 0 };
	int c, which, rc = TIDE_OK;

	know(&known, line->options);
	know(&known, line->common);
	opterr = 0;
	optind = 0;
	while (rc == TIDE_OK &&
	       (c = getopt_long(argc, argv, ":h", known.rows, &which)) != -1) {
		const struct command_option *o = NULL;

		if (c == ':')
			return error_set(err, TIDE_ESYNTAX, "option '%s' needs a value",
					 argv[optind - 1]);
		if (c == 0)
			o = known.options[which];
		else if (c == 'h' && !(o = command_option_find(line->options, "help")))
			o = command_option_find(line->common, "help");
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

void command_option_help(const struct command_option *table, struct buf *out)
{
	for (const struct command_option *o = table; o && o->name; o++) {
		char head[64];

		snprintf(head, sizeof(head), "--%s%s%s", o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
		buf_printf(out, o->fallback ? "  %-27s %s (%s)\n" : "  %-27s %s\n", head,
			   o->help, o->fallback);
	}
}
