/* watch.h: tells when something changed in a directory, after it came to rest.
 *
 * Watched are the directory, its folders (with what symbolic links lead to) and
 * its place in its parent, so that a directory that is replaced, or a link that
 * is switched to another, is noticed too. Events within `debounce_ms` of each
 * other are one. The watches are set anew after each event, before it is told:
 * what changes later is an event again. */
#ifndef TIDE_RULES_WATCH_H
#define TIDE_RULES_WATCH_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "../base/error.h"

#define WATCH_DIRS_MAX 2

struct watch;

struct watch_config {
	const char *dirs[WATCH_DIRS_MAX]; /* NULL for none; copied */
	int64_t debounce_ms;
	void (*on_change)(void *ctx);
	void *ctx;
};

/* libuv's error when a directory cannot be watched at all; the watch is open all
 * the same, and has to be closed. It keeps no loop alive. */
TIDE_MUST_USE int watch_open(struct watch **out, uv_loop_t *loop,
			     const struct watch_config *config);
/* As if something had changed just now. */
void watch_poke(struct watch *w);
/* on_change is not called any more; on_closed is, from the loop. */
void watch_close(struct watch *w, void (*on_closed)(void *ctx), void *ctx);

#endif
