/* cli_table.h: JSON documents as aligned text.
 *
 * A list of members is a text with spaces between the names. After a name stands its
 * unit, if it has one: "name size due:time delay_ms:duration". A column in which no row
 * has anything is left out, and one with '?' also if all its numbers are 0. One with '+'
 * is left out, the last first, until a row fits the terminal; --wide keeps it.
 *
 *   :time      milliseconds since 1970; shown as 2026-01-31T12:00:00.000Z
 *   :duration  milliseconds; shown as 250ms, 1.500s or 5h2m1s
 *   :payload   bytes of a message; shown up to 60 characters
 *   :decision  of a publish, as in RULES recent; shown as "jobs (shard 0, rank 0)"
 *
 * Titles of columns are the names in capitals, without the "_ms" of members with a
 * unit; or what stands behind a '/': "lag_ms:duration/behind". The text of messages is
 * made printable. On a terminal, or with $COLUMNS, columns of texts are shortened until a
 * row fits, but none so far that an id is cut; then a long name in the first column. If
 * that is not enough, a row has further lines, which are indented. One without any value
 * is left out. */
#pragma once

#include <jansson.h>

#include "cli.h"

/* An array of objects within an object. */
struct cli_table_array {
	const char *member;
	const char *columns;
};

/* How to print a document: an array of objects as a table, or an object with a line a
 * member, members of members indented. */
struct cli_table_view {
	const char *columns; /* of a table; NULL: the document is an object */
	const char *array; /* this member of the document is the table; NULL: all of it */
	const char *units; /* of an object's members at any depth, or NULL */
	bool is_wide;      /* --wide */
	const char *without; /* a member of the object that is not shown; or NULL */
	/* Arrays that are shown as tables, up to one without a name. Other arrays are
	 * lists within a line. */
	struct cli_table_array arrays[8];
};

/* Send the request. With --json print the answer as it is; print OK if it is not a
 * document. The document for which neither is true is the caller's.
 *
 * @return  NULL: nothing is left to print, and cli->status is set */
json_t *cli_table_ask_document(struct cli *cli);

/* Print a document, and release it.
 *
 * @return  CLI_DONE; CLI_FAILED after a message */
int cli_table_print_take(json_t *document, const struct cli_table_view *view);

/* The document of a reply; NULL after a message, with cli->status set. */
json_t *cli_table_parse(struct cli *cli, const struct tidemq_reply *reply);

/* A member that is a text; `fallback` if it is missing or another type. */
const char *cli_table_text(const json_t *object, const char *name, const char *fallback);

/* Append a template: {a|b} is the first of these members that is there, "-" without one;
 * [a?...] stands if there is a member a, [a!...] if there is none. */
void cli_table_fill(struct buf *out, const char *text, const json_t *object);
/* The same for each item of an array, with commas between them. */
void cli_table_join(struct buf *out, const char *text, const json_t *array);
