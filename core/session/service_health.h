/* service_health.h: whether the broker may be given work, and what somebody should look
 * after. */
#pragma once

#include "base/json.h"
#include "service.h"

/* "ready", "reasons" and "warnings", as members of an object that is open.
 *
 * @param has_names  of queues and so on: not for those who ask without a login */
bool service_health_is_ready(const struct service *s);
void service_health_write(const struct service *s, bool has_names, struct json *j);
