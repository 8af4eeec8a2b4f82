#include "check.h"

#include "base/id.h"

#define NOW INT64_C(1795254352123) /* 2026-11-21 */

TEST_THAT(an_id_is_time_node_and_sequence)
{
	struct id_source s;
	id_source_init(&s, 5);
	uint64_t id = id_next(&s, NOW);
	assert_int_equal(id_unix_ms(id), NOW);
	assert_int_equal(id_unix_ms(id_at_unix_ms(NOW)), NOW);
	assert_true(id_at_unix_ms(NOW) <= id && id_at_unix_ms(NOW + 1) > id);
	assert_int_equal(id >> 12 & 0x3ff, 5);
	assert_int_equal(id & 0xfff, 0);
}

TEST_THAT(ids_increase_whatever_the_clock_does)
{
	static const int64_t clock[] = { NOW, NOW, NOW + 1, NOW - 5000, 0,
					 -1,  NOW, NOW + 2, NOW + 2 };
	struct id_source s;
	id_source_init(&s, ID_NODE_MAX);
	uint64_t last = 0;
	for (size_t i = 0; i < COUNT(clock); i++) {
		uint64_t id = id_next(&s, clock[i]);
		assert_true(id > last);
		last = id;
	}
}

TEST_THAT(a_used_up_millisecond_runs_ahead_of_the_clock)
{
	struct id_source s;
	id_source_init(&s, 1);
	uint64_t last = 0;
	for (int i = 0; i < 10000; i++) {
		uint64_t id = id_next(&s, NOW);
		assert_true(id > last);
		assert_int_equal(id >> 12 & 0x3ff, 1);
		last = id;
	}
	assert_int_equal(id_unix_ms(last), NOW + 2);
	assert_int_equal(id_unix_ms(id_next(&s, NOW + 3)), NOW + 3);
}

TEST_THAT(the_first_id_is_never_zero)
{
	struct id_source s;
	id_source_init(&s, 0);
	assert_true(id_next(&s, 0) > 0);
}

TEST_THAT(a_source_follows_the_clock_to_one_limit_and_ends_at_the_other)
{
	struct id_source s;
	uint64_t last = 0, id;
	unsigned count = 0;

	id_source_init(&s, 3);
	id_source_limit(&s, NOW + 10, NOW + 12);
	assert_int_equal(id_unix_ms(id_next(&s, NOW + 9)), NOW + 9);
	assert_int_equal(id_unix_ms(id_next(&s, NOW + 5000)), NOW + 10);
	while ((id = id_next(&s, NOW + 5000)) != 0) {
		assert_true(id > last);
		last = id;
		count++;
	}
	assert_int_equal(count, 3 * 4096 - 1);
	assert_int_equal(id_unix_ms(last), NOW + 12);
	assert_int_equal(id_next(&s, NOW), 0);
	/* A later limit: it goes on, and follows the clock again. */
	id_source_limit(&s, NOW + 20, NOW + 30);
	assert_int_equal(id_unix_ms(id_next(&s, NOW)), NOW + 13);
	assert_int_equal(id_unix_ms(id_next(&s, NOW + 15)), NOW + 15);
}

TEST_THAT(a_source_without_a_limit_yet_gives_none)
{
	struct id_source s;

	id_source_init(&s, 3);
	id_source_limit(&s, 0, 0);
	assert_int_equal(id_next(&s, NOW), 0);
	id_source_advance(&s, id_at_unix_ms(NOW));
	assert_int_equal(id_next(&s, NOW + 1), 0);
	id_source_limit(&s, NOW + 6000, NOW + 10000);
	assert_int_equal(id_unix_ms(id_next(&s, NOW - 5)), NOW + 1);
}

TEST_THAT(after_an_advance_no_id_is_at_or_below)
{
	struct id_source other, s;
	id_source_init(&other, 900);
	id_source_init(&s, 2);
	uint64_t seen = id_next(&other, NOW + 100);
	id_source_advance(&s, seen);
	assert_true(id_next(&s, NOW) > seen);
	/* Within the same millisecond, and an old one, which changes nothing. */
	uint64_t mine = id_next(&s, NOW);
	id_source_advance(&s, mine | 0xfff);
	assert_true(id_next(&s, NOW) > (mine | 0xfff));
	uint64_t before = id_next(&s, NOW);
	id_source_advance(&s, id_next(&other, NOW) >> 1);
	assert_int_equal(id_next(&s, NOW), before + 1);
}

TEST_THAT(the_text_has_16_lower_case_digits_and_sorts_as_the_ids)
{
	char text[ID_HEX_LEN + 1] = "";
	id_format(0, text);
	assert_string_equal(text, "0000000000000000");
	id_format(UINT64_C(0x0123456789abcdef), text);
	assert_string_equal(text, "0123456789abcdef");
	char before[ID_HEX_LEN], after[ID_HEX_LEN];
	struct id_source s;
	id_source_init(&s, 7);
	for (int i = 0; i < 100; i++) {
		id_format(id_next(&s, NOW + i / 10), before);
		id_format(id_next(&s, NOW + i / 10), after);
		assert_true(memcmp(before, after, ID_HEX_LEN) < 0);
	}
}

TEST_THAT(every_digit_is_written_at_every_place)
{
	for (unsigned shift = 0; shift < 64; shift += 4) {
		for (unsigned digit = 0; digit < 16; digit++) {
			char wanted[] = "7777777777777777", text[ID_HEX_LEN];
			uint64_t others =
				UINT64_C(0x7777777777777777) & ~(UINT64_C(15) << shift);
			wanted[15 - shift / 4] = "0123456789abcdef"[digit];
			id_format(others | (uint64_t)digit << shift, text);
			assert_memory_equal(text, wanted, ID_HEX_LEN);
		}
	}
}

TEST_THAT(what_was_formatted_reads_back_and_nothing_else)
{
	static const uint64_t ids[] = { 0, 1, UINT64_MAX, UINT64_C(0x0123456789abcdef) };
	for (size_t i = 0; i < COUNT(ids); i++) {
		char text[ID_HEX_LEN];
		uint64_t back = 42;
		id_format(ids[i], text);
		assert_int_equal(id_parse((struct slice){ text, sizeof(text) }, &back),
				 0);
		assert_int_equal(back, ids[i]);
	}
	static const char *const wrong[] = {
		"",
		"0123456789abcde",
		"0123456789abcdef0",
		"0123456789ABCDEF",
		"0x23456789abcdef",
		" 123456789abcdef",
		"g123456789abcdef",
	};
	for (size_t i = 0; i < COUNT(wrong); i++) {
		uint64_t out = 42;
		assert_int_equal(id_parse(slice_from(wrong[i]), &out), TIDE_ESYNTAX);
		assert_int_equal(out, 42);
	}
}

RUN_TESTS()
