/* The rule of bounces against a small Redis Cluster: random answers, maps, lost
 * connections, failovers and moved slots. TIDE_TEST_SEED repeats one sequence,
 * TIDE_TEST_ROUNDS makes more of them. */
#include "check.h"

#include <stdio.h>

#include "base/mem.h"
#include "store/layout.h"
#include "store/slots.h"

#define LANES 3
#define SLOTS 4
#define KEYS 4
#define REPLIES_MAX 4
#define REQUESTS_MAX 400
#define RUNS_MAX 8192
#define ROUNDS 10000

/* One that sets a key of its slot, or removes it: value 0. */
struct job {
	struct redis_request r;
	unsigned key, value;
	struct job *copy_of; /* sent again by the lane itself; or NULL */
	bool is_served;      /* Redis has read it */
	const char *word;    /* of the bounce; NULL: there is none */
	unsigned bounce;     /* the reply that has it; 0: none */
	unsigned runs;
};

/* What a master has carried out. */
struct run {
	const struct job *job;
	unsigned key, value;
};

struct place {
	unsigned number; /* in the cluster */
	unsigned owner;
	enum { PLACE_OK, PLACE_OPEN, PLACE_AWAY } state;
	struct job *jobs[REQUESTS_MAX]; /* as they were made */
	unsigned made, done;
	struct run runs[RUNS_MAX];
	unsigned run_count;
	unsigned on_lane[LANES];
};

struct lane {
	struct redis_requests sent, held; /* held: answered, and replicas lack them */
};

static struct world {
	struct slots slots;
	struct place places[SLOTS];
	struct lane lanes[LANES];
	uint64_t now_ms, random, seed;
	bool is_well; /* the cluster answers, and nothing new is made */
} w;

static unsigned any(unsigned below)
{
	w.random ^= w.random << 13;
	w.random ^= w.random >> 7;
	w.random ^= w.random << 17;
	return (unsigned)((w.random >> 11) % below);
}

static bool one_in(unsigned n)
{
	return any(n) == 0;
}

static struct job *job_of(struct redis_request *r)
{
	return (struct job *)r;
}

static struct place *place_of(const struct redis_request *r)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (w.places[i].number == r->slot)
			return &w.places[i];
	fail_msg("a slot that nobody has");
	return NULL;
}

/* ---- lanes ------------------------------------------------------------------------- */

static void put_on_lane(unsigned lane, struct redis_request *r)
{
	struct place *p = place_of(r);

	for (unsigned i = 0; i < LANES; i++)
		assert_true(i == lane || p->on_lane[i] == 0);
	p->on_lane[lane]++;
	r->answered = 0;
	job_of(r)->is_served = false;
	TAILQ_INSERT_TAIL(&w.lanes[lane].sent, r, entry);
}

static void on_send(void *ctx, unsigned lane, struct redis_request *r)
{
	assert_ptr_equal(ctx, &w);
	assert_in_range(lane, 0, LANES - 1);
	put_on_lane(lane, r);
}

static void make_job(struct place *p)
{
	struct job *j;

	if (p->made == REQUESTS_MAX || w.is_well)
		return;
	j = mem_zalloc(sizeof(*j));
	j->key = any(KEYS);
	j->value = one_in(3) ? 0 : p->made + 1;
	j->r.slot = p->number;
	j->r.replies = 1 + any(REPLIES_MAX);
	p->jobs[p->made++] = j;
	slots_send(&w.slots, &j->r, w.now_ms);
}

static void leave_lane(unsigned lane, struct job *j)
{
	place_of(&j->r)->on_lane[lane]--;
}

/* The owner is told, and may ask at once for more. */
static void complete(unsigned lane, struct job *j)
{
	struct place *p = place_of(&j->r);

	leave_lane(lane, j);
	if (j->copy_of) {
		mem_free(j);
	} else {
		assert_in_range(p->done, 0, p->made - 1);
		assert_ptr_equal(p->jobs[p->done], j);
		assert_true(j->runs == 1 || j->r.was_lost);
		p->done++;
		if (one_in(4))
			make_job(p);
	}
	slots_answered(&w.slots, p->number, w.now_ms);
}

