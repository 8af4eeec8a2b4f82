/* redis_hello.h: the first commands on each connection to Redis, and what their replies
 * tell: password, database, version, role, eviction policy, persistence, cluster. */
#pragma once

#include "base/buf.h"
#include "redis_confirm.h"
#include "redis_url.h"

enum redis_hello_verdict {
	REDIS_HELLO_OK,
	REDIS_HELLO_WAIT,    /* it is loading its data set: try again soon */
	REDIS_HELLO_CLUSTER, /* it is a node of a Redis Cluster */
	REDIS_HELLO_REFUSED, /* it is not fit to keep messages, or denies itself */
};

enum redis_hello_step {
	HELLO_AUTH,
	HELLO_SELECT,
	HELLO_NAME,
	HELLO_SET_FSYNC,
	HELLO_FSYNC,
	HELLO_WORD_MAX,
	HELLO_REPLICAS_MIN,
	HELLO_COVERAGE,
	HELLO_MIGRATION,
	HELLO_INFO,
	HELLO_STEP_COUNT
};

struct redis_hello {
	/* Given. */
	const struct redis_url *url;
	const char *set_fsync; /* appendfsync to set, of our own Redis; or NULL */
	const struct redis_confirm_level *confirm;
	bool is_cluster; /* it has to be a node of a Redis Cluster */
	/* Found. */
	char version[32];
	char fsync[16]; /* "" where Redis does not tell */
	bool is_append_only;
	bool has_full_coverage, has_replica_migration; /* of a Redis Cluster, it says */
	bool has_min_replicas; /* it refuses writes without some replicas */
	uint64_t replicas_min, replicas_good; /* how many, and how many it has */
	size_t word_max; /* proto-max-bulk-len: the largest word of a command */
	int64_t process_id;
	char complaint[128]; /* the first error reply, whatever it was about */
	/* After the last reply. */
	enum redis_hello_verdict verdict;
	char reason[ERROR_TEXT_MAX]; /* why it is not REDIS_HELLO_OK */
	/* Within. */
	enum redis_hello_step steps[HELLO_STEP_COUNT]; /* those that are needed */
	unsigned step_count;
};

/* Append the commands to `out` and forget what an earlier check has found.
 *
 * @return  how many replies will come */
unsigned redis_hello_begin(struct redis_hello *h, struct buf *out);
/* The index-th reply, from 0. */
void redis_hello_reply(struct redis_hello *h, unsigned index, const redisReply *reply);
/* Refuse this Redis for a reason that was found elsewhere. */
void redis_hello_refuse(struct redis_hello *h, const char *why);
/* Log of the start what an operator should know of confirms.
 *
 * @param what  the Redis and how it is set up
 * @param has_sentinel  it is a master that may be replaced while we hold it */
void redis_hello_tell(const struct redis_hello *h, const char *what, const char *address,
		      bool has_sentinel);
/* Log the settings that a node of a Redis Cluster should not have. False: it has none. */
bool redis_hello_warn(const struct redis_hello *h, const char *address);
