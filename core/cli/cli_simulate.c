/* cli_simulate.c: rules simulate: the timetable of a retry script's attempts. */
#include <inttypes.h>

#include "cli.h"
#include "cli_table.h"

static int add_request(struct cli *cli, struct buf *line)
{
	int status = cli_add_word(cli, line, cli->words[2]);

	buf_printf(line, " failures=%" PRIu64 " reason=%s", cli_number(cli, "failures"),
		   cli_get(cli, "reason"));
	for (int i = 3; i < cli->word_count && status == CLI_DONE; i++)
		status = cli_add_option(cli, line, cli->words[i]);
	return status;
}

/* Behind the table, why its last row is the last. */
static const char *explain_end(const char *document)
{
	static const struct {
		const char *member;
		const char *text;
	} ends[] = {
		{ "\"by\":\"delivery-limit\"",
		  "The queue's delivery-limit ends it, not the script." },
		{ "\"end\":\"error\"",
		  "The script failed; a queue would keep the message and try it again "
		  "after 5s." },
		{ "\"end\":\"failures\"", "It would go on; see --failures." },
		{ "\"end\":\"time\"", "It would go on for a very long time." },
	};
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (strstr(document, ends[i].member))
			return ends[i].text;
	return NULL;
}

int cli_simulate(struct cli *cli)
{
	struct tidemq_reply reply;
	struct buf line;

	if (cli->word_count < 3 || strcmp(cli->words[1], "retry") != 0)
		return cli_usage_error(cli, "say 'simulate retry' and a script's name");
	buf_init(&line);
	buf_append_text(&line, "RULES simulate retry");
	int status = add_request(cli, &line);
	status = cli_ask_take(cli, &line, status, &reply);
	if (status != CLI_DONE)
		return status;
	if (cli->json) {
		puts(reply.text);
		return CLI_DONE;
	}
	const char *end = explain_end(reply.text);
	status = cli_table_print(
		reply.text, reply.len, "attempts",
		"attempt at_ms:duration delay_ms:duration happens error?");
	if (status == CLI_DONE && end)
		puts(end);
	return status;
}
