/* redis_child.h: the embedded Redis: a private redis-server in the broker's
 * data directory.
 *
 *   <data>/lock         held (flock) by the broker: one broker a directory
 *   <data>/redis.lock   held by the redis-server for as long as it lives
 *   <data>/redis.sock   where it listens, and nowhere else
 *   <data>/redis.log    what it says
 *   <data>/appendonlydir/...  what it keeps
 *
 * The redis-server inherits the locked descriptor of redis.lock, so whether
 * one is alive is known without a pid, which may belong to another process: a
 * redis-server that a killed broker left behind is found, and is used instead
 * of a second one. It gets SIGTERM from the kernel when the broker dies, and
 * has a session of its own, so that a terminal's Ctrl-C reaches the broker
 * alone. */
#pragma once

#include <uv.h>

#include "store.h"

struct redis_child;

/* Take the directory and find redis-server; nothing is started yet.
 *
 * @return  TIDE_OK; TIDE_EEXISTS another broker holds the directory; or what
 *          is wrong with it */
TIDE_MUST_USE int redis_child_create(struct redis_child **out, const char *data_dir,
				     enum store_fsync fsync, struct error *err);

/* A path that leads to the socket and fits into sun_path, whatever the length
 * of the directory's name. */
const char *redis_child_socket(const struct redis_child *child);
/* always, everysec, no: for appendfsync. */
const char *redis_child_fsync(const struct redis_child *child);

/* See that a redis-server lives: start one unless one does. It may take some
 * time until it listens.
 *
 * @return  TIDE_OK; TIDE_ESTORE it has died before it ever answered (`err`
 *          gives the last line of its log) or cannot be started; the next call
 *          tries again */
TIDE_MUST_USE int redis_child_ensure(struct redis_child *child, struct error *err);
/* The child answered; `pid` is what it says its process id is. From now on its death
 * is a reason to start it again at once. */
void redis_child_set_answered(struct redis_child *child, int64_t pid);

/* End the redis-server, wait for its end, free everything, call on_stopped. */
void redis_child_stop(struct redis_child *child, uv_loop_t *loop,
		      void (*on_stopped)(void *ctx), void *ctx);
/* While it is being stopped: kill it if it does not end within that time, or a second.
 * What it has confirmed is in its file. */
void redis_child_hurry(struct redis_child *child, int64_t within_ms);
