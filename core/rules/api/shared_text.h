/* shared_text.h: an entry of tide.shared as the text that is kept in Redis:
 * "<expiry> <type><value>". */
#pragma once

#include "shared.h"

void shared_text_write(struct buf *out, int64_t expires_unix_ms,
		       const struct shared_value *v);
/* False: it is none. A text in `out` points into `text`. */
bool shared_text_read(struct slice text, int64_t *expires_unix_ms,
		      struct shared_value *out);
