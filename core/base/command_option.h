/* command_option.h: the options of a verb of the command line: one table for the
 * parser, for the checks of values, and for the help. */
#pragma once

#include "buf.h"
#include "error.h"

enum command_option_type {
	COMMAND_OPTION_TEXT,
	COMMAND_OPTION_CHOICE, /* of the words in `arg`, separated by '|' */
	COMMAND_OPTION_NUMBER,
	COMMAND_OPTION_BYTES,    /* a number, perhaps with K, M or G behind it */
	COMMAND_OPTION_DURATION, /* in milliseconds */
};

struct command_option {
	const char *name;
	const char *arg;      /* what it takes, for the help; NULL: a flag */
	const char *fallback; /* the default, as it would be given; NULL: none */
	const char *help;
	enum command_option_type type;
	uint64_t min, max;   /* of a number; a max of 0: any number */
	size_t offset, size; /* of a field that holds the value; see serve_options.c */
};

/* The members of a row. */
#define COMMAND_FLAG(n, h) .name = n, .help = h
#define COMMAND_TEXT(n, a, d, h) .name = n, .arg = a, .fallback = d, .help = h
#define COMMAND_CHOICE(n, words, d, h) \
	COMMAND_TEXT(n, words, d, h), .type = COMMAND_OPTION_CHOICE
#define COMMAND_NUMBER(n, d, h, least, most)                                     \
	COMMAND_TEXT(n, "N", d, h), .type = COMMAND_OPTION_NUMBER, .min = least, \
				    .max = most
#define COMMAND_BYTES(n, d, h, least, most)                                         \
	COMMAND_TEXT(n, "BYTES", d, h), .type = COMMAND_OPTION_BYTES, .min = least, \
					.max = most
#define COMMAND_DURATION(n, d, h, least, most)                              \
	COMMAND_TEXT(n, "DURATION", d, h), .type = COMMAND_OPTION_DURATION, \
					   .min = least, .max = most

#define COMMAND_OPTIONS_MAX 96 /* given ones, repetitions counted */

/* What a command line gives. The texts are those of argv. */
struct command_line {
	const struct command_option *options; /* ends in a NULL name; may be NULL */
	const struct command_option *common;  /* likewise: of all verbs */
	struct command_given {
		const struct command_option *option;
		const char *text; /* "" for a flag */
		uint64_t value;   /* see command_option_value */
	} given[COMMAND_OPTIONS_MAX];
	int given_count;
	char **words; /* what is no option */
	int word_count;
};

/* Take apart the arguments behind the verb argv[0], whose order may change. The tables
 * are set. */
TIDE_MUST_USE int command_option_parse(struct command_line *line, int argc, char **argv,
				       struct error *err);

/* The option that was given last under this name, or NULL. */
const struct command_given *command_option_given(const struct command_line *line,
						 const char *name);

/* The option of this name, or NULL. */
const struct command_option *command_option_find(const struct command_option *table,
						 const char *name);

/* Check a text and read its value: the number, or the index of the choice; 1 for a
 * flag; 0 for a text. */
TIDE_MUST_USE int command_option_value(const struct command_option *option,
				       const char *text, uint64_t *out,
				       struct error *err);

/* Append a line for each option: "  --name ARG    help (default)". */
void command_option_help(const struct command_option *table, struct buf *out);
