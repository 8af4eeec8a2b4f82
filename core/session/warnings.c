#include "warnings.h"

#include "base/mem.h"
#include "broker/group.h"
#include "list_walk.h"
#include "rules/engine/engine_status.h"
#include "rules/engine/reload.h"
#include "service.h"
#include "service_events.h"
#include "session_private.h"

#define EVERY_MS 5000
#define SLICE_US 500
#define PAUSE_MS 10 /* between two slices */
#define STEPS 16    /* from one look at the clock to the next */
#define LINES_MAX 5 /* of a kind */
#define LINE_BYTES 400
#define LAG_MIN 1000 /* messages */
#define CERTIFICATE_DAYS 14
#define DAY_MS INT64_C(86400000)
/* Of a limit, in percent: from where on it is near, until where it stays so. */
#define NEAR 80
#define NEAR_STILL 70

enum scope { SCOPE_BROKER, SCOPE_SCRIPT, SCOPE_QUEUE, SCOPE_GROUP };

/* The findings of one round of a kind. */
struct found {
	unsigned count;
	char lines[LINES_MAX][LINE_BYTES];
};

struct script_trend {
	UT_hash_handle hh; /* by file */
	struct trend errors;
	uint64_t grown;
	bool is_met; /* in this round */
	char file[];
};

/* Is there something to warn of? Its sentence is appended. */
typedef bool (*judge_fn)(const struct warnings *w, void *item, struct buf *text);

#define KINDS 14
/* A spare takes a cell over in less. */
#define CELL_VACANT_MS 5000

struct warnings {
	struct service *service;
	struct list_walk walk;
	bool is_walking;
	int64_t due_ms; /* by mono_ms */
	bool is_memory_near, is_store_memory_near;
	struct script_trend *scripts; /* uthash */
	struct found now[KINDS];      /* of the last round that has ended */
	struct found next[KINDS];     /* of the one that is under way */
};

/* Judges. */

static bool judge_store(const struct warnings *w, void *item, struct buf *text)
{
	const struct store *store = w->service->broker->store;

	for (int kind = 0; kind < STORE_TROUBLES; kind++)
		if (store_has_trouble(store, (enum store_trouble)kind) &&
		    !store_trouble_is_total((enum store_trouble)kind)) {
			buf_append_text(text, store_trouble_text(
						      store, (enum store_trouble)kind));
			return true;
		}
	return false;
}

static bool judge_sentinels(const struct warnings *w, void *item, struct buf *text)
{
	struct store_stats st;

	store_stats(w->service->broker->store, &st);
	if (st.sentinels >= st.sentinels_known)
		return false;
	buf_printf(text,
		   "%u of %u Sentinels answer, and with half of them or fewer no replica "
		   "is promoted when the master dies: start the others, or make the rest "
		   "forget them (SENTINEL RESET)",
		   st.sentinels, st.sentinels_known);
	return true;
}

static bool judge_slots(const struct warnings *w, void *item, struct buf *text)
{
	struct store_stats st;

	store_stats(w->service->broker->store, &st);
	if (st.stuck_ms == 0)
		return false;
	buf_printf(text,
		   "slots of the Redis Cluster that are being moved or have no master: "
		   "%u, slot %u for %llu s; what belongs to them waits: redis-cli "
		   "--cluster check shows whose; end the move as "
		   "examples/cluster/finish_slot.sh does",
		   st.slots_held, st.stuck_slot, (unsigned long long)st.stuck_ms / 1000);
	return true;
}

static bool judge_cells(const struct warnings *w, void *item, struct buf *text)
{
	const struct store *store = w->service->broker->store;

	for (unsigned k = 0; k < store_cells(store); k++) {
		if (store_cell_vacant_ms(store, k) < CELL_VACANT_MS)
			continue;
		buf_printf(text, "cell %u of %u has no owner: start another broker", k,
			   store_cells(store));
		return true;
	}
	return false;
}

/* The text of an error names files and shows code: it is for those who log in. */
static bool judge_rules(const struct warnings *w, void *item, struct buf *text)
{
	const struct engine *e = w->service->broker->engine;

	if (w->service->rollout.is_behind) {
		buf_printf(text,
			   "the owner of another cell has made other rules active, which "
			   "cannot be loaded here, and generation %016llx serves: RULES "
			   "log says why",
			   (unsigned long long)engine_hash(e));
		return true;
	}
	if (reload_refusal(e)->code >= 0)
		return false;
	buf_printf(text,
		   "the rules that were loaded last were refused, and generation "
		   "%016llx serves: RULES status says why",
		   (unsigned long long)engine_hash(e));
	return true;
}

static bool judge_unusable(const struct warnings *w, void *item, struct buf *text)
{
	unsigned count = w->service->broker->unusable;

	if (count > 0)
		buf_printf(text,
			   "%u definitions cannot be used with these rules: see the log",
			   count);
	return count > 0;
}

