/* cli_push.h: rules push: a rules directory becomes the broker's, after a trial. */
#pragma once

struct cli;

/* Of the samples that the shadow has of all but publishes. */
#define CLI_PUSH_COLUMNS                                                             \
	"kind name user? queue event consumer reason attempts failures id "          \
	"published_ms:time vhost address protocol exchange key priority dedupe_id? " \
	"due_ms:time? size headers live:decision shadow:decision changes"

/* cli->words[1] is the directory. Returns the exit status. */
int cli_push_run(struct cli *cli);
