/* model.h: exchanges, queues and bindings in a broker of this process, which has the
 * rules in question, and neither store, network nor messages.
 *
 * `tidemq check` declares in it what a file or a running broker has, and looks at what
 * the rules make of it. */
#pragma once

#include "session/service.h"
#include "findings.h"
#include "proto/line/line.h"

struct check_options;

/* Where a definition came from. */
struct model_place {
	UT_hash_handle hh;
	const char *file; /* "broker": a running one */
	int line;         /* 0 for a broker */
	bool is_refused;
	char id[]; /* "queue jobs", "exchange orders", "binding orders audit" */
};

struct model {
	struct findings *findings;
	struct service *service;
	struct vhost *vhost;
	/* The rest is the model's own. */
	uv_loop_t loop;
	struct pool chunks;
	struct out out;
	struct line line;
	bool is_started;
	struct error start_error;
	struct model_place *places;
};

/* The rules must load. On failure there is nothing to close. */
TIDE_MUST_USE int model_open(struct model *m, const struct check_options *o,
			     struct findings *f, struct error *err);
void model_close(struct model *m);

/* Declare what the lines say. A line that is refused is a finding, unless it is refused
 * only because an earlier one was.
 *
 * @param file  where the lines are from, outlives the model; NULL: a running broker */
void model_read(struct model *m, struct slice text, const char *file);

/* It was declared, even if that was refused. The default exchange ("") is there. */
bool model_has_exchange(const struct model *m, const char *name);
bool model_has_queue(const struct model *m, const char *name);

/* Add a finding at the definition of this exchange or queue (`kind`). */
void model_report(struct model *m, const char *kind, const char *name, const char *text);
