/* codec_encode.h: a whole message at the end of a buffer, as a batch writes it. */
#ifndef TIDE_TEST_CODEC_ENCODE_H
#define TIDE_TEST_CODEC_ENCODE_H

#include <assert.h>

#include "store/codec.h"

static inline void codec_encode(struct buf *out, const struct msg *m, double rank)
{
	char *head = buf_reserve(out, codec_head_max(m));
	size_t len = (size_t)(codec_put_head(head, m, rank, m->expires_unix_ms) - head);

	assert(len <= codec_head_max(m));
	buf_grow(out, len);
	buf_append(out, m->payload, m->payload_len);
}

#endif
