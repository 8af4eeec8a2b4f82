#include "check.h"

#include <stdio.h>
#include <string.h>

#include "store/redis_cells.h"

static struct slice text(const char *s)
{
	return slice_from(s);
}

static void say_text(struct redis_cells *cs, unsigned index, const char *s)
{
	redisReply reply = { .type = REDIS_REPLY_STRING,
			     .str = (char *)(uintptr_t)s,
			     .len = strlen(s) };

	redis_cells_reply(cs, index, &reply);
}

/* HGETALL, of words behind each other; NULL ends them. */
static void say_fields(struct redis_cells *cs, unsigned index, const char *const *words)
{
	redisReply texts[16], *elements[16];
	redisReply reply = { .type = REDIS_REPLY_ARRAY, .element = elements };

	for (; words[reply.elements]; reply.elements++) {
		texts[reply.elements] = (redisReply){
			.type = REDIS_REPLY_STRING,
			.str = (char *)(uintptr_t)words[reply.elements],
			.len = strlen(words[reply.elements]),
		};
		elements[reply.elements] = &texts[reply.elements];
	}
	redis_cells_reply(cs, index, &reply);
}

static const char *const nothing[] = { NULL };

/* A look at two cells: the first has an owner, which is heard of or not. */
static void look(struct redis_cells *cs, const char *const *shared, bool is_alive)
{
	static const char *const record[] = { "incarnation", "abc",  "node", "4", "pid",
					      "77",          "boot", "far",  NULL };
	struct redis_client client = { .split = 7, .cell = 0, .is_alive = is_alive };
	struct buf asked = { 0 };

	assert_int_equal(redis_cells_look(cs, &asked), 4);
	buf_deinit(&asked);
	say_fields(cs, 0, shared);
	say_text(cs, 1, "cells 2 7");
	say_fields(cs, 2, record);
	say_fields(cs, 3, nothing);
	redis_cells_client(cs, &client);
	redis_cells_judge(cs);
}

TEST_THAT(names_of_connections_tell_of_split_and_cell)
{
	struct redis_client c;

	assert_true(redis_cells_read_client(
		text("id=9 addr=a name=tidemq:7.12:abc age=1 idle=1 db=3 cmd=x"), &c));
	assert_int_equal(c.split, 7);
	assert_int_equal(c.cell, 12);
	assert_int_equal(c.id, 9);
	assert_int_equal(c.db, 3);
	assert_true(slice_is(c.incarnation, "abc"));
	assert_true(c.is_alive);
	assert_true(redis_cells_read_client(text("id=9 name=tidemq:abc idle=2"), &c));
	assert_int_equal(c.split, 0);
	assert_true(slice_is(c.incarnation, "abc"));
	assert_false(c.is_alive);
	assert_true(
		redis_cells_read_client(text("id=9 name=tidemq:7.64:abc idle=0"), &c));
	assert_int_equal(c.cell, 0);
	assert_false(redis_cells_read_client(text("id=9 name=tidemq idle=0"), &c));
	assert_false(redis_cells_read_client(text("id=9 name= idle=0"), &c));
}

TEST_THAT(the_string_tells_how_a_store_is_split)
{
	static const char *const wrong[] = { "",          "cells",      "cells 2",
					     "cells 1 3", "cells 65 3", "cells 2 3 4",
					     "layout 2",  "cells x 3",  "cells 2 x" };
	uint64_t split;
	unsigned count;

	assert_true(redis_cells_read_lock(text("cells 64 12345"), &count, &split));
	assert_int_equal(count, 64);
	assert_int_equal(split, 12345);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(redis_cells_read_lock(text(wrong[i]), &count, &split));
}

TEST_THAT(a_cell_is_free_when_its_owner_was_not_heard_of_for_eight_looks)
{
	struct redis_cells cs = { 0 };

	redis_cells_init(&cs, 2);
	look(&cs, nothing, true);
	assert_false(cs.cells[0].is_free);
	assert_true(cs.cells[1].is_free);
	assert_true(cs.cells[1].free_since_ms > 0);
	for (int i = 0; i < REDIS_LAPSED_LOOKS - 1; i++) {
		look(&cs, nothing, false);
		assert_false(cs.cells[0].is_free);
	}
	look(&cs, nothing, false);
	assert_true(cs.cells[0].is_free);
	look(&cs, nothing, true);
	assert_false(cs.cells[0].is_free);
	redis_cells_deinit(&cs);
}

