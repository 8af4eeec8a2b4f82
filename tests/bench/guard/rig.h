/* rig.h: a broker in this process, on a stand-in of Redis, with connections
 * that have no socket. Nothing depends on the clock, the machine or chance. */
#ifndef TIDE_GUARD_RIG_H
#define TIDE_GUARD_RIG_H

#include "base/buf.h"
#include "session/channel.h"
#include "session/service.h"
#include "session/session_private.h"
#include "broker/exchange.h"
#include "broker/queue.h"
#include "proto/protocol.h"

struct rig_conn {
	struct out out;
	struct protocol *protocol;
};

struct rig {
	uv_loop_t loop;
	struct service *service;
	struct pool chunks;
	struct rig_conn line; /* it speaks the line protocol */
	bool is_started;
};

/* Aborts when the broker does not start. Rules are those of ./rules. */
void rig_init(struct rig *rig);
void rig_deinit(struct rig *rig);

/* Another connection. */
void rig_open(struct rig *rig, struct rig_conn *c, const struct protocol_kind *kind);
void rig_close(struct rig_conn *c);

/* Bytes from the client, which may be changed, and all of which are taken. */
void rig_feed(struct rig_conn *c, char *data, size_t len);
/* What was written is sent: forgotten. */
void rig_send(struct rig_conn *c);
/* Send `text`, and turn; aborts when the answer does not begin with `expected`. */
void rig_exchange(struct rig *rig, struct rig_conn *c, const struct buf *text,
		  const char *expected);
/* A line from rig->line; aborts when the answer is not `OK`. */
void rig_ask(struct rig *rig, const char *line);
/* Turns and answers, until nothing is left to do. */
void rig_settle(struct rig *rig);

struct queue *rig_queue(struct rig *rig, const char *name);
struct channel *rig_channel(struct rig *rig);

#endif
