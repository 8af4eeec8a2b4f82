/* option.h: typed options, each a row of a table.
 *
 * Rows are the options of queues, topics and exchanges (broker/config.c), of `tidemq
 * serve` (serve_options.c) and of the verbs of the command line (cli/), and those that
 * scripts declare (rules/engine/options.h). The row says what a text must be, and the
 * reader, the comparison, the help and the tables of the documents come from it. */
#pragma once

#include "buf.h"
#include "error.h"

enum option_type {
	OPTION_TEXT,
	OPTION_INTEGER,
	OPTION_NUMBER,   /* with a fraction */
	OPTION_BOOLEAN,  /* 1, 0, true or false */
	OPTION_DURATION, /* milliseconds */
	OPTION_LIST,     /* values `of` a type, with commas between them */
	OPTION_COUNT,    /* an integer without a sign */
	OPTION_BYTES,    /* a count, perhaps with K, M or G behind it */
	OPTION_CHOICE,   /* one of the words in `arg`, "a|b" */
};

struct option_row {
	const char *name;
	const char *arg;      /* what it takes, for the help; NULL: a flag */
	const char *fallback; /* the default, as it would be given; NULL: none */
	const char *help;     /* a sentence for the help and the documents */
	enum option_type type;
	enum option_type of; /* of the elements of a list */
	bool has_min, has_max;
	double min, max;     /* of a type with an order; exact below 2^53 */
	size_t offset, size; /* of a field that has the value; size 0: none */
};

/* The members of a row. A `most` of 0 is no limit. */
#define OPTION_RANGE(least, most)                                        \
	.has_min = true, .min = (double)(least), .has_max = (most) != 0, \
	.max = (double)(most)
#define OPTION_ROW(n, a, d, h) .name = n, .arg = a, .fallback = d, .help = h
#define COMMAND_FLAG(n, h) OPTION_ROW(n, NULL, NULL, h)
#define COMMAND_TEXT(n, a, d, h) OPTION_ROW(n, a, d, h)
#define COMMAND_CHOICE(n, words, d, h) OPTION_ROW(n, words, d, h), .type = OPTION_CHOICE
#define COMMAND_NUMBER(n, d, h, least, most) \
	OPTION_ROW(n, "N", d, h), .type = OPTION_COUNT, OPTION_RANGE(least, most)
#define COMMAND_BYTES(n, d, h, least, most) \
	OPTION_ROW(n, "BYTES", d, h), .type = OPTION_BYTES, OPTION_RANGE(least, most)
#define COMMAND_DURATION(n, d, h, least, most)                    \
	OPTION_ROW(n, "DURATION", d, h), .type = OPTION_DURATION, \
					 OPTION_RANGE(least, most)

struct option_value {
	uint64_t integer; /* of an OPTION_INTEGER with its sign; of a choice its index */
	double number;    /* the same of a type with an order, for bounds */
};

/* "duration" */
const char *option_type_name(enum option_type type);
/* The type of that name; false: scripts have none of it. */
bool option_type_find(const char *name, enum option_type *out);
/* Has the type an order, and therefore bounds? */
bool option_type_is_ordered(enum option_type type);

/* The row of this name in a table that ends in a NULL name, or NULL. */
const struct option_row *option_find(const struct option_row *rows, const char *name);
/* Read a text as a value of a type; false: it is none. */
bool option_read(const struct option_row *row, enum option_type type, const char *text,
		 struct option_value *out);
/* The same, within the bounds of the row; of a list each element. */
bool option_is_allowed(const struct option_row *row, const char *text);
/* Are two texts the same value, however they are spelled? */
bool option_is_same_text(const struct option_row *row, const char *a, const char *b);
/* Have two objects the same in the field of the row? Texts may be NULL. */
bool option_is_same_field(const struct option_row *row, const void *a, const void *b);
/* Put a value in the field of the row, by the field's size. */
void option_set_field(const struct option_row *row, void *object, uint64_t value);
/* "a number, at least 1" */
void option_describe(const struct option_row *row, struct buf *out);
#define OPTION_DOCUMENT_HEAD "| option | value | default |\n| --- | --- | --- |\n"
/* A row of a table of the documents: | `name` | 1–64: what it is | `1` | */
void option_document(const struct option_row *row, struct buf *out);

/* The next element of a list, zero-terminated, in `out`; false at the end. */
bool option_next_element(const char **list, struct buf *out);

/* ---- the command line -------------------------------------------------------------- */

#define COMMAND_OPTIONS_MAX 96 /* given ones, repetitions counted */

/* A command line, taken apart. The texts are those of argv. */
struct command_line {
	const struct option_row *options; /* ends in a NULL name; may be NULL */
	const struct option_row *common;  /* likewise: of all verbs */
	struct command_given {
		const struct option_row *option;
		const char *text; /* "" for a flag */
		uint64_t value;   /* see option_value */
	} given[COMMAND_OPTIONS_MAX];
	int given_count;
	char **words; /* what is no option */
	int word_count;
};

/* Take apart the arguments behind the verb argv[0], whose order may change. The tables
 * are set. */
TIDE_MUST_USE int option_take_line(struct command_line *line, int argc, char **argv,
				   struct error *err);
/* The option that was given last under this name, or NULL. */
const struct command_given *option_given(const struct command_line *line,
					 const char *name);
/* Check the text behind --name and read its value: the number, or the index of the
 * choice; 1 for a flag; 0 for a text. */
TIDE_MUST_USE int option_value(const struct option_row *row, const char *text,
			       uint64_t *out, struct error *err);
/* Append a line for each option: "  --name ARG    help (default)". */
void option_help(const struct option_row *rows, struct buf *out);
