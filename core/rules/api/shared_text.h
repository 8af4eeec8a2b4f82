/* shared_text.h: an entry of tide.shared as the text that is kept elsewhere:
 * "<expiry> <type><value>". The type is s, i, n or b. */
#ifndef TIDE_RULES_API_SHARED_TEXT_H
#define TIDE_RULES_API_SHARED_TEXT_H

#include "shared.h"

void shared_text_encode(struct buf *out, int64_t expires_unix_ms,
			const struct shared_value *v);
/* False for other texts. A value of type s points into `text`. */
bool shared_text_decode(struct slice text, int64_t *expires_unix_ms,
			struct shared_value *out);

#endif
