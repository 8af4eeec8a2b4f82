/* engine.h: the rule engine as the broker sees it.
 *
 * The engine holds one generation of scripts: a Lua state with every script of
 * the rules directory. A reload builds a second generation from the files,
 * checks it against everything that is in use (each strategy, each routing
 * index with its bindings), and only when all of it works puts it in the place
 * of the first, between two calls. The broker does not see generations: the
 * handles below live through them.
 *
 * One thread, the loop's. Calls into scripts are bounded in time by a watchdog
 * and in memory by the allocator. A failing script costs its caller an error
 * with file, line and message (TIDE_ERULE), and nothing else. */
#ifndef TIDE_RULES_ENGINE_ENGINE_H
#define TIDE_RULES_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/args.h"
#include "base/error.h"
#include "base/json.h"
#include "base/msg.h"

struct bundle;
struct engine;

/* An extension point: a folder of the rules directory. */
enum script_kind {
	SCRIPT_ROUTING,
	SCRIPT_SHARDING,
	SCRIPT_PRIORITY,
	SCRIPT_RETRY,
	SCRIPT_FILTER,
	SCRIPT_SCHEDULE,
	SCRIPT_KIND_COUNT,
};
const char *script_kind_name(enum script_kind kind); /* "routing", ... */

/* Where a generation comes from, and what made the engine load it. */
enum engine_origin {
	ENGINE_START,     /* the directory, at the start */
	ENGINE_LAST_GOOD, /* at the start, in the place of a broken directory */
	ENGINE_FILES,     /* the directory, which changed */
	ENGINE_RELOAD,    /* the directory, because somebody asked */
	ENGINE_ROLLBACK,  /* an earlier generation */
	ENGINE_PROMOTE,   /* what stood in the shadow */
};
const char *engine_origin_name(enum engine_origin origin); /* "start", ... */

/* Of the memory of a generation: 100,000 bindings take some 70 MB. */
#define ENGINE_MEMORY_DEFAULT ((size_t)256 << 20)

struct engine_config {
	const char *rules_dir;   /* scanned and watched; must exist */
	const char *lua_dir;     /* the framework: what `require "tide.x"` finds */
	size_t memory_max_bytes; /* of a generation */
	int64_t call_budget_ms;  /* of one call into a script */
	int64_t debounce_ms; /* a change in the directory is acted on after this rest */
	bool watch;          /* reload by itself when files change */
	/* The first generation, in the place of the directory, which was refused
	 * with this error; NULL: the directory. */
	struct bundle *last_good;
	const struct error *refusal;
	/* How long a script that keeps failing is not called; 0: the default. */
	int64_t breaker_rest_ms;
	bool has_no_breaker; /* it is called each time */
	/* What lines of the log begin with, where these are not the rules in force;
	 * copied. NULL: "rules". */
	const char *about;
	size_t shared_entries_max; /* of tide.shared; 0 = the default */
	size_t shared_bytes_max;
};

struct engine_hooks {
	void *ctx;
	/* A reload ended: TIDE_OK, or why the old generation goes on. Called for
	 * those that were asked for too, before who asked is told; not for the
	 * generation that engine_create loads. */
	void (*on_reload)(void *ctx, const struct error *result);
	/* Members of the document of engine_status that are the broker's; may be NULL. */
	void (*add_status)(void *ctx, struct json *out);
	/* The directory changed; NULL: it is reloaded at once. Else the owner calls
	 * reload_follow or reload_refuse, now or later. */
	void (*on_change)(void *ctx);
};

/* Load the first generation. Broken rules fail the start, with file and line. */
TIDE_MUST_USE int engine_create(struct engine **out, uv_loop_t *loop,
				const struct engine_config *config,
				const struct engine_hooks *hooks, struct error *err);
/* The same without a generation, for a loop that must not stall: the first
 * reload_start loads it. Strategies and indexes may be made and bound before,
 * which asks no script; what is wrong with them is told by the reload. Nothing else
 * may be asked before it has succeeded. */
TIDE_MUST_USE int engine_open(struct engine **out, uv_loop_t *loop,
			      const struct engine_config *config,
			      const struct engine_hooks *hooks, struct error *err);
