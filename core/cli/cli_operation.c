#include "cli_operation.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#include "base/mem.h"

#define OPTIONS_MAX 48
#define WORDS_MAX 80
#define USAGE_WIDTH 72
#define FORM_WIDTH 24
#define EXACT_MAX (UINT64_C(1) << 53) /* of the bounds in a row of options */

/* The verb that was asked for last; its texts live as long as the process. */
static struct {
	struct cli_verb verb;
	struct buf name, summary, usage, details;
	struct option_row options[OPTIONS_MAX + 1];
	struct buf helps[OPTIONS_MAX], args[OPTIONS_MAX], takers[OPTIONS_MAX];
	unsigned taker_counts[OPTIONS_MAX];
	size_t option_count;
} built;

/* ---- rows of a verb ---- */

static bool is_of_verb(const struct operation *o, const char *verb)
{
	size_t len = strlen(verb);

	return o->line && !(o->features & OPERATION_INTERNAL) &&
	       strncasecmp(o->line, verb, len) == 0 && strchr(" ", o->line[len]);
}

/* The next row of the verb from an index on, which is moved behind it. */
static const struct operation *next_of_verb(const char *verb, size_t *index)
{
	const struct operation *o;

	while ((o = operation_at((*index)++)) != NULL)
		if (is_of_verb(o, verb))
			return o;
	return NULL;
}

/* "shadow drop" of "RULES shadow drop" */
static const char *own_words(const struct operation *o)
{
	const char *space = strchr(o->line, ' ');

	return space ? space + 1 : "";
}

static bool is_shown(const struct parameter *p)
{
	return p->type != PARAMETER_FIXED && !(p->features & PARAMETER_HTTP_ONLY);
}

static bool is_needed(const struct parameter *p)
{
	return p->features & (PARAMETER_NEEDED | PARAMETER_LINE_NEEDED);
}

static bool is_password(const struct parameter *p)
{
	return strcmp(p->name, "password") == 0;
}

/* Does a word without a name stand for it? So it is on the line, and for the text that an
 * operation is about: a key, a line of Lua. */
static bool has_place(const struct parameter *p)
{
	return is_shown(p) && (p->features & PARAMETER_WORD ||
			       (p->type == PARAMETER_TEXT && !is_password(p) &&
				(p->max > 0 || p->features & PARAMETER_NEEDED)));
}

static const char *option_name(const struct parameter *p)
{
	const char *name = operation_line_name(p);

	return strcmp(name, "n") == 0 ? "count" : name;
}

static bool is_option(const struct parameter *p)
{
	return is_shown(p) && p->type != PARAMETER_IDS && p->type != PARAMETER_OPTIONS &&
	       !(has_place(p) && is_needed(p)) && !is_password(p);
}

/* ---- the page of a verb ---- */

static void append_upper(struct buf *out, const char *text)
{
	for (; *text; text++)
		buf_append_char(out, (char)toupper((unsigned char)*text));
}

/* Without the marks of Markdown, and without an upper-case letter at its start. */
static void append_plain(struct buf *out, const char *text, bool is_lower)
{
	if (is_lower && *text)
		buf_append_char(out, (char)tolower((unsigned char)*text++));
	for (; *text; text++)
		if (*text != '`')
			buf_append_char(out, *text);
}

static void append_place(struct buf *out, const struct parameter *p)
{
	if (p->type == PARAMETER_CHOICE)
		operation_write_word(p, out);
	else
		append_upper(out, option_name(p));
}

static void append_word(struct buf *out, const char *text)
{
	buf_printf(out, "%s%s", buf_len(out) ? " " : "", text);
}

/* "shadow DIR", "QUEUE [in|out|both]", "QUEUE ID..." */
static void append_form(struct buf *out, const struct operation *o)
{
	const struct parameter *p;

	buf_append_text(out, own_words(o));
	for (p = o->parameters; p->name; p++)
		if (has_place(p) && is_needed(p)) {
			append_word(out, "");
			append_place(out, p);
		}
	if (operation_parameter(o, PARAMETER_IDS))
		append_word(out, "[ID...]");
	for (p = o->parameters; p->name; p++)
		if (has_place(p) && !is_needed(p)) {
			append_word(out, "[");
			append_place(out, p);
			buf_append_char(out, ']');
		}
	if (operation_parameter(o, PARAMETER_OPTIONS))
		append_word(out, "[NAME=VALUE...]");
}

