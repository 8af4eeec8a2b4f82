/* layout.h: the names of the keys in Redis; docs/redis.md is their manual.
 *
 * All keys of a shard share the hash tag {<vhost>/<queue>#<shard>}, so a shard
 * lives in one slot of a Redis Cluster. So do those of a partition of a topic. All other
 * keys have the tag {tide}: definitions, documents and the holder lie in one slot, whose
 * order, transactions and scripts are those of a single Redis.
 *
 * Names are unambiguous. A vhost is "/" or has neither '/' nor ':' in it: it ends at the
 * first of them. A shard is digits alone, and what follows the tag has no '}' in it.
 *
 * This is layout 2. In layout 1 the other keys began with "tide:" and had no tag. The
 * broker that takes such a store renames them (holder_migrate.lua), and leaves strings at
 * two of the old names, which keep older brokers out. */
#pragma once

#include "base/buf.h"
#include "store.h"

#define LAYOUT_VERSION 2
/* Prefix of all keys but those of shards and partitions, as a string literal, and the
 * keys that are spelled in commands made by hand. */
#define LAYOUT_META "{tide}:"
#define LAYOUT_HOLDER_KEY LAYOUT_META "holder"
#define LAYOUT_PROBE_KEY LAYOUT_META "probe"
#define LAYOUT_CLUSTER_KEY LAYOUT_META "cluster"
/* Of layout 1; in layout 2 they are the locks, whose text is LAYOUT_LOCK. */
#define LAYOUT_OLD_HOLDER_KEY "tide:holder"
#define LAYOUT_OLD_IDS_KEY "tide:ids"
#define LAYOUT_OLD_VHOSTS_KEY "tide:vhosts"
#define LAYOUT_LOCK "layout 2"
/* Advice for a store of layout 1. */
#define LAYOUT_OLD_TEXT                                                               \
	"the store was written by an older version: start a broker on it once, as a " \
	"single Redis, which renames its keys"
/* The document of tombstones: of queues and topics that are being erased. */
#define LAYOUT_ERASING_NAME "erasing"
/* That of transactions over several slots that have happened. */
#define LAYOUT_COMMITS_NAME "commits"

/* The slot of a key in a Redis Cluster, below LAYOUT_SLOTS: crc16 of its hash tag, which
 * ends at the first '}' behind the first '{'; of all of it without a tag. */
#define LAYOUT_SLOTS 16384
unsigned layout_slot(struct slice key);
unsigned layout_crc16(struct slice s);
/* That of LAYOUT_META. */
#define LAYOUT_META_SLOT 13971

enum layout_key {
	LAYOUT_MSG,
	LAYOUT_TRIES,
	LAYOUT_EXPIRY,
	LAYOUT_DEDUPE,
	LAYOUT_SIZE,
	LAYOUT_SETS, /* + enum store_set */
	LAYOUT_KEY_COUNT = LAYOUT_SETS + STORE_SET_COUNT,
};

/* "tide:{<vhost>/<queue>#<index>}:", what all keys of a shard begin with. */
void layout_shard_prefix(struct buf *out, struct slice vhost, struct slice queue,
			 unsigned index);
/* The key as a word of a command. */
void layout_resp_key(struct buf *out, struct slice prefix, enum layout_key key);
const char *layout_key_suffix(enum layout_key key);

/* The keys of a partition of a topic. Their prefix is that of a shard. */
enum layout_partition_key {
	LAYOUT_STATE,  /* what is known of its days */
	LAYOUT_GROUPS, /* committed offsets */
	LAYOUT_DAY,    /* the record batches of a day */
	LAYOUT_PARTITION_KEY_COUNT,
};

/* Of a day: the day follows. */
const char *layout_partition_suffix(enum layout_partition_key key);
/* The key of a state or of groups, and that of a day, as a word of a command. */
void layout_resp_partition_key(struct buf *out, struct slice prefix,
			       enum layout_partition_key key);
void layout_resp_day(struct buf *out, struct slice prefix, uint32_t day);
/* A day's name, in its key and in the state: eight digits, from 00000101 on. */
#define LAYOUT_DAY_LEN 8
bool layout_read_day(struct slice text, uint32_t *day);

static inline enum layout_key layout_set_key(enum store_set set)
{
	return (enum layout_key)(LAYOUT_SETS + (int)set);
}

/* The table is one of a vhost. */
bool layout_table_has_vhost(enum store_table table);
/* "{tide}:vhosts", "{tide}:<vhost>:queues", ... */
void layout_table_key(struct buf *out, enum store_table table, struct slice vhost);
/* "{tide}:<vhost>:topic:<topic>"; "{tide}:<vhost>:topics" of no topic */
#define LAYOUT_ALL_TOPICS ((struct slice){ NULL, 0 })
void layout_topic_key(struct buf *out, struct slice vhost, struct slice topic);

/* The kind of a key, by its name: the one table of all keys that the broker writes. */
enum layout_kind {
	LAYOUT_UNKNOWN,
	LAYOUT_SHARD,     /* vhost, queue, shard and key are set */
	LAYOUT_PARTITION, /* likewise with queue, the topic, and partition_key and day */
	LAYOUT_TABLE,     /* vhost and table are set */
	LAYOUT_TOPICS,    /* vhost is set: the set of topics */
	LAYOUT_TOPIC,     /* vhost and queue are set: the set of its partitions */
	LAYOUT_DOCUMENT,
};

enum layout_document {
	LAYOUT_HOLDER,
	LAYOUT_CLUSTER, /* the layout's version */
	LAYOUT_ERASING,
	LAYOUT_COMMITS,
	LAYOUT_IDS,
	LAYOUT_SHARED,
	LAYOUT_SCHEDULE,
	LAYOUT_GENERATION,
	LAYOUT_LAST,
	LAYOUT_LOG,
	LAYOUT_DOCUMENT_COUNT,
	LAYOUT_LOCKS = LAYOUT_DOCUMENT_COUNT, /* of older brokers; strings */
};

struct layout_name {
	enum layout_kind kind;
	const char *type; /* as TYPE says; NULL of an unknown key */
	/* Likewise: of the holder's record in a store that is split into cells. */
	const char *other_type;
	struct slice vhost, queue;
	unsigned shard; /* or partition */
	enum layout_key key;
	enum layout_partition_key partition_key;
	uint32_t day; /* of a LAYOUT_DAY */
	enum store_table table;
	enum layout_document document;
};

/* Of each member it tells, or should tell, the message. */
static inline bool layout_has_ids(const struct layout_name *name)
{
	return name->kind == LAYOUT_SHARD && name->key != LAYOUT_SIZE;
}

/* The slices point into `name`. */
void layout_read(struct slice name, struct layout_name *out);