TEST_THAT(the_split_of_an_owner_is_no_more_what_is_read)
{
	struct redis_cells cs = { 0 };

	redis_cells_init(&cs, 2);
	look(&cs, nothing, true);
	cs.own = 1;
	say_text(&cs, 1, "cells 3 9");
	assert_int_equal(cs.split, 7);
	assert_int_equal(cs.count, 2);
	redis_cells_deinit(&cs);
}

TEST_THAT(a_vhost_is_where_it_was_placed)
{
	static const char *const shared[] = { "layout", "2",     "cell:shop",
					      "1",      "users", "5",
					      "rules",  "6",     NULL };
	static const char *const gone[] = { "cell:shop", "2", NULL };
	struct redis_cells cs = { 0 };

	redis_cells_init(&cs, 2);
	/* crc16 of "shop" is even. */
	assert_int_equal(redis_cells_of(&cs, text("shop")), 0);
	look(&cs, shared, true);
	assert_int_equal(redis_cells_of(&cs, text("shop")), 1);
	assert_int_equal(cs.users, 5);
	assert_int_equal(cs.rules, 6);
	assert_int_equal(cs.places, 1);
	look(&cs, shared, true);
	assert_int_equal(cs.places, 1);
	/* There were more cells when it was placed. */
	look(&cs, gone, true);
	assert_int_equal(redis_cells_of(&cs, text("shop")), 0);
	redis_cells_deinit(&cs);
}

TEST_THAT(a_vhost_that_we_place_stays_so_until_a_later_look_tells)
{
	static const char *const shared[] = { "cell:shop", "1", NULL };
	struct redis_cells cs = { 0 };

	redis_cells_init(&cs, 2);
	look(&cs, nothing, true);
	redis_cells_place(&cs, text("shop"), 1);
	assert_int_equal(redis_cells_of(&cs, text("shop")), 1);
	look(&cs, nothing, true);
	look(&cs, nothing, true);
	look(&cs, nothing, true);
	assert_int_equal(redis_cells_of(&cs, text("shop")), 1);
	redis_cells_placed(&cs);
	/* This one was asked before Redis had it. */
	look(&cs, nothing, true);
	assert_int_equal(redis_cells_of(&cs, text("shop")), 1);
	look(&cs, shared, true);
	assert_int_equal(redis_cells_of(&cs, text("shop")), 1);
	redis_cells_deinit(&cs);
}

TEST_THAT(vhosts_that_we_place_at_a_time_stay_so_each_until_its_own_look)
{
	static const char *const first[] = { "cell:shop", "1", NULL };
	struct redis_cells cs = { 0 };

	redis_cells_init(&cs, 2);
	look(&cs, nothing, true);
	redis_cells_place(&cs, text("shop"), 1);
	redis_cells_place(&cs, text("other"), 0);
	redis_cells_placed(&cs);
	look(&cs, nothing, true);
	/* Of two with one name the last counts. */
	redis_cells_place(&cs, text("other"), 1);
	assert_int_equal(redis_cells_of(&cs, text("shop")), 1);
	assert_int_equal(redis_cells_of(&cs, text("other")), 1);
	look(&cs, nothing, true);
	assert_int_equal(redis_cells_of(&cs, text("shop")), 0);
	look(&cs, first, true);
	assert_int_equal(redis_cells_of(&cs, text("shop")), 1);
	assert_int_equal(redis_cells_of(&cs, text("other")), 1);
	assert_int_equal(cs.placing_count, 2);
	redis_cells_placed(&cs);
	redis_cells_placed(&cs);
	look(&cs, first, true);
	look(&cs, first, true);
	assert_int_equal(cs.placing_count, 0);
	redis_cells_deinit(&cs);
}

RUN_TESTS()
