/* redis_cells.h: the cells of a store, as each broker sees them: who owns which, and what
 * all owners share.
 *
 * A store that is split has the string "cells <count> <split>" at {tide}:holder, where
 * older brokers, and those that own all of it, look for a hash: they take nothing and
 * write nothing. Cell k has its record in {tide}:holder:<k>, with the fields and by the
 * rules of redis_holder.h, and the connections of its owner are named
 * tidemq:<split>.<k>:<incarnation>. The split is an epoch: it is above all that were
 * before it, so whoever finds another one there knows who is the older.
 *
 * {tide}:cluster says where vhosts were placed (cell:<vhost>), and counts the changes of
 * users and rules, which any owner makes and all of them follow.
 *
 * Brokers without a cell look at all of this four times a second, owners twice. */
#pragma once

#include <hiredis/hiredis.h>

#include "base/buf.h"
#include "host/machine.h"
#include "redis_request.h"
#include "store.h"

/* The content of {tide}:holder, or of {tide}:holder:<cell>. */
struct redis_holder_record {
	char incarnation[40]; /* "": nobody has taken the store so far */
	bool is_released;
	uint64_t node;
	uint64_t since_unix_ms;
	uint64_t writes;
	uint64_t epoch; /* one more than that of the holder before */
	unsigned cells; /* into so many its holder is to split the store; 0: it is not */
	struct process process;
	char at[STORE_ADDRESS_MAX]; /* where other brokers reach it; "": nowhere */
};
void redis_cells_read_record(struct redis_holder_record *r, const redisReply *reply);

/* How a record was seen to live, look after look. */
struct redis_watch {
	char last_seen[40];                 /* an incarnation */
	unsigned alive_looks, lapsed_looks; /* one after the other */
};
#define REDIS_LAPSED_LOOKS 8
/* In so many looks a connection that is alive must have been heard of since the first. */
#define REDIS_ALIVE_LOOKS 10
/* Count a look. True: the holder is another one than in the look before. */
bool redis_cells_count_look(struct redis_watch *w, const struct redis_holder_record *r,
			    bool is_alive);
/* Nobody has what the record tells of any more. */
bool redis_cells_is_over(const struct redis_watch *w, const struct redis_holder_record *r,
			 bool is_alive);

/* A line of CLIENT LIST. */
#define REDIS_NAME "tidemq"
/* Connections of a holder are named so, and further. */
#define REDIS_NAME_HELD REDIS_NAME ":"
struct redis_client {
	struct slice name;
	uint64_t id, db;
	bool is_alive; /* it was heard of */
	/* Of a cell's owner; split 0: of one that holds all of a store. */
	uint64_t split;
	unsigned cell;
	struct slice incarnation;
};
/* False: of no holder. */
bool redis_cells_read_client(struct slice line, struct redis_client *out);

struct redis_cell {
	struct redis_holder_record record;
	struct redis_watch watch;
	bool is_alive; /* in this look */
	bool is_free;
	uint64_t free_since_ms; /* monotonic; 0: it has an owner */
};

struct redis_placing {
	char *vhost;
	unsigned cell;
	unsigned looks; /* that are waited for; 0: the write has no answer yet */
};

struct redis_cells {
	unsigned wanted; /* --cells */
	unsigned own;    /* STORE_NO_CELL: none */
	unsigned target; /* that is being taken */
	unsigned count;  /* 0: the store is not split, or nothing is known */
	uint64_t split;
	char lock[48]; /* "": none */
	struct redis_cell cells[STORE_CELLS_MAX];
	struct buf placed, placed_next; /* "<cell> <vhost>\n" each */
	/* The vhosts that we place now, in the order of their writes. A look that was
	 * asked before such a write does not tell. */
	struct redis_placing *placing;
	size_t placing_count, placing_cap;
	bool is_refused;               /* a reply to the look of an owner was an error */
	uint64_t users, rules, places; /* changes: as Redis counts them; that we saw */
};

void redis_cells_init(struct redis_cells *cs, unsigned wanted);
void redis_cells_deinit(struct redis_cells *cs);
/* Append the commands of a look; gives how many replies will come. */
unsigned redis_cells_look(struct redis_cells *cs, struct buf *out);
void redis_cells_reply(struct redis_cells *cs, unsigned index, const redisReply *reply);
/* A connection in the list of this look. */
void redis_cells_client(struct redis_cells *cs, const struct redis_client *client);
/* After the last reply, and the list. */
void redis_cells_judge(struct redis_cells *cs);

/* A look by an owner, as one request, with the list. 0: we own none. */
unsigned redis_cells_ask(struct redis_cells *cs, struct buf *out);
/* A reply to it; gives whether more of them come.
 *
 * @param db  of the connection */
bool redis_cells_answer(struct redis_cells *cs, const struct redis_request *r,
			const redisReply *reply, unsigned db);

/* Was it placed, and where; STORE_NO_CELL: it was not. */
unsigned redis_cells_place_of(const struct redis_cells *cs, struct slice vhost);
unsigned redis_cells_of(const struct redis_cells *cs, struct slice vhost);
/* From now on the vhost is that cell's, which is being written. */
void redis_cells_place(struct redis_cells *cs, struct slice vhost, unsigned cell);
/* The first of these writes that had no answer has one. */
void redis_cells_placed(struct redis_cells *cs);
bool redis_cells_read_lock(struct slice text, unsigned *count, uint64_t *split);
