/* cli_table.h: JSON documents as aligned text.
 *
 * The verb names what it prints in a list of members separated by spaces. Behind a
 * member stands its unit, if it has one, and '?' for a column that is left out when no
 * row has it: "name size due:time? delay_ms:duration".
 *
 *   :time      milliseconds since 1970; shown as 2026-01-31T12:00:00.000Z
 *   :duration  milliseconds; shown as 250ms, 1.500s or 5h2m1s
 *   :payload   bytes of a message; shown up to 60 characters
 *
 * Titles of columns are the names in capitals, without the "_ms" of members with a
 * unit. The text of messages is made printable. */
#ifndef TIDE_CLI_CLI_TABLE_H
#define TIDE_CLI_CLI_TABLE_H

#include <stddef.h>

/* An array of objects within an object. */
struct cli_table_array {
	const char *member;
	const char *columns;
};

/* How to print an object: a line a member, members of members indented. */
struct cli_table_view {
	const char *units; /* of its members at any depth; members without: as they are */
	const char *without; /* a member of the document that is not shown; or NULL */
	/* Arrays that are shown as tables, up to one without a name. Other arrays are
	 * lists within a line. */
	struct cli_table_array arrays[8];
};

/* Print the array of objects that is the document, or its member `array`.
 *
 * @return  CLI_DONE; CLI_FAILED after a message */
int cli_table_print(const char *document, size_t len, const char *array,
		    const char *columns);
int cli_table_print_object(const char *document, size_t len,
			   const struct cli_table_view *view);

#endif
