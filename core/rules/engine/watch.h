/* watch.h: reports a change in directories, after it has come to rest.
 *
 * Watched are the directory, its folders to a depth of WATCH_DEPTH_MAX, and the files or
 * folders that symbolic links in them lead to. Each link on the way there, and on the way
 * to the directory, is watched too: a switched link is noticed wherever it is (`current`
 * in releases/current/rules, `..data` of a Kubernetes volume). Names that begin with a
 * dot are left out, unless a link leads to them. The folders, and the names looked at in
 * them, are bounded: links may lead anywhere. Those of the directory come first. To look
 * at all takes many turns of the loop, with a bounded part of it in each.
 *
 * Events within `debounce_ms` of each other are one. After each event the watches are set
 * anew, then it is reported. A later change is another event. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"

#define WATCH_DIRS_MAX 2
#define WATCH_DEPTH_MAX 8 /* folders in folders; bounds the recursion */

struct watch;

struct watch_config {
	const char *dirs[WATCH_DIRS_MAX]; /* NULL for none; copied */
	int64_t debounce_ms;
	void (*on_change)(void *ctx);
	void *ctx;
};

/* libuv's error when a directory cannot be watched at all. The watch is open even then,
 * and must be closed. It keeps no loop alive. */
TIDE_MUST_USE int watch_open(struct watch **out, uv_loop_t *loop,
			     const struct watch_config *config);
/* Act as if something had changed now. */
void watch_poke(struct watch *w);
/* Set the watches anew, as after an event, in the next turns. Until then those that there
 * are stay. */
void watch_renew(struct watch *w);
/* on_change is not called again. on_closed is called from the loop. */
void watch_close(struct watch *w, void (*on_closed)(void *ctx), void *ctx);
