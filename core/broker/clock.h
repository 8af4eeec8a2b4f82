/* clock.h: the broker's two clocks, and what it does when the wall clock is set.
 *
 * The wall clock is in everything that outlives the broker or that a client names:
 * ids, times, delays, expiries, ack deadlines (which Redis keeps). What is waited for
 * in memory alone goes by the monotonic clock. When the wall clock is set, forward
 * or back, ack deadlines move with it: a consumer has as long as it was given. */
#pragma once

struct broker;

/* Take the time. When the wall clock was set since the last call, what follows from
 * that is done. */
void clock_update(struct broker *b);
