#include "slots.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "layout.h"

#define PAUSE_FIRST_MS 20
#define PAUSE_MAX_MS 500

static const struct {
	const char *word;
	enum bounce kind;
} bounce_words[] = {
	{ "MOVED ", BOUNCE_MOVED },     { "ASK ", BOUNCE_OPEN },
	{ "TRYAGAIN ", BOUNCE_OPEN },   { "CLUSTERDOWN ", BOUNCE_AWAY },
	{ "MASTERDOWN ", BOUNCE_AWAY }, { "LOADING ", BOUNCE_AWAY },
	{ "READONLY ", BOUNCE_AWAY },
};

enum bounce slots_bounce(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ERROR)
		return BOUNCE_NONE;
	for (size_t i = 0; i < sizeof(bounce_words) / sizeof(bounce_words[0]); i++)
		if (strncmp(reply->str, bounce_words[i].word,
			    strlen(bounce_words[i].word)) == 0)
			return bounce_words[i].kind;
	return BOUNCE_NONE;
}

void slots_init(struct slots *s,
		void (*send)(void *ctx, unsigned lane, struct redis_request *r),
		void *ctx)
{
	*s = (struct slots){ .send = send, .ctx = ctx };
	TAILQ_INIT(&s->held);
	s->slots = mem_zalloc(LAYOUT_SLOTS * sizeof(*s->slots));
	for (unsigned i = 0; i < LAYOUT_SLOTS; i++)
		s->slots[i].owner = s->slots[i].lane = SLOT_NO_LANE;
}

void slots_deinit(struct slots *s)
{
	assert(TAILQ_EMPTY(&s->held));
	mem_free(s->slots);
	s->slots = NULL;
}

unsigned slots_lane(const struct slots *s, unsigned slot)
{
	const struct slot *at = &s->slots[slot];

	return at->on_way > 0 ? at->lane : at->owner;
}

void slots_set_owner(struct slots *s, unsigned slot, unsigned lane)
{
	s->slots[slot].owner = (uint16_t)lane;
}

static struct held_slot *hold(struct slots *s, unsigned slot, uint64_t now_ms)
{
	struct held_slot *h = s->slots[slot].held;

	if (h)
		return h;
	h = mem_zalloc(sizeof(*h));
	h->slot = slot;
	h->since_ms = now_ms;
	TAILQ_INIT(&h->again);
	TAILQ_INIT(&h->fresh);
	TAILQ_INSERT_TAIL(&s->held, h, link);
	s->slots[slot].held = h;
	return h;
}

static void send_now(struct slots *s, struct slot *at, struct redis_request *r)
{
	if (at->on_way++ == 0)
		at->lane = at->owner;
	s->send(s->ctx, at->lane, r);
}

static struct redis_request *pop(struct slots *s, struct held_slot *h)
{
	struct redis_requests *list = TAILQ_EMPTY(&h->again) ? &h->fresh : &h->again;
	struct redis_request *r = TAILQ_FIRST(list);

	if (r) {
		TAILQ_REMOVE(list, r, entry);
		s->held_requests--;
	}
	return r;
}

static void wait_for_map(struct slots *s, struct held_slot *h)
{
	h->waits_for_map = s->wants_map = true;
}

/* No request of the slot is on its way: decide when the first goes again. */
static void settle(struct slots *s, struct held_slot *h, uint64_t now_ms)
{
	h->is_bouncing = false;
	h->due_ms = now_ms + h->pause_ms;
	if (h->kind == BOUNCE_MOVED && h->pause_ms == 0) {
		h->due_ms = now_ms + PAUSE_MAX_MS;
		wait_for_map(s, h);
	} else if (h->kind != BOUNCE_OPEN || h->pause_ms >= PAUSE_MAX_MS) {
		s->wants_map = true;
	}
}

void slots_send(struct slots *s, struct redis_request *r, uint64_t now_ms)
{
	struct slot *at = &s->slots[r->slot];
	bool is_nobodys = at->owner == SLOT_NO_LANE && at->on_way == 0;
	struct held_slot *h = at->held;

	r->order = ++s->requests;
	r->was_lost = false;
	if (!h && !is_nobodys) {
		send_now(s, at, r);
		return;
	}
	if (!h) {
		h = hold(s, r->slot, now_ms);
		wait_for_map(s, h);
	}
	TAILQ_INSERT_TAIL(&h->fresh, r, entry);
	s->held_requests++;
}

void slots_adopt(struct slots *s, struct redis_request *r, unsigned lane)
{
	struct slot *at = &s->slots[r->slot];

	r->order = 0;
	if (at->on_way++ == 0)
		at->lane = (uint16_t)lane;
}

