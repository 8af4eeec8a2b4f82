/* conn_tick.h: what time does to a connection. */
#pragma once

#include "conn.h"

/* Once a second: heartbeats, idleness, the end of lingering. */
void conn_tick(struct conn *c, int64_t now_ms);
