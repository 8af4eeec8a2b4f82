#include "check.h"

#include <stdio.h>
#include <string.h>

#include "host/log.h"
#include "store/redis_holder.h"

/* A Redis that says what it is told to say. */
struct world {
	struct redis_holder h;
	struct redis_self self;
	struct buf asked; /* in the last round */
	char recorded[40];
	bool is_released;
	unsigned writes;     /* counted */
	bool has_other;      /* a connection of another holder, */
	unsigned idle;       /* idle for so many seconds, */
	unsigned db;         /* in this database */
	bool is_taken_first; /* by somebody else, whenever we try */
	bool is_old;         /* layout 1 */
};

static int setup(void **state)
{
	static struct world w;

	log_configure(LOG_NONE, false);
	w = (struct world){ .h = { .hold = STORE_HOLD_OR_FAIL, .node = 3 } };
	redis_self_init(&w.self, 1);
	w.h.self = &w.self;
	redis_holder_set_key(&w.h, "{tide}:holder", "{tide}:probe");
	redis_holder_begin(&w.h, 7);
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	redis_holder_deinit(&w->h);
	buf_deinit(&w->asked);
	return 0;
}

static bool has_asked(struct world *w, const char *text)
{
	return strstr(buf_cstr(&w->asked), text) != NULL;
}

static void say_text(struct world *w, unsigned index, const char *text)
{
	redisReply reply = { .type = REDIS_REPLY_STRING,
			     .str = (char *)(uintptr_t)text,
			     .len = strlen(text) };

	redis_holder_reply(&w->h, index, &reply);
}

static void say_number(struct world *w, unsigned index, long long number)
{
	redisReply reply = { .type = REDIS_REPLY_INTEGER, .integer = number };

	redis_holder_reply(&w->h, index, &reply);
}

/* HGETALL: a process of another machine. */
static void say_record(struct world *w, unsigned index)
{
	char writes[16];
	const char *const words[] = { "writes", writes,  "incarnation", w->recorded,
				      "node",   "5",     "host",        "elsewhere",
				      "boot",   "other", "pid",         "77" };
	redisReply texts[12], *elements[12];
	redisReply reply = { .type = REDIS_REPLY_ARRAY, .element = elements };

	snprintf(writes, sizeof(writes), "%u", w->writes);
	reply.elements = w->recorded[0] ? (w->is_released ? 10 : 12) : w->writes ? 2 : 0;
	for (unsigned i = 0; i < 12; i++) {
		texts[i] = (redisReply){ .type = REDIS_REPLY_STRING,
					 .str = (char *)(uintptr_t)words[i],
					 .len = strlen(words[i]) };
		elements[i] = &texts[i];
	}
	redis_holder_reply(&w->h, index, &reply);
}

static void say_connections(struct world *w, unsigned index)
{
	char text[512];
	int len = snprintf(text, sizeof(text),
			   "id=9 addr=a name=tidemq:%s age=1 idle=0 db=0 cmd=x\n"
			   "id=8 addr=a name=tidemq age=1 idle=0 db=0 cmd=x\n"
			   "id=7 addr=a name= age=1 idle=0 db=0 cmd=x\n",
			   w->self.incarnation);

	if (w->has_other)
		snprintf(text + len, sizeof(text) - (size_t)len,
			 "id=5 addr=a name=tidemq:other age=1 idle=%u db=%u cmd=x\n",
			 w->idle, w->db);
	say_text(w, index, text);
}

static void take(struct world *w)
{
	if (w->is_taken_first) {
		snprintf(w->recorded, sizeof(w->recorded), "third");
		say_number(w, 0, 0);
		return;
	}
	snprintf(w->recorded, sizeof(w->recorded), "%s", w->self.incarnation);
	w->is_released = false;
	say_number(w, 0, ++w->writes);
}

static void say_nothing(struct world *w, unsigned index)
{
	redisReply reply = { .type = REDIS_REPLY_ARRAY };

	redis_holder_reply(&w->h, index, &reply);
}

static void say_old(struct world *w, unsigned index)
{
	redisReply lock = { .type = REDIS_REPLY_ERROR,
			    .str = (char[]){ "WRONGTYPE Operation against" } };

	if (w->is_old)
		say_record(w, index);
	else
		redis_holder_reply(&w->h, index, &lock);
}

static enum redis_holder_verdict round_trip(struct world *w)
{
	unsigned replies;

