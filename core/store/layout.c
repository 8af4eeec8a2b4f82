#include "layout.h"

#include "resp.h"

static const char *const key_suffixes[LAYOUT_KEY_COUNT] = {
	[LAYOUT_MSG] = "msg",
	[LAYOUT_TRIES] = "tries",
	[LAYOUT_EXPIRY] = "expiry",
	[LAYOUT_DEDUPE] = "dedupe",
	[LAYOUT_SIZE] = "size",
	[LAYOUT_SETS + STORE_READY] = "ready",
	[LAYOUT_SETS + STORE_DELAYED] = "delayed",
	[LAYOUT_SETS + STORE_UNACK] = "unack",
	[LAYOUT_SETS + STORE_BURIED] = "buried",
};

static const char *const table_suffixes[STORE_TABLE_COUNT] = {
	[STORE_VHOSTS] = "vhosts", [STORE_EXCHANGES] = "exchanges",
	[STORE_QUEUES] = "queues", [STORE_BINDINGS] = "bindings",
	[STORE_PAUSES] = "pauses", [STORE_LOCKS] = "locks",
};

void layout_shard_prefix(struct buf *out, struct slice vhost, struct slice queue,
			 unsigned index)
{
	buf_append_text(out, "tide:{");
	buf_append_slice(out, vhost);
	buf_append_char(out, '/');
	buf_append_slice(out, queue);
	buf_append_char(out, '#');
	buf_append_uint(out, index);
	buf_append_text(out, "}:");
}

const char *layout_key_suffix(enum layout_key key)
{
	return key_suffixes[key];
}

void layout_resp_key(struct buf *out, struct slice prefix, enum layout_key key)
{
	resp_pair(out, prefix, slice_from(key_suffixes[key]));
}

void layout_table_key(struct buf *out, enum store_table table, struct slice vhost)
{
	buf_append_text(out, "tide:");
	if (table != STORE_VHOSTS) {
		buf_append_slice(out, vhost);
		buf_append_char(out, ':');
	}
	buf_append_text(out, table_suffixes[table]);
}
