/* partition_private.h: what the files of this floor know of a partition. */
#pragma once

#include "append.h"
#include "tail.h"

/* After something failed, before it is tried again. */
#define PARTITION_RETRY_MS 200
/* Not for longer than was meant, when the clock was set back. */
bool partition_is_resting(const struct partition_env *env, int64_t until_ms,
			  int64_t most_ms);

/* What is known of a day. Its batches have offsets from `base` to that of the next day.
 */
struct partition_day {
	uint32_t day;  /* yyyymmdd */
	bool is_going; /* a trim that is under way removes it */
	uint64_t base, position;
	int64_t first_ms;
};

struct partition {
	struct partition_env *env;
	void *owner;
	struct store_log *keys;
	TAILQ_ENTRY(partition) dirty_link; /* of env->dirty or env->unkept */
	struct append_list appends;        /* in order; the first may be under way */
	struct append *open;               /* the last of them, if it takes more */
	struct joint *joint;               /* that is being built: joint.h */
	struct tail tail;
	struct merge *merge;     /* NULL: it had no small batch yet */
	struct compact *compact; /* NULL: all its messages are kept */
	struct partition_day *days;
	uint32_t *unsure_days;  /* on which refused appends may have left something */
	struct buf unsure_seen; /* likewise: their publish ids */
	unsigned unsure_seen_count;
	uint64_t start, readable, end;
	/* Of batches, as record.h has it: the one that has `start`; what comes at
	 * `readable`; what comes next. */
	uint64_t first_position, position, next_position;
	uint64_t largest; /* an upper bound of a batch's bytes, as Redis knows it */
	int64_t last_ms;  /* of the last message that can be read */
	int64_t append_ms;
	uint32_t refs;
	uint16_t index, day_count, unsure_count;
	bool is_closed, is_dirty;
	bool is_trim_refused; /* Redis does not know `start` */
};

static inline struct partition *partition_ref(struct partition *p)
{
	p->refs++;
	return p;
}
void partition_unref(struct partition *p);
/* All that has been appended and does not fly. */
void partition_take_appends(struct partition *p, struct append_list *out);
/* It fails: its offsets are given out again. */
void partition_fail(struct partition *p, int status, const char *text);
/* The same for one that does not fly, and all behind it. */
void partition_fail_from(struct partition *p, const struct append *first, int status,
			 const char *text);
/* The first append, as it is to be sent; NULL: there is none. */
struct append *partition_take_append(struct partition *p);
/* It is, or is not, in the list of those that have something to send. */
void partition_set_dirty(struct partition *p, bool is_dirty);
/* The open append, if there is one, takes no more. */
void partition_close_append(struct partition *p);
/* What is told to Redis of an append. `before` is the one that is sent with it, in front
 * of it; or NULL. */
struct store_log_batch;
struct store_log_append partition_flush_form(const struct partition *p,
					     const struct append *a,
					     struct store_log_batch *batches,
					     const struct append *before);
/* Redis has the first append. */
void partition_flush_land(struct partition *p);
/* It has refused it: it fails, and all behind it. */
void partition_flush_refuse(struct partition *p, int status, const char *text,
			    bool is_unsure);
void partition_add_day(struct partition *p, const struct partition_day *day);
/* The last one that no trim removes, or NULL. */
const struct partition_day *partition_last_day(const struct partition *p);
/* Where Redis has an offset: the last day that begins at or before it; else the first. */
const struct partition_day *partition_day_of(const struct partition *p, uint64_t offset);

/* Where the first day behind this one begins, `most` at most. */
uint64_t partition_next_day_base(const struct partition *p, uint32_t day, uint64_t most);

/* Something to be done by partition_flush: a completion does not run before the call that
 * asks for it has returned. `partition` is referenced. */
struct partition_call {
	STAILQ_ENTRY(partition_call) link;
	struct partition *partition;
	void (*run)(struct partition_call *call); /* frees it */
};
void partition_call_later(struct partition *p, struct partition_call *call,
			  void (*run)(struct partition_call *call));
/* Likewise on_done(ctx, TIDE_OK or TIDE_ENOTFOUND, NULL); it may be NULL. */
void partition_done_later(struct partition *p, store_done_fn on_done, void *ctx);

/* Find first_position, which may take a read. on_done may come before the return. */
void partition_trim_measure(struct partition *p, store_done_fn on_done, void *ctx);
