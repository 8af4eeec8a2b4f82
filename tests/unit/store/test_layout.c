#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/layout.h"

static void assert_prefix(struct slice vhost, struct slice queue, unsigned index,
			  const char *want)
{
	struct buf out = { 0 };
	layout_shard_prefix(&out, vhost, queue, index);
	assert_string_equal(buf_cstr(&out), want);
	buf_deinit(&out);
}

static void keys_of_a_shard_share_a_hash_tag(void **state)
{
	assert_prefix(SLICE("/"), SLICE("jobs"), 0, "tide:{//jobs#0}:");
	assert_prefix(SLICE("shop"), SLICE("eu/new"), 4294967295u,
		      "tide:{shop/eu/new#4294967295}:");
}

static void each_key_has_the_suffix_that_the_manual_gives(void **state)
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

static void tables_have_the_names_that_the_manual_gives(void **state)
{
	static const char *const names[STORE_TABLE_COUNT] = {
		"tide:vhosts",     "tide:/:exchanges", "tide:/:queues",
		"tide:/:bindings", "tide:/:pauses",    "tide:/:locks",
	};
	for (int table = 0; table < STORE_TABLE_COUNT; table++) {
		struct buf out = { 0 };
		layout_table_key(&out, (enum store_table)table, SLICE("/"));
		assert_string_equal(buf_cstr(&out), names[table]);
		buf_deinit(&out);
	}
}

static struct layout_name read_name(const char *name)
{
	struct layout_name out;

	layout_read(slice_from(name), &out);
	return out;
}

static void a_key_of_a_shard_is_read_back(void **state)
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

static void tables_and_documents_are_read_back(void **state)
{
	assert_int_equal(read_name("tide:vhosts").table, STORE_VHOSTS);
	assert_string_equal(read_name("tide:vhosts").type, "set");
	assert_int_equal(read_name("tide:shop:queues").table, STORE_QUEUES);
	assert_true(slice_is(read_name("tide:shop:queues").vhost, "shop"));
	assert_int_equal(read_name("tide:rules:log").document, LAYOUT_LOG);
	assert_int_equal(read_name("tide:rules:gen:abc").document, LAYOUT_GENERATION);
}

static void what_is_no_key_of_the_broker_is_unknown(void **state)
{
	static const char *const names[] = {
		"",
		"tide:",
		"vhosts",
		"tide:queues",
		"tide:a:vhosts",
		"tide:rules:",
		"tide:{}:msg",
		"tide:{//jobs#}:msg",
		"tide:{//jobs#01}:msg",
		"tide:{//jobs#x}:msg",
		"tide:{//jobs}:msg",
		"tide:{/jobs#0}:msg",
		"tide:{//#0}:msg",
		"tide:{//jobs#0}:other",
		"tide:{//jobs#0}msg",
		"tide:{",
		"tide:}:msg",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(read_name(names[i]).kind, LAYOUT_UNKNOWN);
		assert_null(read_name(names[i]).type);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_of_a_shard_share_a_hash_tag),
		cmocka_unit_test(each_key_has_the_suffix_that_the_manual_gives),
		cmocka_unit_test(tables_have_the_names_that_the_manual_gives),
		cmocka_unit_test(a_key_of_a_shard_is_read_back),
		cmocka_unit_test(tables_and_documents_are_read_back),
		cmocka_unit_test(what_is_no_key_of_the_broker_is_unknown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
