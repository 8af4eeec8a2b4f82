/* list_kind.h: what LIST can list: where it is, in which orders, and how it is shown. */
#pragma once

#include "base/json.h"
#include "broker/queue_figures.h"
#include "list_walk.h"
#include "session.h"

struct session;
struct vhost;

/* A vhost, and what all its queues have together. */
struct list_vhost_sum {
	const struct vhost *vhost;
	uint64_t ready, delayed, unacked, buried;
};

/* What a list may be sorted by, beside its figures: a number, or else a text. */
struct list_key {
	const char *name; /* NULL: behind the last */
	double (*number)(const void *item);
	struct slice (*text)(const void *item, struct buf *scratch);
	bool is_falling; /* the largest come first, unless somebody wants it otherwise */
};

/* What a list is sorted by: one of the two. */
struct list_order {
	const struct list_key *key;
	const struct figure *figure;
};

enum list_place_of { LIST_OF_VHOST, LIST_OF_SERVICE, LIST_OF_BROKER };

struct list_kind {
	enum list_place_of place;
	const struct list_table *outer, *inner;
	const struct list_key *keys;        /* the first is the default */
	const struct figure_table *figures; /* further keys; NULL: none */
	/* Settles ties. `scratch` is empty, and may be used for what is returned. */
	struct slice (*name)(const void *item, struct buf *scratch);
	bool (*is_shown)(struct session *s, const void *item); /* NULL: all are */
	/* One of its texts has this part. */
	bool (*has)(const void *item, const char *part);
	void (*write)(struct session *s, const void *item, struct json *j);
	/* It can be found by its name in the outer table, and is written when it is known
	 * that it is on the page. Others are written when they are met. */
	bool is_found;
	/* What it may be chosen by; NULL: not by this. */
	struct slice (*members[LIST_MEMBERS])(const void *item, struct buf *scratch);
};

/* NULL: it is a document of another kind, as LIST rules. */
const struct list_kind *list_kind_of(enum list_what what);
/* False: the list has no such key. */
bool list_kind_key(const struct list_kind *kind, struct slice name,
		   struct list_order *out);
/* TIDE_ESYNTAX: which keys there are. */
int list_kind_refuse(const struct list_kind *kind, struct slice key, struct error *err);
