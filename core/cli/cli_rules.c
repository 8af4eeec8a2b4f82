/* cli_rules.c: rules, and its words. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/percent.h"
#include "cli.h"
#include "cli_table.h"

/* What is asked with a word, and how the answer is shown: as an object, or with
 * `columns` as a table of these members (of the array `array`, or of the whole). */
struct word {
	const char *name;
	int words_max; /* after it */
	int words_min;
	const char *array;
	const char *columns;
	int (*add)(struct cli *cli, struct buf *line); /* what follows; may be NULL */
	int (*show)(struct cli *cli, const struct tidemq_reply *reply);
	int (*run)(struct cli *cli); /* in the place of all this; may be NULL */
};

static int add_words(struct cli *cli, struct buf *line)
{
	int status = CLI_DONE;

	for (int i = 1; i < cli->word_count && status == CLI_DONE; i++)
		status = cli_add_word(cli, line, cli->words[i]);
	return status;
}

static int run_top(struct cli *cli)
{
	if (cli->word_count > 1)
		return cli_usage_error(cli, "there are too many arguments");
	return cli_rules_show_top(cli);
}

static int run_show(struct cli *cli)
{
	if (cli->word_count != 2)
		return cli_usage_error(cli, "say 'show' and a script's name");
	return cli_rules_show(cli, cli->words[1]);
}

/* What the broker takes as a directory: the same one, whatever our own current
 * directory is. */
static int add_dir(struct cli *cli, struct buf *line)
{
	char path[PATH_MAX];
	const char *dir = cli->words[1];

	if (!realpath(dir, path))
		return cli_failure("cannot find the directory '%s': %s", dir,
				   strerror(errno));
	return cli_add_word(cli, line, path);
}

static bool is_shadow_verb(const char *word)
{
	return strcmp(word, "status") == 0 || strcmp(word, "promote") == 0 ||
	       strcmp(word, "drop") == 0;
}

static int add_shadow(struct cli *cli, struct buf *line)
{
	const char *share = cli_get(cli, "share");

	if (is_shadow_verb(cli->words[1]))
		return cli_add_word(cli, line, cli->words[1]);
	int status = add_dir(cli, line);
	if (status == CLI_DONE && share) {
		buf_append_text(line, " share=");
		percent_encode(line, slice_from(share));
	}
	return status;
}

static const struct cli_table_view status_view = {
	.units = "loaded_ms:time ms:time",
	.arrays = {
		{ "scripts", "kind name file hash doc uses calls errors overruns "
			     "cache_hits time_us p50_ns p99_ns max_ns circuit "
			     "circuit_since_ms:time? skipped last_error?" },
		{ "schedules", "name file when vhost missed jitter_ms:duration active "
			       "next_ms:time? last_ms:time? result? running? runs? "
			       "failures? skipped? messages?" },
		{ "unusable", "kind vhost name reason" },
	},
};

/* The candidate rules, then a table of the decisions that differ. */
static int show_changes(struct cli *cli, const struct tidemq_reply *reply,
			const struct cli_table_view *view, const char *columns)
{
	int rc = cli_table_print_object(reply->text, reply->len, view);

	if (rc != CLI_DONE)
		return rc;
	putchar('\n');
	return cli_table_print(reply->text, reply->len, view->without, columns);
}

static int show_shadow(struct cli *cli, const struct tidemq_reply *reply)
{
	/* The samples of the document are publishes; those within are failures. */
	static const struct cli_table_view view = {
		.units = "started_ms:time delay_ms:duration",
		.without = "samples",
		.arrays = { { "samples",
			      "queue reason attempts failures id "
			      "published_ms:time vhost exchange key priority "
			      "dedupe_id? user? due_ms:time? size headers live "
			      "shadow" } },
	};

	if (strcmp(cli->words[1], "promote") == 0)
		return cli_table_print_object(reply->text, reply->len, &status_view);
	return show_changes(cli, reply, &view,
			    "differs exchange key headers live shadow changes");
}

static int show_replay(struct cli *cli, const struct tidemq_reply *reply)
{
	static const struct cli_table_view view = { .units = "", .without = "changes" };

	return show_changes(cli, reply, &view,
			    "number differs exchange key headers before after");
}

