/* cli_top_view.h: what `tidemq top` shows: views, their columns, and lines of text.
 *
 * A line is as wide as it is asked to be, in columns of the terminal. Columns that may be
 * left out are, until there is room for names. */
#pragma once

#include <jansson.h>

#include "base/buf.h"

enum cli_top_kind {
	CLI_TOP_NAME, /* takes the room that is left */
	CLI_TOP_TEXT,
	CLI_TOP_COUNT,
	CLI_TOP_RATE,
	CLI_TOP_BYTES,
	CLI_TOP_DURATION,
	CLI_TOP_STATE, /* of a queue: paused or not */
};

struct cli_top_column {
	const char *title;  /* NULL: behind the last */
	const char *member; /* of the broker's document */
	enum cli_top_kind kind;
	int width;
	int spare;        /* left out when it is narrow: the highest first; 0: never */
	char key;         /* that sorts by it; 0: none */
	const char *sort; /* as LIST names it */
	const char *what; /* for the help */
};

struct cli_top_view {
	const char *name; /* as LIST names it; NULL: behind the last */
	char key;
	const struct cli_top_column *columns;
};

extern const struct cli_top_view cli_top_view_all[];

/* The column that a key sorts by, or that LIST names so; NULL: there is none. */
const struct cli_top_column *cli_top_view_by_key(const struct cli_top_view *view,
						 int key);
const struct cli_top_column *cli_top_view_by_sort(const struct cli_top_view *view,
						  const char *sort);
/* The largest come first, unless somebody wants it otherwise. */
bool cli_top_view_is_falling(const struct cli_top_column *column);

/* Append a line. */
void cli_top_view_titles(const struct cli_top_view *view, int width, struct buf *out);
void cli_top_view_row(const struct cli_top_view *view, const json_t *row, int width,
		      struct buf *out);
#define CLI_TOP_HEAD_LINES 2
/* What the whole broker does: LIST now. @param line  from 0 on */
void cli_top_view_head(const json_t *now, int line, struct buf *out);
/* What keys do, a line each; NULL: there are no more. */
bool cli_top_view_help(const struct cli_top_view *view, int line, struct buf *out);
/* Append text that fits into `width` columns, without what would drive the terminal.
 * Returns the columns that it takes. */
int cli_top_view_clip(const char *text, int width, struct buf *out);
