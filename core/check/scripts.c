#include "scripts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "check.h"
#include "rules/sandbox/bundle.h"

/* What can be seen in the text of a script, line by line.
 *
 * This is no parser of Lua. Comments and long strings are skipped; unusual layout is
 * overlooked rather than reported wrongly. */

struct reader {
	struct slice rest;
	int line;
	bool is_in_long; /* a long string or comment continues */
};

static const char *find(struct slice s, const char *text)
{
	return s.len ? memmem(s.data, s.len, text, strlen(text)) : NULL;
}

/* The line up to a comment or a long string. Notes a long one that stays open. */
static struct slice cut_line(struct reader *r, struct slice line)
{
	const char *comment = find(line, "--"), *open = find(line, "[[");
	const char *end = comment ? comment : line.data + line.len;

	/* "-- see [[x" opens nothing, "--[[" does. */
	if (open && (!comment || open <= comment + 2))
		r->is_in_long = !find(slice_skip(line, (size_t)(open - line.data)), "]]");
	if (open && open < end)
		end = open;
	return (struct slice){ line.data, (size_t)(end - line.data) };
}

/* The next line that is not within a long string or comment. */
static bool next_line(struct reader *r, struct slice *code)
{
	while (r->rest.len > 0) {
		struct slice line = slice_cut(&r->rest, '\n');

		r->line++;
		if (!r->is_in_long) {
			*code = cut_line(r, line);
			return true;
		}
		r->is_in_long = !find(line, "]]");
	}
	return false;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static struct slice skip_blank(struct slice s)
{
	while (s.len && (s.data[0] == ' ' || s.data[0] == '\t'))
		s = slice_skip(s, 1);
	return s;
}

/* The name in `= "name"`; empty when the text goes on in another way. */
static struct slice assigned_name(struct slice s)
{
	const struct slice none = { NULL, 0 };
	struct slice name;
	const char *end;

	s = skip_blank(s);
	if (!slice_has_prefix(s, "="))
		return none;
	s = skip_blank(slice_skip(s, 1));
	if (s.len < 2 || (s.data[0] != '"' && s.data[0] != '\''))
		return none;
	end = memchr(s.data + 1, s.data[0], s.len - 1);
	if (!end)
		return none;
	name = (struct slice){ s.data + 1, (size_t)(end - s.data - 1) };
	return memchr(name.data, '\\', name.len) ? none : name;
}

void text_each_exchange(struct slice text, text_fn *on_name, void *ctx)
{
	static const char field[] = "exchange";
	struct reader r = { .rest = text };
	struct slice code, name;
	const char *at;

	while (next_line(&r, &code)) {
		char before = ' ';

		while ((at = find(code, field))) {
			if (at > code.data)
				before = at[-1];
			code = slice_skip(code, (size_t)(at - code.data) + strlen(field));
			name = assigned_name(code);
			if (!is_word(before) && slice_is_name(name) &&
			    !slice_is(name, "-") && !slice_is(name, "*"))
				on_name(ctx, name, r.line);
			before = field[0];
		}
	}
}

void text_each_function(struct slice text, text_fn *on_name, void *ctx)
{
	struct reader r = { .rest = text };
	struct slice code, name;

	while (next_line(&r, &code)) {
		if (!slice_has_prefix(code, "function "))
			continue;
		name = skip_blank(slice_skip(code, strlen("function ")));
		for (code = name;
		     code.len && (is_word(code.data[0]) || strchr(".:", code.data[0]));)
			code = slice_skip(code, 1);
		name.len -= code.len;
		if (name.len)
			on_name(ctx, name, r.line);
	}
}

#define NUMBERS_MAX 16 /* names of a file that are looked for */

static bool is_conversion(struct slice s)
{
	return slice_has_prefix(s, "tonumber(") || slice_has_prefix(s, "math.tointeger(");
}

static struct slice cut_word(struct slice s)
{
	size_t len = 0;

	while (len < s.len && is_word(s.data[len]))
		len++;
	s.len = len;
	return s;
}

/* The name in `local name = tonumber(`; empty in other lines. */
static struct slice number_name(struct slice code)
{
	const struct slice none = { NULL, 0 };
	struct slice name;

	code = skip_blank(code);
	if (!slice_has_prefix(code, "local "))
		return none;
	name = cut_word(skip_blank(slice_skip(code, strlen("local "))));
	code.len -= (size_t)(name.data + name.len - code.data);
	code.data = name.data + name.len;
	code = skip_blank(code);
	if (!slice_has_prefix(code, "="))
		return none;
	return is_conversion(skip_blank(slice_skip(code, 1))) ? name : none;
}

/* Is the text in brackets, which begins here, assigned to? */
static bool is_assigned(struct slice s)
{
	const char *end = find(s, "]");

	if (!end)
		return false;
	s = skip_blank(slice_skip(s, (size_t)(end - s.data) + 1));
	return slice_has_prefix(s, "=") && !slice_has_prefix(s, "==");
}

void text_each_number_key(struct slice text, text_fn *on_key, void *ctx)
{
	struct reader r = { .rest = text };
	struct slice code, key, names[NUMBERS_MAX], name;
	size_t count = 0;
	const char *at;

	while (next_line(&r, &code)) {
		name = number_name(code);
		if (name.len && count < NUMBERS_MAX)
			names[count++] = name;
		while ((at = find(code, "["))) {
			code = slice_skip(code, (size_t)(at - code.data) + 1);
			key = cut_word(code);
			bool is_number = is_conversion(code);
			for (size_t i = 0; i < count; i++)
				is_number |=
					slice_is_equal(names[i], key) &&
					slice_has_prefix(slice_skip(code, key.len), "]");
			if (is_number && is_assigned(code))
				on_key(ctx, key, r.line);
		}
	}
}

/* What follows the number of "10-orders"; the number in `*order`, -1 for none. */
static const char *split_order(const char *name, long *order)
{
	size_t digits = strspn(name, "0123456789");

	*order = digits && digits < 10 ? strtol(name, NULL, 10) : -1;
	if (digits && (name[digits] == '-' || name[digits] == '_'))
		digits++;
	return name + digits;
}

static bool has_common_word(const struct match_words *a, const struct match_words *b)
{
	for (size_t i = 0; i < a->count; i++) {
		for (size_t j = 0; j < b->count; j++) {
			if (strcmp(a->items[i], b->items[j]) == 0)
				return true;
		}
	}
	return a->count == 0 || b->count == 0;
}

static bool may_be_asked_both(const struct rule *a, const struct rule *b)
{
	return a->kind == SCRIPT_AUTH ||
	       (has_common_word(&a->match->exchange, &b->match->exchange) &&
		has_common_word(&a->match->queue, &b->match->queue) &&
		has_common_word(&a->match->vhost, &b->match->vhost));
}

/* Scripts that are asked one after the other, by their names. */
static bool compare_ordered(const struct rule *first, const struct rule *second,
			    struct findings *f)
{
	long first_order, second_order;
	const char *first_name = split_order(first->name, &first_order);
	const char *second_name = split_order(second->name, &second_order);

	if (!script_kind_is_ordered(first->kind) || !may_be_asked_both(first, second))
		return false;
	if (first_name[0] && strcmp(first_name, second_name) == 0)
		findings_add(f, second->file, second->line,
			     "has the same name as %s except for the number, and both "
			     "are active; if one is an old copy, remove it%s; "
			     "otherwise rename it",
			     first->file, first->match ? " or its match" : "");
	else if (first_order > second_order && second_order >= 0)
		findings_add(f, second->file, second->line,
			     "runs after %s although its number is lower: names are "
			     "sorted as text; write all numbers with the same number "
			     "of digits",
			     first->file);
	else
		return false;
	return true;
}

/* An old copy of a script would refuse, copy or publish a second time. */
static bool compare(const struct rule *first, const struct rule *second,
		    struct findings *f)
{
	if (first->kind != second->kind || !rule_is_active(first) ||
	    !rule_is_active(second))
		return false;
	if (first->hash != second->hash)
		return compare_ordered(first, second, f);
	findings_add(f, second->file, second->line,
		     "is identical to %s and both are active: everything they do happens "
		     "twice; remove one of them",
		     first->file);
	return true;
}

/* '*' and '#' are wildcards only as whole words. */
static bool has_lost_wildcard(const char *pattern)
{
	for (size_t len; *pattern; pattern += len + (pattern[len] == '.')) {
		len = strcspn(pattern, ".");
		if (len > 1 && strcspn(pattern, "*#") < len)
			return true;
	}
	return false;
}

static void check_patterns(const struct rule *s, const struct match_words *w,
			   const char *name, struct findings *f)
{
	for (size_t i = 0; i < w->count; i++) {
		if (has_lost_wildcard(w->items[i]))
			findings_add(f, s->file, s->line,
				     "match.%s is '%s', but '*' and '#' are wildcards "
				     "only as whole words; dots separate words",
				     name, w->items[i]);
	}
}

static void check_match(const struct rule *s, struct findings *f)
{
	const struct rule_match *m = s->match;

	if (!m)
		return;
	for (size_t i = 0; s->kind == SCRIPT_FILTER && i < m->exchange.count; i++) {
		if (strpbrk(m->exchange.items[i], "*#"))
			findings_add(f, s->file, s->line,
				     "match.exchange is '%s', but it takes a name and no "
				     "pattern; give the name of an exchange, '-' for the "
				     "default exchange or '*' for all",
				     m->exchange.items[i]);
	}
	check_patterns(s, &m->key, "key", f);
	check_patterns(s, &m->queue, "queue", f);
	if (s->kind == SCRIPT_DECLARE)
		check_patterns(s, &m->exchange, "exchange", f);
}

static void check_activity(const struct rule *s, struct rule *const *scripts,
			   size_t count, struct findings *f)
{
	if (!rule_is_forgotten(s, scripts, count))
		return;
	findings_note(f, s->file, s->line,
		      "is not active, because it has no 'match'; write match = {} for "
		      "everything, or use it in another file: tide.use(\"%s\", …)",
		      s->name);
}

/* The functions that a file has defined so far. */
struct functions {
	struct findings *findings;
	const char *file;
	struct function {
		struct slice name;
		int line;
	} * items;
	size_t count, cap;
};

static void on_function(void *ctx, struct slice name, int line)
{
	struct functions *known = ctx;

	for (size_t i = 0; i < known->count; i++) {
		if (!slice_is_equal(known->items[i].name, name))
			continue;
		findings_add(known->findings, known->file, line,
			     "function '%" SLICE_FMT "' is defined twice; the definition "
			     "in line %d has no effect",
			     SLICE_ARG(name), known->items[i].line);
		return;
	}
	MEM_GROW(known->items, known->count, known->cap, 16);
	known->items[known->count++] = (struct function){ name, line };
}

static void check_functions(const struct bundle_file *file, struct findings *f)
{
	struct functions known = { .findings = f, .file = file->path };

	text_each_function((struct slice){ file->text, file->len }, on_function, &known);
	mem_free(known.items);
}

/* Lua puts numbers into a table by their value alone, texts by a hash with a seed. */
static void on_number_key(void *ctx, struct slice key, int line)
{
	const struct functions *in = ctx;

	findings_note(in->findings, in->file, line,
		      "a number made from a text is the key of a table: clients that "
		      "choose such numbers can make the table slow for all; use the "
		      "text itself, or tostring of the number");
}

static void check_keys(const struct bundle_file *file, struct findings *f)
{
	struct functions in = { .findings = f, .file = file->path };

	text_each_number_key((struct slice){ file->text, file->len }, on_number_key, &in);
}

static void on_unread(void *ctx, const char *path, const char *why, bool is_module)
{
	if (is_module)
		findings_note(ctx, path, 1, "%s", why);
	else
		findings_add(ctx, path, 1, "%s", why);
}

void scripts_check(const struct survey *s, struct findings *f)
{
	size_t count;
	struct rule *const *scripts = survey_scripts(s, &count);
	const struct bundle *files = survey_files(s);

	survey_each_unread(s, on_unread, f);
	for (size_t i = 0; i < count; i++) {
		check_match(scripts[i], f);
		check_activity(scripts[i], scripts, count, f);
		for (size_t j = 0; j < i && !compare(scripts[j], scripts[i], f); j++)
			;
	}
	for (size_t i = 0; files && i < files->count; i++) {
		check_functions(&files->files[i], f);
		check_keys(&files->files[i], f);
	}
}
