/* service_pressure.h: publishers and schedules wait while memory or the store is full. */
#pragma once

#include "service.h"

/* Of messages, of what has come of those that are half received, and of answers that
 * have not been taken. */
size_t service_pressure_memory(const struct service *s);
/* Stop or resume publishers as memory and the store demand. */
void service_pressure_check(struct service *s);
/* Whether schedules are held has perhaps changed. */
void service_pressure_hold(struct service *s);
