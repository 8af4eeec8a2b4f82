/* shard.h: one shard of a queue: its messages and the states they are in.
 *
 * delayed -> ready -> unacked -> gone, or back to ready, delayed or buried. A shard
 * decides nothing: its queue chooses consumers and asks the retry script. It keeps the
 * first messages of each set (a stage) in memory and knows how many more Redis has.
 *
 * Shards are counted: the queue holds a reference, and so does each batch or read under
 * way. After shard_close a shard is empty and waits for the latter. */
#pragma once

#include "base/heap.h"
#include "base/msg.h"
#include "entry.h"
#include "order.h"
#include "stage.h"

struct commit;
struct dedupe;
struct dedupe_pending;
struct dedupe_queue;
struct flight_item;
struct journal;
struct shard;
struct shard_ask;
struct shard_index;
struct shard_kick;

TAILQ_HEAD(closing_list, shard);

/* The hooks by which shards tell their owner. */
struct shard_ops {
	/* A message may have become ready, or has come back to be delayed. */
	void (*on_ready)(struct shard *sh);
	/* The entry becomes ready, of a shard that has_passed. */
	void (*on_entering)(const struct entry *e);
	/* A message that nobody holds has expired; it must be moved. False: enough for
	 * this turn. */
	bool (*on_expired)(struct shard *sh, struct entry *e);
};

/* Changes that take place together: see commit.h. */
STAILQ_HEAD(commit_list, commit);
TAILQ_HEAD(commit_flights, commit_flight);
struct commit_queue {
	struct commit_list waiting;
	struct commit_flights flying; /* transactions that are not answered */
	unsigned flight;              /* number of the last one that was sent */
	unsigned turn;                /* number of the last look at those that wait */
};

/* The environment that all shards of a broker share. */
struct shard_env {
	const struct shard_ops *ops;
	struct store *store; /* NULL when nothing is durable */
	struct journal *journal;
	struct commit_queue commits;
	struct dedupe *dedupe; /* publish ids that have been seen */
	struct heap *timers;   /* of shards, by when they are to be woken */
	struct pool entries;
	struct pool lanes;
	struct heap expiries; /* of the messages in windows that expire */
	struct pool expirings;
	bool may_expire;        /* the broker serves: what is due is taken out of Redis */
	size_t window_messages; /* limits of a stage's window */
	size_t window_bytes;
	size_t parked_messages;      /* of an order; also the limit of its groups */
	struct closing_list closing; /* that still have messages to free */
	size_t unstored_bytes;       /* of messages that are not durable yet */
	size_t memory_bytes;         /* of messages in all windows and hands */
	size_t memory_soft_bytes;    /* over it, windows shrink */
	int64_t now_ms;              /* wall clock of this turn */
	/* Messages with ids up to this one may have been handed out by a broker that was
	 * killed, which has not written it down; if they were due by then. */
	uint64_t exposed_id;
	int64_t exposed_ms;
};

#define SHARD_STAGES 3

/* Where a publish id is that is not settled; also the list of its shard that it is in. */
enum dedupe_state {
	DEDUPE_FRESH,  /* its message is to be written, and the id with it */
	DEDUPE_ALONE,  /* its message is gone without having been written */
	DEDUPE_FLYING, /* a batch under way has it */
	DEDUPE_STATE_COUNT,
};

TAILQ_HEAD(dedupe_pending_list, dedupe_pending);

/* The entries of a batch that is under way: see journal.c. */
struct flight {
	struct flight_item *items;
	size_t count; /* 0: none is under way */
	size_t cap;
	unsigned purges; /* of the shard, when the batch was built */
};

/* The publish ids of a shard: see dedupe.h. */
struct dedupe_shard {
	struct dedupe_queue *queue; /* NULL: it is gone */
	struct dedupe_pending_list lists[DEDUPE_STATE_COUNT];
	bool is_queued; /* an id is forgotten with its message */
};

TAILQ_HEAD(shard_ask_list, shard_ask);

/* Messages are taken out of Redis's sets: see shard_take.c. */
struct shard_take {
	struct shard_ask_list asks; /* for messages by their ids */
	bool is_taking;             /* a request is under way */
	bool is_looking;            /* likewise, which takes nothing */
	bool is_wanted;             /* one waits for the batch under way */
	bool is_next;  /* one is to be made as soon as what is under way has ended */
	bool is_after; /* the next batch, if there is one: requests and batches alternate
			*/
	bool was_ask;  /* the last one: those by time alternate with those by ids */
	unsigned purges; /* of the shard, when it was made */
	/* The expiring messages of a shard. */
	int64_t due_ms; /* when to look at the expiry set; 0: nothing beyond expires */
	int64_t offset; /* of the look that goes on */
	int64_t number; /* of a request that has failed; 0: none has */
	int64_t last_number;
	bool has_taken; /* since offset 0 */
	bool is_failing;
};