static void confirm(unsigned lane)
{
	struct redis_requests *held = &w.lanes[lane].held;
	struct redis_request *r;

	while ((r = TAILQ_FIRST(held)) != NULL) {
		TAILQ_REMOVE(held, r, entry);
		complete(lane, job_of(r));
	}
}

/* ---- the masters ------------------------------------------------------------------- */

static void run(struct place *p, struct job *j)
{
	assert_true(p->run_count < RUNS_MAX);
	j->runs++;
	p->runs[p->run_count++] =
		(struct run){ j->copy_of ? j->copy_of : j, j->key, j->value };
}

static void serve_one(unsigned lane)
{
	static const char *const away[] = { "CLUSTERDOWN The cluster is down",
					    "MASTERDOWN Link with MASTER is down",
					    "LOADING Redis is loading",
					    "READONLY You can't write" };
	struct redis_request *r;
	struct place *p;
	struct job *j;

	TAILQ_FOREACH (r, &w.lanes[lane].sent, entry)
		if (!job_of(r)->is_served)
			break;
	if (!r)
		return;
	p = place_of(r);
	j = job_of(r);
	j->is_served = true;
	j->bounce = 0;
	if (p->owner != lane)
		j->word = "MOVED 1 127.0.0.1:1";
	else if (p->state == PLACE_AWAY)
		j->word = away[any(COUNT(away))];
	else if (p->state == PLACE_OPEN && one_in(2))
		j->word = one_in(2) ? "ASK 1 127.0.0.1:1" : "TRYAGAIN Multiple keys";
	else
		j->word = NULL;
	if (j->word)
		j->bounce = 1 + any(r->replies);
	/* Also one whose answer says else: some of its keys were there. */
	if (!j->word || (p->state == PLACE_OPEN && p->owner == lane && one_in(4)))
		run(p, j);
}

static void hold_or_complete(unsigned lane, struct job *j)
{
	struct lane *l = &w.lanes[lane];

	if (TAILQ_EMPTY(&l->held) && !one_in(3))
		complete(lane, j);
	else
		TAILQ_INSERT_TAIL(&l->held, &j->r, entry);
}

static bool is_last(const struct redis_request *r)
{
	return r->answered == r->replies;
}

/* The next reply of the lane. */
static void read_one(unsigned lane)
{
	struct redis_request *r = TAILQ_FIRST(&w.lanes[lane].sent);
	redisReply reply = { .type = REDIS_REPLY_INTEGER };
	struct job *j = job_of(r);
	bool is_told;

	if (!r || !j->is_served)
		return;
	r->answered++;
	if (j->bounce && r->answered >= j->bounce) {
		reply.type = REDIS_REPLY_ERROR;
		reply.str = (char *)(uintptr_t)(r->answered == j->bounce ? j->word
									 : "EXECABORT");
	}
	if (is_last(r)) {
		TAILQ_REMOVE(&w.lanes[lane].sent, r, entry);
		leave_lane(lane, j);
	}
	is_told = slots_reply(&w.slots, r, &reply, w.now_ms);
	if (!is_last(r) || !is_told)
		return;
	assert_int_equal(j->bounce, 0);
	place_of(r)->on_lane[lane]++;
	hold_or_complete(lane, j);
}

/* What is unanswered, in order: those that are held were sent first. */
static void take_all(unsigned lane, struct redis_requests *out)
{
	struct lane *l = &w.lanes[lane];
	struct redis_request *r;

	TAILQ_CONCAT(out, &l->held, entry);
	TAILQ_CONCAT(out, &l->sent, entry);
	TAILQ_FOREACH (r, out, entry) {
		r->was_lost = true;
		leave_lane(lane, job_of(r));
	}
}

static bool is_here(const struct place *p, unsigned lane)
{
	const struct slot *at = &w.slots.slots[p->number];

	return p->owner == lane && at->owner == lane &&
	       (at->on_way == 0 || at->lane == lane);
}

/* A replica is promoted that has not the last of what was carried out: what was told is
 * sent again before all else. */
