/* lease_notice.h: the client is told when a lease is about to run out (EVT lease), if its
 * SUB asks for that.
 *
 * Each message that such a subscription holds has a notice, which waits in the service's
 * heap until it is due. Told once, it is back there only after a TOUCH. Times are those
 * of the clock that nobody sets: when the other one is set, deadlines move with it. */
#pragma once

#include "subscription.h"

struct service;

void lease_notice_init(struct service *s);
void lease_notice_deinit(struct service *s);
/* The subscription, which asks for it, was given the message. */
void lease_notice_add(struct subscription *sub, struct entry *e);
/* Its lease has changed. */
void lease_notice_renew(struct subscription *sub, const struct entry *e);
/* It no longer holds the message. */
void lease_notice_remove(struct subscription *sub, const struct entry *e);
/* Tell of what is due. */
void lease_notice_turn(struct service *s);
/* When that is, by the wall clock; 0: never. */
int64_t lease_notice_due_ms(const struct service *s);