/* The messages in Redis that are not buried. */
struct shard_size {
	bool is_kept;
	bool is_unknown;          /* waiting_bytes does not count what Redis alone has */
	struct store_size stored; /* once what was sent has been carried out */
	struct store_size left;   /* of this batch: when its removals are carried out */
};

struct shard {
	struct shard_env *env;
	void *owner; /* the queue */
	unsigned index;
	unsigned refs;
	uint64_t waiting_bytes; /* payloads of what is ready or delayed */
	struct shard_size size;
	bool may_trim; /* the last trim removed something */
	bool gives_up; /* what is too much */
	struct store_size unstored;
	bool is_closed;
	bool has_passed; /* somebody may not have some of what is ready */
	bool is_mixed;   /* it may have messages that another number of shards placed */
	TAILQ_ENTRY(shard) closing_link;
	struct store_shard *keys; /* NULL: in memory alone */
	int64_t ttl_ms; /* how long messages live here, from when they come; 0: no limit
			 */

	struct stage
		stages[SHARD_STAGES]; /* by ENTRY_READY, ENTRY_DELAYED, ENTRY_BURIED */
	struct entry_list
		young;      /* held for less than YOUNG_MS, in the order of delivery */
	struct window held; /* held for longer, in the same order */
	struct entry_list moving; /* out of circulation until something is durable */
	uint64_t unacked;         /* young and held */

	double served; /* the rank delivered last; NaN: that was before the start */
	double newest; /* the rank of the last publish; NaN: that was before the start */

	struct entry_list dirty;
	bool is_journaled; /* in the list of dirty shards of a journal's lane */
	bool is_flying;    /* its batch is under way */
	unsigned journal_lane, flight_lane;
	TAILQ_ENTRY(shard) flying_link; /* of the lane that has its batch */
	TAILQ_ENTRY(shard) journal_link;
	struct flight flight; /* what the batch under way names */
	struct dedupe_shard dedupe;
	struct heap_node timer;

	/* A purge or a recovery relies on Redis's sets: the journal writes nothing. */
	bool is_held_back;
	/* Redis has not confirmed the definition of the queue: likewise. In a Redis
	 * Cluster another master has the definition, and messages must not be stored
	 * before it. */
	bool is_undefined;
	unsigned purges; /* so far: a batch sent before one may be about what is gone */

	struct order *order; /* NULL: groups of messages do not matter */
	/* See commit.h. */
	struct commit *commit;      /* the one that is being built */
	struct batch *commit_batch; /* while one is encoded */
	bool is_committing;         /* one is under way: nothing is read meanwhile */
	unsigned commit_purges;     /* `purges` when it was encoded */
	unsigned commit_flight;     /* its transaction: commit_queue.flight */
	unsigned commit_wait;       /* the turn in which an earlier commit waits */

	struct shard_take take;
	struct shard_index *by_id; /* NULL: nobody asks for messages by their ids */
	struct shard_kick *kick;   /* under way, of all shards of the queue; or NULL */
};

/* How long a message is held before the ledger of unacked messages names it. */
#define YOUNG_MS 1000

struct shard *shard_create(struct shard_env *env, void *owner, unsigned index,
			   struct store_shard *keys_take);
/* Redis has the definition of its queue now. */
void shard_be_defined(struct shard *sh);
/* Has the shard no message in any state, and can none come back? */
bool shard_is_empty(const struct shard *sh);
/* Let so many messages of a group be at work at a time; before anything else. */
void shard_order_by(struct shard *sh, const struct order_spec *spec);
/* Count its bytes for a limit from here on, or not. It is asked first whether they are
 * known: they are not while Redis alone has messages of before the start. */
bool shard_size_is_known(struct shard *sh);
void shard_size_keep(struct shard *sh, bool is_kept);
/* Forget the ranks seen so far: the priority script has changed. */
void shard_forget_ranks(struct shard *sh);
/* Has the shard no message, and no work under way? */
bool shard_is_unused(const struct shard *sh);
struct shard *shard_ref(struct shard *sh);
void shard_unref(struct shard *sh);
/* Drop every message and tell their waiters. A shard in memory alone may have many: the
 * owner of env->closing frees them with shard_close_some, some at a time. */
void shard_close(struct shard *sh);
void shard_close_some(struct shard *sh);

