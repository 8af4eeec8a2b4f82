#include "layout.h"

#include <stdio.h>

#include "resp.h"

static const struct {
	const char *suffix;
	const char *type;
} shard_keys[LAYOUT_KEY_COUNT] = {
	[LAYOUT_MSG] = { "msg", "hash" },
	[LAYOUT_TRIES] = { "tries", "hash" },
	[LAYOUT_EXPIRY] = { "expiry", "zset" },
	[LAYOUT_DEDUPE] = { "dedupe", "zset" },
	[LAYOUT_SIZE] = { "size", "hash" },
	[LAYOUT_SETS + STORE_READY] = { "ready", "zset" },
	[LAYOUT_SETS + STORE_DELAYED] = { "delayed", "zset" },
	[LAYOUT_SETS + STORE_UNACK] = { "unack", "zset" },
	[LAYOUT_SETS + STORE_BURIED] = { "buried", "zset" },
};

static const struct {
	const char *suffix; /* of a day: the day follows */
	const char *type;
} partition_keys[LAYOUT_PARTITION_KEY_COUNT] = {
	[LAYOUT_STATE] = { "log", "hash" },
	[LAYOUT_GROUPS] = { "groups", "hash" },
	[LAYOUT_DAY] = { "log:", "zset" },
};

static const char *const table_suffixes[STORE_TABLE_COUNT] = {
	[STORE_VHOSTS] = "vhosts",
	[STORE_USERS] = "users",
	[STORE_EXCHANGES] = "exchanges",
	[STORE_QUEUES] = "queues",
	[STORE_TOPICS] = "topic-options",
	[STORE_BINDINGS] = "bindings",
	[STORE_PAUSES] = "pauses",
	[STORE_LOCKS] = "locks",
	[STORE_VHOST_OPTIONS] = "vhost-options",
};
#define SHARD_PREFIX "tide:{"
#define TOPICS_SUFFIX "topics"
#define TOPIC_SUFFIX "topic:" /* the topic follows */