/* In percent; 0 without a limit. */
static double share_of(uint64_t is, uint64_t limit)
{
	return limit ? (double)is * 100 / (double)limit : 0;
}

static double share_of_memory(const struct warnings *w)
{
	return share_of(service_pressure_memory(w->service),
			w->service->broker->config.memory_max_bytes);
}

static double share_of_store(const struct warnings *w)
{
	struct store_stats st;

	store_stats(w->service->broker->store, &st);
	return st.memory_percent;
}

static bool is_near(bool was_near, double share)
{
	return share >= (was_near ? NEAR_STILL : NEAR);
}

static bool judge_memory(const struct warnings *w, void *item, struct buf *text)
{
	double share = share_of_memory(w);

	if (!is_near(w->is_memory_near, share))
		return false;
	buf_printf(text,
		   "messages fill %.0f %% of --max-memory, and at 100 %% publishers are "
		   "held back: start consumers, or raise it",
		   share);
	return true;
}

static bool judge_store_memory(const struct warnings *w, void *item, struct buf *text)
{
	double share = share_of_store(w);
	struct store_stats st;

	if (!is_near(w->is_store_memory_near, share))
		return false;
	store_stats(w->service->broker->store, &st);
	buf_printf(text,
		   "%s uses %.0f %% of its maxmemory, and at its end refuses writes: "
		   "raise it, or consume what is stored",
		   st.is_cluster ? "a master of Redis (STATS, store.masters)" : "Redis",
		   share);
	return true;
}

/* @param until_ms  0: there is no certificate */
static bool ends_soon(const struct warnings *w, int64_t until_ms, const char *what,
		      struct buf *text)
{
	int64_t left_ms = until_ms - w->service->broker->now_ms;

	if (!until_ms || left_ms >= CERTIFICATE_DAYS * DAY_MS)
		return false;
	buf_printf(text, "the certificate of %s ", what);
	if (left_ms <= 0)
		buf_append_text(text, "has ended, and is refused");
	else
		buf_printf(text, "ends in %lld days", (long long)(left_ms / DAY_MS));
	buf_append_text(text, ": put a new one in its place");
	return true;
}

static bool judge_certificate(const struct warnings *w, void *item, struct buf *text)
{
	bool is_soon =
		ends_soon(w, w->service->net.tls_until_unix_ms, "--tls-cert", text);

	if (is_soon)
		buf_append_text(text, ", and send SIGHUP");
	return is_soon;
}

static bool judge_store_certificate(const struct warnings *w, void *item,
				    struct buf *text)
{
	return ends_soon(w, store_tls_until_unix_ms(w->service->broker->store),
			 "--store (cert=)", text);
}

static struct script_trend *find_script(struct warnings *w, struct slice file)
{
	struct script_trend *t;

	HASH_FIND(hh, w->scripts, file.data, file.len, t);
	if (!t) {
		t = mem_zalloc(sizeof(*t) + file.len + 1);
		memcpy(t->file, file.data, file.len);
		HASH_ADD_KEYPTR(hh, w->scripts, t->file, file.len, t);
	}
	t->is_met = true;
	return t;
}

static bool judge_script(const struct warnings *w, void *item, struct buf *text)
{
	const struct script_trend *t = item;

	if (t->grown == 0)
		return false;
	buf_printf(text, "the script %s has failed ", t->file);
	buf_append_count(text, t->grown, "time");
	buf_append_text(text, " in the last two minutes: see its last error (RULES "
			      "status)");
	return true;
}

static void name_queue(const struct queue *q, struct buf *text)
{
	buf_printf(text, "the %s '%s' (vhost %s) ", q->topic ? "topic" : "queue", q->name,
		   q->vhost->name);
}

static bool is_consumed(const struct queue *q)
{
	return q->consumer_count > 0 || q->paused_ms[QUEUE_OUT] ||
	       rate_peek(&q->rates->out, q->counters.delivered, q->vhost->broker->second,
			 RATE_SECONDS) > 0;
}

static bool judge_consumers(const struct warnings *w, void *item, struct buf *text)
{
	struct queue *q = item;
	uint64_t ready;

	if (q->topic || !q->rates)
		return false;
	ready = queue_count(q, ENTRY_READY);
	if (ready == 0 || is_consumed(q)) {
		q->rates->ready = (struct trend){ 0 };
		return false;
	}
	if (trend_gauge(&q->rates->ready, ready, w->service->broker->now_ms) == 0)
		return false;
	name_queue(q, text);
	buf_append_text(text, "grows and has no consumer, with ");
	buf_append_count(text, ready, "message");
	buf_append_text(text, ": start one, or give the queue a limit (max-length, ttl)");
	return true;
}