/* Enter a message. Takes a reference of it.
 *
 * @param waiter  counted up, and told when the message is durable or acknowledged; may
 *                be NULL
 * @param has_id  for dedupe.c alone: the publish id is written with the message, and the
 *                waiter is that of the id */
void shard_publish(struct shard *sh, struct msg *m, double rank, struct waiter *waiter,
		   bool has_id);

/* The first ready or delayed message of a window, whatever becomes of it. NULL when none
 * is in memory; if Redis has some, a read is under way. */
struct entry *shard_front(struct shard *sh, enum entry_state state);
/* shard_front of the ready ones, which costs less. */
struct entry *shard_first_ready(struct shard *sh);
struct entry *shard_order_next(struct shard *sh);
struct entry *shard_order_head(struct shard *sh);
/* The message to deliver next, borrowed and still ready: the first of those whose group
 * has room. NULL when none is in memory; if Redis has some, or the search goes on in the
 * next turn, shard_is_reading says so, and on_ready will be called. */
static inline struct entry *shard_next(struct shard *sh)
{
	return sh->order ? shard_order_next(sh) : shard_first_ready(sh);
}
/* The first of them that is in memory. Of a shard with groups a parked one, when no other
 * is ready. */
static inline struct entry *shard_head(struct shard *sh, enum entry_state state)
{
	struct entry *e = window_first(&sh->stages[state].window);

	return e || state != ENTRY_READY || !sh->order ? e : shard_order_head(sh);
}
/* Remove the first `count` ready or delayed messages, or the last, or some of them, which
 * Redis alone has. Told how many. Nothing is done yet if they are about to change: ask
 * again. False: it cannot be done so. */
typedef void (*shard_trimmed_fn)(struct shard *sh, uint64_t count);
bool shard_trim(struct shard *sh, enum entry_state state, uint64_t count, bool is_last,
		shard_trimmed_fn on_trimmed);
/* Give it to somebody; counts the delivery. */
void shard_hold(struct entry *e, uint32_t lease_ms);
/* The clock was set: what is held has been held since another time. */
void shard_step_clock(struct shard *sh, int64_t step_ms);
/* Replace a held message by another of the same id, with another rank. Takes a
 * reference of it. Redis gets it when the entry is next written. */
void shard_revise(struct entry *e, struct msg *m, double rank);
/* Back to ready, or to delayed when due_ms is in the future. */
void shard_return(struct entry *e, int64_t due_ms);
void shard_bury(struct entry *e);
/* Out of circulation while its copy is being stored elsewhere. */
void shard_set_moving(struct entry *e);
/* Take a held entry out of circulation. Whoever holds it goes on holding it. */
void shard_suspend(struct entry *e);
/* Back to whoever holds it, or to ready when nobody does any more. */
void shard_resume_held(struct entry *e);
/* Into one of the stages; `at_ms`: when it is due, or since when it is buried. */
void shard_move(struct entry *e, enum entry_state state, int64_t at_ms);
/* The entry is held out of turn: the ledger names it at once, unless Redis has it
 * before the edge of the ready ones. A refill would bring it a second time. */
void shard_ledger_found(struct entry *e);
/* The waiter is told when Redis has it where it is now, or at once if it has. */
void shard_wait_stored(struct entry *e, struct waiter *waiter);
/* The failures of the entry begin anew. */
void shard_forget_failures(struct entry *e);
/* The failures of the entry so far, and one more unless `reason` is NULL. */
struct store_tries shard_tries(const struct entry *e, const char *reason);
/* Count a failure; `reason` is a literal. */
void shard_count_failure(struct entry *e, const char *reason);
/* The message is done. The waiter, which may be NULL, is told when Redis has removed it.
 * The entry may not be used after the call. */
void shard_remove(struct entry *e, struct waiter *waiter);

/* Make the `max` messages of these shards ready that were buried first, or as many as
 * there are; when none is buried, those that are due first. 0: all that are buried.
 * Returns how many. The waiter is told when they are. Not while one of the shards is held
 * back or has a kick under way. */
uint64_t shard_kick(struct shard *const *shards, unsigned count, uint64_t max,
		    struct waiter *waiter);

/* Remove everything that is not held. Returns how many; the waiter is told when Redis has
 * removed them. */
uint64_t shard_purge(struct shard *sh, struct waiter *waiter);

void shard_expiry_init(struct shard_env *env);
void shard_expiry_deinit(struct shard_env *env);
/* Tell on_expired of what is due in all windows. */
void shard_expiry_turn(struct shard_env *env);
/* When that is; 0: never. */
int64_t shard_expiry_due_ms(const struct shard_env *env);

