/* wake.h: queues that have something to do at a time, though nothing happens to them. */
#pragma once

#include <stdint.h>

struct broker;
struct queue;

/* Look at the queue then, or earlier; `mono_ms` is of the clock that nobody sets. */
void wake_by(struct queue *q, int64_t mono_ms);
/* Look at all of them in the next turn: with other rules they may have it to do now. */
void wake_all(struct broker *b);
void wake_turn(struct broker *b);
/* When wake_turn is to be called, wall clock; 0: never. */
int64_t wake_due_ms(const struct broker *b);
