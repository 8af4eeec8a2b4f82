/* vhost.h: a name space of exchanges and queues.
 *
 * It is declared, or made when a client enters that a grant or a script of connect/ sends
 * there. Once Redis knows it, it stays until it is deleted (vhost_keep_declare). Until
 * then it goes at the end of a turn in which it has no exchange, no queue and no session,
 * but for what each vhost has anyway. The default vhost stays. What has happened in it
 * may be remembered for longer, by references. */
#pragma once

#include "base/error.h"
#include "base/slice.h"
#include "base/table.h"
#include "broker.h"
#include "unroutable.h"

struct exchange;
struct lock;
struct queue;

struct vhost {
	UT_hash_handle hh;
	struct broker *broker;
	char *name;
	size_t name_len;
	struct exchange
		*exchanges;   /* uthash by name; the default exchange is not in it */
	struct queue *queues; /* uthash by name; with topics */
	unsigned topic_count; /* of these */
	struct lock *locks;   /* likewise: those that are held */
	struct unroutable unroutable; /* of the default exchange */
	unsigned sessions;            /* that work in it */
	unsigned refs;                /* one for being a vhost of the broker */
	bool is_kept;                 /* needed even when it is empty: Redis has it */
	bool is_on_demand; /* who publishes to a queue, or reads one, makes it */
	bool is_deleted;   /* until its last session leaves, or somebody makes it anew */
	bool is_idle;      /* in the broker's list of those that may be empty */
	TAILQ_ENTRY(vhost) idle_link;
};

/* Room for what vhost_format_user writes. */
#define VHOST_USER_MAX (2 * NAME_LEN_MAX + 48)
/* The user of a script, for its errors: "queue 'q'", and of which vhost unless that
 * is the default one. */
void vhost_format_user(const struct vhost *v, const char *kind, struct slice name,
		       char out[VHOST_USER_MAX]);

struct broker;
struct vhost;
struct waiter;

/* Can there be a vhost of this name? A new one has no braces, too: vhost_open. */
TIDE_MUST_USE int vhost_check_name(struct slice name, struct error *err);
struct vhost *vhost_find(struct broker *b, struct slice name);
/* The vhost, made when it is new. */
TIDE_MUST_USE int vhost_open(struct broker *b, struct slice name, struct vhost **out,
			     struct error *err);
/* Log what to do about a stored name that a Redis Cluster cannot keep. */
void vhost_warn_name(struct slice name);
/* The same for what is in Redis, whatever the limit. */
TIDE_MUST_USE int vhost_recover(struct broker *b, struct slice name, struct vhost **out,
				struct error *err);
/* TIDE_ENOTFOUND: "there is no queue 'jobs' in vhost '/'".
 *
 * @param kind  "exchange", "queue", "topic" */
TIDE_MUST_USE int vhost_refuse(const struct vhost *v, const char *kind, struct slice name,
			       struct error *err);
/* A session begins or ends to work in it. */
void vhost_enter(struct vhost *v);
void vhost_leave(struct vhost *v);
/* Call when the vhost may be empty. */
void vhost_check(struct vhost *v);
/* Let those go that are empty, from Redis too. */
void vhost_turn(struct broker *b);
/* Keep the vhost, which may otherwise be freed when it is empty. */
static inline struct vhost *vhost_ref(struct vhost *v)
{
	v->refs++;
	return v;
}
/* Accepts NULL. */
void vhost_unref(struct vhost *v);
/* Frees everything in it but locks, tells nobody and removes nothing from Redis. */
void vhost_destroy(struct vhost *v);

static inline struct slice vhost_slice(const struct vhost *v)
{
	return (struct slice){ v->name, v->name_len };
}

/* Make it, or keep the one that there is. `waiter` is told when Redis knows of it.
 *
 * @param on_demand  1: queues are made on demand; 0: they are not; below 0: as before */
TIDE_MUST_USE int vhost_keep_declare(struct broker *b, struct slice name, int on_demand,
				     struct waiter *waiter, struct error *err);
/* Say in which cell a vhost of ours is: another one, if it is not there yet, whose owner
 * has it within a second. `waiter` is told when Redis knows of it.
 *
 * @param own_sessions  those that may be in it: the asker's */
TIDE_MUST_USE int vhost_place(struct broker *b, struct slice name, int64_t cell,
			      unsigned own_sessions, struct waiter *waiter,
			      struct error *err);
/* Its options, as Redis has them. */
#define VHOST_ON_DEMAND "on-demand=1"
void vhost_write_options(const struct vhost *v, store_done_fn on_done, void *ctx);
/* Would a request that needs the queue make it? */
static inline bool vhost_makes(const struct vhost *v, struct slice queue)
{
	return v->is_on_demand && slice_is_name(queue) && !slice_is(queue, "-");
}
/* Delete a vhost without queues, exchanges of its own and locks; else TIDE_EEXISTS. With
 * its contents, only locks are in the way. Sessions that work in it may stay, and are
 * refused what they ask (session_access_check): it goes with the last of them. */
TIDE_MUST_USE int vhost_keep_delete(struct vhost *v, bool with_contents,
				    struct waiter *waiter, struct error *err);
