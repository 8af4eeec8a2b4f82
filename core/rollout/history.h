/* history.h: the generations of rules that there were, and the files of the last ones.
 *
 * Every attempt to load rules is noted, accepted or refused. The files of the last
 * HISTORY_KEPT accepted generations are kept, in memory and in Redis. One of them is the
 * last good: the rules that were active last. docs/redis.md has the keys. */
#pragma once

#include "rules/sandbox/bundle.h"
#include "rules/engine/rules_dir.h"
#include "broker/broker.h"

#define HISTORY_ENTRIES 100
#define HISTORY_KEPT 10
#define HISTORY_KEPT_BYTES ((size_t)16 << 20) /* of all kept files together */
#define HISTORY_NAMES 50                      /* of changed files, in an entry */

struct history;

struct history *history_create(struct broker *b);
/* Accepts NULL. */
void history_destroy(struct history *h);

/* Read what brokers before this one kept; then on_done, from the loop. */
void history_load(struct history *h, store_done_fn on_done, void *ctx);

/* How often something was noted. */
unsigned history_notes(const struct history *h);
/* `fresh` was loaded now: others have written what is in Redis. */
void history_adopt_take(struct history *h, struct history *fresh);

/* The rules that were active last; NULL when they are not kept. */
struct bundle *history_last_good(const struct history *h);

/* The engine has loaded a generation, or refused to (result->code < 0). */
void history_note(struct history *h, const struct error *result);
/* The directory was refused at the start, before there was an engine. */
void history_note_start(struct history *h, const struct error *refusal);

/* Redis is told which rules are being loaded, then on_done. A broker that ends before
 * history_note was called has died of them, as far as the next one knows. on_done may
 * come within the call: without a store, or while it is away. */
void history_note_loading(struct history *h, uint64_t hash, store_done_fn on_done,
			  void *ctx);
/* on_done when Redis has what was noted before; it may come within the call, likewise. */
void history_flush(struct history *h, store_done_fn on_done, void *ctx);
/* TIDE_ERULE: a broker has died of the files of that hash, and there are others. */
TIDE_MUST_USE int history_check_loading(const struct history *h, uint64_t hash,
					struct error *err);

/* The kept generation of that hash (or of the only one that begins so); with an
 * empty one that before the active generation. */
TIDE_MUST_USE int history_find(const struct history *h, struct slice hash,
			       struct bundle **out, struct error *err);

/* Likewise, and it may be the active one, which an empty hash means. */
TIDE_MUST_USE int history_files(const struct history *h, struct slice hash,
				struct bundle **out, struct error *err);

/* The files of that hash have passed the gate; kept for those that are kept. */
void history_note_passed(struct history *h, uint64_t hash);
bool history_has_passed(const struct history *h, uint64_t hash);

/* For RULES log: an array, the newest first. */
void history_write(const struct history *h, struct json *out);