	buf_clear(&w->asked);
	replies = redis_holder_round(&w->h, &w->asked);
	if (has_asked(w, "EVAL") && has_asked(w, "RENAME")) {
		w->is_old = false;
		say_number(w, 0, 5);
	} else if (has_asked(w, "EVAL")) {
		assert_int_equal(replies, 1);
		assert_int_equal(has_asked(w, "$11\r\ntide:holder\r\n"), w->is_old);
		take(w);
	} else if (has_asked(w, "HGETALL")) {
		assert_int_equal(replies, 5);
		say_text(w, 0, "OK");
		say_number(w, 1, 9);
		if (w->is_old)
			say_nothing(w, 2);
		else
			say_record(w, 2);
		say_connections(w, 3);
		say_old(w, 4);
	} else {
		for (unsigned i = 0; i < replies; i++)
			say_number(w, i, i > 0);
	}
	return redis_holder_judge(&w->h);
}

static enum redis_holder_verdict settle(struct world *w)
{
	enum redis_holder_verdict verdict;

	do
		verdict = round_trip(w);
	while (verdict == REDIS_HOLDER_MORE);
	return verdict;
}

static void set_other(struct world *w)
{
	snprintf(w->recorded, sizeof(w->recorded), "other");
	w->writes = 100;
	w->has_other = true;
}

/* How the next write is counted, with one more under way. */
static bool is_counted(struct world *w)
{
	redisReply reply = { .type = REDIS_REPLY_INTEGER, .integer = ++w->writes };

	return redis_holder_is_counted(&w->h, &reply, 2);
}

static void empty(struct world *w)
{
	w->recorded[0] = '\0';
	w->writes = 0;
}

TEST_THAT(a_free_store_is_taken_named_verified_and_fenced)
{
	struct world *w = *state;
	char name[40];

	snprintf(name, sizeof(name), "tidemq:%s\r\n", w->self.incarnation);
	assert_int_equal(round_trip(w), REDIS_HOLDER_MORE);
	assert_false(has_asked(w, name));
	assert_int_equal(round_trip(w), REDIS_HOLDER_MORE);
	assert_true(has_asked(w, "#!lua flags=allow-oom"));
	/* The name comes first, then what makes sure. */
	assert_int_equal(round_trip(w), REDIS_HOLDER_MORE);
	assert_true(has_asked(w, name));
	assert_true(strstr(buf_cstr(&w->asked), name) <
		    strstr(buf_cstr(&w->asked), "HGETALL"));
	assert_int_equal(round_trip(w), REDIS_HOLDER_OURS);
	assert_true(has_asked(w, "KILL"));
}

TEST_THAT(redis_6_gets_no_flags)
{
	struct world *w = *state;

	redis_holder_begin(&w->h, 6);
	round_trip(w);
	round_trip(w);
	assert_true(has_asked(w, "EVAL"));
	assert_false(has_asked(w, "#!lua"));
}

TEST_THAT(a_store_whose_holder_lives_is_refused)
{
	struct world *w = *state;

	set_other(w);
	for (int i = 0; i < 9; i++)
		assert_int_equal(round_trip(w), REDIS_HOLDER_OTHER);
	assert_int_equal(round_trip(w), REDIS_HOLDER_REFUSED);
	assert_non_null(strstr(w->h.reason, "node 5, pid 77 on elsewhere"));
}

TEST_THAT(a_standby_waits_as_long_as_the_holder_lives)
{
	struct world *w = *state;

	w->h.hold = STORE_HOLD_OR_WAIT;
	set_other(w);
	for (int i = 0; i < 100; i++)
		assert_int_equal(round_trip(w), REDIS_HOLDER_OTHER);
	/* Silent, then heard of again: it is counted anew. */
	for (int i = 0; i < 100; i++) {
		w->idle = i % 8 ? 3 : 1;
		assert_int_equal(round_trip(w), REDIS_HOLDER_OTHER);
	}
}

TEST_THAT(a_silent_holder_is_taken_over_after_eight_looks)
{
	struct world *w = *state;

	set_other(w);
	w->idle = 2;
	for (int i = 0; i < 7; i++)
		assert_int_equal(round_trip(w), REDIS_HOLDER_OTHER);
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	/* One that tells whether it may, and the connection of the other one. */
	assert_true(has_asked(w, "$1\r\n5\r\n"));
	assert_int_equal(w->h.fence_count, 1);
}

TEST_THAT(a_new_connection_looks_anew)
{
	struct world *w = *state;

	set_other(w);
	w->has_other = false;
	for (int i = 0; i < 7; i++)
		assert_int_equal(round_trip(w), REDIS_HOLDER_OTHER);
	redis_holder_begin(&w->h, 7);
	for (int i = 0; i < 7; i++)
		assert_int_equal(round_trip(w), REDIS_HOLDER_OTHER);
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
}

