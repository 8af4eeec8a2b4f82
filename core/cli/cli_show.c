/* cli_show.c: list, stats, ping. */
#include <uv.h>

#include "cli.h"
#include "cli_table.h"

/* What `list` shows of each kind, in this order; of the rules' document it is
 * the member `scripts`. */
static const struct list {
	const char *what;
	const char *members;
	const char *array;
} lists[] = {
	{ "exchanges",
	  "name type durable auto_delete bindings published options unusable", NULL },
	{ "queues",
	  "name ready delayed unacked buried consumers durable options unusable", NULL },
	{ "bindings", "exchange to destination pattern options unusable", NULL },
	{ "consumers", "queue sid kind connection channel ack prefetch unacked delivered",
	  NULL },
	{ "connections", "connection name peer protocol vhost channels pending", NULL },
	{ "rules", "kind name file uses calls errors time_us doc", "scripts" },
};

static int print_stats(const struct cli *cli, const struct tidemq_reply *reply)
{
	static const struct cli_table_view view = { .units = "uptime_ms:duration" };

	if (!cli->json)
		return cli_table_print_object(reply->text, reply->len, &view);
	puts(reply->text);
	return CLI_DONE;
}

static int run_list(struct cli *cli)
{
	struct tidemq_reply reply;
	struct buf line;
	const struct list *list = NULL;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (strcmp(cli->words[0], lists[i].what) == 0)
			list = &lists[i];
	if (!list)
		return cli_usage_error(
			cli,
			"there is no list of '%s'; say exchanges, queues, bindings, "
			"consumers, connections or rules",
			cli->words[0]);
	buf_init(&line);
	buf_printf(&line, "LIST %s", cli->words[0]);
	int status = cli_ask_take(cli, &line, CLI_DONE, &reply);
	if (status != CLI_DONE)
		return status;
	if (!cli->json)
		return cli_table_print(reply.text, reply.len, list->array, list->members);
	puts(reply.text);
	return CLI_DONE;
}

static int run_stats(struct cli *cli)
{
	struct tidemq_reply reply;
	struct buf line;
	int status = CLI_DONE;

	buf_init(&line);
	buf_append_text(&line, "STATS");
	if (cli->word_count > 0)
		status = cli_add_word(cli, &line, cli->words[0]);
	status = cli_ask_take(cli, &line, status, &reply);
	return status == CLI_DONE ? print_stats(cli, &reply) : status;
}

static int run_ping(struct cli *cli)
{
	struct tidemq_reply reply;
	struct buf line;
	int status = cli_connect(cli, NULL);

	if (status != CLI_DONE)
		return status;
	buf_init(&line);
	buf_append_text(&line, "PING");
	uint64_t start = uv_hrtime();
	status = cli_ask_take(cli, &line, CLI_DONE, &reply);
	double ms = (double)(uv_hrtime() - start) / 1e6;
	if (status == CLI_DONE)
		printf(cli->json ? "{\"ok\":true,\"ms\":%.3f}\n" : "OK in %.3f ms\n", ms);
	return status;
}

const struct cli_verb cli_show_verbs[] = {
	{ .name = "list",
	  .summary = "list what there is in the broker",
	  .usage = "[options] exchanges|queues|bindings|consumers|connections|rules",
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_list },
	{ .name = "stats",
	  .summary = "show the figures of the broker or of a queue",
	  .usage = "[options] [QUEUE]",
	  .words_max = 1,
	  .run = run_stats },
	{ .name = "ping",
	  .summary = "ask the broker whether it is there",
	  .usage = "[options]",
	  .run = run_ping },
	{ .name = NULL },
};
