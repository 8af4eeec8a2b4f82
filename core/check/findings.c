#include "findings.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/json.h"
#include "base/mem.h"
#include "check.h"
#include "rules/engine/script_kind.h"
#include "rules/sandbox/hints.h"
#include "rules/sandbox/bundle.h"

#define CALLED_FROM " (called from "
#define SHIPPED "shipped/" /* the place of a script that is not in the directory */

struct finding {
	char *file;
	int line;
	enum finding_kind kind;
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

static bool is_outside(const struct finding *item)
{
	return item->kind == FINDING_OUTSIDE;
}

static bool is_same(const struct finding *a, const struct finding *b)
{
	size_t len = comparable_len(a->text);

	return a->line == b->line && is_outside(a) == is_outside(b) &&
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
	f->problems += new.kind != FINDING_NOTE;
}

void findings_add(struct findings *f, enum finding_kind kind, const char *file, int line,
		  const char *format, ...)
{
	struct finding new = { .kind = kind, .line = line, .file = mem_strdup(file) };
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&new.text, format, ap) < 0)
		new.text = mem_strdup(format);
	va_end(ap);
	add_take(f, new);
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
		if (f->items[i].kind == FINDING_PROBLEM && f->items[i].line == line &&
		    strcmp(f->items[i].file, file) == 0)
			return true;
	return false;
}

/* The directory comes first, then places outside of it; of those, places without lines
 * ("broker") last and in the order of arrival. */
static int by_place(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;
	int order = is_outside(x) - is_outside(y);

	if (order == 0 && is_outside(x))
		order = (x->line == 0) - (y->line == 0);
	if (order == 0 && !(is_outside(x) && x->line == 0))
		order = strcmp(x->file, y->file);
	if (order == 0)
		order = (x->line > y->line) - (x->line < y->line);
	return order ? order : (x->number > y->number) - (x->number < y->number);
}

static void print_place(const struct findings *f, const struct finding *item, FILE *out)
{
	bool is_shipped = strncmp(item->file, SHIPPED, strlen(SHIPPED)) == 0;
	size_t len = is_outside(item) || is_shipped ? 0 : strlen(f->dir);

	while (len > 1 && f->dir[len - 1] == '/')
		len--;
	fprintf(out, "%.*s", (int)len, f->dir);
	if (len > 0 && item->file[0] && f->dir[len - 1] != '/')
		fputc('/', out);
	fputs(item->file, out);
	if (item->line > 0)
		fprintf(out, ":%d", item->line);
}

static void sort_findings(struct findings *f)
{
	if (f->count)
		qsort(f->items, f->count, sizeof(*f->items), by_place);
}

void findings_print_json(struct findings *f, FILE *out)
{
	sort_findings(f);
	for (size_t i = 0; i < f->count; i++) {
		const struct finding *item = &f->items[i];
		struct buf text = { 0 };
		struct json j = { .out = &text };

		json_object_begin(&j);
		json_member_text(&j, "file", item->file);
		if (item->line > 0)
			json_member_int(&j, "line", item->line);
		json_member_bool(&j, "note", item->kind == FINDING_NOTE);
		json_member_text(&j, "text", item->text);
		json_object_end(&j);
		fprintf(out, "%s\n", buf_cstr(&text));
		buf_deinit(&text);
	}
}

void findings_print(struct findings *f, FILE *out)
{
	sort_findings(f);
	for (size_t i = 0; i < f->count; i++) {
		print_place(f, &f->items[i], out);
		fprintf(out, ": %s%s\n", f->items[i].kind == FINDING_NOTE ? "note: " : "",
			f->items[i].text);
	}
}

/* Specs have other globals. Files that begin with '.' or '#' belong to an editor. */
static bool is_rule(const char *path)
{
	static const char spec[] = "_spec.lua";
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t len = strlen(name), spec_len = strlen(spec);

	return name[0] != '.' && name[0] != '#' &&
	       (len < spec_len || strcmp(name + len - spec_len, spec) != 0);
}

/* By luacheck's codes: errors, globals, code that does something else than it seems to.
 * The rest is style: a script with an unused variable does its work. */
static bool is_problem(const char *code)
{
	static const char *const prefixes[] = { "E",   "W0",  "W1",  "W314", "W51",
						"W53", "W57", "W58", NULL };

	for (const char *const *prefix = prefixes; *prefix; prefix++)
		if (strncmp(code, *prefix, strlen(*prefix)) == 0)
			return true;
	return false;
}

