/* reload.h: replaces the active generation.
 *
 * The new generation is built in steps, between the turns of the event loop. It becomes
 * active when everything in use works with it. Otherwise the attempt is refused, and the
 * active generation stays. */
#pragma once

#include "engine.h"

#define RELOAD_ASKER_MAX 400

/* The end of a reload: TIDE_OK, or TIDE_ERULE with the reason of the refusal. Called
 * from the loop or from engine_close, never before the function that started it has
 * returned. */
typedef void reload_done_fn(void *ctx, const struct error *result);

/* The asker of a reload, who is told its end. */
struct reload_asker {
	const char *name; /* until `on_done` is called; "": not known */
	reload_done_fn *on_done;
	void *ctx;
};

/* Load the rules directory. While a build is under way, another one follows it, and
 * that one is the answer.
 *
 * @param files  what has been read of the directory; NULL: it is read now */
void reload_start(struct engine *e, struct bundle *files,
		  const struct reload_asker *asker);

/* The same, before it returns: for tests and tools, which may block. */
TIDE_MUST_USE int reload_now(struct engine *e, struct error *err);

/* Load these files, as reload_start loads the directory. The directory is not touched.
 * Its next change, or a reload, supersedes the files. TIDE_EBUSY while a build is under
 * way. */
TIDE_MUST_USE int reload_files(struct engine *e, struct bundle *files,
			       enum engine_origin origin,
			       const struct reload_asker *asker, struct error *err);

/* The owner's answers to engine_hooks.on_change: load the directory (files as in
 * reload_start), leave it since it is what has been loaded, or refuse the files (NULL:
 * those of the directory). */
void reload_follow(struct engine *e, struct bundle *files);
void reload_unchanged(struct engine *e);
void reload_refuse(struct engine *e, enum engine_origin origin, struct bundle *files,
		   const char *asker, const struct error *why);

/* The directory has the files of the active rules now: that is no change of it. */
void reload_installed(struct engine *e);

/* The files of the directory and of the framework at the last load. NULL: the
 * directory must be loaded whatever it has now. */
struct bundle *reload_known_files(const struct engine *e);
struct bundle *reload_framework(const struct engine *e);

struct reload_attempt {
	char asked_by[RELOAD_ASKER_MAX]; /* several are separated by ", "; "": nobody */
	enum engine_origin origin;
	struct bundle *refused; /* its files if it was refused; NULL: the directory */
};

/* Why the last attempt was refused; code TIDE_OK: it was not. */
const struct error *reload_refusal(const struct engine *e);

/* The last attempt, for engine_hooks.on_reload. */
const struct reload_attempt *reload_last(const struct engine *e);
