#include "args.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "percent.h"

void args_deinit(struct args *a)
{
	for (size_t i = 0; i < a->count; i++) {
		mem_free(a->items[i].name);
		mem_free(a->items[i].value);
	}
	mem_free(a->items);
	*a = (struct args){ 0 };
}

static bool is_option_name(struct slice name)
{
	return slice_is_name(name) && !memchr(name.data, '=', name.len);
}

static const struct arg *find(const struct args *a, struct slice name)
{
	for (size_t i = 0; i < a->count; i++) {
		if (slice_is(name, a->items[i].name))
			return &a->items[i];
	}
	return NULL;
}

/* At most ARGS_MAX items and mostly a few: one more place at a time will do. */
static void append(struct args *a, struct slice name, struct slice value)
{
	a->items = mem_realloc(a->items, (a->count + 1) * sizeof(*a->items));
	a->items[a->count++] = (struct arg){
		.name = mem_strndup(name.data, name.len),
		.value = mem_strndup(value.data, value.len),
		.value_len = value.len,
	};
}

int args_add(struct args *a, struct slice name, struct slice value)
{
	if (!is_option_name(name))
		return TIDE_ESYNTAX;
	if (value.len > 0 && memchr(value.data, '\0', value.len))
		return TIDE_ESYNTAX;
	if (find(a, name))
		return TIDE_EEXISTS;
	if (a->count >= ARGS_MAX)
		return TIDE_ETOOLONG;
	append(a, name, value);
	return TIDE_OK;
}

void args_set(struct args *a, const char *name, const char *value)
{
	for (size_t i = 0; i < a->count; i++) {
		struct arg *arg = &a->items[i];

		if (strcmp(arg->name, name) != 0)
			continue;
		mem_free(arg->value);
		arg->value = mem_strdup(value);
		arg->value_len = strlen(value);
	}
}

const char *args_get(const struct args *a, const char *name)
{
	const struct arg *arg = find(a, slice_from(name));

	return arg ? arg->value : NULL;
}

void args_copy(struct args *to, const struct args *from)
{
	*to = (struct args){ 0 };
	for (size_t i = 0; i < from->count; i++) {
		const struct arg *arg = &from->items[i];

		append(to, slice_from(arg->name),
		       (struct slice){ arg->value, arg->value_len });
	}
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct arg *)a)->name, ((const struct arg *)b)->name);
}

void args_sort(struct args *a)
{
	if (a->count > 1)
		qsort(a->items, a->count, sizeof(*a->items), compare_names);
}

void args_format(const struct args *a, struct buf *out)
{
	struct arg sorted[ARGS_MAX]; /* the strings stay with `a` */
	struct args view = { sorted, a->count };

	if (a->count > 0)
		memcpy(sorted, a->items, a->count * sizeof(*sorted));
	args_sort(&view);
	for (size_t i = 0; i < view.count; i++) {
		if (i > 0)
			buf_append_char(out, ' ');
		buf_append_text(out, sorted[i].name);
		buf_append_char(out, '=');
		percent_encode(out,
			       (struct slice){ sorted[i].value, sorted[i].value_len });
	}
}

static int parse_pair(struct args *a, struct slice pair)
{
	struct slice coded = pair, name = slice_cut(&coded, '=');
	char *value;
	size_t len;
	int rc;

	if (name.len == pair.len)
		return TIDE_ESYNTAX;
	value = mem_alloc(coded.len);
	rc = percent_decode(coded, value, &len);
	if (rc == TIDE_OK)
		rc = args_add(a, name, (struct slice){ value, len });
	mem_free(value);
	return rc;
}

int args_parse(struct args *a, struct slice text)
{
	/* A space is between two pairs: no pair follows one at the end. */
	int rc = slice_has_suffix(text, " ") ? TIDE_ESYNTAX : TIDE_OK;

	*a = (struct args){ 0 };
	while (rc == TIDE_OK && text.len > 0)
		rc = parse_pair(a, slice_cut(&text, ' '));
	if (rc < 0)
		args_deinit(a);
	return rc < 0 ? TIDE_ESYNTAX : TIDE_OK;
}
