/* service_address.h: what one address may have and do (config.address_limits).
 *
 * A connection enters before anything is read of it, and leaves when it ends. */
#pragma once

#include "service.h"

/* TIDE_ELIMIT: the address has as many connections as it may.
 *
 * @param peer  "127.0.0.1:50412", "[2001:db8::1]:50412", "unix"
 * @param out   NULL: there are no limits; untouched on failure */
TIDE_MUST_USE int service_address_enter(struct service *s, const char *peer,
					struct allowance **out, struct error *err);
/* Its session has ended. Accepts NULL. */
void service_address_leave(struct service *s, struct allowance *a);
