/* redis_holder.h: which broker holds the store: one at a time.
 *
 * The hash {tide}:holder names the broker that took the store last, by an incarnation
 * that no other start has. A broker gives its connections its incarnation as their
 * name before it looks whether {tide}:holder has it. Who takes the store writes its own
 * incarnation there, then ends the connections of all others, then reads what is
 * stored. So a former holder writes nothing after that: what it has sent and Redis
 * has not read goes with its connection, and a new connection of it finds another
 * incarnation. Every write is spared a check.
 *
 * The holder lives as long as Redis hears of it: it asks for its incarnation twice a
 * second (REDIS_HOLDER_BEAT_MS), and Redis tells how long a connection was idle. So a
 * lease costs no write, and holds while Redis accepts none. It lapses when a candidate
 * has seen no such connection in LAPSED_LOOKS looks, which Redis must answer: a pause of
 * Redis, or of the candidate, ends no lease. It ends at once when the holder has given
 * it back, and when its process has visibly ended.
 *
 * `writes` in {tide}:holder counts what was written, from the first holder on. Behind
 * each write whose success a client is told goes one HINCRBY, and nobody is told before
 * it is answered with more than the last one was. So a Redis that was emptied, that came
 * back from an older copy, or that is another one confirms nothing. It is stale: its
 * holder neither writes nor takes it, and looks whether what it knows has come back.
 *
 * In a Redis Cluster each master has a record of its own, with the same fields, under a
 * key that lies there (redis_lanes.h). Whoever holds {tide}:holder takes the others when
 * they are of an older epoch; nobody takes one of a newer epoch. So each master is fenced
 * as a single Redis is.
 *
 * A store of layout 1 has its holder in tide:holder, where older brokers look for it. It
 * is taken there, by their rules, and the connections of all others are ended. Then
 * one script gives all keys their names of layout 2, {tide}:holder among them. An older
 * broker finds a string in tide:holder from then on, and takes and writes nothing. A
 * store without a holder is taken the same way, so that the one who comes second
 * finds the first whatever their versions are.
 *
 * A store that is split into cells (redis_cells.h) has a record for each, which is taken
 * by the same rules. To split it, a broker holds all of it first. A broker that finds it
 * split otherwise joins it first, when no cell has an owner: it takes all records at
 * once, and ends the connections of all others. So a former owner of any split writes
 * nothing more.
 *
 * A broker that others may reach (store_config.at) says so in its record, and the first
 * of them leaves a secret in {tide}:cluster, by which they know each other.
 *
 * Here are the commands of that and what follows from their replies, in rounds that
 * redis_conn sends. */
#pragma once

#include "base/buf.h"
#include "redis_cells.h"
#include "redis_request.h"
#include "store.h"
#include "tls/secret.h"

#define REDIS_HOLDER_BEAT_MS 500
#define REDIS_HOLDER_PAUSE_MS 250

enum redis_holder_verdict {
	REDIS_HOLDER_MORE, /* the next round, at once */
	REDIS_HOLDER_OURS, /* and nobody else can write any more */
	/* Somebody else has it, or may have: the next round after a pause. */
	REDIS_HOLDER_OTHER,
	/* Redis lacks replicas to take a write: the next round after a pause. */
	REDIS_HOLDER_HELD,
	REDIS_HOLDER_REFUSED,   /* by a holder that lives, or by Redis */
	REDIS_HOLDER_LOST,      /* it was ours, and somebody has taken it over */
	REDIS_HOLDER_ELSEWHERE, /* this master has not the key: ask for the map */
	/* The store was ours, and lacks what it has confirmed: the next round after a
	 * pause. */
	REDIS_HOLDER_STALE,
};

enum redis_holder_step {
	HOLDER_LOOK,
	HOLDER_TAKE,
	HOLDER_FENCE,
	HOLDER_MIGRATE,
	HOLDER_SPLIT, /* we hold all of it, and are to own a cell */
	HOLDER_JOIN,  /* no cell has an owner, and we are to hold all of it */
	HOLDER_CELL,  /* take a cell */
};

/* Shared by all connections of a broker to one store. */
struct redis_self {
	char incarnation[17];
	struct process process;
	uint64_t epoch; /* of our record in {tide}:holder; 0: we have not held it yet */
	bool is_told;   /* redis_conn: what is wrong with the settings of the cluster */
	const char *at; /* of store_config */
	char secret[SECRET_MAX]; /* of {tide}:cluster; "": not known yet */
	/* The holder as it was seen last; no incarnation: it is this broker, or none. */
	struct redis_holder_record owner;
	struct redis_cells cells;
};
void redis_self_init(struct redis_self *self, unsigned cells);

