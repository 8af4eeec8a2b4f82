/* topic_purge.h: messages of a topic are dropped because somebody says so. */
#pragma once

#include "base/position.h"
#include "topic.h"

/* Drop what lies before the position; POSITION_NONE: all that can be read. Groups that
 * have not read it are told as they come there, whatever keep-unread says.
 *
 * @param index   of the partition; -1: all
 * @param waiter  is told when Redis has dropped it
 * @param count   of the messages: it grows until the waiter is told */
void topic_purge(struct topic *t, const struct position *before, int64_t index,
		 struct waiter *waiter, uint64_t *count);