/* Do what is due: delayed messages, the ledger. */
void shard_tick(struct shard *sh);

uint64_t shard_count(const struct shard *sh, enum entry_state stage);

/* Since when the oldest ready message could have been delivered, ms since 1970; 0: there
 * is none. Of those in memory, and of the first 4096 ranks. */
int64_t shard_age_ready(const struct shard *sh);
/* The same for each priority, where earlier: of the first of each rank alone, so for a
 * rank that depends on the priority. */
void shard_age_priorities(const struct shard *sh, int64_t since[UINT8_MAX + 1]);
/* The same of the first 64 ranks alone: for who asks at each message. */
int64_t shard_age_front(const struct shard *sh);
/* Since when the message that is held for longest has been held; 0: none is. */
int64_t shard_age_held(const struct shard *sh);

/* Read the counts of an earlier process's shard, and return what the ledger names as
 * held. The waiter is told when the shard can serve. */
void shard_recover(struct shard *sh, struct waiter *waiter);

/* Ready messages are being read from Redis, or are about to be. */
static inline bool shard_is_reading(const struct shard *sh)
{
	const struct stage *ready = &sh->stages[ENTRY_READY];

	return ready->is_refilling ||
	       ((sh->take.is_taking || sh->take.is_next || sh->is_committing) &&
		ready->beyond > 0) ||
	       (sh->order && order_is_reading(sh->order));
}

/* Somebody may have been given the message before a broker was killed, though no attempt
 * was counted. */
static inline bool shard_is_exposed(const struct entry *e)
{
	const struct shard_env *env = e->shard->env;

	return e->id <= env->exposed_id && e->msg->due_unix_ms <= env->exposed_ms;
}

/* Messages that no stage has in its window: held back by their group. */
static inline uint64_t shard_parked(const struct shard *sh)
{
	return sh->order ? sh->order->parked : 0;
}

/* For the files of this floor alone. */

/* Read which groups have slots in use: those of messages that wait for their next
 * attempt. The waiter is told; on_done comes before anything is delivered. */
void shard_order_recover(struct shard *sh, store_done_fn on_done, void *ctx);
/* Read the places that are wanted. */
void shard_order_load(struct shard *sh);
/* Remove what is parked, as shard_purge does; returns how much that was. */
uint64_t shard_order_purge(struct shard *sh, struct waiter *waiter);

/* Has the shard something to write? */
static inline bool shard_is_dirty(const struct shard *sh)
{
	return !TAILQ_EMPTY(&sh->dirty) || !TAILQ_EMPTY(&sh->dedupe.lists[DEDUPE_ALONE]);
}

/* The message is durable, or need not become so. */
static inline void shard_entry_stored(struct entry *e)
{
	if (!(e->flags & LIES_UNSTORED))
		return;
	e->flags &= (uint16_t)~LIES_UNSTORED;
	e->shard->env->unstored_bytes -= e->msg->bytes;
	e->shard->unstored.messages--;
	e->shard->unstored.bytes -= e->msg->payload_len;
}

/* The entry's memory: nothing refers to it any more. */
void shard_entry_free(struct entry *e);
void shard_entry_dirty(struct entry *e);
void shard_entry_clean(struct entry *e);
/* Forget an entry that Redis does not have; its waiter has been told. */
void shard_discard(struct entry *e);
/* Put an entry that has left its place into a stage. The call may free it. */
void shard_entry_enter(struct entry *e, enum entry_state state, double score);
/* Does the entry count in stage.indexed of its home, when that is a stage? */
static inline bool shard_is_indexed(const struct entry *e)
{
	return !(e->flags & LIES_OUTSIDE) || e->state != e->home;
}

/* Keep stage.indexed; called around every change of home or of LIES_OUTSIDE. */
void shard_account(struct entry *e, int delta);
struct entry *shard_entry_create(struct shard *sh, struct msg *m, uint64_t id,
				 double rank);
/* The entry of a new message, in no place yet. */
struct entry *shard_entry_begin(struct shard *sh, struct msg *m, double rank);
/* As shard_entry_enter, for an entry that is written as it is. */
void shard_entry_place(struct entry *e, enum entry_state state, double score);
void shard_wake_by(struct shard *sh, int64_t at_ms);
/* A purge or a recovery is over: the journal may write again. */
void shard_resume(struct shard *sh);
/* The entry, with a time to live, enters the window of a stage, or leaves it. */
void shard_expiry_enter(const struct stage *st, struct entry *e) __attribute__((cold));
void shard_expiry_leave(const struct stage *st, struct entry *e) __attribute__((cold));
/* The home of an entry changes. */
void shard_size_move(const struct entry *e, uint8_t from, uint8_t to);
/* A message that Redis alone will keep expires then. */
void shard_take_note_expiry(struct shard *sh, int64_t at_ms);
void shard_take_tick(struct shard *sh);
/* The unack set of an earlier process has a message by that score. Where it was before
 * it was taken, and by which time; STORE_UNACK: somebody held it. */
