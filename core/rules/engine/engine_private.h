/* engine_private.h: the inside of the engine, for the files of this folder. */
#pragma once

#include <sys/queue.h>

#include "auth.h"
#include "engine.h"
#include "figures.h"
#include "filter.h"
#include "generation.h"
#include "hook.h"
#include "index.h"
#include "reload.h"
#include "strategy.h"
#include "rules/api/decision_context.h"
#include "watch.h"

struct handle;
struct schedule_broker;

/* use.c: the uses of scripts, and the calls of them.
 *
 * The engine numbers those of queues and exchanges. A number means the same use in each
 * generation. */

/* Make the handle's use of a script. TIDE_EMISMATCH for wrong options. */
TIDE_MUST_USE int use_open(struct generation *g, const struct handle *h,
			   struct rule *rule, struct error *err);
/* Harmless for a number that is not in use. */
void use_release(struct generation *g, size_t number);

/* The script's reason for its refusal. */
#define REFUSAL_MAX 300
struct script_refusal {
	bool is_refused;
	/* Without a password or a secret; "": no reason. */
	char reason[REFUSAL_MAX];
};

/* A script is asked for a decision: its function is called with the arguments of its
 * row, and the result is held against the row. */
struct use_call {
	const struct use *use;
	const struct handle *handle; /* whose use it is; NULL: of another kind */
	struct slice vhost;          /* of a filter's message */
	/* Of who logs in, instead of a vhost, which anybody may name. The circuit is of
	 * the address: nobody stops the logins of others. */
	struct slice address;
	struct slice password;            /* which no error shows */
	struct decision_context *context; /* NULL: live */
	enum rule_function function;
	bool is_pure; /* the answer will be remembered by the key */
	bool is_next; /* see struct script_call */
	const void *given[SCRIPT_ARGUMENTS_MAX]; /* behind each argument of the row */
	/* Takes what was returned, which is on the top: one of the row's results, whose
	 * bit is `result`. May raise. NULL: there is nothing to take. */
	void (*take)(lua_State *L, const struct use_call *c, unsigned result);
	void *ctx;                      /* of `take` */
	struct script_refusal *refusal; /* out; NULL: the function may not refuse */
};

/* Make the call. While the script's circuit is open, or the rules' memory is used up, it
 * fails at once. */
TIDE_MUST_USE int use_decide(struct engine *e, const struct use_call *c,
			     struct error *err);
/* For `take`. Raise an error: the result on the top is not what the row wants. */
int use_refuse_result(lua_State *L, const struct use_call *c);
/* The next error of the call is told with the line of the script's function. */
void use_blame(lua_State *L, const struct use_call *c);

/* handle.c: what the broker holds of a script: an index or a strategy.
 *
 * A handle has a number, which is that of its use in each generation. It keeps what is
 * needed to make that use again: the script's name and the options. The owner of an index
 * keeps the bindings. */
struct handle {
	TAILQ_ENTRY(handle) link;
	struct engine *engine;
	size_t number;
	enum script_kind kind;
	char *name;
	char *user; /* "exchange 'orders'" */
	char *vhost;
	struct args options;
	uint64_t staged;     /* the serial of the build that has it */
	uint32_t staged_end; /* of an index: it has the bindings in places below */
	uint64_t cache_hits; /* decisions that the broker remembered */
};
TAILQ_HEAD(handle_list, handle);

/* Enter the handle in the engine and make its use in the active generation. A failure
 * leaves the handle as it was. */
TIDE_MUST_USE int handle_open(struct handle *h, struct engine *e,
			      const struct strategy_spec *spec, struct error *err);
void handle_close(struct handle *h);
/* Make the handle's use in a generation, for an index without its bindings. The error
 * names the user. */
TIDE_MUST_USE int handle_install(struct handle *h, struct generation *g,
				 struct error *err);

