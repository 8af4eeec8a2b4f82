/* filter.h: the filters: scripts that change, refuse, reroute or copy a message
 * on its way in.
 *
 * Those with a `match` are active, and form a chain in the order of their file
 * names. A message passes the ones that match its exchange and key, as they are
 * when its turn at the filter comes. Written to another exchange, it begins
 * anew at the first; a filter for all exchanges ("*") sees it once all the same.
 * Which filters match an address is remembered for the generation. */
#pragma once

#include "rules/api/draft.h"
#include "engine.h"

/* How often a message is rerouted, copies of copies counted along. */
#define FILTER_HOPS_MAX 8

/* The deed of one filter, for EXPLAIN. */
struct filter_step {
	const char *file;
	const char *model; /* of an instance, else NULL */
	const struct rule_match *match;
	const struct msg *before;
	const struct msg *after;
	unsigned copies;
	const char *rejected; /* the reason, or NULL */
	uint64_t time_ns;
};

/* One message on its way through the filters. */
struct filter_pass {
	struct msg *msg; /* in: a reference; out: the same, or a new one in its place */
	struct decision_context *context; /* NULL: live */
	struct slice vhost;               /* where it is published */
	int64_t now_unix_ms;              /* what delays count from */
	unsigned hops;                    /* in and out */
	/* The script that chose the exchange (of the default exchange: the queue), and
	 * the line of its function. Untouched when no script did. */
	const char *sender;
	int sender_line;
	struct draft_copies copies; /* in: max; out: references. Each has its sender */
	const char *copy_senders[DRAFT_COPIES_MAX];
	int copy_lines[DRAFT_COPIES_MAX];
	void (*on_step)(void *ctx, const struct filter_step *step); /* may be NULL */
	void *ctx;
};

/* How many filters are active. */
unsigned filter_count(const struct engine *e);

/* TIDE_EREJECTED, with the filter's reason and file; TIDE_ERULE when a filter
 * fails. The copies made until then are the caller's too. */
TIDE_MUST_USE int filter_run(struct engine *e, struct filter_pass *p, struct error *err);
