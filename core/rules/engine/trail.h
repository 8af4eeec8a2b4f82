/* trail.h: where a message goes through the filters, and its copies with it: the
 * hops, by way of whom. For a trial; a broker keeps nothing of it. */
#ifndef TIDE_RULES_ENGINE_TRAIL_H
#define TIDE_RULES_ENGINE_TRAIL_H

#include "filter.h"
#include "words.h"

/* A filter sent the message, or a copy, to another address. */
struct hop {
	const char *file;
	int line;
	const char *exchange, *key;
	bool has_new_key; /* the filter wrote that too */
	int parent;       /* the hop before; -1 for the first */
};

struct trail {
	struct hop *hops;
	size_t count, cap;
	struct words words; /* the texts of hops; of all walks */
	/* Of the walk: */
	const char **called; /* the filters; the generation's */
	size_t called_count, called_cap;
	const char *last_file; /* the filter that was called last */
	const char
		*first_end; /* what refused, moved or failed the message itself first */
	int circle_at;      /* the hop after too many others; -1 for none */
	int at;             /* the last hop of the message under way */
	bool is_first;
	struct filter_pass pass;
	int copy_parents[DRAFT_COPIES_MAX];
	struct engine *engine;
};

void trail_deinit(struct trail *t);
/* Pass the message and its copies, as a publish does. What was there of an earlier
 * walk is forgotten. TIDE_EREJECTED, TIDE_ERULE as engine_filter. */
TIDE_MUST_USE int trail_walk_take(struct trail *t, struct engine *e, struct msg *m,
				  int64_t now_unix_ms, struct error *err);
bool trail_has_called(const struct trail *t, const char *file);

/* The hops from `from` (nearest the end) back to before `to`. */
struct trail_circle {
	int from;
	unsigned count;
	const char *file; /* whom to tell of it */
	int line;
};
/* The circle that ends in this hop. False when none does: it is the whole way. */
bool trail_find_circle(const struct trail *t, int last, struct trail_circle *out);
/* "filter/a.lua -> exchange x, key k -> filter/b.lua -> ..."; `id` is the same for
 * circles by way of the same filters. */
void trail_describe(const struct trail *t, const struct trail_circle *c, struct buf *out,
		    struct buf *id);

#endif
