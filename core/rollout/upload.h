/* upload.h: candidate rules that come over the network: RULES upload.
 *
 * The files are written into a new directory below that for candidate rules
 * (--rules-candidates, which must be given for that), in "uploads", and checked by
 * `tidemq check` in a process of its own. The shadow and the replay take the directory
 * from there. The last UPLOAD_KEPT directories are kept. */
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

/* @param document_take  where the files are and what the check has found; NULL: see
 *                       `failure` */
typedef void upload_done_fn(void *ctx, struct buf *document_take,
			    const struct error *failure);
/* The files, which upload_check_path lets pass. TIDE_EDENIED: no directory is configured;
 * TIDE_ETOOLARGE; TIDE_EBUSY: another upload is under way. */
TIDE_MUST_USE int upload_start(struct rollout *r, struct bundle *files,
			       upload_done_fn *on_done, void *ctx, struct error *err);
/* Tell that it has failed; it ends by itself. Harmless when there is none. */
void upload_cancel(struct rollout *r);
