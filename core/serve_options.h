/* serve_options.h: what `tidemq serve` is told, on the command line. */
#ifndef TIDE_SERVE_OPTIONS_H
#define TIDE_SERVE_OPTIONS_H

#include <stdio.h>

#include "host/log.h"
#include "broker/broker.h"
#include "net/server.h"

#define SERVE_LISTEN_MAX 16
#define SERVE_FILE_VALUES_MAX 256

struct serve_options {
	const char *listen[SERVE_LISTEN_MAX];
	unsigned listen_count;
	struct broker_config broker;
	struct server_config server;
	int64_t drain_timeout_ms;
	enum log_level log_level;
	bool is_help;
	char *from_file[SERVE_FILE_VALUES_MAX]; /* texts of the configuration file */
	unsigned from_file_count;
};

/* The configuration file first, then the command line, which has the last word.
 * The strings of the command line stay the caller's. TIDE_ESYNTAX says what is
 * wrong and allowed; the options are to be deinitialised in either case. */
TIDE_MUST_USE int serve_options_parse(struct serve_options *o, int argc, char **argv,
				      struct error *err);
void serve_options_deinit(struct serve_options *o);
void serve_options_help(FILE *out);

#endif
