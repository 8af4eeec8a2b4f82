/* Who waits for several steps, and what is said of those that fail. */
#include "check.h"

#include "base/error.h"
#include "base/waiter.h"

static int status;
static const char *text;
static unsigned told;

static void on_done(struct waiter *w)
{
	status = w->status;
	text = w->text;
	told++;
}

static void begin(struct waiter *w, unsigned steps)
{
	waiter_init(w, on_done);
	told = 0;
	while (steps-- > 0)
		waiter_add(w);
	waiter_done(w, TIDE_OK, NULL);
}

TEST_THAT(it_is_told_once_after_the_last_step)
{
	struct waiter w;

	begin(&w, 0);
	assert_int_equal(told, 1);
	begin(&w, 2);
	waiter_done(&w, TIDE_OK, NULL);
	assert_int_equal(told, 0);
	waiter_done(&w, TIDE_OK, NULL);
	assert_int_equal(told, 1);
	assert_int_equal(status, TIDE_OK);
	assert_null(text);
}

TEST_THAT(the_first_failure_is_kept)
{
	struct waiter w;

	begin(&w, 3);
	waiter_done(&w, TIDE_ESTORE, "OOM");
	waiter_done(&w, TIDE_ENOTFOUND, "gone");
	waiter_done(&w, TIDE_OK, NULL);
	assert_int_equal(status, TIDE_ESTORE);
	/* It was good for its call only. */
	assert_null(text);
}

TEST_THAT(what_all_steps_fail_of_is_said)
{
	struct waiter w;

	begin(&w, 3);
	for (int i = 0; i < 3; i++)
		waiter_done(&w, TIDE_ESTORE, "OOM");
	assert_int_equal(status, TIDE_ESTORE);
	assert_string_equal(text, "OOM");
}

RUN_TESTS()