static const struct word words[] = {
	{ .name = "reload" },
	{ .name = "status" },
	{ .name = "log", .show = cli_rules_log },
	{ .name = "rollback", .words_max = 1, .add = add_words },
	{ .name = "top", .run = run_top },
	{ .name = "show", .run = run_show },
	{ .name = "simulate", .run = cli_simulate },
	{ .name = "shadow",
	  .words_min = 1,
	  .words_max = 1,
	  .add = add_shadow,
	  .show = show_shadow },
	{ .name = "recent",
	  .words_max = 1,
	  .columns =
		  "number published_ms:time exchange key priority size headers decision",
	  .add = add_words },
	{ .name = "replay",
	  .words_min = 1,
	  .words_max = 1,
	  .add = add_dir,
	  .show = show_replay },
};
#define WORD_COUNT (sizeof(words) / sizeof(words[0]))

static int show(struct cli *cli, const struct word *w, const struct tidemq_reply *reply)
{
	if (reply->len == 0) {
		puts(cli->json ? "{\"ok\":true}" : "OK");
		return CLI_DONE;
	}
	if (cli->json) {
		puts(reply->text);
		return CLI_DONE;
	}
	if (w->show)
		return w->show(cli, reply);
	if (w->columns)
		return cli_table_print(reply->text, reply->len, w->array, w->columns);
	return cli_table_print_object(reply->text, reply->len, &status_view);
}

static int ask(struct cli *cli, const struct word *w)
{
	struct tidemq_reply reply;
	struct buf line;
	int more = cli->word_count - 1, status = CLI_DONE;

	if (w->run)
		return w->run(cli);
	if (more < w->words_min || more > w->words_max)
		return cli_usage_error(cli, "'%s' takes %d to %d words, not %d", w->name,
				       w->words_min, w->words_max, more);
	buf_init(&line);
	buf_printf(&line, "RULES %s", w->name);
	if (w->add)
		status = w->add(cli, &line);
	status = cli_ask_take(cli, &line, status, &reply);
	return status == CLI_DONE ? show(cli, w, &reply) : status;
}

static int run_rules(struct cli *cli)
{
	struct buf names;

	buf_init(&names);
	for (size_t i = 0; i < WORD_COUNT; i++) {
		if (strcmp(cli->words[0], words[i].name) == 0) {
			buf_deinit(&names);
			return ask(cli, &words[i]);
		}
		buf_printf(&names, "%s%s", i ? ", " : "", words[i].name);
	}
	int status = cli_usage_error(cli, "there is no 'rules %s'; there are: %s",
				     cli->words[0], buf_cstr(&names));
	buf_deinit(&names);
	return status;
}

static const struct command_option rules_options[] = {
	{ COMMAND_NUMBER("failures", "100", "simulate: end after so many, 1-1000", 1,
			 1000) },
	{ COMMAND_CHOICE("reason", "nack|timeout|gone", "nack",
			 "simulate: why it fails") },
	{ COMMAND_TEXT("share", "PERCENT", NULL,
		       "with shadow DIR: of the publishes, 10% by default") },
	{ .name = NULL },
};

const struct cli_verb cli_rules_verbs[] = {
	{ .name = "rules",
	  .summary = "show and change which rules are active",
	  .usage = "[options] reload | status | top | show NAME | log | rollback [HASH] "
		   "|\n"
		   "       shadow DIR|status|promote|drop | recent [N] | replay DIR |\n"
		   "       simulate retry NAME [OPTION=VALUE]...",
	  .details = "reload     load the rules directory again\n"
		     "status     the active rules, and how their scripts do\n"
		     "top        what the scripts cost, the most expensive first\n"
		     "show       a script and its options\n"
		     "log        the generations, the newest first\n"
		     "rollback   make the previous generation active, or the one with "
		     "this hash;\n"
		     "           the rules directory stays as it is, and its next change "
		     "is loaded\n"
		     "shadow     let the candidate rules in DIR decide beside the active "
		     "ones, and\n"
		     "           show where they differ; promote makes them active, drop "
		     "ends it\n"
		     "recent     the last publishes, and what was decided\n"
		     "replay     decide them again with the rules in DIR, and show what "
		     "changes\n"
		     "simulate   print what becomes of a message that fails each time: "
		     "when it is\n"
		     "           attempted, what the script decides, and how it ends. An "
		     "OPTION is\n"
		     "           one of the script, with or without \"retry.\" before "
		     "it, or\n"
		     "           delivery-limit or ack-timeout of the queue:\n"
		     "\n"
		     "  tidemq rules simulate retry exponential base=500ms cap=1m "
		     "delivery-limit=0",
	  .options = rules_options,
	  .words_min = 1,
	  .words_max = 80,
	  .run = run_rules },
	{ .name = NULL },
};