/* CRC-16/XMODEM. */
unsigned layout_crc16(struct slice s)
{
	unsigned crc = 0;

	for (size_t i = 0; i < s.len; i++) {
		crc ^= (unsigned)(unsigned char)s.data[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = (crc << 1 ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
	}
	return crc;
}

unsigned layout_slot(struct slice key)
{
	struct slice tag = slice_skip(key, slice_find(key, '{'));

	tag = slice_skip(tag, tag.len > 0);
	size_t end = slice_find(tag, '}');
	/* An empty tag, or one without an end, is none. */
	return layout_crc16(end > 0 && end < tag.len ? (struct slice){ tag.data, end }
						     : key) %
	       LAYOUT_SLOTS;
}

void layout_shard_prefix(struct buf *out, struct slice vhost, struct slice queue,
			 unsigned index)
{
	buf_append_text(out, SHARD_PREFIX);
	buf_append_slice(out, vhost);
	buf_append_char(out, '/');
	buf_append_slice(out, queue);
	buf_append_char(out, '#');
	buf_append_uint(out, index);
	buf_append_text(out, "}:");
}

const char *layout_key_suffix(enum layout_key key)
{
	return shard_keys[key].suffix;
}

void layout_resp_key(struct buf *out, struct slice prefix, enum layout_key key)
{
	resp_pair(out, prefix, slice_from(shard_keys[key].suffix));
}

const char *layout_partition_suffix(enum layout_partition_key key)
{
	return partition_keys[key].suffix;
}

void layout_resp_partition_key(struct buf *out, struct slice prefix,
			       enum layout_partition_key key)
{
	resp_pair(out, prefix, slice_from(partition_keys[key].suffix));
}

void layout_resp_day(struct buf *out, struct slice prefix, uint32_t day)
{
	char name[32];
	int len = snprintf(name, sizeof(name), "%s%08u",
			   partition_keys[LAYOUT_DAY].suffix, day);

	resp_pair(out, prefix, (struct slice){ name, (size_t)len });
}

bool layout_read_day(struct slice text, uint32_t *day)
{
	uint64_t n;

	if (text.len != LAYOUT_DAY_LEN || !slice_to_uint(text, UINT32_MAX, &n) || n < 101)
		return false;
	*day = (uint32_t)n;
	return true;
}

static void append_vhost(struct buf *out, struct slice vhost)
{
	buf_append_text(out, LAYOUT_META);
	buf_append_slice(out, vhost);
	buf_append_char(out, ':');
}

bool layout_table_has_vhost(enum store_table table)
{
	return table != STORE_VHOSTS && table != STORE_USERS &&
	       table != STORE_VHOST_OPTIONS;
}

void layout_table_key(struct buf *out, enum store_table table, struct slice vhost)
{
	if (layout_table_has_vhost(table))
		append_vhost(out, vhost);
	else
		buf_append_text(out, LAYOUT_META);
	buf_append_text(out, table_suffixes[table]);
}

void layout_topic_key(struct buf *out, struct slice vhost, struct slice topic)
{
	append_vhost(out, vhost);
	buf_append_text(out, topic.data ? TOPIC_SUFFIX : TOPICS_SUFFIX);
	buf_append_slice(out, topic);
}

#define SHARD_MAX 65535

static const struct {
	const char *name;
	bool is_family; /* the name is what its keys begin with */
	bool has_cells; /* each cell has one, the first one or all with its number */
} documents[LAYOUT_DOCUMENT_COUNT] = {
	[LAYOUT_HOLDER] = { "holder", .has_cells = true },
	[LAYOUT_CLUSTER] = { "cluster", false },
	[LAYOUT_ERASING] = { LAYOUT_ERASING_NAME, false },
	[LAYOUT_COMMITS] = { LAYOUT_COMMITS_NAME, false },
	[LAYOUT_IDS] = { "ids", false },
	[LAYOUT_SHARED] = { "rules:shared", .has_cells = true },
	[LAYOUT_SCHEDULE] = { "rules:schedule", false },
	[LAYOUT_GENERATION] = { "rules:gen:", true },
	[LAYOUT_LAST] = { "rules:last", false },
	[LAYOUT_LOG] = { "rules:log", false },
};

/* "<name>:<cell>" */
static bool is_of_cell(struct slice rest, const char *name)
{
	uint64_t cell;

	return slice_has_prefix(rest, name) &&
	       slice_has_prefix(slice_skip(rest, strlen(name)), ":") &&
	       slice_to_uint(slice_skip(rest, strlen(name) + 1), STORE_CELLS_MAX - 1,
			     &cell);
}

static bool read_document(struct slice rest, struct layout_name *out)
{
	for (int i = 0; i < LAYOUT_DOCUMENT_COUNT; i++) {
		const char *name = documents[i].name;

		if (documents[i].is_family
			    ? !slice_has_prefix(rest, name)
			    : !slice_is(rest, name) &&
				      !(documents[i].has_cells && is_of_cell(rest, name)))
			continue;
		out->kind = LAYOUT_DOCUMENT;
		out->type = "hash";
		if (i == LAYOUT_HOLDER && slice_is(rest, name))
			out->other_type = "string";
		out->document = (enum layout_document)i;
		return true;
	}
	return false;
}

/* The last `c`; the length when there is none. */
static size_t find_last(struct slice s, char c)
{
	const char *at = s.len ? memrchr(s.data, c, s.len) : NULL;

	return at ? (size_t)(at - s.data) : s.len;
}

/* "<vhost>/<queue>#<shard>" */
static bool read_tag(struct slice tag, struct layout_name *out)
{
	bool is_root = slice_has_prefix(tag, "//");
	size_t vhost_len = is_root ? 1 : slice_find(tag, '/');
	size_t hash = find_last(tag, '#');
	uint64_t shard;

	/* A shard is written without a zero before it. */
	if (vhost_len == 0 || vhost_len + 1 >= hash || hash + 1 >= tag.len ||
	    slice_find(tag, ':') < vhost_len ||
	    (tag.data[hash + 1] == '0' && hash + 2 < tag.len) ||
	    !slice_to_uint(slice_skip(tag, hash + 1), SHARD_MAX, &shard))
		return false;
	out->vhost = (struct slice){ tag.data, vhost_len };
	out->queue = (struct slice){ tag.data + vhost_len + 1, hash - vhost_len - 1 };
	out->shard = (unsigned)shard;
	return true;
}

static bool read_shard_suffix(struct slice suffix, struct layout_name *out)
{
	for (int i = 0; i < LAYOUT_KEY_COUNT; i++) {
		if (!slice_is(suffix, shard_keys[i].suffix))
			continue;
		out->kind = LAYOUT_SHARD;
		out->key = (enum layout_key)i;
		out->type = shard_keys[i].type;
		return true;
	}
	return false;
}

static bool read_partition_suffix(struct slice suffix, struct layout_name *out)
{
	for (int i = 0; i < LAYOUT_PARTITION_KEY_COUNT; i++) {
		const char *name = partition_keys[i].suffix;

		if (i == LAYOUT_DAY
			    ? !slice_has_prefix(suffix, name) ||
				      !layout_read_day(slice_skip(suffix, strlen(name)),
						       &out->day)
			    : !slice_is(suffix, name))
			continue;
		out->kind = LAYOUT_PARTITION;
		out->partition_key = (enum layout_partition_key)i;
		out->type = partition_keys[i].type;
		return true;
	}
	return false;
}

/* "{<tag>}:<suffix>" */
static bool read_tagged(struct slice rest, struct layout_name *out)
{
	size_t brace = find_last(rest, '}');
	struct slice tag = { rest.data + 1, brace - 1 }, suffix;

	if (brace + 1 >= rest.len || rest.data[brace + 1] != ':' || !read_tag(tag, out))
		return false;
	suffix = slice_skip(rest, brace + 2);
	return read_shard_suffix(suffix, out) || read_partition_suffix(suffix, out);
}

static bool read_table(struct slice suffix, bool has_vhost, struct layout_name *out)
{
	for (int i = 0; i < STORE_TABLE_COUNT; i++) {
		if (!slice_is(suffix, table_suffixes[i]) ||
		    has_vhost != layout_table_has_vhost((enum store_table)i))
			continue;
		out->kind = LAYOUT_TABLE;
		out->table = (enum store_table)i;
		out->type = i == STORE_VHOSTS || i == STORE_BINDINGS ? "set" : "hash";
		return true;
	}
	return false;
}

static bool read_topic(struct slice suffix, struct layout_name *out)
{
	size_t prefix_len = strlen(TOPIC_SUFFIX);

	out->type = "set";
	if (slice_is(suffix, TOPICS_SUFFIX)) {
		out->kind = LAYOUT_TOPICS;
	} else if (slice_has_prefix(suffix, TOPIC_SUFFIX) && suffix.len > prefix_len) {
		out->kind = LAYOUT_TOPIC;
		out->queue = slice_skip(suffix, prefix_len);
	} else {
		return false;
	}
	return true;
}

/* "<vhost>:<suffix>", "vhosts", "vhost-options" or "users" */
static bool read_definitions(struct slice rest, struct layout_name *out)
{
	size_t colon = slice_find(rest, ':');
	bool has_vhost = colon > 0 && colon < rest.len;
	struct slice suffix = has_vhost ? slice_skip(rest, colon + 1) : rest;

	out->queue = SLICE("");
	out->vhost = (struct slice){ rest.data, has_vhost ? colon : 0 };
	return read_table(suffix, has_vhost, out) ||
	       (has_vhost && read_topic(suffix, out));
}

static bool read_meta(struct slice rest, struct layout_name *out)
{
	return read_document(rest, out) || read_definitions(rest, out);
}

/* "{<n>}:holder": of a master of a Redis Cluster that has not the slot of {tide} */
static bool read_record(struct slice rest, struct layout_name *out)
{
	size_t brace = slice_find(rest, '}');
	uint64_t n;

	if (brace + 1 >= rest.len || rest.data[brace + 1] != ':' ||
	    !slice_to_uint((struct slice){ rest.data + 1, brace - 1 }, UINT32_MAX, &n))
		return false;
	return read_document(slice_skip(rest, brace + 2), out) &&
	       out->document == LAYOUT_HOLDER;
}

static bool read_own(struct slice rest, struct layout_name *out)
{
	return read_tagged(rest, out) || read_record(rest, out);
}

void layout_read(struct slice name, struct layout_name *out)
{
	*out = (struct layout_name){ .kind = LAYOUT_UNKNOWN };
	if (slice_is(name, LAYOUT_OLD_HOLDER_KEY) || slice_is(name, LAYOUT_OLD_IDS_KEY)) {
		out->kind = LAYOUT_DOCUMENT;
		out->document = LAYOUT_LOCKS;
		out->type = "string";
		return;
	}
	if (slice_has_prefix(name, SHARD_PREFIX) &&
	    read_own(slice_skip(name, strlen(SHARD_PREFIX) - 1), out))
		return;
	if (slice_has_prefix(name, LAYOUT_META) &&
	    read_meta(slice_skip(name, strlen(LAYOUT_META)), out))
		return;
	*out = (struct layout_name){ .kind = LAYOUT_UNKNOWN };
}
