/* upload.h: candidate rules that come over the network: RULES upload.
 *
 * The files are written into a new directory below that for candidate rules
 * (--rules-candidates, which must be given for that), in "uploads", and checked by
 * `tidemq check` in a process of its own. The shadow and the replay take the directory
 * from there. The last UPLOAD_KEPT directories are kept; who asks for a temporary one
 * removes it. */
#pragma once

#include "base/slice.h"
#include "rollout.h"
#include "rules/sandbox/bundle.h"

#define UPLOAD_KEPT 10
#define UPLOAD_FILES_MAX 1000
#define UPLOAD_BYTES_MAX ((size_t)4 << 20)
#define UPLOAD_PATH_MAX 200

/* A file of that path may be uploaded: TIDE_ESYNTAX, with a sentence. Specs may not: they
 * run with the broker's rights. */
TIDE_MUST_USE int upload_check_path(struct slice path, struct error *err);

struct upload_spec {
	struct bundle *files; /* which upload_check_path lets pass */
	const char *by;       /* who asks; copied */
	bool is_temporary;    /* the directory: see upload_remove */
};

/* @param dir            its path
 * @param document_take  where the files are and what the check has found; NULL, with
 *                       dir: see `failure` */
typedef void upload_done_fn(void *ctx, const char *dir, struct buf *document_take,
			    const struct error *failure);
/* TIDE_EDENIED: no directory is configured; TIDE_EBUSY: another upload is under way. */
TIDE_MUST_USE int upload_check(const struct rollout *r, struct error *err);
/* Errors of upload_check; TIDE_ETOOLARGE. */
TIDE_MUST_USE int upload_start(struct rollout *r, const struct upload_spec *spec,
			       upload_done_fn *on_done, void *ctx, struct error *err);
/* Remove a directory, on a thread. */
void upload_remove(struct rollout *r, const char *dir);
/* Remove the temporary ones that a broker before this one has left. Blocks. */
void upload_remove_left(const struct broker_config *config);
/* Tell that it has failed; it ends by itself. Harmless when there is none. */
void upload_cancel(struct rollout *r);
