/* rig.h: a broker in this process, on a stand-in of Redis, with one connection
 * that has no socket. Nothing depends on the clock, the machine or chance. */
#ifndef TIDE_GUARD_RIG_H
#define TIDE_GUARD_RIG_H

#include "base/buf.h"
#include "session/channel.h"
#include "session/service.h"
#include "session/session_private.h"
#include "broker/exchange.h"
#include "broker/queue.h"
#include "proto/line/line.h"

struct rig {
	uv_loop_t loop;
	struct service *service;
	struct pool chunks;
	struct out out;
	struct line line;
	bool is_started;
};

/* Aborts when the broker does not start. Rules are those of ./rules. */
void rig_init(struct rig *rig);
void rig_deinit(struct rig *rig);

/* Bytes from the client, which may be changed, and all of which are taken. */
void rig_feed(struct rig *rig, char *data, size_t len);
/* A line from the client, and a turn; aborts when the answer is not `OK`. */
void rig_ask(struct rig *rig, const char *line);
/* What was written is sent: forgotten. */
void rig_send(struct rig *rig);
/* Turns and answers, until nothing is left to do. */
void rig_settle(struct rig *rig);

struct queue *rig_queue(struct rig *rig, const char *name);
struct channel *rig_channel(struct rig *rig);

#endif