/* A form in the usage, and with what it does in the details. */
static void add_form(const char *form, const char *help, size_t *width)
{
	bool is_first = *width == 0;

	if (!is_first && *width + strlen(form) > USAGE_WIDTH) {
		buf_append_text(&built.usage, " |\n       ");
		*width = 0;
	} else if (!is_first) {
		buf_append_text(&built.usage, " | ");
	}
	*width += strlen(form) + 3;
	buf_append_text(&built.usage, form);
	buf_printf(&built.details, "%s  %-*s ", buf_len(&built.details) ? "\n" : "",
		   FORM_WIDTH, form);
	if (strlen(form) > FORM_WIDTH)
		buf_printf(&built.details, "\n  %-*s ", FORM_WIDTH, "");
	append_plain(&built.details, help, true);
}

static void add_forms(const char *verb, const struct cli_notes *notes)
{
	size_t index = 0, width = 0;
	const struct operation *o;
	struct buf form = { 0 };

	buf_append_text(&built.usage, "[options] ");
	while ((o = next_of_verb(verb, &index)) != NULL) {
		buf_clear(&form);
		append_form(&form, o);
		add_form(buf_cstr(&form), o->help, &width);
	}
	for (const struct cli_local *l = notes ? notes->locals : NULL; l && l->word;
	     l++) {
		buf_clear(&form);
		buf_printf(&form, "%s%s%s", l->word, *l->form ? " " : "", l->form);
		add_form(buf_cstr(&form), l->help, &width);
	}
	buf_deinit(&form);
}

static struct option_row make_option(const struct parameter *p, struct buf *arg)
{
	bool has_max = p->max > 0 && p->max <= EXACT_MAX;
	struct option_row row = { .name = option_name(p) };

	if (p->type == PARAMETER_FLAG)
		return row;
	switch (p->type) {
	case PARAMETER_SWITCH:
		row.type = OPTION_CHOICE;
		buf_append_text(arg, "yes|no");
		break;
	case PARAMETER_CHOICE:
		row.type = OPTION_CHOICE;
		operation_write_word(p, arg);
		break;
	case PARAMETER_DURATION:
	case PARAMETER_UINT:
	case PARAMETER_INT:
		row.type = p->type == PARAMETER_DURATION   ? OPTION_DURATION
			   : p->features & PARAMETER_BYTES ? OPTION_BYTES
							   : OPTION_COUNT;
		buf_append_text(arg, row.type == OPTION_DURATION ? "DURATION"
				     : row.type == OPTION_BYTES  ? "BYTES"
								 : "N");
		row.has_min = true;
		row.min = (double)p->min;
		row.has_max = has_max;
		row.max = (double)p->max;
		break;
	default:
		append_upper(arg, option_name(p));
	}
	row.arg = buf_cstr(arg);
	return row;
}

/* Another row of the verb has an option of the same name. */
static void merge_option(size_t i, const struct parameter *p)
{
	struct option_row *known = &built.options[i], other;
	struct buf arg = { 0 };

	other = make_option(p, &arg);
	if (known->type == other.type && known->arg && other.arg &&
	    strcmp(known->arg, other.arg) == 0) {
		known->min = other.min < known->min ? other.min : known->min;
		known->has_max = known->has_max && other.has_max;
		known->max = other.max > known->max ? other.max : known->max;
	} else if (known->arg) {
		buf_clear(&built.args[i]);
		append_upper(&built.args[i], known->name);
		*known = (struct option_row){ .name = known->name,
					      .arg = buf_cstr(&built.args[i]) };
	}
	buf_deinit(&arg);
}

static void add_option(const struct operation *o, const struct parameter *p)
{
	size_t i = 0;

	while (i < built.option_count && strcmp(built.options[i].name, option_name(p)))
		i++;
	if (i < built.option_count) {
		merge_option(i, p);
	} else {
		assert(i < OPTIONS_MAX); /* the rows are the broker's own */
		built.options[built.option_count++] = make_option(p, &built.args[i]);
		append_plain(&built.helps[i],
			     p->help && *p->help ? p->help
			     : p->what           ? p->what
						 : p->name,
			     false);
	}
	built.taker_counts[i]++;
	buf_printf(&built.takers[i], "%s%s", buf_len(&built.takers[i]) ? ", " : "",
		   own_words(o));
}

/* "add, set: admin, monitor, or both with a comma" */
static void finish_option(size_t i, unsigned rows)
{
	struct buf help = { 0 };

	if (built.taker_counts[i] < rows)
		buf_printf(&help, "%s: ", buf_cstr(&built.takers[i]));
	buf_append_slice(&help, buf_slice(&built.helps[i]));
	buf_deinit(&built.helps[i]);
	built.helps[i] = help;
	built.options[i].help = buf_cstr(&built.helps[i]);
}