TEST_THAT(a_released_store_is_taken_at_once)
{
	struct world *w = *state;

	set_other(w);
	w->is_released = true;
	assert_int_equal(round_trip(w), REDIS_HOLDER_OTHER); /* its connection stands */
	w->has_other = false;
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
}

TEST_THAT(a_holder_of_another_database_is_left_alone)
{
	struct world *w = *state;

	w->has_other = true;
	w->db = 4;
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	assert_int_equal(w->h.fence_count, 0);
}

TEST_THAT(who_comes_second_in_a_race_waits)
{
	struct world *w = *state;

	w->is_taken_first = true;
	assert_int_equal(settle(w), REDIS_HOLDER_OTHER);
	assert_string_equal(w->h.record.incarnation, "third");
	assert_false(w->h.has_taken);
}

TEST_THAT(a_former_holder_has_lost_for_good)
{
	struct world *w = *state;

	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	redis_holder_begin(&w->h, 7);
	set_other(w);
	/* Also when the other one has ended since. */
	w->has_other = false;
	w->is_released = true;
	assert_int_equal(settle(w), REDIS_HOLDER_LOST);
	assert_non_null(strstr(w->h.reason, "has taken the store over"));
}

TEST_THAT(an_emptied_store_is_stale_and_not_taken_again)
{
	struct world *w = *state;
	char name[40];

	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	empty(w);
	redis_holder_begin(&w->h, 7);
	assert_int_equal(settle(w), REDIS_HOLDER_STALE);
	assert_non_null(strstr(w->h.reason, "has lost all that it kept"));
	/* Its connection says that there is somebody. */
	snprintf(name, sizeof(name), "tidemq:%s\r\n", w->self.incarnation);
	assert_int_equal(settle(w), REDIS_HOLDER_STALE);
	assert_true(has_asked(w, name));
	/* All is back. */
	snprintf(w->recorded, sizeof(w->recorded), "%s", w->self.incarnation);
	w->writes = 1;
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	assert_string_equal(w->h.reason, "");
}

TEST_THAT(the_first_write_to_an_emptied_store_is_not_counted)
{
	struct world *w = *state;

	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	empty(w);
	assert_false(is_counted(w));
}

TEST_THAT(an_older_copy_is_stale)
{
	struct world *w = *state;

	w->writes = 41;
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	assert_true(is_counted(w));
	assert_true(is_counted(w));
	w->writes -= 1;
	redis_holder_begin(&w->h, 7);
	assert_int_equal(settle(w), REDIS_HOLDER_STALE);
	assert_non_null(strstr(w->h.reason, "has lost the last 1 writes"));
	/* Of before this start, when no other broker is there. */
	snprintf(w->recorded, sizeof(w->recorded), "before");
	assert_int_equal(settle(w), REDIS_HOLDER_STALE);
	w->has_other = true;
	assert_int_equal(settle(w), REDIS_HOLDER_LOST);
}

TEST_THAT(a_promoted_replica_may_lack_what_was_not_confirmed)
{
	struct world *w = *state;

	w->h.is_confirmed_late = true;
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	assert_true(is_counted(w));
	redis_holder_confirm(&w->h);
	assert_true(is_counted(w));
	w->writes -= 1;
	redis_holder_begin(&w->h, 7);
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	assert_true(is_counted(w));
	w->writes -= 2;
	redis_holder_begin(&w->h, 7);
	assert_int_equal(settle(w), REDIS_HOLDER_STALE);
	assert_non_null(strstr(w->h.reason, "has lost the last 1 writes"));
}

TEST_THAT(an_older_copy_under_the_same_connection_is_stale_at_each_level)
{
	struct world *w = *state;

	w->h.is_confirmed_late = true;
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	assert_true(is_counted(w));
	redis_holder_confirm(&w->h);
	w->writes -= 1;
	assert_false(is_counted(w));
	w->writes++;
	redis_holder_begin(&w->h, 7);
	assert_int_equal(settle(w), REDIS_HOLDER_STALE);
}

TEST_THAT(a_promoted_replica_may_lack_our_name_if_that_was_not_confirmed)
{
	struct world *w = *state;

	w->h.is_confirmed_late = true;
	set_other(w);
	w->has_other = false;
	w->is_released = true;
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	set_other(w);
	w->has_other = false;
	w->is_released = true;
	redis_holder_begin(&w->h, 7);
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	redis_holder_confirm(&w->h);
	set_other(w);
	redis_holder_begin(&w->h, 7);
	assert_int_equal(settle(w), REDIS_HOLDER_LOST);
}

