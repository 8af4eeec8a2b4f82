/* main.c: the verbs of the binary. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "broker/config.h"
#include "broker/queue_figures.h"
#include "cli/cli_operation.h"
#include "host/machine.h"
#include "offline.h"
#include "serve.h"

static const struct cli_verb *const tables[] = {
	offline_verbs,
	cli_publish_verbs,
	cli_consume_verbs,
	cli_show_verbs,
	cli_explain_verbs,
	cli_bench_verbs,
	cli_lock_verbs,
	cli_top_verbs,
	cli_trace_verbs,
	cli_definition_verbs,
	NULL,
};

static void print_help(FILE *out)
{
	fputs("tidemq " TIDE_VERSION
	      ": a message broker whose decisions are Lua scripts\n\n"
	      "usage: tidemq VERB [options]; `tidemq help VERB` explains each\n\n"
	      "  serve       run a broker\n",
	      out);
	cli_list_verbs(tables, out);
	cli_operation_list(tables, out);
}

static int refuse_verb(const char *name)
{
	fprintf(stderr, "tidemq: there is no verb '%s'; see tidemq help\n", name);
	return 2;
}

/* Written by hand, or of an operation. */
static const struct cli_verb *find_verb(const char *name)
{
	const struct cli_verb *verb = cli_find_verb(tables, name);

	return verb ? verb : cli_operation_verb(name);
}

static const struct cli_verb *find_rules_verb(const char *name, const char *word)
{
	return word && strcmp(name, "rules") == 0 ? offline_rules_verb(word) : NULL;
}

/* @param word  of `rules`; NULL: none */
static int help_main(const char *name, const char *word)
{
	const struct cli_verb *verb = find_rules_verb(name, word);

	if (!verb)
		verb = find_verb(name);
	if (strcmp(name, "serve") == 0)
		serve_options_help(stdout);
	else if (strcmp(name, "help") == 0)
		print_help(stdout);
	else if (verb)
		cli_help(verb);
	else
		return refuse_verb(name);
	return 0;
}

/* Print a generated table of the documents: `make docs` puts it in its place. */
static int docs_main(const char *name)
{
	static const struct {
		const char *name;
		void (*write)(struct buf *out);
	} documents[] = {
		{ "queue-options", config_document_queue },
		{ "topic-options", config_document_topic },
		{ "exchange-options", config_document_exchange },
		{ "serve-options", serve_options_document },
		{ "events", event_document },
	};
	static const struct {
		const char *name;
		const struct figure_table *table;
	} metrics[] = {
		{ "queue-metrics", &queue_figures_all },
		{ "topic-metrics", &queue_figures_topic },
		{ "group-metrics", &queue_figures_group },
		{ "exchange-metrics", &queue_figures_exchange },
	};
	struct buf text = { 0 };

	for (size_t i = 0; name && i < sizeof(metrics) / sizeof(metrics[0]); i++)
		if (strcmp(name, metrics[i].name) == 0)
			figure_document(metrics[i].table, &text);
	for (size_t i = 0; name && i < sizeof(documents) / sizeof(documents[0]); i++)
		if (strcmp(name, documents[i].name) == 0)
			documents[i].write(&text);
	fwrite(buf_cstr(&text), 1, buf_len(&text), stdout);
	buf_deinit(&text);
	return 0;
}

int main(int argc, char **argv)
{
	const struct cli_verb *verb;

	bytes_seed(machine_random(), machine_random());
	if (argc < 2) {
		print_help(stderr);
		return 2;
	}
	if (strcmp(argv[1], "serve") == 0)
		return serve_main(argc - 1, argv + 1);
	if (strcmp(argv[1], "trial") == 0)
		return offline_trial(argc - 1, argv + 1);
	if (strcmp(argv[1], "docs") == 0)
		return docs_main(argv[2]);
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
	    strcmp(argv[1], "-h") == 0)
		return help_main(argc > 2 ? argv[2] : "help", argc > 3 ? argv[3] : NULL);
	if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0) {
		puts("tidemq " TIDE_VERSION);
		return 0;
	}
	verb = find_rules_verb(argv[1], argv[2]);
	if (verb)
		return cli_run(verb, argc - 2, argv + 2);
	verb = find_verb(argv[1]);
	return verb ? cli_run(verb, argc - 1, argv + 1) : refuse_verb(argv[1]);
}