static unsigned add_options(const char *verb, const struct cli_notes *notes)
{
	size_t index = 0, own;
	const struct operation *o;
	unsigned rows = 0;

	for (; (o = next_of_verb(verb, &index)) != NULL; rows++)
		for (const struct parameter *p = o->parameters; p->name; p++)
			if (is_option(p))
				add_option(o, p);
	own = built.option_count;
	for (size_t i = 0; i < own; i++)
		finish_option(i, rows);
	for (const struct option_row *r = notes ? notes->options : NULL; r && r->name;
	     r++) {
		assert(built.option_count < OPTIONS_MAX);
		built.options[built.option_count++] = *r;
	}
	return rows;
}

static int run_operation(struct cli *cli);

const struct cli_verb *cli_operation_verb(const char *name)
{
	const struct cli_notes *notes = cli_notes_find(name);
	size_t index = 0;
	const struct operation *first = next_of_verb(name, &index);
	unsigned rows;

	if (!first || buf_len(&built.name))
		return first ? &built.verb : NULL;
	buf_append_text(&built.name, name);
	append_plain(&built.summary,
		     notes && notes->summary ? notes->summary : first->help, true);
	rows = add_options(name, notes);
	add_forms(name, notes);
	if (rows == 1 && !(notes && notes->locals[0].word))
		buf_clear(&built.details);
	if (notes && notes->details)
		buf_printf(&built.details, "%s%s", buf_len(&built.details) ? "\n\n" : "",
			   notes->details);
	built.verb = (struct cli_verb){ .name = buf_cstr(&built.name),
					.summary = buf_cstr(&built.summary),
					.usage = buf_cstr(&built.usage),
					.details = buf_len(&built.details)
							   ? buf_cstr(&built.details)
							   : NULL,
					.examples = notes ? notes->examples : NULL,
					.options = built.options,
					.words_max = WORDS_MAX,
					.run = run_operation };
	return &built.verb;
}

/* Has the verb of a row stood in a row before? */
static bool is_repeated(size_t index, const char *verb)
{
	size_t first = 0;

	return next_of_verb(verb, &first) != operation_at(index);
}

void cli_operation_list(const struct cli_verb *const *tables, FILE *out)
{
	const struct operation *o;

	for (size_t i = 0; (o = operation_at(i)) != NULL; i++) {
		const struct cli_notes *notes;
		struct buf verb = { 0 }, summary = { 0 };

		for (const char *c = o->line; c && *c && *c != ' '; c++)
			buf_append_char(&verb, (char)tolower((unsigned char)*c));
		notes = cli_notes_find(buf_cstr(&verb));
		if (o->line && is_of_verb(o, buf_cstr(&verb)) &&
		    !is_repeated(i, buf_cstr(&verb)) &&
		    !cli_find_verb(tables, buf_cstr(&verb))) {
			append_plain(&summary,
				     notes && notes->summary ? notes->summary : o->help,
				     true);
			fprintf(out, "  %-11s %s\n", buf_cstr(&verb), buf_cstr(&summary));
		}
		buf_deinit(&verb);
		buf_deinit(&summary);
	}
}

/* ---- a request ---- */

/* The words and options of a command line on their way into a request. */
struct request_writer {
	struct cli *cli;
	const struct operation *operation;
	int next; /* the first word that is not in the request */
};

/* Only what stands before the first word of a value tells the row. */
static const struct operation *find_row(struct cli *cli)
{
	struct buf line = { 0 };
	struct slice rest;
	struct error err;
	const struct operation *o;

	buf_append_text(&line, cli->verb->name);
	for (int i = 0; i < cli->word_count; i++) {
		buf_append_char(&line, ' ');
		for (const char *c = cli->words[i]; *c; c++)
			buf_append_char(&line, *c == ' ' ? '_' : *c);
	}
	o = operation_find(buf_slice(&line), &rest, &err);
	buf_deinit(&line);
	if (o && !(o->features & OPERATION_INTERNAL))
		return o;
	cli->status = cli_usage_error(cli, "%s%s%s%s", cli->word_count ? "'" : "",
				      cli->word_count ? cli->words[0] : "",
				      cli->word_count ? "': " : "",
				      o ? "that is for programs" : err.text);
	return NULL;
}

/* Is the word an option by its name, `name=value` or a flag, that the row takes? */
static bool is_named(const struct request_writer *w, const char *word)
{
	struct slice rest = slice_from(word), name = slice_cut(&rest, '=');

	if (!strchr(word, '='))
		return operation_takes(w->operation, name, OPERATION_LINE_FLAGS);
	return slice_is_name(name) &&
	       (operation_takes(w->operation, name, OPERATION_LINE_OPTIONS) ||
		operation_parameter(w->operation, PARAMETER_OPTIONS));
}

