/* recent.h: the last publishes and what was decided about them, for RULES recent
 * and RULES replay.
 *
 * A ring of bounded length and bytes. It holds references to the messages as
 * they were published, before any filter; of large ones a copy without the
 * payload, so that the ring keeps no payload alive for long. */
#pragma once

#include "broker/broker.h"
#include "verdict.h"

#define RECENT_MAX 1024
#define RECENT_BYTES ((size_t)8 << 20)
#define RECENT_WHOLE_BYTES 4096 /* a larger message is kept without its payload */
#define RECENT_WHOLE_BYTES_WITH_PAYLOADS ((size_t)1 << 20)

struct recent_record {
	struct msg *msg;
	struct vhost *vhost;
	uint64_t number;       /* of the publish, since the start */
	size_t size;           /* of the payload */
	char *error;           /* why it was refused, or NULL */
	uint64_t random_state; /* of tide.random, before it was decided */
	struct verdict verdict;
};

struct recent;

struct recent *recent_create(bool with_payloads);
/* Accepts NULL. */
void recent_destroy(struct recent *r);

/* Add what is published from now on. */
void recent_watch(struct recent *r, struct broker *b);

size_t recent_count(const struct recent *r);
/* Of the messages that it holds. */
size_t recent_bytes(const struct recent *r);
/* The i-th, from the oldest on; good until the next publish. */
const struct recent_record *recent_get(const struct recent *r, size_t i);

/* A copy of all, from the oldest on, with the messages as a script may see them again:
 * without their payloads, unless payloads are kept. Without those for which there is no
 * memory. */
struct recent_record *recent_copy(const struct recent *r, size_t *count);
void recent_free(struct recent_record *copy_take, size_t count);

/* Is the content of a message shown to the viewer? It is in the message's own vhost
 * alone.
 *
 * @param viewer  NULL: nobody */
bool recent_is_shown(const struct vhost *v, const struct vhost *viewer);
/* Members of an object: what was published. */
void recent_write_publish(const struct vhost *v, const struct msg *m, size_t size,
			  const struct vhost *viewer, struct json *out);
/* An array of the last `max` in the vhost, the newest first. */
void recent_write(const struct recent *r, const struct vhost *viewer, size_t max,
		  struct json *out);
