/* rewrite.h: batches of a partition are written again, without some of their records.
 *
 * Neighbours that become small become one batch. What loses nothing is left alone, unless
 * it is small and beside others. Offsets, ids and times stay; where records are missing
 * the offsets have gaps. One replacement is under way at most. */
#pragma once

#include "partition.h"

struct rewrite;

struct rewrite_ops {
	/* The record stays. */
	bool (*keeps)(const struct rewrite *w, const struct record *record);
	/* The replacement that was under way has ended; see `status`. */
	void (*on_landed)(struct rewrite *w);
};

/* Zeroed, with ops and partition. */
struct rewrite {
	const struct rewrite_ops *ops;
	struct partition *partition; /* borrowed */
	struct record_writer writer;
	/* The batches that are to become one. */
	uint32_t day;
	unsigned count;
	bool is_changed;
	uint64_t from, to; /* their first offsets */
	uint64_t end;
	size_t bytes;
	bool is_flying;
	int status;                   /* of the last replacement that has ended */
	uint64_t kept_bytes, removed; /* so far: of batches, and records */
};

void rewrite_deinit(struct rewrite *w);
/* The next batch of a day; it is not borrowed. Perhaps a replacement flies now. Nothing
 * flies before. */
void rewrite_add(struct rewrite *w, uint32_t day, const struct record_batch *b);
/* What has gathered is replaced. Nothing flies before. */
void rewrite_end(struct rewrite *w);
