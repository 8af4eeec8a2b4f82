/* serve.h: `tidemq serve`: its options, and a broker from its start to its end. */
#pragma once

#include <stdio.h>

#include "host/log.h"
#include "broker/broker.h"
#include "net/server.h"

#define SERVE_LISTEN_MAX 16
#define SERVE_FILE_VALUES_MAX 256

struct serve_options {
	const char *listen[SERVE_LISTEN_MAX];
	unsigned listen_count;
	const char *http;   /* where it listens for HTTP; NULL: nowhere */
	bool is_http_asked; /* it was given: without it the broker does not start */
	bool is_max_connections_asked; /* it was given: less is worth a warning */
	struct broker_config broker;
	struct args settings; /* --rules-set */
	struct server_config server;
	int64_t drain_timeout_ms;
	int64_t stop_timeout_ms;
	bool is_standby;
	const char *cluster;   /* where other brokers come in; NULL: nowhere */
	const char *advertise; /* what they connect to, if that is not it */
	bool is_anonymous;     /* others may reach it although nobody has to log in */
	enum log_level log_level;
	enum log_format log_format;
	bool is_help;
	char *from_file[SERVE_FILE_VALUES_MAX]; /* texts of the configuration file */
	unsigned from_file_count;
	char *store_url; /* the --store with a password, which the command line lacks now
			  */
};

/* Read the configuration file, then the command line, which overrides it. Texts of the
 * command line are borrowed. Call serve_options_deinit in every case. */
TIDE_MUST_USE int serve_options_parse(struct serve_options *o, int argc, char **argv,
				      struct error *err);
void serve_options_deinit(struct serve_options *o);
void serve_options_help(FILE *out);
/* The documents' table. */
void serve_options_document(struct buf *out);

/* Returns the exit status: 0 after an orderly end, 1 for a failed start, 2 for
 * wrong usage; the last two with one line on standard error. */
int serve_main(int argc, char **argv);
