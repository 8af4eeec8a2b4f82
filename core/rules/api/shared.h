/* shared.h: the dictionary behind tide.shared, tide.counter and tide.bucket.
 *
 * It is outside of any Lua state and outlives reloads. Changes are written behind, to
 * wherever the owner keeps them (shared_send, shared_sent), and come back with
 * shared_restore. Entries and bytes are bounded: a call that exceeds a limit gets an
 * error, and nothing is evicted. An expired entry is gone at once; later calls take back
 * its room.
 *
 * What is new is charged to a script and a vhost, which have a share. What is
 * restored is charged to nobody until it is changed. A script may hold seven eighths of
 * what other scripts leave, and for one vhost six sevenths of what its other vhosts leave
 * of that. One alone has three quarters of all. Whoever comes first leaves something for
 * all others, and no script has all, however many vhosts clients make.
 *
 * Keys are in spaces: a counter and a key of the same name are two entries. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"

#define SHARED_KEY_MAX 256
#define SHARED_SERIES_MAX 1100 /* of a counter's name with labels: meters.h */
#define SHARED_TEXT_MAX ((size_t)64 * 1024)
#define SHARED_ENTRIES_DEFAULT ((size_t)100000)
#define SHARED_BYTES_DEFAULT ((size_t)16 << 20)

/* The letter with which a key of the space begins where it is kept. */
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

/* The subject of an operation: the entry, the time, the kind of change. */
struct shared_op {
	const char *file;   /* the script that pays for what is new; NULL: nobody */
	struct slice vhost; /* that it does so for */
	enum shared_space space;
	struct slice key; /* 1 to SHARED_KEY_MAX bytes of any kind */
	bool must_exist;  /* shared_incr makes no entry: TIDE_EMPTY */
	int64_t now_ms;
	int64_t expires_unix_ms; /* of the entry that the call creates; 0: never */
	bool is_dry;             /* a dry run: compute the answer, change nothing */
};

struct shared;

/* A limit of 0 is its default. */
struct shared *shared_create(size_t entries_max, size_t bytes_max);
void shared_destroy(struct shared *s);

/* TIDE_EMPTY: there is no such entry. */
TIDE_MUST_USE int shared_get(const struct shared *s, const struct shared_op *op,
			     struct shared_value *out);
/* TIDE_ELIMIT: there is no room. */
TIDE_MUST_USE int shared_set(struct shared *s, const struct shared_op *op,
			     const struct shared_value *value, struct error *err);
/* Like shared_set, but TIDE_EEXISTS if the entry exists; it stays. */
TIDE_MUST_USE int shared_add(struct shared *s, const struct shared_op *op,
			     const struct shared_value *value, struct error *err);
/* Add a number. A missing entry is 0; an existing one keeps its expiry. TIDE_EMISMATCH:
 * the entry is no number, or the sum is no finite number or no 64-bit integer. */
TIDE_MUST_USE int shared_incr(struct shared *s, const struct shared_op *op,
			      const struct shared_value *by, struct shared_value *out,
			      struct error *err);
/* From now on it expires as `op` says. Did the entry exist? */
bool shared_touch(struct shared *s, const struct shared_op *op);
/* Did the entry exist? */
bool shared_remove(struct shared *s, const struct shared_op *op);

/* Take back the room of at most `max` expired entries. */
void shared_expire(struct shared *s, int64_t now_ms, unsigned max);

struct shared_stats {
	size_t entries; /* with those that are removed here and not yet elsewhere */
	size_t entries_max;
	size_t bytes;
	size_t bytes_max;
	size_t unwritten;
};
void shared_stats(const struct shared *s, struct shared_stats *out);

/* The holders of entries, in no order. */
struct shared_payer_stats {
	const char *file;
	struct slice vhost;
	size_t entries, bytes;
};
typedef void (*shared_payer_fn)(void *ctx, const struct shared_payer_stats *payer);
void shared_each_payer(const struct shared *s, shared_payer_fn fn, void *ctx);

/* An entry, for people. */
struct shared_info {
	struct slice key;
	struct shared_value value;
	int64_t expires_unix_ms; /* 0: never */
	size_t bytes;
	const char *file; /* that pays for it; NULL: nobody */
	struct slice vhost;
};
/* TIDE_EMPTY: there is no such entry. */
TIDE_MUST_USE int shared_read(const struct shared *s, const struct shared_op *op,
			      struct shared_info *out);

/* Entries whose key begins with a prefix, in no order, step by step: a step looks at
 * about SHARED_SCAN_LOOKS entries, for less than a millisecond, and ends when it has
 * found SHARED_SCAN_FOUND. What is there from the first step to the last is found once;
 * what comes or goes meanwhile, perhaps. */
#define SHARED_SCAN_LOOKS 10000
#define SHARED_SCAN_FOUND 1000
struct shared_scan {
	enum shared_space space;
	struct slice prefix;
	int64_t now_ms;
	uint32_t cursor;     /* in and out: 0 before the first step and after the last */
	size_t looks, found; /* out: of this step */
};
typedef void (*shared_info_fn)(void *ctx, const struct shared_info *info);
/* `fn` is told what the step finds; NULL: what it finds is removed. */
void shared_scan(struct shared *s, struct shared_scan *scan, shared_info_fn fn,
		 void *ctx);

/* Counters with labels (`name{…}`): of this name, and in all. */
size_t shared_count_family(const struct shared *s, struct slice name);
size_t shared_count_labelled(const struct shared *s);

/* The counters, in the order of their creation. */
void shared_each_counter(const struct shared *s, int64_t now_ms, unsigned max,
			 shared_info_fn fn, void *ctx);

/* Collect changes for shared_send from here on. */
void shared_keep(struct shared *s);
bool shared_is_dirty(const struct shared *s);
/* Is nothing dirty or on its way? */
bool shared_is_written(const struct shared *s);

/* An entry as it is kept elsewhere. `text` has data == NULL for a removed one. Both are
 * good for the call only. */
typedef void (*shared_change_fn)(void *ctx, struct slice key, struct slice text);
/* Report at most `max` changes. Call shared_sent before the next shared_send, with
 * whether they are kept. Changes that are not kept are reported again, unless newer ones
 * replace them. */
size_t shared_send(struct shared *s, size_t max, shared_change_fn fn, void *ctx);
void shared_sent(struct shared *s, bool is_kept);

/* Restore an entry as it was kept. An existing entry stays. The limits do not apply.
 * TIDE_ESYNTAX: the text cannot be read. */
TIDE_MUST_USE int shared_restore(struct shared *s, struct slice key, struct slice text);
