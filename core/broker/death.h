/* death.h: the headers that tell a dead letter's history.
 *
 * A death adds to the history: the headers of the first death stay, those of the last one
 * are replaced, and the counts go on. docs/protocol-messages.md lists them. */
#pragma once

#include "base/msg.h"

/* Pairs of queue and reason that are counted apart, and the bytes of their counts as they
 * are written on the wire: a MSG line has room for no more. Beyond are `others`. */
#define DEATH_PAIRS_MAX 64
#define DEATH_COUNTS_MAX 1500

/* The header with the publish id, for a queue with dedupe=queued that gets it back. */
#define DEATH_PUBLISH_ID SLICE(MSG_DEATH_PREFIX "publish-id")

/* A death that happens now. */
struct death {
	struct slice queue;
	const char *reason;
	const char *rule;        /* what decided it */
	struct slice publish_id; /* empty: it keeps the one that it had before, if any */
	uint32_t attempts;
	int64_t now_ms;
};

struct death_headers {
	struct msg_header items[MSG_HEADERS_ALL]; /* of the copy */
	unsigned count;
	/* The buffers that the items point into, besides the message and the death. */
	char total[16], attempts[16], time[24], id[16];
	char counts[DEATH_COUNTS_MAX];
};

/* How often the message has died already. */
uint32_t death_total(const struct msg *m);
/* The headers of the copy of `m` that dies now: its own, and the history. Good as long as
 * both are. */
void death_write(const struct msg *m, const struct death *d, struct death_headers *out);
