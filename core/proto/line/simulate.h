/* simulate.h: RULES simulate: its words and options. */
#ifndef TIDE_PROTO_LINE_SIMULATE_H
#define TIDE_PROTO_LINE_SIMULATE_H

struct line;
struct reply;
struct request;

/* RULES simulate retry <name> [failures=] [reason=] [delivery-limit=]
 * [ack-timeout=] [options of the script]; finishes `r`. */
void rules_simulate(struct line *l, const struct request *q, struct reply *r);

#endif