/* @param p  what is missing; NULL: there is too much */
static void refuse_words(struct request_writer *w, const struct parameter *p)
{
	struct buf what = { 0 }, form = { 0 };

	if (p)
		append_upper(&what, option_name(p));
	buf_append_text(&what, p ? " is missing" : "there are too many arguments");
	append_form(&form, w->operation);
	if (w->cli->status == CLI_DONE)
		w->cli->status = cli_usage_error(
			w->cli, "%s; usage: tidemq %s [options] %s", buf_cstr(&what),
			w->cli->verb->name, buf_cstr(&form));
	buf_deinit(&what);
	buf_deinit(&form);
}

/* The text that is given for a parameter with a place; NULL: there is none. */
static const char *take_place(struct request_writer *w, const struct parameter *p)
{
	const struct command_given *given = option_given(&w->cli->line, option_name(p));
	struct cli *cli = w->cli;

	if (given && is_option(p))
		return given->text;
	if (w->next < cli->word_count &&
	    (is_needed(p) || !is_named(w, cli->words[w->next])))
		return cli->words[w->next++];
	if (is_needed(p))
		refuse_words(w, p);
	return NULL;
}

/* The current directory of the broker may be another one. */
static char *resolve_new(struct cli *cli, const char *dir)
{
	char *path = realpath(dir, NULL), *text;

	if (!path) {
		cli->status = cli_failure("cannot find the directory '%s': %s", dir,
					  strerror(errno));
		return NULL;
	}
	text = mem_strdup(path);
	free(path);
	return text;
}

static void write_place(struct request_writer *w, const struct parameter *p)
{
	const char *text = take_place(w, p);
	char *path = NULL;

	if (text && strcmp(p->name, "dir") == 0)
		text = path = resolve_new(w->cli, text);
	if (text && p->features & PARAMETER_WORD)
		cli_add_word(w->cli, text);
	else if (text)
		cli_add_value(w->cli, slice_from(operation_line_name(p)), text);
	mem_free(path);
}

static void write_ids(struct request_writer *w)
{
	struct cli *cli = w->cli;

	while (w->next < cli->word_count && !is_named(w, cli->words[w->next]))
		cli_add_word(cli, cli->words[w->next++]);
}

static void write_option(struct request_writer *w, const struct command_given *given)
{
	struct cli *cli = w->cli;
	const struct option_row *row = given->option;
	const struct cli_notes *notes = cli_notes_find(cli->verb->name);

	for (const struct parameter *p = w->operation->parameters; p->name; p++) {
		if (!is_option(p) || strcmp(option_name(p), row->name) != 0)
			continue;
		if (has_place(p))
			return; /* stands there */
		if (row->type == OPTION_BYTES)
			buf_printf(&cli->request, " %s=%llu", row->name,
				   (unsigned long long)given->value);
		else
			cli_add_value(cli, slice_from(row->name),
				      row->arg ? given->text : NULL);
		return;
	}
	if (!(notes && option_find(notes->options, row->name)))
		cli->status = cli_usage_error(cli, "'%s %s' does not take --%s",
					      cli->verb->name, own_words(w->operation),
					      row->name);
}

static void write_request(struct cli *cli, const struct operation *o)
{
	struct request_writer w = { cli, o, 0 };

	for (const char *c = o->line; *c; c++)
		w.next += *c == ' ';
	buf_append_text(&cli->request, o->line);
	for (const struct parameter *p = o->parameters; p->name; p++)
		if (has_place(p) && p->features & PARAMETER_WORD)
			write_place(&w, p);
	if (operation_parameter(o, PARAMETER_IDS))
		write_ids(&w);
	for (const struct parameter *p = o->parameters; p->name; p++)
		if (has_place(p) && !(p->features & PARAMETER_WORD))
			write_place(&w, p);
	for (int i = 0; i < cli->line.given_count && cli->status == CLI_DONE; i++)
		if (option_find(cli->verb->options, cli->line.given[i].option->name))
			write_option(&w, &cli->line.given[i]);
	for (; w.next < cli->word_count && cli->status == CLI_DONE; w.next++)
		if (is_named(&w, cli->words[w.next]))
			cli_add_option(cli, cli->words[w.next]);
		else
			refuse_words(&w, NULL);
}

/* ---- an answer ---- */

