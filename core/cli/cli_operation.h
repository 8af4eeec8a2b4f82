/* cli_operation.h: the verbs that come from the table of operations (core/ops).
 *
 * Each verb of the line protocol is a verb of the command line, unless a table of cli.h
 * has one of its name: its usage, its options, its help and its request come from the
 * rows. How answers are printed is in cli_answer.c, by the name of the operation. */
#pragma once

#include "cli_table.h"
#include "ops/operation.h"

/* The presentation of an operation's answer, which its row does not have. */
struct cli_answer {
	const char *operation; /* the name of its row */
	/* "purged": what became of the messages that the answer counts. */
	const char *done;
	struct cli_table_view view;
	/* An array, of which each cell of a store that is split has a part. */
	bool is_of_cells;
	/* Add to the request before it is sent; or NULL. */
	void (*begin)(struct cli *cli);
	/* Print the document, and release it; NULL: by `view`. */
	int (*print_take)(struct cli *cli, json_t *document);
	/* Send the request and print the answer, in the place of all this. */
	int (*run)(struct cli *cli);
};
/* Send the request to the owner of each cell, and give the parts of an array as one; of a
 * store that is not split, to the broker. NULL with cli->status.
 *
 * @param missing  receives how many cells did not answer, which is told */
json_t *cli_operation_ask_cells(struct cli *cli, unsigned *missing);

/* NULL: the operation has no row there. */
const struct cli_answer *cli_answer_find(const char *operation);

/* A word of a verb that is no operation. */
struct cli_local {
	const char *word, *form, *help; /* "push", "DIR" */
	int words;                      /* behind it */
	int (*run)(struct cli *cli); /* its words begin at words[1]; NULL: see main.c */
};

/* The part of a verb's page of help that the rows do not have. */
struct cli_notes {
	const char *verb;
	const char *summary; /* NULL: the help of its first row */
	const char *details, *examples;
	const struct option_row *options; /* of the command line alone */
	struct cli_local locals[5];
};
/* NULL: there is nothing to say. */
const struct cli_notes *cli_notes_find(const char *verb);

/* The verb of that name, good until the next call; NULL: no operation has it. */
const struct cli_verb *cli_operation_verb(const char *name);
/* One line for each of those verbs that are not in the tables. */
void cli_operation_list(const struct cli_verb *const *tables, FILE *out);
