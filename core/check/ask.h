/* ask.h: what a running broker has, for rules to be held against. */
#ifndef TIDE_CHECK_ASK_H
#define TIDE_CHECK_ASK_H

#include "base/buf.h"
#include "base/error.h"

/* The exchanges, queues and bindings of the URL's vhost as the requests that make
 * them: lines of DECLARE and BIND. */
TIDE_MUST_USE int ask_broker(const char *url, struct buf *lines, struct error *err);

#endif