TEST_THAT(a_promoted_replica_that_never_had_our_name_is_taken_as_before)
{
	struct world *w = *state;
	bool has_all_before;

	set_other(w);
	w->has_other = false;
	w->is_released = true;
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	assert_true(is_counted(w));
	for (unsigned lacking = 0; lacking < 2; lacking++) {
		set_other(w);
		w->has_other = false;
		w->writes -= lacking;
		redis_holder_begin(&w->h, 7);
		assert_int_equal(settle(w), REDIS_HOLDER_STALE);
		/* The first try comes to nothing. */
		assert_true(redis_holder_accept(&w->h, &has_all_before));
		redis_holder_begin(&w->h, 7);
		assert_int_equal(settle(w), REDIS_HOLDER_STALE);
		assert_true(redis_holder_accept(&w->h, &has_all_before));
		assert_int_equal(has_all_before, lacking == 0);
		assert_int_equal(settle(w), REDIS_HOLDER_OURS);
		assert_string_equal(w->recorded, w->self.incarnation);
		assert_true(is_counted(w));
	}
	snprintf(w->recorded, sizeof(w->recorded), "a third");
	w->writes = 50;
	redis_holder_begin(&w->h, 7);
	assert_int_equal(settle(w), REDIS_HOLDER_STALE);
	assert_false(redis_holder_accept(&w->h, &has_all_before));
	set_other(w);
	redis_holder_begin(&w->h, 7);
	assert_int_equal(settle(w), REDIS_HOLDER_LOST);
}

TEST_THAT(writes_on_their_way_to_an_older_copy_do_not_make_it_ours)
{
	struct world *w = *state;

	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	assert_true(is_counted(w));
	w->writes -= 1; /* the connection stays */
	assert_false(is_counted(w));
	w->writes++;
	redis_holder_begin(&w->h, 7);
	assert_int_equal(settle(w), REDIS_HOLDER_STALE);
}

TEST_THAT(a_write_that_redis_refuses_to_count_says_nothing)
{
	struct world *w = *state;
	redisReply no = { .type = REDIS_REPLY_ERROR, .str = (char[]){ "OOM no" } };

	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	assert_true(redis_holder_is_counted(&w->h, &no, 1));
	assert_true(is_counted(w));
}

TEST_THAT(an_embedded_redis_is_taken_from_whoever_had_it)
{
	struct world *w = *state;

	w->h.is_sole = true;
	set_other(w);
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
}

TEST_THAT(a_store_of_layout_1_is_taken_by_its_rules_and_migrated_when_others_are_gone)
{
	struct world *w = *state;

	w->is_old = true;
	set_other(w);
	for (int i = 0; i < 9; i++)
		assert_int_equal(round_trip(w), REDIS_HOLDER_OTHER);
	assert_true(w->is_old);
	w->idle = 2;
	for (int i = 0; i < 7; i++)
		assert_int_equal(round_trip(w), REDIS_HOLDER_OTHER);
	assert_int_equal(round_trip(w), REDIS_HOLDER_MORE);
	assert_int_equal(round_trip(w), REDIS_HOLDER_MORE);
	assert_true(has_asked(w, "EVAL"));
	assert_int_equal(round_trip(w), REDIS_HOLDER_MORE);
	assert_int_equal(round_trip(w), REDIS_HOLDER_MORE);
	assert_true(has_asked(w, "KILL"));
	assert_true(w->is_old);
	assert_int_equal(round_trip(w), REDIS_HOLDER_MORE);
	assert_true(has_asked(w, "RENAME"));
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	assert_true(has_asked(w, "KILL"));
}

TEST_THAT(a_store_of_layout_1_is_left_alone_by_who_is_no_broker)
{
	struct world *w = *state;

	w->is_old = true;
	w->h.hold = STORE_HOLD_AS_IS;
	assert_int_equal(settle(w), REDIS_HOLDER_REFUSED);
	assert_non_null(strstr(w->h.reason, "start a broker on it once"));
}

TEST_THAT(a_holder_that_finds_its_migration_undone_repeats_it)
{
	struct world *w = *state;

	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	w->is_old = true; /* a replica that was behind by it alone */
	redis_holder_begin(&w->h, 7);
	assert_int_equal(settle(w), REDIS_HOLDER_OURS);
	assert_false(w->is_old);
}

TEST_THAT(what_redis_refuses_is_told)
{
	struct world *w = *state;
	redisReply no = { .type = REDIS_REPLY_ERROR, .str = (char[]){ "NOPERM no" } };

	redis_holder_round(&w->h, &w->asked);
	redis_holder_reply(&w->h, 3, &no);
	assert_int_equal(redis_holder_judge(&w->h), REDIS_HOLDER_REFUSED);
	assert_non_null(strstr(w->h.reason, "cannot run CLIENT LIST"));
	assert_non_null(strstr(w->h.reason, "NOPERM no"));
}

RUN_TESTS(.setup = setup, .teardown = teardown)
