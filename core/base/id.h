/* id.h: message ids, made without coordination.
 *
 * 64 bits: 42 of milliseconds since 1970, 10 of node, 12 of sequence. On the wire and in
 * Redis an id is 16 lower-case hex digits: ids sort as strings as they do in time. A
 * source's ids increase strictly. It runs ahead of a clock that stands still or goes
 * back, and of a millisecond whose 4,096 ids are used up. */
#pragma once

#include "error.h"
#include "slice.h"

#define ID_HEX_LEN 16
#define ID_NODE_MAX 1023

struct id_source {
	uint64_t node;
	int64_t last_ms;
	uint32_t sequence;
};

void id_source_init(struct id_source *s, unsigned node);
/* No id of the source will be at or below `id` from now on. */
void id_source_advance(struct id_source *s, uint64_t id);
uint64_t id_next(struct id_source *s, int64_t now_ms);
int64_t id_unix_ms(uint64_t id);
/* The lowest id of that time. */
uint64_t id_at_unix_ms(int64_t unix_ms);
void id_format(uint64_t id, char out[ID_HEX_LEN]);
TIDE_MUST_USE int id_parse(struct slice text, uint64_t *out);