/* Expired messages are left out: there are queues that make messages wait so. */
static bool judge_dead_letters(const struct warnings *w, void *item, struct buf *text)
{
	struct queue *q = item;
	uint64_t dead = q->counters.dead_lettered, expired = q->counters.expired;
	uint64_t grown;

	if (dead <= expired || !q->rates)
		return false;
	grown = trend_counter(&q->rates->dead_lettered, dead - expired,
			      w->service->broker->now_ms);
	if (grown == 0)
		return false;
	name_queue(q, text);
	buf_append_text(text, "has sent ");
	buf_append_count(text, grown, "message");
	buf_append_text(text, " to its dead-letter target in the last two minutes: look "
			      "there for the reason");
	return true;
}

static bool judge_lag(const struct warnings *w, void *item, struct buf *text)
{
	struct topic_group *g = item;
	uint64_t lag = group_lag_all(g), grown;

	if (group_is_paused(g)) {
		g->lag = (struct trend){ 0 };
		return false;
	}
	grown = trend_gauge(&g->lag, lag, w->service->broker->now_ms);
	if (grown == 0 || lag < LAG_MIN)
		return false;
	buf_printf(text, "the group '%s' of ", g->name);
	name_queue(g->topic->queue, text);
	buf_printf(text,
		   "is %llu messages behind, %llu more than a minute ago: start more "
		   "consumers",
		   (unsigned long long)lag, (unsigned long long)grown);
	return true;
}

/* `many` and `advice` are for those who may see no names, with the number between them.
 * The sentences of the whole broker have no names. */
static const struct {
	const char *code;
	enum scope scope;
	judge_fn judge;
	const char *many, *advice;
} kinds[KINDS] = {
	{ "store", SCOPE_BROKER, judge_store, NULL, NULL },
	{ "store-memory", SCOPE_BROKER, judge_store_memory, NULL, NULL },
	{ "sentinels", SCOPE_BROKER, judge_sentinels, NULL, NULL },
	{ "slots", SCOPE_BROKER, judge_slots, NULL, NULL },
	{ "cells", SCOPE_BROKER, judge_cells, NULL, NULL },
	{ "memory", SCOPE_BROKER, judge_memory, NULL, NULL },
	{ "certificate", SCOPE_BROKER, judge_certificate, NULL, NULL },
	{ "store-certificate", SCOPE_BROKER, judge_store_certificate, NULL, NULL },
	{ "rules", SCOPE_BROKER, judge_rules, NULL, NULL },
	{ "unusable", SCOPE_BROKER, judge_unusable, NULL, NULL },
	{ "scripts", SCOPE_SCRIPT, judge_script, "scripts of the rules that fail",
	  "see their last error (RULES status)" },
	{ "consumers", SCOPE_QUEUE, judge_consumers,
	  "queues that grow and have no consumer",
	  "start one, or give the queue a limit (max-length, ttl)" },
	{ "dead-letters", SCOPE_QUEUE, judge_dead_letters,
	  "queues and topics that send messages to their dead-letter target",
	  "look there for the reason" },
	{ "lag", SCOPE_GROUP, judge_lag, "groups that fall behind their topics",
	  "start more consumers" },
};

/* Rounds. */

static void add(struct found *f, struct buf *text)
{
	if (f->count < LINES_MAX)
		snprintf(f->lines[f->count], LINE_BYTES, "%s", buf_cstr(text));
	f->count++;
	buf_clear(text);
}

static void look(struct warnings *w, enum scope scope, void *item)
{
	struct buf text = { 0 };

	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].scope == scope && kinds[i].judge(w, item, &text))
			add(&w->next[i], &text);
	buf_deinit(&text);
}

/* Forget the scripts that were not met since the last time: the rules have them no
 * more. */
static void forget_scripts(struct warnings *w)
{
	struct script_trend *t, *next;

	HASH_ITER (hh, w->scripts, t, next) {
		if (!t->is_met) {
			HASH_DELETE(hh, w->scripts, t);
			mem_free(t);
		} else {
			t->is_met = false;
		}
	}
}

static void look_at_script(struct warnings *w, const struct engine_script *script)
{
	struct buf file = { 0 };
	struct script_trend *t;

	buf_printf(&file, "%s/%s", script->kind, script->name);
	t = find_script(w, buf_slice(&file));
	/* An open circuit fails decisions without a call. */
	t->grown = trend_counter(&t->errors, script->errors + script->skipped,
				 w->service->broker->now_ms);
	look(w, SCOPE_SCRIPT, t);
	buf_deinit(&file);
}

static void look_at_scripts(struct warnings *w)
{
	const struct engine *e = w->service->broker->engine;
	size_t count = engine_figures_count_scripts(e);
	struct engine_script script;

	forget_scripts(w);

	for (size_t i = 0; i < count; i++) {
		engine_figures_read_script(e, i, &script);
		if (script.errors > 0)
			look_at_script(w, &script);
	}
}

