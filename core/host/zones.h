/* zones.h: the time zones of the machine by name: the files of tzdata, read when they are
 * first asked for, and kept. A newer tzdata counts after a restart.
 *
 * Not thread safe. Zeroed memory is an empty collection. */
#pragma once

#include "base/slice.h"
#include "base/calendar.h"

#define ZONES_NAME_MAX 64

struct zones {
	struct zones_entry *entries; /* uthash */
};

/* The zone called so ("Europe/Berlin", "UTC"), which is good until zones_deinit. NULL
 * with a sentence in `err`. Blocks for the reading of a small file. */
const struct zone *zones_get(struct zones *z, struct slice name, struct error *err);
void zones_deinit(struct zones *z);
