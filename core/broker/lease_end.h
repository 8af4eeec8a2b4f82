/* lease_end.h: what happens when a lease ends.
 *
 * The oldest message of the consumer has failed. If the consumer has settled nothing else
 * meanwhile, it may hang: the others that it holds return, without a failure, and it gets
 * one message at a time until it settles one. */
#pragma once

#include <stdint.h>

struct broker;

/* Leases end, consumers are told that one is about to, those that had to wait go on. */
void lease_end_turn(struct broker *b);
/* When that is next, wall clock; 0: nothing is held. */
int64_t lease_end_due_ms(const struct broker *b);