/* The replacement to advise: "accessing undefined variable 'os'", "accessing
 * undefined field 'random' of global 'math'". NULL: there is no advice. */
static const char *instead_of(const char *text)
{
	char owner[32] = "", name[32];

	if (sscanf(text, "accessing undefined field '%31[^']' of global '%31[^']'", name,
		   owner) == 2 ||
	    sscanf(text, "accessing undefined variable '%31[^']'", name) == 1)
		return hints_instead(owner, name);
	return NULL;
}

/* A module is often somebody's library: its style is none of ours, and it asks for
 * globals that other versions of Lua have. */
static void add_warning(struct findings *f, const char *path, int line, const char *code,
			const char *text)
{
	bool is_module = !script_kind_is_path(path);
	const char *instead = instead_of(text);
	bool is_wrong = is_problem(code) && (!is_module || code[0] == 'E');

	if (is_problem(code) || !is_module)
		findings_add(f, is_wrong ? FINDING_PROBLEM : FINDING_NOTE, path, line,
			     "%s%s%s", text, instead ? "; " : "", instead ? instead : "");
}

/* "dir/filter/a.lua:3:7: (W211) unused variable x" */
static void take_line(const char *line, const char *dir, struct findings *f)
{
	size_t dir_len = strlen(dir);
	const char *file = line, *end = strstr(line, ".lua:"), *text;
	char path[512], code[8];
	int number, length = 0;

	if (!end)
		return;
	if (strncmp(file, dir, dir_len) == 0)
		file += dir_len;
	file += strspn(file, "/");
	end += strlen(".lua");
	snprintf(path, sizeof(path), "%.*s", (int)(end - file), file);
	if (sscanf(end, ":%d:%*d: (%7[A-Z0-9])%n", &number, code, &length) != 2 ||
	    length == 0)
		return;
	text = end + length + strspn(end + length, " ");
	/* A file that does not load is reported already. */
	if (is_rule(path) && !findings_has(f, path, number))
		add_warning(f, path, number, code, text);
}

/* Scripts have Lua 5.4 and `tide`, without what the sandbox leaves out. The status is 127
 * when luacheck is not installed. */
static void append_command(struct buf *out, const char *dir)
{
	const char *name;

	buf_append_text(out, "command -v luacheck >/dev/null || exit 127; exec luacheck "
			     "--no-config --std lua54 --no-self --no-max-line-length "
			     "--codes --no-color --formatter plain --read-globals tide "
			     "--not-globals");
	for (size_t i = 0; (name = hints_absent(i)); i++)
		buf_printf(out, " %s", name);
	buf_append_text(out, " -- '");
	for (; *dir; dir++)
		buf_append_text(out, *dir == '\'' ? "'\\''" : (char[]){ *dir, '\0' });
	buf_append_char(out, '\'');
}

void findings_lint(const char *dir, struct findings *f)
{
	char real[PATH_MAX]; /* luacheck writes ./rules as rules */
	struct buf command = { 0 };
	FILE *output;
	char *line = NULL;
	size_t cap = 0;
	int status;

	if (!realpath(dir, real))
		snprintf(real, sizeof(real), "%s", dir);
	append_command(&command, real);
	output = popen(buf_cstr(&command), "re");
	while (output && getline(&line, &cap, output) > 0) {
		line[strcspn(line, "\n")] = '\0';
		take_line(line, real, f);
	}
	free(line);
	buf_deinit(&command);
	status = output ? pclose(output) : -1;
	if (status == -1)
		findings_add(f, FINDING_PROBLEM, "", 0, "luacheck cannot be run: %s",
			     strerror(errno));
	else if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		findings_add(f, FINDING_NOTE, "", 0,
			     "luacheck is not installed; only what a broker checks was "
			     "checked");
	/* Up to 2 it found something; higher values are failures of luacheck itself. */
	else if (!WIFEXITED(status) || WEXITSTATUS(status) > 2)
		findings_add(f, FINDING_PROBLEM, "", 0, "luacheck failed with status %d",
			     WIFEXITED(status) ? WEXITSTATUS(status) : status);
}

struct reader {
	struct slice rest;
	int line;
	bool is_in_long; /* a long string or comment continues */
};

static const char *find_text(struct slice s, const char *text)
{
	return s.len ? memmem(s.data, s.len, text, strlen(text)) : NULL;
}

/* The line up to a comment or a long string. Notes a long one that stays open. */
static struct slice cut_line(struct reader *r, struct slice line)
{
	const char *comment = find_text(line, "--"), *open = find_text(line, "[[");
	const char *end = comment ? comment : line.data + line.len;

