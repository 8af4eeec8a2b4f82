/* zone.h: a time zone: what clocks show where, from the text of a TZif file (RFC 8536).
 *
 * A zone does not change once it is parsed. Times are in seconds since 1970; a local time
 * is what the clocks show, counted as if it were UTC. Not from glibc: its time zone is
 * one for the whole process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "slice.h"

#define ZONE_FILE_MAX ((size_t)64 * 1024)

struct zone;

struct zone_offset {
	int32_t seconds; /* to add to UTC */
	bool is_dst;
};

/* TIDE_ESYNTAX: this is not a TZif file of version 2 or later, or it counts leap seconds.
 */
TIDE_MUST_USE int zone_parse(struct slice file, struct zone **out, struct error *err);
struct zone *zone_utc(void);
/* Accepts NULL. */
void zone_destroy(struct zone *z);

struct zone_offset zone_offset_at(const struct zone *z, int64_t utc);

/* When the clocks show this local time. If they do so twice: the first time. If they skip
 * it: when they are put forward. So a later local time is never an earlier moment. */
int64_t zone_utc_of(const struct zone *z, int64_t local);