/* Stop watching, then free everything, then on_closed. Whoever waits for a reload is
 * told TIDE_ESHUTDOWN within the call. Strategies and indexes must have been
 * destroyed before. */
void engine_close(struct engine *e, void (*on_closed)(void *ctx), void *ctx);

/* Build a new generation between the turns of the loop, and tell when it is in
 * force, or why it is not (TIDE_ERULE: the old one goes on). What is asked while a
 * build is under way is answered by one that begins after it. `on_done` may be NULL;
 * it comes from the loop, never before this returns, or from engine_close. */
typedef void reload_done_fn(void *ctx, const struct error *result);
void reload_start(struct engine *e, reload_done_fn *on_done, void *ctx);

/* The same at once, for those who may stand still: tests and tools. */
TIDE_MUST_USE int reload_now(struct engine *e, struct error *err);

/* Reload the directory since it changed, as reload_start does. */
void reload_follow(struct engine *e);
/* The files (NULL: the directory) are refused for a reason of the owner's, and not
 * loaded. */
void reload_refuse(struct engine *e, enum engine_origin origin, struct bundle *files,
		   const struct error *why);

/* Put these files in force, in steps as reload_start does. The directory is not
 * touched; its next change, or a reload, which may also be asked for meanwhile,
 * supersedes them. TIDE_EBUSY while something else is being built. */
TIDE_MUST_USE int reload_files(struct engine *e, struct bundle *files,
			       enum engine_origin origin, reload_done_fn *on_done,
			       void *ctx, struct error *err);

/* Who asks, for the next reload_start, reload_files or reload_refuse,
 * and no other. */
void reload_set_asker(struct engine *e, const char *who);
/* Who asked for what was loaded or refused last, for as long as on_reload is told: more
 * than one with ", " between them; "" nobody. */
const char *reload_asked_by(const struct engine *e);

/* The generation in force: its files (borrowed), their hash, its origin. */
struct bundle *engine_files(const struct engine *e);
uint64_t engine_hash(const struct engine *e);
enum engine_origin engine_origin(const struct engine *e);
/* The origin of what was loaded or refused last: what on_reload is about; and the
 * files that were refused (borrowed), NULL for those of the directory. */
enum engine_origin reload_attempt(const struct engine *e);
struct bundle *reload_refused_files(const struct engine *e);

/* Changes with every generation; what is remembered of a decision is good for
 * one epoch only. Starts at 1. */
uint64_t engine_epoch(const struct engine *e);
/* Has the call not been made, since the script had failed too often? */
bool engine_is_not_called(const char *error_text);
/* Where the decisions that scripts are asked for are counted. */
const uint64_t *engine_call_count(const struct engine *e);

bool engine_has(const struct engine *e, enum script_kind kind, struct slice name);

/* For RULES status and LIST rules: an object with the generation, when it was
 * loaded, the last refusal, and for each script kind, file, hash, calls,
 * errors, time. */
void engine_status(const struct engine *e, struct json *out);

/* What tide.shared, tide.counter and tide.bucket keep: shared.h. */
struct shared;
struct shared *engine_shared(const struct engine *e);
/* The counters of scripts by name, at most 256 of them: members of an object. */
void engine_status_counters(const struct engine *e, struct json *out);

/* ---- time and chance, for tests ---------------------------------------------- */

/* From here on tide.now gives this, until it is set again or released. */
void engine_set_clock(struct engine *e, int64_t now_ms);
void engine_release_clock(struct engine *e);
/* What tide.now gives. */
int64_t engine_now_ms(const struct engine *e);
/* Where tide.random is in its sequence: with engine_seed it goes on from there. */
uint64_t engine_random_state(const struct engine *e);
/* The same seed, the same sequence of tide.random. */
void engine_seed(struct engine *e, uint64_t seed);

/* What a script is asked to decide. */
struct decision_context;
struct script_question {
	const struct msg *msg;
	struct decision_context *context; /* NULL: that of a live publish */
};

/* ---- routing ------------------------------------------------------------ */

/* An exchange's bindings, as its routing script indexes them. */
struct index;

struct index_binding {
	uint32_t place; /* among the owner's bindings */
	uint32_t dest;  /* where it leads: the script hands it back */
	struct slice pattern;
	const struct args *args;
};

