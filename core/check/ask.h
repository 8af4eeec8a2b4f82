/* ask.h: the definitions of a running broker. */
#ifndef TIDE_CHECK_ASK_H
#define TIDE_CHECK_ASK_H

#include "base/buf.h"
#include "base/error.h"

/* Appends the exchanges, queues and bindings of the URL's vhost as the requests that
 * would make them: lines of DECLARE and BIND. Blocks. */
TIDE_MUST_USE int ask_broker(const char *url, struct buf *lines, struct error *err);

#endif
