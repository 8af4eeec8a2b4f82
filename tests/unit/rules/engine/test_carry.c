/* What strategies keep, taken into the next generation between the turns of the loop,
 * while they are called, and queues come and go. */

#include "fixture.h"

#include "rules/engine/engine_private.h"

#define USES 3000

/* `big` makes the state of each use a few thousand entries, so that it takes turns. */
static const char counting[] =
	"return {\n"
	"  options = { big = { type = 'integer', default = 0 } },\n"
	"  new = function(opts)\n"
	"    local state = { n = 0, list = {} }\n"
	"    for i = 1, opts.big do state.list[i] = 'entry ' .. i end\n"
	"    return state\n"
	"  end,\n"
	"  carry = function(old) return old end,\n"
	"  rank = function(_, _, _, state) state.n = state.n + 1 return state.n end,\n"
	"}\n";

struct waiting {
	int count;
};

static void on_done(void *ctx, const struct error *result)
{
	struct waiting *w = ctx;
	assert_int_equal(result->code, TIDE_OK);
	w->count++;
}

/* The new generation is in force, and the old one may still be asked. */
static void reload(struct fixture *f)
{
	struct waiting w = { 0 };
	reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &w });
	while (w.count == 0)
		uv_run(&f->loop, UV_RUN_ONCE);
}

static struct strategy *make_use(struct fixture *f, const char *options)
{
	struct strategy *s = NULL;
	struct args args = { 0 };
	assert_int_equal(args_parse(&args, slice_from(options)), TIDE_OK);
	if (strategy_create(f->engine,
			    &(struct strategy_spec){ .kind = SCRIPT_PRIORITY,
						     .name = SLICE("counting"),
						     .options = &args,
						     .user = "queue 'jobs'" },
			    &s, &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	args_deinit(&args);
	return s;
}

/* How often it was called, this time included. */
static int call(struct fixture *f, struct strategy *s)
{
	struct queue_view queue = { .name = SLICE("jobs") };
	struct msg *m = make_msg("k", 0, NULL);
	double rank = 0;
	if (strategy_rank(s, &(struct script_question){ m, NULL }, &queue, &rank,
			  &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	msg_unref(m);
	return (int)rank;
}

static void start(struct fixture *f, struct strategy **uses, int count)
{
	f->config.memory_max_bytes = 256 * 1024 * 1024;
	f->config.call_budget_ms = 1000;
	write_file(f, "priority/counting.lua", counting);
	assert_starts(f);
	for (int i = 0; i < count; i++) {
		uses[i] = make_use(f, "big=100");
		for (int n = 0; n <= i % 3; n++)
			assert_int_equal(call(f, uses[i]), n + 1);
	}
}

static void destroy(struct strategy **uses, int count)
{
	for (int i = 0; i < count; i++)
		strategy_destroy(uses[i]);
}

TEST_THAT(states_go_over_in_turns)
{
	struct fixture *f = *state;
	static struct strategy *uses[USES];
	int turns = 0;
	start(f, uses, USES);
	reload(f);
	assert_non_null(f->engine->former);
	while (f->engine->former) {
		uv_run(&f->loop, UV_RUN_ONCE);
		turns++;
	}
	assert_in_range(turns, 2, 10000);
	for (int i = 0; i < USES; i++)
		assert_int_equal(call(f, uses[i]), i % 3 + 2);
	destroy(uses, USES);
}

TEST_THAT(who_is_called_first_goes_first)
{
	struct fixture *f = *state;
	static struct strategy *uses[USES];
	start(f, uses, USES);
	reload(f);
	/* The turns begin with the first. */
	for (int i = USES - 1; i >= 0; i--)
		assert_int_equal(call(f, uses[i]), i % 3 + 2);
	assert_non_null(f->engine->former);
	while (f->engine->former)
		uv_run(&f->loop, UV_RUN_ONCE);
	for (int i = 0; i < USES; i++)
		assert_int_equal(call(f, uses[i]), i % 3 + 3);
	destroy(uses, USES);
}

TEST_THAT(uses_that_come_and_go_meanwhile_are_others)
{
	struct fixture *f = *state;
	static struct strategy *uses[USES];
	start(f, uses, USES);
	reload(f);
	for (int round = 0; round < 50; round++) {
		for (int i = round % 2; i < USES; i += 101) {
			strategy_destroy(uses[i]);
			uses[i] = make_use(f, "big=1");
			assert_int_equal(call(f, uses[i]), 1);
		}
		uv_run(&f->loop, UV_RUN_NOWAIT);
	}
	while (f->engine->former)
		uv_run(&f->loop, UV_RUN_ONCE);
	for (int i = 0; i < USES; i++)
		assert_int_equal(call(f, uses[i]),
				 i % 101 == 0 || i % 101 == 1 ? 2 : i % 3 + 2);
	destroy(uses, USES);
}

TEST_THAT(reloads_during_it_lose_nothing)
{
	struct fixture *f = *state;
	static struct strategy *uses[USES];
	struct waiting w = { 0 };
	start(f, uses, USES);
	for (int i = 0; i < 10; i++) {
		reload(f);
		/* One behind the other, one that goes on in turns, one at once. */
		reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &w });
		if (i % 3 == 0)
			assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
		assert_int_equal(call(f, uses[i]), i % 3 + 2);
	}
	while (w.count < 10)
		uv_run(&f->loop, UV_RUN_ONCE);
	for (int i = 10; i < USES; i++)
		assert_int_equal(call(f, uses[i]), i % 3 + 2);
	destroy(uses, USES);
}

TEST_THAT(engine_may_close_before_it_is_done)
{
	struct fixture *f = *state;
	static struct strategy *uses[USES];
	start(f, uses, USES);
	reload(f);
	assert_non_null(f->engine->former);
	destroy(uses, USES);
	assert_non_null(f->engine->former);
}

TEST_THAT(nobody_asks_when_no_script_wants_it)
{
	struct fixture *f = *state;
	struct strategy *s = NULL;
	assert_starts(f);
	if (strategy_create(f->engine,
			    &(struct strategy_spec){ .kind = SCRIPT_PRIORITY,
						     .name = SLICE("strict"),
						     .options = NULL,
						     .user = "queue 'jobs'" },
			    &s, &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	reload(f);
	assert_null(f->engine->former);
	strategy_destroy(s);
}

RUN_TESTS(.setup = fixture_setup, .teardown = fixture_teardown)
