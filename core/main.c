/* main.c: the verbs of the binary. */
#include <stdio.h>
#include <string.h>

#include "cli/command_line.h"
#include "offline.h"
#include "serve.h"
#include "serve_options.h"

static void help(FILE *out)
{
	fputs("tidemq " TIDE_VERSION
	      ": a message broker whose decisions are Lua scripts\n\n"
	      "usage: tidemq VERB [options]; `tidemq help VERB` explains each\n\n"
	      "  serve    run a broker\n",
	      out);
	offline_help_list(out);
	command_line_list(out);
}

static int help_main(int argc, char **argv)
{
	if (argc < 2) {
		help(stdout);
		return 0;
	}
	if (strcmp(argv[1], "serve") == 0) {
		serve_options_help(stdout);
		return 0;
	}
	if (offline_help(stdout, argv[1]) || command_line_help(stdout, argv[1]))
		return 0;
	fprintf(stderr, "tidemq: there is no verb '%s'; see tidemq help\n", argv[1]);
	return 2;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		help(stderr);
		return 2;
	}
	if (strcmp(argv[1], "serve") == 0)
		return serve_main(argc - 1, argv + 1);
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0)
		return help_main(argc - 1, argv + 1);
	if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0) {
		puts("tidemq " TIDE_VERSION);
		return 0;
	}
	if (offline_has(argv[1]))
		return offline_main(argc - 1, argv + 1);
	if (command_line_has(argv[1]))
		return command_line_run(argc, argv);
	fprintf(stderr, "tidemq: there is no verb '%s'; see tidemq help\n", argv[1]);
	return 2;
}
