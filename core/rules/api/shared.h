/* shared.h: the dictionary behind tide.shared, tide.counter and tide.bucket.
 *
 * Kept outside of any Lua state, so that it lives through reloads; what changes
 * is written behind to wherever the owner keeps it (shared_send, shared_sent),
 * and comes back with shared_restore. Bounded in entries and in bytes: whoever
 * reaches a limit gets an error, and nothing is evicted. What has expired is
 * gone at once, and its room is taken back by later calls.
 *
 * Keys are in spaces, so that a counter and a key of the same name do not meet. */
#ifndef TIDE_RULES_API_SHARED_H
#define TIDE_RULES_API_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"

#define SHARED_KEY_MAX 256
#define SHARED_TEXT_MAX ((size_t)64 * 1024)
#define SHARED_ENTRIES_DEFAULT ((size_t)100000)
#define SHARED_BYTES_DEFAULT ((size_t)16 << 20)

/* The letter is what a key of the space begins with where it is kept. */
enum shared_space { SHARED_KEYS = 'k', SHARED_COUNTERS = 'c', SHARED_BUCKETS = 'b' };

enum shared_type { SHARED_TEXT, SHARED_INTEGER, SHARED_NUMBER, SHARED_BOOLEAN };

struct shared_value {
	enum shared_type type;
	union {
		struct slice text; /* good until the next change */
		int64_t integer;
		double number;
		bool boolean;
	};
};

/* Which entry, when, and how. */
struct shared_op {
	enum shared_space space;
	struct slice key; /* 1 to SHARED_KEY_MAX bytes of any kind */
	int64_t now_ms;
	int64_t expires_unix_ms; /* for what the call makes; 0 = never */
	bool is_dry;             /* compute the answer and change nothing */
};

struct shared;

/* 0 as a limit is its default. */
struct shared *shared_create(size_t entries_max, size_t bytes_max);
void shared_destroy(struct shared *s);

/* TIDE_EMPTY when there is no such entry. */
TIDE_MUST_USE int shared_get(const struct shared *s, const struct shared_op *op,
			     struct shared_value *out);
/* TIDE_ELIMIT with a sentence when there is no room. */
TIDE_MUST_USE int shared_set(struct shared *s, const struct shared_op *op,
			     const struct shared_value *value, struct error *err);
/* As shared_set, but TIDE_EEXISTS when there is an entry, which stays. */
TIDE_MUST_USE int shared_add(struct shared *s, const struct shared_op *op,
			     const struct shared_value *value, struct error *err);
/* Add a number; a missing entry counts 0. An entry that is there keeps its
 * expiry. TIDE_EMISMATCH when the entry is no number, would leave the range
 * of integers or would be no finite number. */
TIDE_MUST_USE int shared_incr(struct shared *s, const struct shared_op *op,
			      const struct shared_value *by, struct shared_value *out,
			      struct error *err);
/* Whether there was one. */
bool shared_remove(struct shared *s, const struct shared_op *op);

/* Take back the room of at most `max` expired entries. */
void shared_expire(struct shared *s, int64_t now_ms, unsigned max);

struct shared_stats {
	size_t entries; /* those removed but not yet forgotten elsewhere too */
	size_t entries_max;
	size_t bytes;
	size_t bytes_max;
	size_t unwritten;
};
void shared_stats(const struct shared *s, struct shared_stats *out);

/* The counters, in the order in which they were made. */
typedef void (*shared_counter_fn)(void *ctx, struct slice name,
				  const struct shared_value *value);
void shared_each_counter(const struct shared *s, int64_t now_ms, unsigned max,
			 shared_counter_fn fn, void *ctx);

/* ---- being kept elsewhere ------------------------------------------------- */

/* From here on changes are gathered for shared_send. */
void shared_keep(struct shared *s);
bool shared_is_dirty(const struct shared *s);
/* Nothing is dirty or on its way. */
bool shared_is_written(const struct shared *s);

/* An entry as it is to be kept; `text` has data == NULL for one that is gone.
 * Both are good for the call only. */
typedef void (*shared_change_fn)(void *ctx, struct slice key, struct slice text);
/* Tell of at most `max` changes that nobody was told of. The next call comes
 * after shared_sent, which says whether they have been kept: if not, they are
 * told of again, unless they have been overtaken. */
size_t shared_send(struct shared *s, size_t max, shared_change_fn fn, void *ctx);
void shared_sent(struct shared *s, bool is_kept);

/* An entry as it was kept. One that is there already stays. TIDE_ESYNTAX when
 * it cannot be read; the limits are not asked. */
TIDE_MUST_USE int shared_restore(struct shared *s, struct slice key, struct slice text);

#endif
