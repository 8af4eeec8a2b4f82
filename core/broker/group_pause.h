/* group_pause.h: a group of a topic that is given nothing, until somebody ends that or
 * its time is over: as PAUSE out of a queue (pause.h). */
#pragma once

#include "group.h"

struct vhost;

/* Until then; 0 resumes it. It is so at once, and is taken back when Redis refuses it:
 * the waiter is told. */
void group_pause_set(struct topic_group *g, int64_t until_ms, struct waiter *waiter);
/* The group goes: Redis forgets its pause. */
void group_pause_forget(const struct topic_group *g);
/* A field of Redis: "<topic> <group>" behind its first word, and until when. */
void group_pause_restore(struct vhost *v, struct slice name, struct slice value);
/* End what is over, of all groups. */
void group_pause_tick(struct topic *t);
