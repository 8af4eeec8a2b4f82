#include "findings.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

#define CALLED_FROM " (called from "
#define SHIPPED "shipped/" /* the place of a script that is not in the directory */

struct finding {
	char *file;
	int line;
	bool is_note;
	bool is_outside;
	size_t number; /* in the order of arrival */
	char *text;
};

void findings_init(struct findings *f, const char *dir)
{
	*f = (struct findings){ .dir = dir };
}

static void finding_deinit(struct finding *item)
{
	mem_free(item->file);
	mem_free(item->text);
}

void findings_deinit(struct findings *f)
{
	for (size_t i = 0; i < f->count; i++)
		finding_deinit(&f->items[i]);
	mem_free(f->items);
	findings_init(f, NULL);
}

/* A module that does not load is reported by each script that requires it; the texts
 * differ only in the name of that script. */
static size_t comparable_len(const char *text)
{
	const char *tail = strstr(text, CALLED_FROM);

	return tail ? (size_t)(tail - text) : strlen(text);
}

static bool is_same(const struct finding *a, const struct finding *b)
{
	size_t len = comparable_len(a->text);

	return a->line == b->line && a->is_outside == b->is_outside &&
	       strcmp(a->file, b->file) == 0 && comparable_len(b->text) == len &&
	       memcmp(a->text, b->text, len) == 0;
}

static void add_take(struct findings *f, struct finding new)
{
	for (size_t i = 0; i < f->count; i++) {
		if (is_same(&f->items[i], &new)) {
			finding_deinit(&new);
			return;
		}
	}
	MEM_GROW(f->items, f->count, f->cap, 16);
	new.number = f->count;
	f->items[f->count++] = new;
	f->problems += !new.is_note;
}

static void add_formatted(struct findings *f, const char *file, struct finding new,
			  const char *format, va_list ap)
{
	if (vasprintf(&new.text, format, ap) < 0)
		new.text = mem_strdup(format);
	new.file = mem_strdup(file);
	add_take(f, new);
}

void findings_add(struct findings *f, const char *file, int line, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	add_formatted(f, file, (struct finding){ .line = line }, format, ap);
	va_end(ap);
}

void findings_note(struct findings *f, const char *file, int line, const char *format,
		   ...)
{
	va_list ap;

	va_start(ap, format);
	add_formatted(f, file, (struct finding){ .line = line, .is_note = true }, format,
		      ap);
	va_end(ap);
}

void findings_add_outside(struct findings *f, const char *place, int line,
			  const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	add_formatted(f, place, (struct finding){ .line = line, .is_outside = true },
		      format, ap);
	va_end(ap);
}

void findings_add_error(struct findings *f, const char *text)
{
	const char *end = strstr(text, ".lua:");
	struct finding new = { .line = 1 };
	char *after = NULL;
	long line;

	/* A place has no spaces. */
	if (end && strcspn(text, " ") > (size_t)(end - text)) {
		end += strlen(".lua");
		line = strtol(end + 1, &after, 10);
		/* "retry/fixed.lua: is larger than ..." has no line. */
		if (after > end + 1)
			new.line = (int)line;
	}
	new.file = mem_strndup(text, after ? (size_t)(end - text) : 0);
	new.text = mem_strdup(after ? after + strspn(after, ": ") : text);
	add_take(f, new);
}

bool findings_has(const struct findings *f, const char *file, int line)
{
	for (size_t i = 0; i < f->count; i++)
		if (!f->items[i].is_outside && !f->items[i].is_note &&
		    f->items[i].line == line && strcmp(f->items[i].file, file) == 0)
			return true;
	return false;
}

/* The directory comes first, then places outside of it; of those, places without lines
 * ("broker") last and in the order of arrival. */
static int by_place(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;
	int order = x->is_outside - y->is_outside;

	if (order == 0 && x->is_outside)
		order = (x->line == 0) - (y->line == 0);
	if (order == 0 && !(x->is_outside && x->line == 0))
		order = strcmp(x->file, y->file);
	if (order == 0)
		order = (x->line > y->line) - (x->line < y->line);
	return order ? order : (x->number > y->number) - (x->number < y->number);
}

static void print_place(const struct findings *f, const struct finding *item, FILE *out)
{
	bool is_shipped = strncmp(item->file, SHIPPED, strlen(SHIPPED)) == 0;
	size_t len = item->is_outside || is_shipped ? 0 : strlen(f->dir);

	while (len > 1 && f->dir[len - 1] == '/')
		len--;
	fprintf(out, "%.*s", (int)len, f->dir);
	if (len > 0 && item->file[0] && f->dir[len - 1] != '/')
		fputc('/', out);
	fputs(item->file, out);
	if (item->line > 0)
		fprintf(out, ":%d", item->line);
}

static void sort(struct findings *f)
{
	if (f->count)
		qsort(f->items, f->count, sizeof(*f->items), by_place);
}

void findings_print_json(struct findings *f, FILE *out)
{
	sort(f);
	for (size_t i = 0; i < f->count; i++) {
		const struct finding *item = &f->items[i];
		struct buf text = { 0 };
		struct json j = { .out = &text };

		json_object_begin(&j);
		json_member_text(&j, "file", item->file);
		if (item->line > 0)
			json_member_int(&j, "line", item->line);
		json_member_bool(&j, "note", item->is_note);
		json_member_text(&j, "text", item->text);
		json_object_end(&j);
		fprintf(out, "%s\n", buf_cstr(&text));
		buf_deinit(&text);
	}
}

void findings_print(struct findings *f, FILE *out)
{
	sort(f);
	for (size_t i = 0; i < f->count; i++) {
		print_place(f, &f->items[i], out);
		fprintf(out, ": %s%s\n", f->items[i].is_note ? "note: " : "",
			f->items[i].text);
	}
}
