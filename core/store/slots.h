/* slots.h: which connection of a Redis Cluster has the requests of which slot, in what
 * order.
 *
 * Requests of one slot are answered in the order in which they were made, whatever the
 * cluster does meanwhile; those of different slots may overtake each other. So a slot has
 * all its requests on one lane at a time, and changes its lane when none is on its way.
 *
 * An answer that begins with a word of bounce_words bounces its request: it is as if it
 * had not been sent. All later requests of the slot that are on their way bounce too,
 * whatever they are answered: Redis may have carried out one behind an aborted MULTI.
 * When none is on its way any more, the first is sent again, alone, and the others behind
 * it once that was answered. Requests set and remove by id, so what is carried out twice
 * does no harm.
 *
 * ASK is not followed. A shard has several keys, of which most do not exist at a time: in
 * a slot that is being moved, a MULTI with a missing key is refused by both masters until
 * the last key has moved, and MOVED is next. The request waits for that. */
#pragma once

#include "base/slice.h"
#include "redis_request.h"

/* No lane: nobody has the slot. */
#define SLOT_NO_LANE 0xffff

enum bounce {
	BOUNCE_NONE,
	BOUNCE_MOVED, /* another master has the slot: the map tells which */
	BOUNCE_OPEN,  /* the slot is being moved */
	BOUNCE_AWAY,  /* the master cannot be used now */
};
enum bounce slots_bounce(const redisReply *reply);

/* Requests of a slot that wait. */
struct held_slot {
	TAILQ_ENTRY(held_slot) link;
	unsigned slot;
	struct redis_requests again; /* that have bounced */
	struct redis_requests fresh; /* that came meanwhile, behind them */
	enum bounce kind;            /* of the last bounce */
	bool is_bouncing;            /* some are on their way, and bounce */
	bool is_probing;             /* the first was sent again */
	bool waits_for_map;          /* the first goes when it comes */
	bool is_told;                /* the log has it */
	uint64_t since_ms, due_ms, pause_ms;
};
TAILQ_HEAD(held_slots, held_slot);

struct slot {
	uint16_t owner; /* the lane of its master, by the map */
	uint16_t lane;  /* that has its requests */
	uint32_t on_way;
	struct held_slot *held; /* NULL: they go at once */
};

struct slots {
	/* Given: send it; it comes back by slots_reply or slots_bring_back. */
	void (*send)(void *ctx, unsigned lane, struct redis_request *r);
	void *ctx;
	/* To be read. */
	struct held_slots held;
	uint64_t held_requests;
	uint64_t requests; /* so far */
	bool wants_map;
	struct slot *slots; /* LAYOUT_SLOTS of them */
};

void slots_init(struct slots *s,
		void (*send)(void *ctx, unsigned lane, struct redis_request *r),
		void *ctx);
/* No request may be left: slots_pop_held. */
void slots_deinit(struct slots *s);

/* The lane that has the slot's requests, or will have them. */
unsigned slots_lane(const struct slots *s, unsigned slot);
/* The map says that the slot is of that lane. */
void slots_set_owner(struct slots *s, unsigned slot, unsigned lane);
/* A map was read: what waited for one goes on.
 *
 * @param now_ms  of the loop's clock, here and below */
void slots_map_came(struct slots *s, uint64_t now_ms);

void slots_send(struct slots *s, struct redis_request *r, uint64_t now_ms);
/* A reply came; the last one has been counted in r->answered. False: it has bounced, and
 * the request's owner is not told; it may be on its way again. */
bool slots_reply(struct slots *s, struct redis_request *r, const redisReply *reply,
		 uint64_t now_ms);
/* A lane sends a request of its own, before all that it has of the slot: it comes back as
 * the others do. */
void slots_adopt(struct slots *s, struct redis_request *r, unsigned lane);
/* The owner of a request of the slot was told its last reply. */
void slots_answered(struct slots *s, unsigned slot, uint64_t now_ms);
/* The lane gives an unanswered request back, in the order in which they were sent: the
 * slot's owner is another one now. */
void slots_bring_back(struct slots *s, struct redis_request *r, uint64_t now_ms);
/* Send again what is due. */
void slots_tick(struct slots *s, uint64_t now_ms);
/* Take one of those that wait, at the end. NULL: there is none. */
struct redis_request *slots_pop_held(struct slots *s);
