/* client_positions.h: where a reader of a topic has got to, in each partition.
 *
 * The broker forgets a reader with its connection. Over the next one it is told where to
 * begin: an offset, if the reader has one partition. Else the time of the last message,
 * that of the partition that is furthest behind; what the other partitions send again is
 * passed over. */
#pragma once

#include "base/buf.h"
#include "client_fail.h"

struct client_position;

/* Zeroed, it is of a reader that got nothing yet. */
struct client_positions {
	struct client_position *list;
	size_t count;
};

void client_positions_deinit(struct client_positions *p);

/* A message has arrived. False: it came before, over the lost connection. */
bool client_positions_see(struct client_positions *p, const struct tidemq_msg *m);
/* A message was dropped, and is to come again. */
void client_positions_unsee(struct client_positions *p, const struct tidemq_msg *m);

/* Append the option from= of the next connection; nothing, for a reader that got nothing.
 *
 * @param is_single  it reads one partition */
void client_positions_resume(struct client_positions *p, bool is_single,
			     struct buf *line);
