/* redis_hello.h: what is said and checked first on each connection to Redis:
 * password, database, version, role, eviction policy, persistence. */
#ifndef TIDE_STORE_REDIS_HELLO_H
#define TIDE_STORE_REDIS_HELLO_H

#include "base/buf.h"
#include "redis_request.h"
#include "redis_url.h"

/* What the commands need: HSET and ZADD with many members, UNLINK, HSTRLEN in
 * scripts that write after they have read, and AUTH with a user name. */
#define REDIS_VERSION_MIN_MAJOR 6

/* The largest word of a command that Redis takes, when it does not tell. */
#define REDIS_WORD_MAX ((size_t)512 << 20)

enum redis_hello_verdict {
	REDIS_HELLO_OK,
	REDIS_HELLO_WAIT,    /* it is loading its data set: try again soon */
	REDIS_HELLO_REFUSED, /* it is not fit to keep messages, or denies itself */
};

struct redis_hello {
	/* Given. */
	const struct redis_url *url;
	const char *set_fsync; /* appendfsync to set, of our own Redis; or NULL */
	/* Found. */
	char version[32];
	char fsync[16]; /* "" where Redis does not tell */
	bool is_append_only;
	size_t word_max; /* proto-max-bulk-len */
	int64_t process_id;
	char complaint[128]; /* the first error reply, whatever it was about */
	/* Within. */
	enum redis_hello_verdict verdict;
	struct error err;
};

/* Append the commands to `out` and forget what an earlier check has found.
 *
 * @return  how many replies will come */
unsigned redis_hello_begin(struct redis_hello *h, struct buf *out);
/* The index-th reply, from 0. */
void redis_hello_reply(struct redis_hello *h, unsigned index, const redisReply *reply);
/* After the last reply; `err` says why it is not REDIS_HELLO_OK. */
enum redis_hello_verdict redis_hello_end(const struct redis_hello *h, struct error *err);

#endif
