/* id.h: message ids, made without coordination.
 *
 * 64 bits: 42 of milliseconds since 1970, 10 of node, 12 of sequence. On the wire and in
 * Redis an id is 16 lower-case hex digits: ids sort as strings as they do in time. A
 * source's ids increase strictly. It runs ahead of a clock that stands still or goes
 * back, and of a millisecond whose 4,096 ids are used up.
 *
 * A source has two limits. It follows the clock up to `follow_ms`, and counts on from
 * there without it. It gives no id later than `end_ms`. */
#pragma once

#include "error.h"
#include "slice.h"

#define ID_HEX_LEN 16
#define ID_NODE_MAX 1023

struct id_source {
	uint64_t node;
	int64_t last_ms;
	uint32_t sequence;
	int64_t follow_ms;
	int64_t end_ms;
};

/* Without limits. */
void id_source_init(struct id_source *s, unsigned node);
/* No id of the source will be above `end_ms`. */
void id_source_limit(struct id_source *s, int64_t follow_ms, int64_t end_ms);
/* No id of the source will be at or below `id` from now on. */
void id_source_advance(struct id_source *s, uint64_t id);
/* The next id; 0 when all up to the limit are used up. */
uint64_t id_next(struct id_source *s, int64_t now_ms);
int64_t id_unix_ms(uint64_t id);
/* The lowest id of that time. */
uint64_t id_at_unix_ms(int64_t unix_ms);
/* For qsort and bsearch: of ids, and of structs that begin with one. */
int id_compare(const void *a, const void *b);
void id_format(uint64_t id, char out[ID_HEX_LEN]);
TIDE_MUST_USE int id_parse(struct slice text, uint64_t *out);