static void print_json_text(const char *text)
{
	json_t *document = json_pack("{s:b,s:s}", "ok", 1, "text", text);

	json_dumpf(document, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(document);
}

/* OK, with a count or another word behind it. */
static int print_reply(struct cli *cli, const struct cli_answer *a)
{
	struct tidemq_reply reply;

	if (cli_ask(cli, &reply) != CLI_DONE)
		return cli->status;
	if (cli->json && reply.len > 0 && a && a->done)
		printf("{\"ok\":true,\"count\":%s}\n", reply.text);
	else if (cli->json && reply.len > 0)
		print_json_text(reply.text);
	else if (cli->json)
		puts("{\"ok\":true}");
	else if (reply.len > 0 && a && a->done)
		printf("%s %s message%s\n", a->done, reply.text,
		       strcmp(reply.text, "1") == 0 ? "" : "s");
	else if (reply.len > 0)
		puts(reply.text);
	return CLI_DONE;
}

/* The members that the first object of an array has. */
static char *columns_new(const json_t *array)
{
	struct buf out = { 0 };
	const char *name;
	json_t *value;

	json_object_foreach(json_array_get(array, 0), name, value)
		append_word(&out, name);
	name = mem_strdup(buf_cstr(&out));
	buf_deinit(&out);
	return (char *)(uintptr_t)name;
}

json_t *cli_operation_ask_cells(struct cli *cli, unsigned *missing)
{
	json_t *all, *part;
	unsigned cells;

	*missing = 0;
	if (!cli->client)
		cli->status = cli_connect(cli, NULL);
	cells = cli->status == CLI_DONE ? cli_cells(cli) : 1;
	if (cells == 1)
		return cli_table_ask_document(cli);
	all = json_array();
	for (unsigned cell = 0; cell < cells; cell++) {
		part = cli_connect_cell(cli, cell) == CLI_DONE
			       ? cli_table_ask_document(cli)
			       : NULL;
		if (!part)
			fprintf(stderr, "tidemq: cell %u of %u is missing\n", cell,
				cells);
		*missing += !part;
		json_array_extend(all, part);
		json_decref(part);
	}
	cli->status = CLI_DONE;
	return all;
}

/* One list of those that the owners of all cells give. */
static int print_cells(struct cli *cli, const struct cli_table_view *view)
{
	bool is_json = cli->json;
	unsigned missing;
	json_t *all;
	int status = CLI_DONE;

	cli->json = false;
	all = cli_operation_ask_cells(cli, &missing);
	if (!all)
		return cli->status;
	if (is_json) {
		json_dumpf(all, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(all);
	} else {
		status = cli_table_print_take(all, view);
	}
	return missing ? CLI_FAILED : status;
}

static int print_document(struct cli *cli, const struct cli_answer *a)
{
	json_t *document;
	struct cli_table_view view = { 0 };
	char *columns = NULL;
	int status;

	if (a)
		view = a->view;
	view.is_wide =
		option_find(cli->verb->options, "wide") && cli_is_given(cli, "wide");
	if (a && a->is_of_cells)
		cli->status = cli_connect(cli, NULL);
	if (cli->client && cli_cells(cli) > 1)
		return print_cells(cli, &view);
	document = cli_table_ask_document(cli);
	if (!document)
		return cli->status;
	if (a && a->print_take)
		return a->print_take(cli, document);
	if (!a && json_is_array(document))
		view.columns = columns = columns_new(document);
	status = cli_table_print_take(document, &view);
	mem_free(columns);
	return status;
}

static int run_local(struct cli *cli, const struct cli_local *l)
{
	int more = cli->word_count - 1;

	if (more != l->words)
		return cli_usage_error(cli,
				       l->words == 0 ? "nothing follows '%s'"
						     : "'%s' needs an argument",
				       l->word);
	return l->run(cli);
}

static int run_operation(struct cli *cli)
{
	const struct cli_notes *notes = cli_notes_find(cli->verb->name);
	const struct cli_answer *a;
	const struct operation *o;

	for (const struct cli_local *l = notes ? notes->locals : NULL; l && l->word; l++)
		if (cli->word_count > 0 && l->run && strcmp(cli->words[0], l->word) == 0)
			return run_local(cli, l);
	o = find_row(cli);
	if (!o)
		return cli->status;
	a = cli_answer_find(o->name);
	write_request(cli, o);
	if (a && a->begin && cli->status == CLI_DONE)
		a->begin(cli);
	if (cli->status != CLI_DONE)
		return cli->status;
	if (a && a->run)
		return a->run(cli);
	return o->features & OPERATION_ANSWERS ? print_document(cli, a)
					       : print_reply(cli, a);
}
