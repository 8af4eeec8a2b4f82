/* draft.h: the `msg` that scripts may write to, or copy.
 *
 * A message never changes. A draft holds what filters write over it. A new message is
 * made once, at the end of the chain, if something was written. Scripts of deliver/ and
 * retry/ write headers alone, those of settled/ nothing. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/msg.h"
#include "view.h"

/* A message as scripts read it. */
struct api_msg {
	const struct msg *msg;
	uint32_t attempt; /* 0 before the first delivery */
	bool has_place;   /* it is in a topic, there */
	uint32_t partition;
	uint64_t offset;
};

/* Both may raise. */
void api_msg_open(lua_State *L);
/* Push a view of `m`, which outlives the call under way. */
void api_msg_push(lua_State *L, const struct api_msg *m);

#define DRAFT_COPIES_MAX 64 /* of one publish */
#define DRAFT_PAYLOAD_MAX ((size_t)16 << 20)
/* Of all headers but the broker's, as they are written on the wire: a client's MSG line
 * holds them together with the names. */
#define DRAFT_HEADERS_MAX ((size_t)60 << 10)

/* The copies that msg:copy made. */
struct draft_copies {
	struct msg *items[DRAFT_COPIES_MAX]; /* a reference each */
	unsigned count;
	unsigned max; /* how many more there may be in all */
};

enum draft_use {
	DRAFT_FILTER,  /* all is written, and copied */
	DRAFT_DELIVER, /* headers are written */
	DRAFT_SETTLED, /* it is copied, as a new message */
	DRAFT_RETRY,   /* copied, as a new message; headers are written, except in a topic
			*/
};

struct draft {
	struct api_msg view; /* what reading `msg` reads: `now` */
	struct msg now;      /* its parts are the message's, or those below */
	struct slice vhost;  /* as scripts see it; empty after draft_init */
	enum draft_use use;  /* DRAFT_FILTER after draft_init */
	int64_t now_unix_ms; /* what a delay counts from */
	bool is_changed;
	bool has_view, has_headers_view; /* that is kept: view_push_kept */
	uint32_t exchange_changes, key_changes;
	/* The written fields; NULL where the script wrote none. */
	char *exchange, *key, *payload, *dedupe_id;
	struct draft *scratch; /* a copy in the making: freed here if that raises */
	struct draft_copies *copies;
	bool has_own_headers; /* the arrays below, filled when a header is written */
	struct msg_header headers[MSG_HEADERS_ALL];
	char *header_texts[MSG_HEADERS_ALL];
};

/* `m` and `copies` outlive the draft. */
void draft_init(struct draft *d, const struct msg *m, int64_t now_unix_ms,
		struct draft_copies *copies);
void draft_deinit(struct draft *d);
/* A new message, with the id of the first; NULL when there is no memory for it. */
struct msg *draft_build(const struct draft *d);

/* The same with the headers, and without a payload. */
struct msg *draft_build_head(const struct draft *d);

/* Both may raise. */
void draft_open(lua_State *L);
void draft_push(lua_State *L, struct draft *d);
