/* chooser.h: what the beginning of a connection says of the cell that it is for.
 *
 * Pure functions: bytes in, a choice out. Whatever cannot be read is nobody's: the
 * broker that was asked finds the words for it. */
#pragma once

#include "base/slice.h"

/* A beginning that is longer says nothing. */
#define CHOOSER_MAX ((size_t)65536)

enum choice_kind {
	CHOICE_MORE, /* its rest must come */
	CHOICE_NONE, /* it names neither */
	CHOICE_VHOST,
	CHOICE_CELL,
};

struct choice {
	enum choice_kind kind;
	unsigned cell;
	size_t vhost_len;
	char vhost[NAME_LEN_MAX];
};

/* Of the line protocol: cell= of HELLO, else vhost=, else /. Of STOMP: host of CONNECT.
 */
void chooser_read(struct slice data, struct choice *out);
/* Of an HTTP request, whose first line is enough. */
void chooser_read_http(struct slice data, struct choice *out);
/* Of the target of one: ?cell=, else the vhost of its path, else ?vhost=. */
void chooser_read_target(struct slice target, struct choice *out);
