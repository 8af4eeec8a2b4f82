#include "check.h"

#include "store/layout.h"

static void assert_prefix(struct slice vhost, struct slice queue, unsigned index,
			  const char *want)
{
	struct buf out = { 0 };
	layout_shard_prefix(&out, vhost, queue, index);
	assert_string_equal(buf_cstr(&out), want);
	buf_deinit(&out);
}

TEST_THAT(keys_of_a_shard_share_a_hash_tag)
{
	assert_prefix(SLICE("/"), SLICE("jobs"), 0, "tide:{//jobs#0}:");
	assert_prefix(SLICE("shop"), SLICE("eu/new"), 4294967295u,
		      "tide:{shop/eu/new#4294967295}:");
}

TEST_THAT(each_key_has_the_suffix_that_the_manual_gives)
{
	static const char *const suffixes[LAYOUT_KEY_COUNT] = {
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

	for (int key = 0; key < LAYOUT_KEY_COUNT; key++)
		assert_string_equal(layout_key_suffix((enum layout_key)key),
				    suffixes[key]);
	struct buf out = { 0 };
	layout_resp_key(&out, SLICE("tide:{//q#0}:"), layout_set_key(STORE_UNACK));
	assert_string_equal(buf_cstr(&out), "$18\r\ntide:{//q#0}:unack\r\n");
	buf_deinit(&out);
}

TEST_THAT(tables_have_the_names_that_the_manual_gives)
{
	static const char *const names[STORE_TABLE_COUNT] = {
		"{tide}:vhosts",          "{tide}:/:exchanges", "{tide}:/:queues",
		"{tide}:/:topic-options", "{tide}:/:bindings",  "{tide}:/:pauses",
		"{tide}:/:locks",         "{tide}:users",       "{tide}:vhost-options",
	};
	for (int table = 0; table < STORE_TABLE_COUNT; table++) {
		struct buf out = { 0 };
		layout_table_key(&out, (enum store_table)table, SLICE("/"));
		assert_string_equal(buf_cstr(&out), names[table]);
		buf_deinit(&out);
	}
}

/* The values are those of CLUSTER KEYSLOT of Redis. */
TEST_THAT(slots_are_those_of_redis_cluster)
{
	static const struct {
		const char *key;
		unsigned slot;
	} rows[] = {
		{ "{tide}:vhosts", 13971 },
		{ "{tide}:{a:queues", 13971 },
		{ "tide:{//jobs#0}:msg", 13198 },
		{ "tide:{//jobs#0}:log:20261123", 13198 },
		{ "tide:{shop/a}b#1}:msg", 12262 },
		{ "tide:{{a/q#0}:msg", 7373 },
		{ "tide:{}x/q#0}:msg", 8790 },
		{ "foo{}{bar}", 8363 },
		{ "foo{{bar}}zap", 4015 },
		{ "foo{bar}{zap}", 5061 },
		{ "{bar", 4015 },
		{ "bar}", 6624 },
		{ "{}", 15257 },
		{ "a{", 14311 },
		{ "", 0 },
		{ "shop/a", 12262 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(layout_slot(slice_from(rows[i].key)), rows[i].slot);
	assert_int_equal(layout_slot(SLICE(LAYOUT_META)), LAYOUT_META_SLOT);
	assert_int_equal(layout_slot(SLICE("123456789")), 0x31c3 % LAYOUT_SLOTS);
}

static void assert_bytes(struct buf *out, const char *want)
{
	assert_string_equal(buf_cstr(out), want);
	buf_clear(out);
}

TEST_THAT(keys_of_topics_have_the_names_that_the_manual_gives)
{
	struct slice prefix = SLICE("tide:{//q#0}:");
	struct buf out = { 0 };

	layout_topic_key(&out, SLICE("/"), LAYOUT_ALL_TOPICS);
	assert_bytes(&out, "{tide}:/:topics");
	layout_topic_key(&out, SLICE("shop"), SLICE("eu/new"));
	assert_bytes(&out, "{tide}:shop:topic:eu/new");
	layout_resp_partition_key(&out, prefix, LAYOUT_STATE);
	assert_bytes(&out, "$16\r\ntide:{//q#0}:log\r\n");
	layout_resp_partition_key(&out, prefix, LAYOUT_GROUPS);
	assert_bytes(&out, "$19\r\ntide:{//q#0}:groups\r\n");
	layout_resp_day(&out, prefix, 20261123);
	assert_bytes(&out, "$25\r\ntide:{//q#0}:log:20261123\r\n");
	layout_resp_day(&out, prefix, 101);
	assert_bytes(&out, "$25\r\ntide:{//q#0}:log:00000101\r\n");
	buf_deinit(&out);
}

static struct layout_name read_name(const char *name)
{
	struct layout_name out;

	layout_read(slice_from(name), &out);
	return out;
}

TEST_THAT(a_key_of_a_shard_is_read_back)
{
	static const struct {
		const char *name, *vhost, *queue;
		unsigned shard;
	} rows[] = {
		{ "tide:{//jobs#0}:tries", "/", "jobs", 0 },
		{ "tide:{shop/a/b#c}:#12}:tries", "shop", "a/b#c}:", 12 },
		{ "tide:{///#3}:tries", "/", "/", 3 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct layout_name n = read_name(rows[i].name);

		assert_int_equal(n.kind, LAYOUT_SHARD);
		assert_int_equal(n.key, LAYOUT_TRIES);
		assert_string_equal(n.type, "hash");
		assert_true(slice_is(n.vhost, rows[i].vhost));
		assert_true(slice_is(n.queue, rows[i].queue));
		assert_int_equal(n.shard, rows[i].shard);
	}
	assert_string_equal(read_name("tide:{//jobs#0}:ready").type, "zset");
}

TEST_THAT(keys_of_topics_are_read_back)
{
	struct layout_name n = read_name("tide:{shop/a}:log:20261122#12}:log:20261123");

	assert_int_equal(n.kind, LAYOUT_PARTITION);
	assert_int_equal(n.partition_key, LAYOUT_DAY);
	assert_string_equal(n.type, "zset");
	assert_int_equal(n.day, 20261123);
	assert_true(slice_is(n.vhost, "shop"));
	assert_true(slice_is(n.queue, "a}:log:20261122"));
	assert_int_equal(n.shard, 12);
	n = read_name("tide:{//events#0}:log");
	assert_int_equal(n.kind, LAYOUT_PARTITION);
	assert_int_equal(n.partition_key, LAYOUT_STATE);
	assert_string_equal(n.type, "hash");
	assert_int_equal(read_name("tide:{//events#0}:groups").partition_key,
			 LAYOUT_GROUPS);
	n = read_name("{tide}:/:topics");
	assert_int_equal(n.kind, LAYOUT_TOPICS);
	assert_string_equal(n.type, "set");
	assert_true(slice_is(n.vhost, "/"));
	assert_int_equal(read_name("{tide}:shop:topic-options").table, STORE_TOPICS);
	assert_string_equal(read_name("{tide}:shop:topic-options").type, "hash");
}

/* A name has any ':' and '/', a vhost none: it ends at the first. */
TEST_THAT(a_topic_that_is_named_like_a_key_is_a_topic)
{
	static const char *const topics[] = { "events",     "a:queues", "b/c#0}:log",
					      "b/c#0}:msg", "x:topics", "topic:y" };
	static const char *const vhosts[] = { "/", "shop", "rules", "{a", "{a}" };

	for (size_t i = 0; i < sizeof(topics) / sizeof(topics[0]); i++)
		for (size_t j = 0; j < sizeof(vhosts) / sizeof(vhosts[0]); j++) {
			struct buf key = { 0 };
			struct layout_name n;

			layout_topic_key(&key, slice_from(vhosts[j]),
					 slice_from(topics[i]));
			n = read_name(buf_cstr(&key));
			assert_int_equal(n.kind, LAYOUT_TOPIC);
			assert_string_equal(n.type, "set");
			assert_true(slice_is(n.vhost, vhosts[j]));
			assert_true(slice_is(n.queue, topics[i]));
			buf_deinit(&key);
		}
}

TEST_THAT(tables_and_documents_are_read_back)
{
	assert_int_equal(read_name("{tide}:vhosts").table, STORE_VHOSTS);
	assert_string_equal(read_name("{tide}:vhosts").type, "set");
	assert_int_equal(read_name("{tide}:shop:queues").table, STORE_QUEUES);
	assert_true(slice_is(read_name("{tide}:shop:queues").vhost, "shop"));
	assert_int_equal(read_name("{tide}:rules:log").document, LAYOUT_LOG);
	assert_int_equal(read_name("{tide}:rules:gen:abc").document, LAYOUT_GENERATION);
	assert_int_equal(read_name("tide:{17}:holder").kind, LAYOUT_DOCUMENT);
	assert_int_equal(read_name("tide:{17}:holder").document, LAYOUT_HOLDER);
}

TEST_THAT(each_cell_has_documents_of_its_own)
{
	assert_int_equal(read_name("{tide}:holder:2").document, LAYOUT_HOLDER);
	assert_null(read_name("{tide}:holder:2").other_type);
	assert_int_equal(read_name("tide:{17}:holder:2").document, LAYOUT_HOLDER);
	assert_int_equal(read_name("{tide}:rules:shared:63").document, LAYOUT_SHARED);
	assert_int_equal(read_name("{tide}:holder:64").kind, LAYOUT_UNKNOWN);
	assert_int_equal(read_name("{tide}:holder:x").kind, LAYOUT_UNKNOWN);
	assert_int_equal(read_name("{tide}:ids:1").kind, LAYOUT_UNKNOWN);
	assert_int_equal(read_name("{tide}:holder:queues").table, STORE_QUEUES);
}

TEST_THAT(what_keeps_older_brokers_out_is_a_string)
{
	assert_string_equal(read_name("{tide}:holder").other_type, "string");
	assert_int_equal(read_name("tide:holder").document, LAYOUT_LOCKS);
	assert_int_equal(read_name("tide:ids").document, LAYOUT_LOCKS);
	assert_string_equal(read_name("tide:ids").type, "string");
	assert_string_equal(read_name("{tide}:ids").type, "hash");
}

TEST_THAT(what_is_no_key_of_the_broker_is_unknown)
{
	static const char *const names[] = {
		"",
		"tide:",
		"{tide}:",
		"tide:vhosts",
		"tide:/:queues",
		"{tide}:{//jobs#0}:msg",
		"vhosts",
		"{tide}:queues",
		"{tide}:a:vhosts",
		"{tide}:rules:",
		"tide:{}:msg",
		"tide:{//jobs#}:msg",
		"tide:{//jobs#01}:msg",
		"tide:{//jobs#x}:msg",
		"tide:{//jobs}:msg",
		"tide:{/jobs#0}:msg",
		"tide:{//#0}:msg",
		"tide:{//jobs#0}:other",
		"tide:{//jobs#0}msg",
		"tide:{//jobs#0}:log:",
		"tide:{//jobs#0}:log:2026112",
		"tide:{//jobs#0}:log:202611234",
		"tide:{//jobs#0}:log:2026112x",
		"tide:{//jobs#0}:log:00000000",
		"tide:{a:b/jobs#0}:log",
		"{tide}:topics",
		"{tide}:topic:events",
		"{tide}:shop:topic:",
		"{tide}:shop:x:queues",
		"tide:{",
		"tide:}:msg",
		"tide:{17}:ids",
		"tide:{17}holder",
		"tide:{x}:holder",
		"tide:{}:holder",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(read_name(names[i]).kind, LAYOUT_UNKNOWN);
		assert_null(read_name(names[i]).type);
	}
}

RUN_TESTS()