/* Where `to(dest)` puts its argument during a call of index_route. */
struct route_sink {
	struct index *index; /* NULL outside of a route */
	uint32_t *dests;
	size_t count;
	size_t cap;
};

STAILQ_HEAD(reload_waiters, reload_waiter);

/* reload.c: the next generation, made in steps between the turns of the event loop.
 *
 * A step loads one file, makes one use, or binds one binding. A turn makes as many steps
 * as fit into RELOAD_TURN_NS. Meanwhile the active generation decides, and exchanges,
 * queues and bindings come and go. A handle that is not yet in the next generation enters
 * it as it is then. A change of a handle that is already there is made in both. At the
 * end the files are read once more. If they have changed, the build starts again. */
struct build {
	bool is_under_way;
	struct bundle *from; /* instead of the directory; NULL: the directory */
	enum engine_origin origin;
	bool must_restart;
	bool is_checking;        /* the next step reads all files, in a turn of its own */
	struct generation *next; /* NULL: not begun yet */
	struct generation *dropped; /* by a restart of the last turn */
	uint64_t serial;            /* a handle keeps the number of its build */
	struct handle *at;          /* the next one to enter */
	unsigned restarts;
	struct error failure; /* of a change made in both; code 0: none */
	/* The cost of the build to the event loop, kept after it. */
	unsigned turns;
	int64_t started_ns, took_ns, worked_ns, longest_ns;
	int64_t longest_cpu_ns; /* of a turn, without the time of other processes */
};

struct reload {
	uv_idle_t turn;                /* active while a build or a carry is under way */
	struct reload_waiters waiters; /* for the build under way */
	struct reload_waiters followers; /* for the build after it */
	bool must_follow; /* the directory changed: another build follows */
	bool must_build;  /* the next change starts a build, whatever the files say */
	struct reload_attempt last; /* refused or not */
	struct bundle *directory;   /* as it was loaded last; NULL: never */
	struct error refusal;       /* of the last attempt; code 0: it was accepted */
	uint64_t refused_count;
	int64_t refused_unix_ms;
	struct bundle *following; /* for the followers; NULL: the directory */
};

/* Circuits (use.c): a circuit breaker for each use of a script that has used up its time
 * or memory of late: for an exchange, a queue, a filter and vhost, or the logins from an
 * address.
 *
 * One breaker for a script would let a client stop it for all others. A generation starts
 * with closed circuits. */
struct circuit;

/* In the error of a call that the open circuit did not make. */
#define CIRCUIT_NOT_CALLED "not called again: it uses up its time or memory too often"
#define CIRCUITS_SHOWN 20

/* The handle goes; its number will be another's. */
void circuit_forget_handle(struct engine *e, const struct handle *h);
void circuit_forget_all(struct engine *e);
/* How many of a script are open. */
unsigned circuit_count_open(const struct engine *e, const struct rule *rule);
/* Members of a script's object: circuit, circuit_since_ms, circuits. */
void circuit_write(const struct engine *e, const struct rule *rule, struct json *out);

/* carry.c: the `state` of a script moves into the next generation.
 *
 * A script may have a function carry(old, opts). After a reload, before the script
 * decides anything, it gets a copy of the state that the same use had in the former
 * generation. Its result is the new state. The former generation stays until every use
 * has been asked: between the turns of the event loop, or at the first call of the use.
 * Nothing that a script remembered is lost by the switch.
 */
/* `old` (may be NULL) has just been replaced. Returns it when no use wants its state.
 * Else keeps it, as e->former, until carry_turn or carry_finish has ended. */
struct generation *carry_begin(struct engine *e, struct generation *old);
/* Ask some of the uses, for about `max_ns`. At the end returns the old generation, which
 * the caller frees; before NULL. */
struct generation *carry_turn(struct engine *e, int64_t max_ns);
/* Ask all uses that are left, and free the old generation. */
void carry_finish(struct engine *e);
/* The handle is about to be called, and there is a former generation. */
void carry_use(const struct handle *h);
/* The same for a script with a use of its own. */
void carry_own(struct engine *e, struct rule *rule);

