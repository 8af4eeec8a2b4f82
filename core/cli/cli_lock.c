/* cli_lock.c: run a command while holding a lock. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/decimal.h"
#include "cli.h"

#define ENV_TOKEN "TIDEMQ_LOCK_TOKEN"
#define LOOK_MS 50        /* between two looks at the command */
#define RECONNECT_MS 1000 /* between two attempts to connect */

extern char **environ;

struct guarded {
	struct cli *cli;
	char token[DECIMAL_MAX + 1];
	pid_t child;
	bool is_lost; /* somebody else may have the lock */
};

/* LOCK, with the token once there is one. */
static int ask(struct guarded *g)
{
	struct cli *cli = g->cli;
	struct tidemq_reply reply;

	buf_clear(&cli->request);
	buf_append_text(&cli->request, "LOCK");
	cli_add_word(cli, cli->words[0]);
	buf_printf(&cli->request, " ttl=%" PRIu64, cli_number(cli, "ttl"));
	if (g->token[0])
		buf_printf(&cli->request, " token=%s", g->token);
	else
		buf_printf(&cli->request, " wait=%" PRIu64 "%s", cli_number(cli, "wait"),
			   cli_is_given(cli, "shared") ? " shared" : "");
	if (cli_ask(cli, &reply) == CLI_DONE)
		snprintf(g->token, sizeof(g->token), "%s", reply.text);
	return cli->status;
}

/* The connection has ended: take the lock back before it lapses. */
static void come_back(struct guarded *g)
{
	struct cli *cli = g->cli;
	const struct tidemq_options patient = { .request_timeout_ms = -1 };

	tidemq_disconnect(cli->client);
	cli->client = NULL;
	cli->status = CLI_DONE;
	cli->status = cli_connect(cli, &patient);
	if (cli->status != CLI_DONE || ask(g) == CLI_DONE)
		return;
	g->is_lost = strcmp(tidemq_last_error(cli->client)->word, "lease-lost") == 0;
	if (g->is_lost)
		kill(g->child, SIGTERM);
}

/* Until the command ends; gives its status. */
static int watch(struct guarded *g)
{
	struct tidemq_msg *ignored;
	int status, rc;

	while (waitpid(g->child, &status, WNOHANG) == 0) {
		if (g->is_lost || !g->cli->client) {
			usleep((g->is_lost ? LOOK_MS : RECONNECT_MS) * 1000);
			if (!g->is_lost)
				come_back(g);
			continue;
		}
		rc = tidemq_next(g->cli->client, LOOK_MS, &ignored);
		if (rc != TIDEMQ_ETIMEDOUT && rc != TIDEMQ_OK)
			come_back(g);
	}
	return status;
}

static int release(struct guarded *g)
{
	struct cli *cli = g->cli;
	struct tidemq_reply reply;

	if (g->is_lost || !cli->client)
		return CLI_FAILED;
	buf_clear(&cli->request);
	buf_append_text(&cli->request, "UNLOCK");
	cli_add_word(cli, cli->words[0]);
	buf_printf(&cli->request, " %s", g->token);
	return cli_ask(cli, &reply);
}

static volatile sig_atomic_t term_to; /* the command */

static void on_term(int number)
{
	kill((pid_t)term_to, number);
}

/* A terminal sends its signals to the command as well, whose end is waited for. */
static void pass_signals(pid_t child)
{
	const struct sigaction pass = { .sa_handler = on_term, .sa_flags = SA_RESTART };

	term_to = child;
	sigaction(SIGTERM, &pass, NULL);
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
}

static int run_lock(struct cli *cli)
{
	const struct tidemq_options patient = { .request_timeout_ms = -1 };
	struct guarded g = { .cli = cli };
	int rc, status;

	cli->status = cli_connect(cli, &patient);
	if (ask(&g) != CLI_DONE)
		return cli->status;
	setenv(ENV_TOKEN, g.token, 1);
	rc = posix_spawnp(&g.child, cli->words[1], NULL, NULL, cli->words + 1, environ);
	if (rc != 0) {
		release(&g);
		return cli_failure("cannot run %s: %s", cli->words[1], strerror(rc));
	}
	pass_signals(g.child);
	status = watch(&g);
	if (release(&g) != CLI_DONE)
		return cli_failure("the lock was lost while %s ran", cli->words[1]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static const struct option_row options[] = {
	{ COMMAND_DURATION("wait", "1h", "how long to wait for the lock", 0,
			   3600 * 1000) },
	{ COMMAND_DURATION("ttl", "30s",
			   "how long it stays held when the connection ends", 100,
			   24 * 3600 * 1000) },
	{ COMMAND_FLAG("shared", "beside others who share it") },
	{ .name = NULL },
};

const struct cli_verb cli_lock_verbs[] = {
	{ .name = "lock",
	  .summary = "run a command while holding a lock",
	  .usage = "[options] NAME -- COMMAND [ARGUMENT...]",
	  .details =
		  "The command finds the token of the lock in $" ENV_TOKEN ". A lost\n"
		  "connection is made anew, and the lock taken back. When somebody else\n"
		  "may have it, the command gets SIGTERM. Ends with the status of the\n"
		  "command, or with 1 if the lock was lost.",
	  .examples = "  tidemq lock nightly -- ./report.sh\n"
		      "  tidemq lock nightly --wait 0 -- ./report.sh\n",
	  .options = options,
	  .words_min = 2,
	  .words_max = 1000,
	  .run = run_lock },
	{ .name = NULL },
};
