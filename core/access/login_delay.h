/* login_delay.h: who has failed to log in waits, and longer each time.
 *
 * Of an address and of a name of a user the delay doubles with each failure, and is
 * forgotten some time after the last. At most LOGIN_DELAY_ENTRIES_MAX are known: those
 * that failed longest ago are forgotten first. Times are of the clock that nobody sets.
 */
#pragma once

#include <sys/queue.h>

#include "base/buf.h"
#include "base/table.h"

#define LOGIN_DELAY_FIRST_MS 250
#define LOGIN_DELAY_MAX_MS 8000
#define LOGIN_DELAY_FORGET_MS 60000
#define LOGIN_DELAY_ENTRIES_MAX 20000

struct login_delay_entry;
TAILQ_HEAD(login_delay_list, login_delay_entry);

struct login_delays {
	struct login_delay_entry *by_key; /* uthash */
	struct login_delay_list list;     /* by their last failure */
};

/* Who tries: network.h. Programs on
 * this machine share an address: each user is one of its own. */
void login_delay_key(struct buf *out, const char *address, bool is_local,
		     struct slice user);

void login_delay_init(struct login_delays *d);
void login_delay_deinit(struct login_delays *d);
/* It has failed. Gives how much later that is to be said. */
int64_t login_delay_add(struct login_delays *d, struct slice key, int64_t mono_ms);
/* Until then the next attempt waits; 0: it need not. */
int64_t login_delay_until_ms(const struct login_delays *d, struct slice key,
			     int64_t mono_ms);