/* The bindings are their owner's. A generation asks for them when it is built. */
struct index_source {
	const void *ctx;
	/* The first binding from `b->place` on; false: none. */
	bool (*next)(const void *ctx, struct index_binding *b);
	/* Does a binding lead there? */
	bool (*is_dest)(const void *ctx, uint32_t dest);
};

struct index_spec {
	struct slice type;
	const struct args *options;
	const char *user; /* for errors: "exchange 'orders'" */
	struct index_source source;
};

/* Without the bindings, which index_bind adds while a generation is loaded. */
TIDE_MUST_USE int index_create(struct engine *e, const struct index_spec *spec,
			       struct index **out, struct error *err);
void index_destroy(struct index *x);

/* A binding is added at a place that is free, or that index_source.next gives already.
 * TIDE_ERULE when the script refuses the pattern. */
TIDE_MUST_USE int index_bind(struct index *x, const struct index_binding *b,
			     struct error *err);
/* A binding has gone: index_source.next does not give it any more. On an error the
 * script may still lead to its destination. */
TIDE_MUST_USE int index_unbind(struct index *x, const struct index_binding *b,
			       struct error *err);

/* The decision depends on the routing key alone, so it may be remembered. */
bool index_is_pure(const struct index *x);

/* The file that decides, relative to the rules directory. */
const char *index_script(const struct index *x);

/* The broker has remembered a decision and did not ask; for the statistics. */
void index_count_hit(struct index *x);

/* The destinations of the matching bindings, in no order, repetitions
 * possible. The array is the engine's, good until the next call into it. */
TIDE_MUST_USE int index_route(struct index *x, const struct script_question *q,
			      const uint32_t **dests, size_t *count, struct error *err);

/* ---- strategies ---------------------------------------------------------- */

/* A script in use with its options: one queue's sharding, priority or retry. */
struct strategy;

/* TIDE_ENOTFOUND names the scripts there are; TIDE_EMISMATCH tells of an
 * option that the script does not declare, or whose value is not of its type. */
TIDE_MUST_USE int strategy_create(struct engine *e, enum script_kind kind,
				  struct slice name, const struct args *options,
				  const char *user, struct strategy **out,
				  struct error *err);
void strategy_destroy(struct strategy *s);
bool strategy_is_pure(const struct strategy *s);
const char *strategy_script(const struct strategy *s);
/* Of the script's file. */
uint64_t strategy_hash(const struct strategy *s);

/* How a sharding script learns the load of a shard, which only those that ask for
 * it pay for. Without it every shard has none. */
typedef uint64_t strategy_load_fn(const void *ctx, unsigned shard);
void strategy_set_load(struct strategy *s, strategy_load_fn *load, const void *ctx);

/* What scripts see as `queue`. */
struct queue_view {
	struct slice vhost;
	struct slice name;
	double served;  /* the rank that was served last; 0 before the first */
	uint64_t ready; /* messages waiting */
	unsigned shard; /* it enters; what is above is of this shard */
};

/* What scripts see as `failure`. */
struct failure_view {
	const char *reason; /* "nack" "timeout" "gone" "expired" */
	uint32_t attempts;  /* deliveries so far, this one included */
	uint32_t failures;  /* failures so far, this one included */
};

enum retry_action { RETRY_AFTER, RETRY_BURY, RETRY_DEAD_LETTER, RETRY_DROP };
struct retry_decision {
	enum retry_action action;
	int64_t delay_ms; /* for RETRY_AFTER; 0 = ready again at once */
};

/* 0 <= *shard < shards. */
TIDE_MUST_USE int strategy_pick(struct strategy *s, const struct script_question *q,
				unsigned shards, unsigned *shard, struct error *err);
/* A finite number. */
TIDE_MUST_USE int strategy_rank(struct strategy *s, const struct script_question *q,
				const struct queue_view *queue, double *rank,
				struct error *err);
/* What to do about a failure. */
TIDE_MUST_USE int strategy_decide(struct strategy *s, const struct script_question *q,
				  const struct failure_view *failure,
				  struct retry_decision *decision, struct error *err);

#endif
