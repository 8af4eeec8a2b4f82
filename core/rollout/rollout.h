/* rollout.h: what stands between new rules and the active ones, for whoever owns the
 * broker.
 *
 * A change of the rules is a list of steps, each of which may take many turns: the rules
 * are loaded in a child, then tested by their specs (trials.h), Redis is told that they
 * are being loaded (history.h), and the engine loads them (rules/engine/reload.h). A push
 * then installs their files into the rules directory (files.h). A reload, a rollback, a
 * promotion, a push and a change of the directory differ in `origin` and files alone. */
#pragma once

#include "broker/broker.h"
#include "broker/step.h"
#include "rules/engine/reload.h"

struct bundle;
struct history;
struct recent;
struct replay;
struct shadow;
struct trials;
struct upload;

struct rollout {
	struct broker *broker;
	struct history *history; /* of the rules */
	struct trials *trials;   /* before rules become active; NULL at the end */
	struct recent *recent;   /* the last publishes */
	struct shadow *shadow;   /* rules that decide in parallel; NULL for none */
	struct replay *replay;   /* under way; NULL for none */
	struct upload *upload;   /* likewise */
	unsigned loading;        /* changes that somebody asked for, before the specs run
				  * and after */
	uint64_t unread; /* hash of what was said last of files that nothing loads */
	bool has_changed_rules; /* during the start, which has loaded them */
	/* Publishes under new rules, until one is no failure of theirs. */
	struct follower probation;
	uint64_t probation_epoch;   /* of the engine; 0 before the first turn */
	uint64_t hash, hash_before; /* of the active rules, and of those before */
	unsigned failures;          /* by scripts, under the new rules */
	/* With cells: what other owners make active. */
	uint64_t cells_seen, cells_asked; /* changes */
	int64_t cells_rest_ms;            /* by mono_ms: not before then */
	struct history *fresh;            /* that is being read; NULL: none is */
	unsigned fresh_notes;
	bool is_behind; /* the rules of the others cannot be loaded here */
};

void rollout_init(struct rollout *r, struct broker *b);
/* The broker closes: end what is under way. */
void rollout_close(struct rollout *r);
/* At the end. */
void rollout_deinit(struct rollout *r);

struct rollout_change {
	enum engine_origin origin;
	struct bundle *files;    /* NULL: the rules directory */
	const char *specs_dir;   /* of the files; NULL: the rules directory */
	const char *by;          /* who asks; "" nobody */
	bool must_install;       /* the files, when they are active */
	reload_done_fn *on_done; /* may be NULL */
	void *ctx;
};

/* Make rules active, by all steps. TIDE_EBUSY: others are being loaded. on_done may come
 * within the call. */
void rollout_begin(struct rollout *r, const struct rollout_change *spec);
/* Once a turn, when the broker has started: with --rules-rollback, go back to the rules
 * before if the active ones fail every publish. */
void rollout_turn(struct rollout *r);
/* Likewise: load the rules that the owner of another cell has made active. */
void rollout_cells_turn(struct rollout *r);
/* The rules directory has changed: load it. */
void rollout_follow(struct rollout *r);
/* An operator wants the rules directory loaded. The outcome is logged. */
void rollout_reload(struct rollout *r);

/* Log that there are files that nothing loads, unless this was said last. */
void rollout_tell_unread(struct rollout *r, const char *unread);
