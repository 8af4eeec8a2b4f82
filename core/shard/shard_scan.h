/* shard_scan.h: the messages of a shard in one state, in their order, from a place on.
 *
 * A reader takes row after row. The window is read from memory, the backlog from Redis;
 * nothing is changed or brought in. While messages are parked, of which Redis alone may
 * have the body, all ready ones are read from Redis. Between two reads messages may move:
 * who stays in its place is read once. */
#pragma once

#include "base/msg_match.h"
#include "shard.h"

enum shard_scan_result {
	SHARD_SCAN_ROWS,  /* there are some */
	SHARD_SCAN_AGAIN, /* none yet: the search goes on with the next call */
	SHARD_SCAN_ASKED, /* Redis is asked: on_filled will be called */
	SHARD_SCAN_END,   /* there are no more */
};

struct shard_row {
	struct store_row row; /* with a reference of the message */
	/* In memory; good until the shard is changed. NULL: Redis alone has it. */
	const struct entry *entry;
};

/* A look for a message at the front of a shard. */
struct shard_look {
	const struct msg_match *match;
	unsigned messages; /* how many it looks at, and of how many bytes */
	size_t bytes;
};
/* The first ready message in memory that matches and has not expired, of a group one of
 * those that may be next; NULL: there is none. When Redis has more, and there is room, a
 * read is under way. */
struct entry *shard_scan_match(struct shard *sh, const struct shard_look *look);

/* What has been read and not been taken. */
struct shard_scan {
	struct shard *shard; /* a reference */
	enum entry_state state;
	struct place from; /* the next read begins here */
	unsigned count, taken;
	unsigned max;     /* rows of one read */
	bool is_asking;   /* Redis is being asked */
	bool is_end;      /* nothing is behind the rows */
	struct error err; /* its code < 0: Redis could not be read; then it is the end */
	/* Redis has answered. */
	void (*on_filled)(struct shard_scan *scan);
	void *ctx;
	struct shard_row *rows;
};

/* `from` is the caller's, like the members that are not named here.
 *
 * @param max  rows of one read */
void shard_scan_init(struct shard_scan *scan, struct shard *sh, enum entry_state state,
		     unsigned max);
/* Not while Redis is asked. */
void shard_scan_deinit(struct shard_scan *scan);

/* Read on, when all rows are taken. @param bytes  of messages, at most; one comes in any
 * case */
enum shard_scan_result shard_scan_fill(struct shard_scan *scan, size_t bytes);

/* The shard may have changed: read anew what came from memory. */
void shard_scan_renew(struct shard_scan *scan);

/* The next row, or NULL. Its `msg` may be NULL: a body that cannot be read. */
static inline const struct shard_row *shard_scan_row(const struct shard_scan *scan)
{
	return scan->taken < scan->count ? &scan->rows[scan->taken] : NULL;
}
/* It is done with. */
void shard_scan_take(struct shard_scan *scan);
