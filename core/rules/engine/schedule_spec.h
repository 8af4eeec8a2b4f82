/* schedule_spec.h: when a script of schedule/ is due, as it declares.
 *
 *   every = "5m"  or  cron = "0 6 * * mon-fri", zone = "Europe/Berlin"
 *   missed = "once", jitter = "10s", active = true, vhost = "/"
 *
 * Ticks do not depend on when the broker was started. For `every` they are the multiples
 * of the interval since 1970. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/calendar.h"

#define SCHEDULE_EVERY_MIN_MS 10

enum schedule_missed { SCHEDULE_SKIP, SCHEDULE_ONCE, SCHEDULE_ALL };

struct schedule_spec {
	char *when; /* "every 5m", "cron 0 6 * * * Asia/Tokyo": to show and to compare */
	int64_t every_ms; /* 0: `cron` holds */
	struct cron cron;
	const struct zone *zone; /* of `cron`, the engine's; NULL: UTC */
	enum schedule_missed missed;
	int64_t jitter_ms; /* less than the distance of two ticks */
	char *vhost;       /* where it publishes; need not exist */
	bool is_active;
};

#define SCHEDULE_SPEC_FIELDS 7
extern const char *const schedule_spec_fields[SCHEDULE_SPEC_FIELDS];

/* Read the script's table on the top of the stack into `out`, which is zeroed and whose
 * owner frees it. A wrong declaration raises. */
void schedule_spec_read(lua_State *L, struct schedule_spec *out);
/* Accepts NULL. */
void schedule_spec_free(struct schedule_spec *s);

const char *schedule_spec_missed_name(enum schedule_missed missed);

/* The first tick after a time; the last tick at or before it. 0: none. */
int64_t schedule_spec_next(const struct schedule_spec *s, int64_t after_unix_ms);
int64_t schedule_spec_prev(const struct schedule_spec *s, int64_t at_unix_ms);
/* When the tick runs. Schedule and tick choose the jitter: a restart changes nothing. */
int64_t schedule_spec_due(const struct schedule_spec *s, const char *name,
			  int64_t tick_ms);
