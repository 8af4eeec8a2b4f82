/* handle.h: what the broker holds of a script: an index or a strategy.
 *
 * A handle has a number, which is that of its use in each generation. It keeps what is
 * needed to make that use again: the script's name and the options, and for an index
 * the bindings. */
#ifndef TIDE_RULES_ENGINE_HANDLE_H
#define TIDE_RULES_ENGINE_HANDLE_H

#include <sys/queue.h>

#include "use.h"

struct handle {
	TAILQ_ENTRY(handle) link;
	struct engine *engine;
	size_t number;
	enum script_kind kind;
	char *name;
	char *user; /* "exchange 'orders'" */
	struct args options;
	uint64_t staged;     /* the serial of the build that has it */
	uint32_t staged_end; /* of an index: it has the bindings in places below */
	uint64_t cache_hits; /* decisions that the broker remembered */
};
TAILQ_HEAD(handle_list, handle);

/* Enter the handle in the engine and make its use in the active generation. A failure
 * leaves the handle as it was. */
TIDE_MUST_USE int handle_open(struct handle *h, struct engine *e, enum script_kind kind,
			      struct slice name, const struct args *options,
			      const char *user, struct error *err);
void handle_close(struct handle *h);

/* Make the handle's use in a generation, for an index without its bindings. The error
 * names the user. */
TIDE_MUST_USE int handle_install(struct handle *h, struct generation *g,
				 struct error *err);

#endif
