/* candidate.h: candidate rules, loaded once from a directory, that decide beside the
 * active rules and apply nothing: for the shadow and for the replay.
 *
 * They are a ruleset over the broker's exchanges, bindings and queues, with an engine of
 * their own: what their scripts remember is their own too. They are tried in another
 * process first (trials.h). Loading goes in steps between the turns of the loop. */
#pragma once

#include <limits.h>

#include "broker/broker.h"
#include "broker/decide.h"
#include "broker/fate.h"
#include "rollout.h"
#include "rules/engine/rules_dir.h"
#include "follow/verdict.h"

/* The candidate is loaded, or TIDE_ERULE: why a reload of this directory would be
 * refused. */
typedef void candidate_loaded_fn(void *ctx, const struct error *result);

struct candidate_spec {
	enum ruleset_slot slot; /* RULESET_REPLAY: scripts are called however they fail */
	struct slice dir;
	candidate_loaded_fn *on_loaded;
	void *ctx;
};

struct candidate {
	struct broker *broker;
	struct ruleset rules;
	char *dir;
	char *about;          /* how log lines begin */
	struct trial *trial;  /* NULL: has ended */
	struct bundle *files; /* what has been tried; NULL before */
	uint64_t epoch;       /* of the active rules with which the files were compared */
	struct rules_dir_difference difference;
	uv_idle_t turn; /* from then until all is attached; then for the owner */
	candidate_loaded_fn *on_loaded;
	void *ctx;
};

/* The directory that candidate rules lie below (--rules-candidates, by default the one
 * that the rules directory lies in), without links, or TIDE_ENOTFOUND. */
TIDE_MUST_USE int candidate_base(const struct broker_config *config, char out[PATH_MAX],
				 struct error *err);

/* `dir` is absolute, or relative to candidate_base. TIDE_ENOTFOUND: there is none;
 * TIDE_EDENIED: it may not be used. on_loaded comes from the loop,
 * not before this returns and not after candidate_destroy, which it may call. */
TIDE_MUST_USE int candidate_create(struct candidate **out, struct rollout *r,
				   const struct candidate_spec *spec, struct error *err);
/* Accepts NULL. At any time. */
void candidate_destroy(struct candidate *c);

/* Is it of this directory, named as for candidate_create? */
bool candidate_is_of(const struct candidate *c, struct slice dir);
/* Decide a publish once loaded. Of the spec all but the rules and the exchange is the
 * caller's. Call decide_deinit in every case.
 * @param active  what the active rules have decided, whose copies give theirs the ids
 *                that scripts see; NULL: not known */
TIDE_MUST_USE int candidate_decide(struct candidate *c, struct decide_spec *spec,
				   const struct decision *active, struct decision *d,
				   struct error *err);
/* The candidate's verdict, with the parts that compare with that of the active rules. */
void candidate_judge(struct candidate *c, const struct decision *d, int status,
		     struct verdict *out);

/* Is the queue's retry script another one than in the active rules, or has it other
 * modules? If it is the same, its decisions differ in what it remembers alone. */
bool candidate_has_other_retry(struct candidate *c, const struct queue *q);
/* The same of all scripts of a kind. */
bool candidate_has_other_scripts(struct candidate *c, enum script_kind kind);

/* Members of an object: the directory and the hash. */
void candidate_write(const struct candidate *c, struct json *out);
