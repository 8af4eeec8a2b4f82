/* service_events.h: the events of the broker leave as messages, and those that the
 * session floor knows of. What they are: broker/event.h. */
#pragma once

#include "broker/event.h"

struct service;
struct session;
struct subscription;

/* In each turn: publish what waits. */
void service_events_turn(struct service *s);
/* Does something wait that may leave? */
bool service_events_are_due(const struct service *s);
/* Tell which codes of /health/ready are new, or gone. */
void service_events_alarms(struct service *s);
/* A client has entered: told once for each session. */
void service_events_opened(struct session *s);
/* The session of a client that has entered ends. */
void service_events_closed(struct session *s);
void service_events_refused(struct session *s, struct slice user,
			    const struct error *why);
void service_events_consumer(const struct subscription *sub, enum event_name kind);