static void lag(struct place *p, struct redis_requests *out)
{
	unsigned again = any(4), kept = 0;

	if (again > p->done)
		again = p->done;
	/* It has all that is not sent again. */
	for (unsigned i = 0; i < p->run_count; i++)
		for (unsigned k = 0; k < p->done - again; k++)
			if (p->runs[i].job == p->jobs[k])
				kept = i + 1;
	p->run_count = kept + any(p->run_count - kept + 1);
	for (unsigned k = p->done - again; k < p->done; k++) {
		struct job *j = mem_zalloc(sizeof(*j));

		*j = (struct job){ .key = p->jobs[k]->key,
				   .value = p->jobs[k]->value,
				   .copy_of = p->jobs[k],
				   .r = { .slot = p->number, .replies = 1 } };
		TAILQ_INSERT_TAIL(out, &j->r, entry);
	}
}

/* Its connection is lost; the next one may be to a promoted replica. */
static void lose_lane(unsigned lane)
{
	struct redis_requests again = TAILQ_HEAD_INITIALIZER(again);
	struct redis_requests own = TAILQ_HEAD_INITIALIZER(own);
	struct redis_request *r;

	take_all(lane, &again);
	for (unsigned i = 0; i < SLOTS && one_in(2); i++)
		if (is_here(&w.places[i], lane))
			lag(&w.places[i], &own);
	TAILQ_FOREACH (r, &own, entry)
		slots_adopt(&w.slots, r, lane);
	TAILQ_CONCAT(&own, &again, entry);
	while ((r = TAILQ_FIRST(&own)) != NULL) {
		TAILQ_REMOVE(&own, r, entry);
		put_on_lane(lane, r);
	}
}

/* ---- maps -------------------------------------------------------------------------- */

static void bring_back_all(unsigned lane)
{
	struct redis_requests left = TAILQ_HEAD_INITIALIZER(left);
	struct redis_request *r;

	take_all(lane, &left);
	while ((r = TAILQ_FIRST(&left)) != NULL) {
		TAILQ_REMOVE(&left, r, entry);
		slots_bring_back(&w.slots, r, w.now_ms);
	}
}

/* It may be of a moment ago. A master that has no slot any more may leave. */
static void read_map(void)
{
	bool is_owner[LANES] = { false };

	for (unsigned i = 0; i < SLOTS; i++) {
		struct place *p = &w.places[i];

		if (w.is_well || !one_in(4))
			slots_set_owner(&w.slots, p->number, p->owner);
		if (w.slots.slots[p->number].owner != SLOT_NO_LANE)
			is_owner[w.slots.slots[p->number].owner] = true;
	}
	for (unsigned i = 0; i < LANES; i++)
		if (!is_owner[i] && one_in(2))
			bring_back_all(i);
	slots_map_came(&w.slots, w.now_ms);
}

/* ---- the sequences ----------------------------------------------------------------- */

static void change_cluster(void)
{
	struct place *p = &w.places[any(SLOTS)];

	if (one_in(2))
		p->owner = any(LANES);
	else
		p->state = any(3);
}

static void step(void)
{
	switch (any(10)) {
	case 0:
	case 1:
	case 2:
		make_job(&w.places[any(SLOTS)]);
		break;
	case 3:
	case 4:
		serve_one(any(LANES));
		break;
	case 5:
	case 6:
		read_one(any(LANES));
		break;
	case 7:
		w.now_ms += any(100);
		slots_tick(&w.slots, w.now_ms);
		break;
	case 8:
		confirm(any(LANES));
		break;
	default:
		if (one_in(3))
			change_cluster();
		else if (one_in(2))
			read_map();
		else if (one_in(2))
			lose_lane(any(LANES));
	}
}

static void begin(uint64_t seed)
{
	w.random = seed * 0x9e3779b97f4a7c15u | 1;
	w.now_ms = 1;
	w.is_well = false;
	for (unsigned i = 0; i < LANES; i++) {
		TAILQ_INIT(&w.lanes[i].sent);
		TAILQ_INIT(&w.lanes[i].held);
	}
	for (unsigned i = 0; i < SLOTS; i++) {
		w.places[i].number = i * 5000;
		w.places[i].made = w.places[i].done = w.places[i].run_count = 0;
		w.places[i].owner = any(LANES);
		w.places[i].state = PLACE_OK;
		slots_set_owner(&w.slots, i * 5000, SLOT_NO_LANE);
	}
}