/* Room (use.c): what happens when scripts come near their memory ceiling.
 *
 * When an allocation is refused, Lua collects the whole state at once, which nothing can
 * interrupt: 200 ms for a full state of 64 MiB. Three things avoid it. The collector
 * starts early enough (script.c). A new binding or queue is refused while there is still
 * room for calls. Possible garbage is then collected in steps, between the turns of the
 * event loop. */
struct room {
	uint64_t ending_epoch; /* of the last generation that used up its memory */
	size_t fresh_bytes;    /* of the active generation when it was loaded */
	uv_idle_t collector;   /* active while the state is collected in steps */
	uint64_t collecting;   /* the epoch that is collected */
	int cycles_left;
};

/* TIDE_ELIMIT: the account has no room for anything new. */
TIDE_MUST_USE int room_check(struct engine *e, const struct account *a,
			     struct error *err);
/* A call that creates something has ended with `rc`. A shortage of memory becomes
 * TIDE_ELIMIT, and nothing new is created before there is more room. */
TIDE_MUST_USE int room_after_new(struct engine *e, struct account *a, int rc,
				 struct error *err);

struct engine {
	uv_loop_t *loop;
	struct engine_config config; /* with copies of the strings */
	struct engine_hooks hooks;
	struct generation_config scripts;
	struct watch *watch;
	struct api_tide tide;
	const struct schedule_broker *scheduled; /* of the run under way, or NULL */

	struct generation *current; /* NULL until the first is loaded */
	/* Of the active generation, by kind; NULL for kinds without a match. */
	struct hook_set *hook_sets[SCRIPT_KINDS_MAX];
	unsigned hook_counts[SCRIPT_KINDS_MAX]; /* of the scripts in them */
	enum engine_origin origin;              /* of the active generation */
	uint64_t epoch;
	uint64_t call_count; /* decisions asked of scripts */

	struct figures_past *past; /* figures of scripts that are gone */
	size_t past_count;

	struct generation *former; /* while its states are carried over; else NULL */
	struct handle *carry_at;   /* the next one to be asked */
	size_t carry_rule; /* the next rule with a state of its own, after the handles */
	struct build build;
	struct reload reload;
	struct room room;

	struct circuit *circuits; /* uthash */
	struct handle_list handles;
	size_t *free_numbers;
	size_t free_count, free_cap, number_count;
	struct route_sink sink;

	unsigned retiring;   /* generations that a thread frees */
	unsigned open_parts; /* those, the watch and the handles of the loop */
	bool is_closing;
	void (*on_closed)(void *ctx);
	void *closed_ctx;
};

/* The use in the active generation. */
static inline struct use *handle_use(const struct handle *h)
{
	return &h->engine->current->uses[h->number];
}

/* Free a generation (may be NULL) that nobody uses, on a thread: a large one takes
 * longer than the loop may stand still. */
void engine_retire(struct engine *e, struct generation *g);
/* Load the first generation: see engine_config. */
TIDE_MUST_USE int reload_first(struct engine *e, struct bundle *files,
			       const struct error *refusal, struct error *err);
/* Tell those who wait, and give up the build. */
void reload_close(struct engine *e);
/* The watch noticed a change in the directory. */
void reload_on_change(void *engine);
/* A handle goes; call this before it leaves the list. */
void reload_forget(struct handle *h);
/* The generation of the build that has this handle already; a change is made there too.
 * NULL for none. */
struct generation *reload_generation_of(const struct handle *h);

/* Bind the next binding that generation `g` lacks. TIDE_EMPTY when none is left. */
int index_stage(struct handle *h, struct generation *g, struct error *err);

/* Make known to a new state what the calls need; all may raise. */
void script_kind_open(lua_State *L);
void index_open(lua_State *L, struct engine *e);
void strategy_open(lua_State *L);
void schedule_open(lua_State *L, struct engine *e);
