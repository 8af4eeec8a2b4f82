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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_of_a_shard_share_a_hash_tag),
		cmocka_unit_test(each_key_has_the_suffix_that_the_manual_gives),
		cmocka_unit_test(tables_have_the_names_that_the_manual_gives),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
