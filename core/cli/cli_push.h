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

/* The allowed differences: the word of --allow; its count in `differences` of the
 * shadow, which --allow takes too; or the member with figures of its own. */
#define CLI_PUSH_DIFFERENCES(X)           \
	X("error", "errors", NULL)        \
	X("queues", "queues", NULL)       \
	X("shard", "shards", NULL)        \
	X("rank", "ranks", NULL)          \
	X("message", "messages", NULL)    \
	X("retry", "retries", "failures") \
	X("deliver", NULL, "deliver")     \
	X("settled", NULL, "settled")     \
	X("declare", NULL, "declare")     \
	X("connect", NULL, "connect")
#define CLI_PUSH_WORD(word, count, figures) word ", "
/* "error, queues, ..., connect, all" */
#define CLI_PUSH_ALLOWED CLI_PUSH_DIFFERENCES(CLI_PUSH_WORD) "all"
