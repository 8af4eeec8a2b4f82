/* command.h: what each verb does: read its words and options, check them, and
 * call the session. Named by the table in verb.c. */
#ifndef TIDE_PROTO_LINE_COMMAND_H
#define TIDE_PROTO_LINE_COMMAND_H

struct error;
struct line;
struct request;
struct reply;

/* Finish `r` now or later, or return an error and leave `r` alone: it is then the
 * answer. */
#define COMMAND(name)                                                          \
	int command_##name(struct line *l, struct request *q, struct reply *r, \
			   struct error *err)

COMMAND(hello);
COMMAND(ping);
COMMAND(quit);
COMMAND(open);
COMMAND(close);
COMMAND(declare);
COMMAND(delete);
COMMAND(bind);
COMMAND(unbind);
COMMAND(publish);
COMMAND(subscribe);
COMMAND(unsubscribe);
COMMAND(get);
COMMAND(ack);
COMMAND(nack);
COMMAND(touch);
COMMAND(peek);
COMMAND(purge);
COMMAND(kick);
COMMAND(list);
COMMAND(stats);
COMMAND(rules);
COMMAND(explain);

#endif
