/* store_dedupe.h: a publish that has been seen, as a member of a sorted set.
 *
 * "<message id> <publish id>", or "<message id>+<n> <publish id>" of the n-th copy that
 * filters made of it; its score is the time when it may be forgotten. In a partition of a
 * topic the offset stands before the space: "<message id>@<offset> <publish id>". */
#pragma once

#include "base/buf.h"
#include "base/id.h"
#include "store.h"

#define STORE_DEDUPE_HEAD_MAX (ID_HEX_LEN + 40)

/* What stands before the publish id; gives its length. */
size_t store_dedupe_format_head(const struct store_seen *seen,
				char out[STORE_DEDUPE_HEAD_MAX]);
/* Score and member, as words of a command. */
void store_dedupe_add_words(struct buf *out, const struct store_seen *seen);
/* The slice points into `member`. TIDE_ESYNTAX: no broker wrote it. */
TIDE_MUST_USE int store_dedupe_parse_member(struct slice member, struct store_seen *out);
