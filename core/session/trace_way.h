/* trace_way.h: what TRACE tells of a message after its publish: who is offered it and
 * gets it, what becomes of it then, in queues and in topics. */
#pragma once

struct follower;

/* Set the hooks of all that; their context is a struct tracer. */
void trace_way_watch(struct follower *f);