static void look_at_memory(struct warnings *w)
{
	w->is_memory_near = is_near(w->is_memory_near, share_of_memory(w));
	w->is_store_memory_near = is_near(w->is_store_memory_near, share_of_store(w));
	store_memory_ask(w->service->broker->store);
}

static void begin(struct warnings *w)
{
	w->is_walking = true;
	list_walk_deinit(&w->walk);
	list_walk_init(&w->walk, w->service->broker, &list_walk_vhosts,
		       &list_walk_queues);
	memset(w->next, 0, sizeof(w->next));
	look_at_memory(w);
	look_at_scripts(w);
}

static void look_at_queue(struct warnings *w, struct queue *q)
{
	struct group_set *groups;

	if (q->definition.unusable)
		return;
	look(w, SCOPE_QUEUE, q);
	groups = q->topic ? q->topic->groups : NULL;
	for (struct topic_group *g = groups ? groups->by_name : NULL; g; g = g->hh.next)
		look(w, SCOPE_GROUP, g);
}

/* True: the round has ended. */
static bool go_on(struct warnings *w)
{
	enum list_step step = LIST_STEP_END;
	struct pace slice;
	void *item;

	pace_begin(&slice);
	while ((++slice.steps % STEPS != 0 || pace_taken_us(&slice) < SLICE_US) &&
	       (step = list_walk_next(&w->walk, &item)) != LIST_STEP_END)
		if (step == LIST_STEP_ITEM)
			look_at_queue(w, item);
	if (step != LIST_STEP_END)
		list_walk_keep(&w->walk);
	return step == LIST_STEP_END;
}

void warnings_turn(struct warnings *w)
{
	const struct broker *b = w->service->broker;

	if (!b->is_started || b->mono_ms < w->due_ms)
		return;
	if (!w->is_walking)
		begin(w);
	w->due_ms = b->mono_ms + PAUSE_MS;
	if (!go_on(w))
		return;
	w->is_walking = false;
	memcpy(w->now, w->next, sizeof(w->now));
	service_events_alarms(w->service);
	w->due_ms = b->mono_ms + EVERY_MS;
}

int64_t warnings_due_ms(const struct warnings *w)
{
	const struct broker *b = w->service->broker;

	return b->is_started ? b->now_ms + (w->due_ms - b->mono_ms) : 0;
}

struct warnings *warnings_create(struct service *s)
{
	struct warnings *w = mem_zalloc(sizeof(*w));

	w->service = s;
	return w;
}

void warnings_destroy(struct warnings *w)
{
	list_walk_deinit(&w->walk);
	forget_scripts(w);
	forget_scripts(w);
	mem_free(w);
}

/* Whoever asks. */

static unsigned judge_now(const struct warnings *w, size_t kind, struct buf *text)
{
	return kinds[kind].judge(w, NULL, text) ? 1 : 0;
}

static void tell_names(const struct found *f, size_t kind, warnings_fn tell, void *ctx)
{
	unsigned shown = f->count < LINES_MAX ? f->count : LINES_MAX;
	char text[32];

	for (unsigned i = 0; i < shown; i++)
		tell(ctx, kinds[kind].code, f->lines[i]);
	snprintf(text, sizeof(text), "… and %u more", f->count - shown);
	if (f->count > shown)
		tell(ctx, kinds[kind].code, text);
}

static void tell_count(const struct found *f, size_t kind, warnings_fn tell, void *ctx)
{
	char text[LINE_BYTES];

	snprintf(text, sizeof(text), "%s: %u; %s", kinds[kind].many, f->count,
		 kinds[kind].advice);
	if (f->count > 0)
		tell(ctx, kinds[kind].code, text);
}

void warnings_each(const struct warnings *w, bool has_names, warnings_fn tell, void *ctx)
{
	struct buf text = { 0 };

	for (size_t i = 0; i < KINDS; i++) {
		buf_clear(&text);
		if (kinds[i].scope != SCOPE_BROKER)
			(has_names ? tell_names : tell_count)(&w->now[i], i, tell, ctx);
		else if (judge_now(w, i, &text))
			tell(ctx, kinds[i].code, buf_cstr(&text));
	}
	buf_deinit(&text);
}

const char *warnings_code(unsigned number)
{
	return number < KINDS ? kinds[number].code : NULL;
}

unsigned warnings_count(const struct warnings *w, unsigned number)
{
	struct buf text = { 0 };
	unsigned count = w->now[number].count;

	if (kinds[number].scope == SCOPE_BROKER)
		count = judge_now(w, number, &text);
	buf_deinit(&text);
	return count;
}