static bool is_all_done(void)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (w.places[i].done < w.places[i].made)
			return false;
	for (unsigned i = 0; i < LANES; i++)
		if (!TAILQ_EMPTY(&w.lanes[i].sent) || !TAILQ_EMPTY(&w.lanes[i].held))
			return false;
	return TAILQ_EMPTY(&w.slots.held);
}

static void heal(void)
{
	w.is_well = true;
	for (unsigned i = 0; i < SLOTS; i++)
		w.places[i].state = PLACE_OK;
	for (unsigned turn = 0; turn < 1000 && !is_all_done(); turn++) {
		read_map();
		w.now_ms += 100;
		slots_tick(&w.slots, w.now_ms);
		for (unsigned i = 0; i < LANES; i++) {
			for (unsigned n = 0; n < 50; n++) {
				serve_one(i);
				read_one(i);
			}
			confirm(i);
		}
	}
}

static void expect_content(const struct place *p)
{
	unsigned is[KEYS] = { 0 }, should_be[KEYS] = { 0 };

	for (unsigned i = 0; i < p->run_count; i++)
		is[p->runs[i].key] = p->runs[i].value;
	for (unsigned i = 0; i < p->made; i++)
		should_be[p->jobs[i]->key] = p->jobs[i]->value;
	assert_memory_equal(is, should_be, sizeof(is));
}

static void check_end(void)
{
	assert_true(is_all_done());
	assert_int_equal(w.slots.held_requests, 0);
	for (unsigned i = 0; i < SLOTS; i++) {
		struct place *p = &w.places[i];

		assert_int_equal(p->done, p->made);
		assert_int_equal(w.slots.slots[p->number].on_way, 0);
		expect_content(p);
		while (p->made > 0)
			mem_free(p->jobs[--p->made]);
	}
}

static void play(uint64_t seed)
{
	begin(seed);
	for (unsigned i = 40 + any(200); i > 0; i--)
		step();
	heal();
	check_end();
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static int tell_seed(void **state)
{
	if (w.seed)
		print_error("TIDE_TEST_SEED=%llu\n", (unsigned long long)w.seed);
	return 0;
}

TEST_WITH(order_content_and_counts_are_as_if_nothing_had_happened, NULL, tell_seed)
{
	uint64_t first = number_of("TIDE_TEST_SEED", 0);
	uint64_t rounds = first ? 1 : number_of("TIDE_TEST_ROUNDS", ROUNDS);

	slots_init(&w.slots, on_send, &w);
	for (uint64_t seed = first ? first : 1; rounds > 0; seed++, rounds--) {
		w.seed = seed;
		play(seed);
	}
	w.seed = 0;
	slots_deinit(&w.slots);
}

static void bounce_with(const char *word, enum bounce kind)
{
	redisReply reply = { .type = REDIS_REPLY_ERROR,
			     .str = (char *)(uintptr_t)word,
			     .len = strlen(word) };

	assert_int_equal(slots_bounce(&reply), kind);
}

TEST_THAT(an_answer_bounces_by_its_first_word)
{
	redisReply text = { .type = REDIS_REPLY_STRING, .str = (char *)"MOVED 1 a:1" };

	bounce_with("MOVED 3999 127.0.0.1:6381", BOUNCE_MOVED);
	bounce_with("ASK 3999 127.0.0.1:6381", BOUNCE_OPEN);
	bounce_with("TRYAGAIN Multiple keys request during rehashing of slot",
		    BOUNCE_OPEN);
	bounce_with("CLUSTERDOWN Hash slot not served", BOUNCE_AWAY);
	bounce_with("READONLY You can't write against a read only replica.", BOUNCE_AWAY);
	bounce_with("NOREPLICAS Not enough good replicas to write.", BOUNCE_NONE);
	bounce_with("EXECABORT Transaction discarded", BOUNCE_NONE);
	bounce_with("MOVEDTO", BOUNCE_NONE);
	assert_int_equal(slots_bounce(&text), BOUNCE_NONE);
}

RUN_TESTS()