struct redis_holder {
	/* Given. */
	struct redis_self *self; /* outlives it */
	enum store_hold hold;
	unsigned node;
	unsigned db;
	bool is_sole;   /* nobody else can hold it: ours is the data directory */
	bool has_slots; /* a Redis Cluster: it never had layout 1 */
	/* The record counts when replicas have it: redis_holder_confirm. Until then a
	 * promoted replica may lack it, and other brokers do not see it. */
	bool is_confirmed_late;
	/* The record is not {tide}:holder, which is ours, but that of another master of a
	 * Redis Cluster: one of an older epoch is taken over at once. */
	bool is_guest;
	/* Found. */
	char reason[ERROR_TEXT_MAX]; /* of REFUSED, LOST and STALE */
	/* Within. */
	char base[64], key[80];     /* of a single cell: "<base>:<cell>" */
	char beat[320], count[192]; /* commands */
	bool has_held;
	uint64_t writes;     /* as Redis has told */
	uint64_t confirmed;  /* with is_confirmed_late: of these, those that count */
	char taken_from[40]; /* an incarnation, or "": what was there before ours */
	uint64_t taken_at;   /* `writes` when ours came there */
	bool has_taken;      /* connections have our incarnation as their name */
	bool has_flags;      /* Redis knows the flags of scripts */
	enum redis_holder_step step;
	unsigned secret_index; /* of the reply, in a look */
	/* Likewise; 0: not asked for. */
	unsigned list_index, old_index, cells_index, cells_replies, lock_index;
	bool is_split;      /* the record's key is a string: there are cells */
	char lock[48];      /* that string; "": it is a hash, or not there */
	bool is_lock_hash;  /* likewise */
	bool is_taken;      /* by the script of this round */
	bool was_raced;     /* another broker has split or joined the store meanwhile */
	unsigned odd_looks; /* at what is neither a record nor tells of cells */
	bool is_full_told;  /* the log has it that all cells have owners */
	struct redis_holder_record record;
	bool is_old; /* layout 1, or nothing: the record is tide:holder, then migrated */
	bool is_locked; /* tide:holder keeps older brokers out */
	int64_t moved;  /* keys, by the migration; -1: it was not ours */
	struct redis_watch watch;
	uint64_t connection;
	bool is_other_alive, is_elsewhere, lacks_replicas;
	struct buf fence; /* commands that end the connections of others */
	unsigned fence_count;
};

/* `key` is the name of the hash, `probe` that of a key that is written to and never
 * there. After the first time it is the record of another master: nothing is known of
 * it. */
void redis_holder_set_key(struct redis_holder *h, const char *key, const char *probe);
/* The record goes to another connection, with what is known of it. */
void redis_holder_move(struct redis_holder *from, struct redis_holder *to);
void redis_holder_deinit(struct redis_holder *h);

/* There is a new connection, to a Redis of that version. */
void redis_holder_begin(struct redis_holder *h, unsigned redis_major);
/* Append the commands of a round.
 *
 * @return  how many replies will come */
unsigned redis_holder_round(struct redis_holder *h, struct buf *out);
/* The index-th reply of the round, from 0. */
void redis_holder_reply(struct redis_holder *h, unsigned index, const redisReply *reply);
/* The verdict was STALE, and this is a promoted replica: go on with what is there, by the
 * next round. One that never had our record is taken as it was, from the same holder.
 * False: it is not known what lacks.
 *
 * @param has_all_before  receives whether it has all that was written before we came */
bool redis_holder_accept(struct redis_holder *h, bool *has_all_before);
/* After the last reply of a round. */
enum redis_holder_verdict redis_holder_judge(struct redis_holder *h);

/* The requests of the holder's beat: who holds the store, a write that changes nothing,
 * which Redis refuses as it would refuse others, and how far its replicas are. */
#define REDIS_HOLDER_BEAT_REPLIES 3
struct slice redis_holder_beat(const struct redis_holder *h);
/* The store is still ours, as far as the first reply tells. */
bool redis_holder_is_ours(const struct redis_holder *h, const redisReply *reply);
/* The command that counts a write: one command, one reply. */
struct slice redis_holder_count(const struct redis_holder *h);
/* Is the write counted, as far as this reply tells? If not, Redis has lost some of what
 * it confirmed.
 *
 * @param under_way  how many writes may be counted behind it */
bool redis_holder_is_counted(struct redis_holder *h, const redisReply *reply,
			     uint64_t under_way);
/* Replicas have all that Redis has told, with is_confirmed_late. */
void redis_holder_confirm(struct redis_holder *h);
/* Give the lease back: one command, one reply. */
void redis_holder_release(const struct redis_holder *h, struct buf *out);
