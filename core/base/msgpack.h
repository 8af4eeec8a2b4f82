/* msgpack.h: MessagePack, read and written: https://github.com/msgpack/msgpack.
 *
 * What is read becomes a tape, as JSON does (json_tape.h). Texts and bytes are one kind
 * there. Refused are extension types, NaN and infinity, and names that are no texts or
 * that a map has twice. */
#pragma once

#include "json_tape.h"

/* Read one value, which is all of the source and lives as long as what is read of it.
 * TIDE_ESYNTAX: a sentence with the byte. TIDE_ELIMIT: deeper than `depth_max`
 * containers, or out of memory. */
TIDE_MUST_USE int msgpack_read(struct json_tape *t, struct slice source,
			       unsigned depth_max, struct error *err);

/* Each value in its shortest form. */
void msgpack_put_nil(struct buf *out);
void msgpack_put_boolean(struct buf *out, bool b);
void msgpack_put_integer(struct buf *out, int64_t n);
void msgpack_put_number(struct buf *out, double n);
/* A text; bytes, when it is not UTF-8. Up to 4 GiB. */
void msgpack_put_text(struct buf *out, struct slice s);
/* The head of a container, whose elements, or names and values, follow. */
void msgpack_put_array(struct buf *out, uint32_t count);
void msgpack_put_map(struct buf *out, uint32_t count);
