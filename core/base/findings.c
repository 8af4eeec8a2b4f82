#include "findings.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "mem.h"

#define CALLED_FROM " (called from "

void findings_init(struct findings *f, const char *dir)
{
	*f = (struct findings){ .dir = dir };
}

void findings_deinit(struct findings *f)
{
	for (size_t i = 0; i < f->count; i++) {
		mem_free(f->items[i].file);
		mem_free(f->items[i].text);
	}
	mem_free(f->items);
	findings_init(f, NULL);
}

/* The path that is shown: that of the directory, without a slash at its end,
 * and the file's in it. */
static char *path_of(const struct findings *f, const char *file)
{
	struct buf path;
	size_t len = f->dir ? strlen(f->dir) : 0;

	while (len > 1 && f->dir[len - 1] == '/')
		len--;
	buf_init(&path);
	buf_append(&path, f->dir ? f->dir : "", len);
	if (f->dir && file[0] && f->dir[len - 1] != '/')
		buf_append_char(&path, '/');
	buf_append_text(&path, file);
	char *own = mem_strdup(buf_cstr(&path));
	buf_deinit(&path);
	return own;
}

/* A module that does not load is found from each script that requires it. */
static size_t length_that_counts(const char *text)
{
	const char *tail = strstr(text, CALLED_FROM);

	return tail ? (size_t)(tail - text) : strlen(text);
}

static bool is_known(const struct findings *f, const struct finding *new)
{
	size_t len = length_that_counts(new->text);

	for (size_t i = 0; i < f->count; i++) {
		const struct finding *old = &f->items[i];

		if (old->line == new->line && strcmp(old->file, new->file) == 0 &&
		    length_that_counts(old->text) ==
			    len &&memcmp(old->text, new->text, len) == 0)
			return true;
	}
	return false;
}

/* Takes the text of `text`. */
static void add_take(struct findings *f, struct finding new, struct buf *text)
{
	new.text = mem_strdup(buf_cstr(text));
	new.is_outside = !f->dir;
	new.number = f->count;
	buf_deinit(text);
	if (is_known(f, &new)) {
		mem_free(new.file);
		mem_free(new.text);
		return;
	}
	if (f->count == f->cap) {
		f->cap = f->cap * 2 + 16;
		f->items = mem_realloc(f->items, f->cap * sizeof(*f->items));
	}
	f->items[f->count++] = new;
	f->problems += !new.is_note;
}

static void append(struct buf *out, const char *format, va_list ap)
{
	char *text;

	if (vasprintf(&text, format, ap) < 0)
		return;
	buf_append_text(out, text);
	free(text);
}

void findings_add(struct findings *f, const char *file, int line, const char *format, ...)
{
	struct buf text;
	va_list ap;

	buf_init(&text);
	va_start(ap, format);
	append(&text, format, ap);
	va_end(ap);
	add_take(f, (struct finding){ .file = path_of(f, file), .line = line }, &text);
}

void findings_note(struct findings *f, const char *file, int line, const char *format,
		   ...)
{
	struct finding new = { .file = path_of(f, file), .line = line, .is_note = true };
	struct buf text;
	va_list ap;

	buf_init(&text);
	va_start(ap, format);
	append(&text, format, ap);
	va_end(ap);
	add_take(f, new, &text);
}

static void add_text(struct findings *f, struct finding new, const char *text)
{
	struct buf own;

	buf_init(&own);
	buf_append_text(&own, text);
	add_take(f, new, &own);
}

static void add_error(struct findings *f, const char *file, const char *text,
		      bool is_note)
{
	const char *end = strstr(text, ".lua:");
	const char *space = strchr(text, ' ');
	struct finding new = { .line = 1, .is_note = is_note };
	size_t len = strlen(file);
	char *after;

	if (!end || (space && space < end)) {
		/* "retry/fixed.lua: is larger than ..." has no line. */
		if (len && strncmp(text, file, len) == 0 &&
		    strncmp(text + len, ": ", 2) == 0)
			text += len + 2;
		new.file = path_of(f, file);
		add_text(f, new, text);
		return;
	}
	end += strlen(".lua");
	long line = strtol(end + 1, &after, 10);
	if (after > end + 1)
		new.line = (int)line;
	after += strspn(after, ": ");
	char *place = mem_strndup(text, (size_t)(end - text));
	new.file = path_of(f, place);
	add_text(f, new, after);
	mem_free(place);
}

void findings_add_error(struct findings *f, const char *file, const char *text)
{
	add_error(f, file, text, false);
}

void findings_note_error(struct findings *f, const char *file, const char *text)
{
	add_error(f, file, text, true);
}

bool findings_has(const struct findings *f, const char *file, int line)
{
	char *path = path_of(f, file);
	bool has = false;

	for (size_t i = 0; i < f->count && !has; i++)
		has = f->items[i].line == line && strcmp(f->items[i].file, path) == 0;
	mem_free(path);
	return has;
}

static int by_place(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;
	int order = x->is_outside - y->is_outside;

	/* Outside of files there are no lines: in the order in which they came. */
	if (order == 0 && x->is_outside)
		order = (x->line == 0) - (y->line == 0);
	if (order == 0 && !(x->is_outside && x->line == 0))
		order = strcmp(x->file, y->file);
	if (order == 0)
		order = (x->line > y->line) - (x->line < y->line);
	return order ? order : (x->number > y->number) - (x->number < y->number);
}

void findings_print(struct findings *f, FILE *out)
{
	if (f->count)
		qsort(f->items, f->count, sizeof(*f->items), by_place);
	for (size_t i = 0; i < f->count; i++) {
		const struct finding *item = &f->items[i];

		fputs(item->file, out);
		if (item->line > 0)
			fprintf(out, ":%d", item->line);
		fprintf(out, ": %s%s\n", item->is_note ? "note: " : "", item->text);
	}
}
