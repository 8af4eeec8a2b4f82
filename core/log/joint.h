/* joint.h: what somebody else's transaction appends to a partition, all or nothing.
 *
 * With keys its messages have their offsets from the moment on that they are appended.
 * What is appended behind them waits until the joint has ended. If something before them
 * is refused, the joint fails before it was sent. If the joint is refused, so is what
 * waits behind it. Without keys its messages are appended at its end.
 *
 * It is built within one call: nothing else may be appended in between. */
#pragma once

#include "partition.h"

struct joint {
	STAILQ_ENTRY(joint) link; /* of its owner */
	struct partition *partition;
	struct msg **messages; /* without keys */
	size_t count, cap;
	int status; /* below 0: it has failed */
};

STAILQ_HEAD(joint_list, joint);

struct joint *joint_create(struct partition *p);
/* A reference to the message may be taken. */
void joint_append(struct joint *j, struct msg *m);
/* That was all. */
void joint_seal(struct joint *j);

/* Nothing before it is left: it may be sent. */
bool joint_is_ready(const struct joint *j);
/* Why it has failed; TIDE_OK: it has not, or its topic is gone. */
int joint_status(const struct joint *j);
/* Write it into the transaction. Gives its bytes. */
size_t joint_send(struct joint *j, struct store_transaction *t);
/* The transaction has ended, or does not take place; the joint is destroyed. */
void joint_end_take(struct joint *j, int status, const char *text);
