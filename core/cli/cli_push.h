/* cli_push.h: rules push: a rules directory becomes the broker's, after a trial. */
#pragma once

struct cli;

/* cli->words[1] is the directory. Returns the exit status. */
int cli_push_run(struct cli *cli);
