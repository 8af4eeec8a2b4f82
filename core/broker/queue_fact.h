/* queue_fact.h: what is told of a queue in one number: by tide.queue, and by lists. */
#pragma once

#include "queue.h"
#include "rules/api/queue_facts.h"

/* Messages a second, over ten seconds; the queue is left as it is. */
double queue_fact_rate_in(const struct queue *q);
double queue_fact_rate_out(const struct queue *q);

/* For engine_hooks. */
struct queue_facts queue_fact_source(struct broker *b);
