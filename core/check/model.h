/* model.h: exchanges, queues and bindings with the rules in question, in a broker
 * of this process that has no store, no network and no messages. `tidemq check`
 * declares everything in it and sees what the rules make of that. */
#ifndef TIDE_CHECK_MODEL_H
#define TIDE_CHECK_MODEL_H

#include "base/findings.h"
#include "broker/broker.h"
#include "proto/line/line.h"

/* Where a definition came from. */
struct model_place {
	char *id; /* "queue jobs", "exchange orders", "binding orders audit" */
	const char *file;
	int line;
	bool is_refused;
};

struct model {
	struct findings *findings;
	const char *file; /* of what is read; NULL: a broker's */
	uv_loop_t loop;
	struct broker *broker;
	struct vhost *vhost;
	struct pool chunks;
	struct out out;
	struct line line;
	bool is_started;
	struct model_place *places;
	size_t place_count;
};

/* The rules must load. On failure there is nothing to close. */
TIDE_MUST_USE int model_open(struct model *m, const char *rules_dir, const char *lua_dir,
			     struct error *err);
void model_close(struct model *m);

/* Declare what the lines say. What is refused is found, with its line; what is only
 * refused for want of that is not. */
void model_read(struct model *m, struct slice text);

/* Was it declared, even if it was refused? */
bool model_knows(const struct model *m, const char *kind, const char *name);
/* Tell of something with the place of its definition. */
void model_find(struct model *m, const char *id, const char *format, ...)
	TIDE_PRINTF(3, 4);

/* Dead letters and bindings: targets that there are not, circles. */
void model_check(struct model *m);

#endif