/* In the order in which they were made: one whose answer waits for replicas may come back
 * behind a later one that has bounced. */
static void put_again(struct slots *s, struct held_slot *h, struct redis_request *r)
{
	struct redis_request *before = TAILQ_LAST(&h->again, redis_requests);

	while (before && before->order > r->order)
		before = TAILQ_PREV(before, redis_requests, entry);
	if (before)
		TAILQ_INSERT_AFTER(&h->again, before, r, entry);
	else
		TAILQ_INSERT_HEAD(&h->again, r, entry);
	r->was_lost = true;
	s->held_requests++;
}

/* All requests that were sent before `r` have been answered: `r` is the first of those on
 * their way. */
static void bounce(struct slots *s, struct redis_request *r, enum bounce kind,
		   uint64_t now_ms)
{
	struct held_slot *h = hold(s, r->slot, now_ms);
	uint64_t pause_ms = h->pause_ms ? 2 * h->pause_ms : PAUSE_FIRST_MS;

	/* The first MOVED waits for the map alone. */
	if (kind != BOUNCE_MOVED || h->is_probing)
		h->pause_ms = pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
	h->kind = kind;
	h->is_probing = false;
	h->is_bouncing = true;
}

bool slots_reply(struct slots *s, struct redis_request *r, const redisReply *reply,
		 uint64_t now_ms)
{
	struct slot *at = &s->slots[r->slot];
	struct held_slot *h = at->held;

	if (!h || !h->is_bouncing) {
		enum bounce kind = slots_bounce(reply);

		if (kind == BOUNCE_NONE)
			return true;
		bounce(s, r, kind, now_ms);
		h = at->held;
	}
	if (r->answered < r->replies)
		return false;
	put_again(s, h, r);
	if (--at->on_way == 0)
		settle(s, h, now_ms);
	return false;
}

/* Everything goes to the same lane from here on. */
static void release(struct slots *s, struct held_slot *h)
{
	struct slot *at = &s->slots[h->slot];
	struct redis_request *r;

	at->held = NULL;
	TAILQ_REMOVE(&s->held, h, link);
	while ((r = pop(s, h)) != NULL)
		send_now(s, at, r);
	mem_free(h);
}

void slots_answered(struct slots *s, unsigned slot, uint64_t now_ms)
{
	struct slot *at = &s->slots[slot];
	struct held_slot *h = at->held;

	if (--at->on_way > 0 || !h)
		return;
	if (h->is_bouncing)
		settle(s, h, now_ms);
	else if (h->is_probing)
		release(s, h);
}

void slots_bring_back(struct slots *s, struct redis_request *r, uint64_t now_ms)
{
	struct slot *at = &s->slots[r->slot];
	struct held_slot *h = hold(s, r->slot, now_ms);

	at->on_way--;
	h->is_probing = false;
	h->is_bouncing = at->on_way > 0;
	put_again(s, h, r);
	h->due_ms = now_ms;
}

static void probe(struct slots *s, struct held_slot *h, uint64_t now_ms)
{
	struct slot *at = &s->slots[h->slot];
	struct redis_request *r;

	h->waits_for_map = false;
	if (at->owner == SLOT_NO_LANE) {
		h->due_ms = now_ms + PAUSE_MAX_MS;
		wait_for_map(s, h);
		return;
	}
	r = pop(s, h);
	if (!r) {
		release(s, h);
		return;
	}
	h->is_probing = true;
	send_now(s, at, r);
}

void slots_map_came(struct slots *s, uint64_t now_ms)
{
	struct held_slot *h;

	s->wants_map = false;
	TAILQ_FOREACH (h, &s->held, link)
		if (h->waits_for_map && s->slots[h->slot].owner != SLOT_NO_LANE)
			h->due_ms = now_ms;
}

void slots_tick(struct slots *s, uint64_t now_ms)
{
	struct held_slot *h, *next;

	for (h = TAILQ_FIRST(&s->held); h; h = next) {
		next = TAILQ_NEXT(h, link);
		if (!h->is_bouncing && !h->is_probing && h->due_ms <= now_ms)
			probe(s, h, now_ms);
	}
}

struct redis_request *slots_pop_held(struct slots *s)
{
	struct held_slot *h;
	struct redis_request *r;

	while ((h = TAILQ_FIRST(&s->held)) != NULL) {
		r = pop(s, h);
		if (r)
			return r;
		s->slots[h->slot].held = NULL;
		TAILQ_REMOVE(&s->held, h, link);
		mem_free(h);
	}
	return NULL;
}