	/* "-- see [[x" opens nothing, "--[[" does. */
	if (open && (!comment || open <= comment + 2))
		r->is_in_long =
			!find_text(slice_skip(line, (size_t)(open - line.data)), "]]");
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
		r->is_in_long = !find_text(line, "]]");
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

void findings_each_exchange(struct slice text, findings_text_fn *on_name, void *ctx)
{
	static const char field[] = "exchange";
	struct reader r = { .rest = text };
	struct slice code, name;
	const char *at;

	while (next_line(&r, &code)) {
		char before = ' ';

		while ((at = find_text(code, field))) {
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

/* Names of functions that are defined at the start of a line: `function M.decide(`. */
static void each_function(struct slice text, findings_text_fn *on_name, void *ctx)
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
	const char *end = find_text(s, "]");

	if (!end)
		return false;
	s = skip_blank(slice_skip(s, (size_t)(end - s.data) + 1));
	return slice_has_prefix(s, "=") && !slice_has_prefix(s, "==");
}

/* Keys in `t[tonumber(x)] =` and in `t[n] =` after `local n = tonumber(x)`. */
static void each_number_key(struct slice text, findings_text_fn *on_key, void *ctx)
{
	struct reader r = { .rest = text };
	struct slice code, key, names[NUMBERS_MAX], name;
	size_t count = 0;
	const char *at;

	while (next_line(&r, &code)) {
		name = number_name(code);
		if (name.len && count < NUMBERS_MAX)
			names[count++] = name;
		while ((at = find_text(code, "["))) {
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

/* The name behind the number of "10-orders"; the number in `*order`, -1 for none. */
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
		findings_add(f, FINDING_PROBLEM, second->file, second->line,
			     "has the same name as %s except for the number, and both "
			     "are active; if one is an old copy, remove it%s; "
			     "otherwise rename it",
			     first->file, first->match ? " or its match" : "");
	else if (first_order > second_order && second_order >= 0)
		findings_add(f, FINDING_PROBLEM, second->file, second->line,
			     "runs after %s although its number is lower: names are "
			     "sorted as text; write all numbers with the same number "
			     "of digits",
			     first->file);
	else
		return false;
	return true;
}

/* An old copy of a script would refuse, copy or publish a second time. */
static bool compare_rules(const struct rule *first, const struct rule *second,
			  struct findings *f)
{
	if (first->kind != second->kind || !rule_is_active(first) ||
	    !rule_is_active(second))
		return false;
	if (first->hash != second->hash)
		return compare_ordered(first, second, f);
	findings_add(f, FINDING_PROBLEM, second->file, second->line,
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
			findings_add(f, FINDING_PROBLEM, s->file, s->line,
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
			findings_add(f, FINDING_PROBLEM, s->file, s->line,
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
	findings_add(f, FINDING_NOTE, s->file, s->line,
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
		findings_add(known->findings, FINDING_PROBLEM, known->file, line,
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

	each_function((struct slice){ file->text, file->len }, on_function, &known);
	mem_free(known.items);
}

/* Lua puts numbers into a table by their value alone, texts by a hash with a seed. */
static void on_number_key(void *ctx, struct slice key, int line)
{
	const struct functions *in = ctx;

	findings_add(in->findings, FINDING_NOTE, in->file, line,
		     "a number made from a text is the key of a table: clients that "
		     "choose such numbers can make the table slow for all; use the "
		     "text itself, or tostring of the number");
}

static void check_keys(const struct bundle_file *file, struct findings *f)
{
	struct functions in = { .findings = f, .file = file->path };

	each_number_key((struct slice){ file->text, file->len }, on_number_key, &in);
}

static void on_unread(void *ctx, const char *path, const char *why, bool is_module)
{
	findings_add(ctx, is_module ? FINDING_NOTE : FINDING_PROBLEM, path, 1, "%s", why);
}

void findings_add_scripts(const struct survey *s, struct findings *f)
{
	size_t count;
	struct rule *const *scripts = survey_scripts(s, &count);
	const struct bundle *files = survey_files(s);

	survey_each_unread(s, on_unread, f);
	for (size_t i = 0; i < count; i++) {
		check_match(scripts[i], f);
		check_activity(scripts[i], scripts, count, f);
		for (size_t j = 0; j < i && !compare_rules(scripts[j], scripts[i], f);
		     j++)
			;
	}
	for (size_t i = 0; files && i < files->count; i++) {
		check_functions(&files->files[i], f);
		check_keys(&files->files[i], f);
	}
}