enum store_set shard_take_recover(struct shard *sh, double score, int64_t *at_ms);
/* End all asks: the shard is being closed. */
void shard_take_cancel(struct shard *sh);

/* For shard_take.c, at each step of an entry when there is an index. */
void shard_index_created(struct entry *e) __attribute__((cold));
void shard_index_freed(struct entry *e) __attribute__((cold));
void shard_index_leaving(struct entry *e) __attribute__((cold));
/* The entry is about to leave its place: a window, a list. */
static inline void shard_entry_leaving(struct entry *e)
{
	if (__builtin_expect(e->shard->by_id != NULL, 0))
		shard_index_leaving(e);
}
/* Continue a kick: a refill has brought buried or delayed messages. */
void shard_kick_continue(struct shard *sh);
/* End a kick: the shard is being closed. */
void shard_kick_cancel(struct shard *sh);

/* An ask for messages of one shard by their ids, in whatever state they are.
 *
 * First memory is looked at, as soon as the shard's index is there, then Redis. What is
 * in Redis alone is taken out of its set into memory, so that one can do with it whatever
 * can be done with any other. A crash before that is written leaves it where it was. Its
 * owner embeds this; it is the shard's until on_end. */
struct shard_ask {
	TAILQ_ENTRY(shard_ask) link;
	struct shard *shard;
	uint64_t *ids;  /* those not yet found, none twice; the owner's memory */
	unsigned count; /* of them */
	/* A message in memory, or just taken. `state`: where it is, or was; of one that
	 * is being dead-lettered, ENTRY_MOVING. False: it is left as it is, or put back.
	 * Otherwise the call has moved or removed it. */
	bool (*on_entry)(struct shard_ask *ask, struct entry *e, enum entry_state state);
	/* Not NULL: nothing is taken. A message in Redis alone; the row's score is the
	 * time by which it is in that state. */
	void (*on_row)(struct shard_ask *ask, const struct store_row *row,
		       enum entry_state state);
	/* There are no more. The ids that are left were not found. */
	void (*on_end)(struct shard_ask *ask, int status, const char *text);
};

/* Begin; the rest is filled in. Any of the calls may come before this returns. */
void shard_take_ask(struct shard_ask *ask);

/* The messages of a shard in one state, in their order, from a place on.
 *
 * A reader takes row after row. The window is read from memory, the backlog from Redis;
 * nothing is changed or brought in. While messages are parked, of which Redis alone may
 * have the body, all ready ones are read from Redis. Between two reads messages may move:
 * who stays in its place is read once. */
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

/* Entries that were read and not taken. */
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
/* The entry of the scan is done with. */
void shard_scan_take(struct shard_scan *scan);

/* The end of a shard's ready or delayed messages: those that would be
 * delivered last. */

/* Memory does not have all of them: Redis is to be asked. */
bool shard_tail_is_far(const struct shard *sh, enum entry_state state);
/* The last one, unless that is far; NULL when there is none. */
struct entry *shard_tail_entry(const struct shard *sh, enum entry_state state);
/* The next one that was durable before and comes back to this state: Redis does not know
 * its place yet. @param e  the one before; NULL: the first */
const struct entry *shard_tail_next_unsettled(const struct shard *sh,
					      enum entry_state state,
					      const struct entry *e);
/* Read the ids and places of the last ones of a durable shard, `count` at most (1–4096).
 * Some may be in another state by now. */
void shard_tail_read(struct shard *sh, enum entry_state state, unsigned count,
		     store_rows_fn on_rows, void *ctx);

/* The entries of a shard by the ids of their messages.
 *
 * It is made when somebody asks for a message by its id, and dropped when nobody has
 * asked for a while: a shard that is never asked pays one test at each step of a message.
 *
 * It is built bit by bit, by a walk through all places where entries are. One that leaves
 * its place before the walk comes by is added then; so is a new one. What is gone or on
 * its way out may be missing. */

/* Forget some: nobody has asked for a while. The last call frees it. Harmless when there
 * is none. */
void shard_index_drop(struct shard *sh, unsigned max);
/* The shard is freed, and has no entry any more. */
void shard_index_destroy(struct shard *sh);
