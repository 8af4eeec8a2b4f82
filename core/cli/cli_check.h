/* cli_check.h: what a running broker has, for rules to be held against. */
#ifndef TIDE_CLI_CLI_CHECK_H
#define TIDE_CLI_CLI_CHECK_H

#include "base/buf.h"
#include "base/error.h"

/* The exchanges, queues and bindings of the URL's vhost as the requests that make
 * them: lines of DECLARE and BIND. */
TIDE_MUST_USE int cli_check_ask(const char *url, struct buf *lines, struct error *err);

#endif
