/* explain_lines.h: the lines by which the scripts of queues decided, for EXPLAIN. */
#pragma once

#include "base/json.h"
#include "rules/api/line_trace.h"
#include "rules/engine/script_kind.h"

struct queue;
struct explain_line;

/* A zeroed one is empty. */
struct explain_lines {
	struct explain_line *lines; /* uthash */
};

/* The script of this kind has decided about the queue, for the `number`-th outcome. If it
 * has before, this is what counts. */
void explain_lines_add(struct explain_lines *e, const struct queue *q, unsigned number,
		       enum script_kind kind, int line);
/* 0: it was not asked, or the line is not known. */
int explain_lines_find(const struct explain_lines *e, const struct queue *q,
		       unsigned number, enum script_kind kind);
void explain_lines_deinit(struct explain_lines *e);

/* The members `line` and `lines`, if they are known. */
void explain_lines_write(struct json *j, const struct line_trace *t);
