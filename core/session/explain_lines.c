#include "explain_lines.h"

#include "base/mem.h"
#include "base/table.h"

#define RUNS_MAX 64 /* of lines that are told */

struct explain_line {
	UT_hash_handle hh;
	uint64_t key[2];
	int line;
};

static struct explain_line *find(const struct explain_lines *e, const uint64_t key[2])
{
	struct explain_line *l;

	HASH_FIND(hh, e->lines, key, 2 * sizeof(*key), l);
	return l;
}

void explain_lines_add(struct explain_lines *e, const struct queue *q, unsigned number,
		       enum script_kind kind, int line)
{
	const uint64_t key[2] = { (uintptr_t)q, (uint64_t)number << 8 | kind };
	struct explain_line *l = find(e, key);

	if (!l) {
		l = mem_zalloc(sizeof(*l));
		memcpy(l->key, key, sizeof(l->key));
		HASH_ADD(hh, e->lines, key, sizeof(l->key), l);
	}
	l->line = line;
}

int explain_lines_find(const struct explain_lines *e, const struct queue *q,
		       unsigned number, enum script_kind kind)
{
	const uint64_t key[2] = { (uintptr_t)q, (uint64_t)number << 8 | kind };
	const struct explain_line *l = find(e, key);

	return l ? l->line : 0;
}

void explain_lines_deinit(struct explain_lines *e)
{
	struct explain_line *l, *next;

	HASH_ITER (hh, e->lines, l, next) {
		HASH_DEL(e->lines, l);
		mem_free(l);
	}
}

void explain_lines_write(struct json *j, const struct line_trace *t)
{
	int first = 0, last = 0;

	if (t->line == 0)
		return;
	json_member_int(j, "line", t->line);
	json_member_array(j, "lines");
	for (int i = 0; i < RUNS_MAX && line_trace_next(t, &first, &last); i++) {
		json_array_begin(j);
		json_int(j, first);
		json_int(j, last);
		json_array_end(j);
		first = last + 1;
	}
	json_array_end(j);
}
