/* dedupe.h: a publish that has been seen, as a member of a sorted set.
 *
 * "<message id> <publish id>", or "<message id>+<n> <publish id>" of the n-th copy that
 * filters made of it; its score is the time when it may be forgotten. */
#ifndef TIDE_STORE_DEDUPE_H
#define TIDE_STORE_DEDUPE_H

#include "base/id.h"
#include "store.h"

#define DEDUPE_HEAD_MAX (ID_HEX_LEN + 16)

/* What stands before the publish id; gives its length. */
size_t dedupe_head_format(const struct store_seen *seen, char out[DEDUPE_HEAD_MAX]);
/* The slice points into `member`. TIDE_ESYNTAX: nobody of ours wrote it. */
TIDE_MUST_USE int dedupe_member_parse(struct slice member, struct store_seen *out);

#endif
