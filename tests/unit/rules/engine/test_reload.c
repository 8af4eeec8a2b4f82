/* Reloads that go on between the turns of the loop, while exchanges, queues and
 * bindings come and go.
 *
 * TIDE_TEST_RELOADS makes the torture longer (10000 is what was promised). */

#include "fixture.h"
#include "rules/spec/spec_index.h"

#include <time.h>

#include "rules/sandbox/bundle.h"
#include "rules/engine/engine_private.h"

#define SCRIPTS 100
#define BINDINGS 10000

struct waiting {
	int count;
	int order[8];
	struct error result;
};

struct waiter {
	struct waiting *all;
	int number;
};

static void on_done(void *ctx, const struct error *result)
{
	struct waiter *w = ctx;
	w->all->order[w->all->count++ % 8] = w->number;
	w->all->result = *result;
}

/* Run the loop until `count` reloads have been answered. */
static void run_until(struct fixture *f, const struct waiting *all, int count)
{
	while (all->count < count)
		uv_run(&f->loop, UV_RUN_ONCE);
}

static struct spec_index *make_index(struct fixture *f, const char *type)
{
	struct spec_index *x = NULL;
	if (spec_index_create(f->engine,
			      &(struct index_spec){ .type = slice_from(type),
						    .user = "exchange 'shop'" },
			      &x, &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	return x;
}

static void bind_key(struct fixture *f, struct spec_index *x, const char *pattern,
		     uint32_t dest)
{
	if (spec_index_bind(
		    x,
		    &(struct index_binding){ 0, dest, slice_from(pattern), NULL, { 0 } },
		    &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
}

static void unbind_key(struct fixture *f, struct spec_index *x, const char *pattern,
		       uint32_t dest)
{
	if (spec_index_unbind(
		    x,
		    &(struct index_binding){ 0, dest, slice_from(pattern), NULL, { 0 } },
		    &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
}

static size_t routes_of(struct fixture *f, struct spec_index *x, const char *key)
{
	const uint32_t *dests;
	size_t count = 0;
	struct msg *m = make_msg(key, 0, NULL);
	if (index_route(x->index, &(struct script_question){ m, NULL }, &dests, &count,
			&f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	msg_unref(m);
	return count;
}

static void write_many(struct fixture *f)
{
	char name[64], text[256];
	for (int i = 0; i < SCRIPTS; i++) {
		snprintf(name, sizeof(name), "priority/p%d.lua", i);
		snprintf(text, sizeof(text),
			 "local M = { doc = 'number %d' }\n"
			 "function M.rank(msg) return msg.priority * %d end\nreturn M\n",
			 i, i);
		write_file(f, name, text);
	}
}

static void bind_many(struct fixture *f, struct spec_index *x)
{
	char pattern[64];
	for (uint32_t i = 0; i < BINDINGS; i++) {
		snprintf(pattern, sizeof(pattern), "w%u.x%u.*", i % 100, i / 100);
		bind_key(f, x, pattern, i);
	}
}

/* ---- */

TEST_THAT(reload_is_answered_when_it_is_in_force)
{
	struct fixture *f = *state;
	struct waiting all = { .count = 0 };
	struct waiter w = { &all, 1 };
	assert_starts(f);
	reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &w });
	assert_int_equal(all.count, 0);
	assert_int_equal(engine_epoch(f->engine), 1);
	run_until(f, &all, 1);
	assert_int_equal(all.result.code, TIDE_OK);
	assert_int_equal(engine_epoch(f->engine), 2);
	assert_int_equal(f->reloads, 1);
	write_file(f, "retry/broken.lua", "oops");
	reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &w });
	run_until(f, &all, 2);
	assert_int_equal(all.result.code, TIDE_ERULE);
	assert_contains(all.result.text, "retry/broken.lua:1:");
	assert_int_equal(engine_epoch(f->engine), 2);
}

/* What was asked later may be about files that were written later. */
TEST_THAT(reload_during_a_reload_is_another)
{
	struct fixture *f = *state;
	struct waiting all = { .count = 0 };
	struct waiter first = { &all, 1 }, second = { &all, 2 }, third = { &all, 3 };
	assert_starts(f);
	reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &first });
	uv_run(&f->loop, UV_RUN_NOWAIT);
	write_file(f, "retry/mine.lua", "return { decide = function() return 1 end }");
	reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &second });
	reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &third });
	run_until(f, &all, 3);
	assert_int_equal(all.order[0], 1);
	assert_int_equal(all.order[1], 2);
	assert_int_equal(all.order[2], 3);
	assert_non_null(generation_find(f->engine->current, SCRIPT_RETRY, SLICE("mine")));
	assert_in_range(engine_epoch(f->engine), 2, 4);
}

TEST_THAT(large_reload_does_not_stall_the_loop)
{
	struct fixture *f = *state;
	struct waiting all = { .count = 0 };
	struct waiter w = { &all, 1 };
	int64_t best = 0; /* so many of the longest turns would be the whole work */
	f->config.memory_max_bytes = 64 * 1024 * 1024;
	write_many(f);
	assert_starts(f);
	struct spec_index *x = make_index(f, "topic");
	bind_many(f, x);
	for (int i = 0; i < 5; i++) {
		reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &w });
		run_until(f, &all, i + 1);
		assert_int_equal(all.result.code, TIDE_OK);
		const struct build *b = &f->engine->build;
		if (getenv("VERBOSE"))
			print_message("%u turns, %.1f ms of work in %.1f ms, the "
				      "longest %.2f ms (%.2f ms of processor)\n",
				      b->turns, (double)b->worked_ns / 1e6,
				      (double)b->took_ns / 1e6,
				      (double)b->longest_ns / 1e6,
				      (double)b->longest_cpu_ns / 1e6);
		assert_true(b->turns > 3);
		if (b->worked_ns / b->longest_cpu_ns > best)
			best = b->worked_ns / b->longest_cpu_ns;
		assert_int_equal(routes_of(f, x, "w5.x7.z"), 1);
	}
	/* It is about 30, however fast the machine is. */
	assert_in_range(best, 5, UINT64_MAX);
	spec_index_destroy(x);
}

/* At each stage of a build, bind and unbind what is there already, is on its way,
 * and is still to come. */
TEST_THAT(changes_during_a_build_are_in_both_generations)
{
	struct fixture *f = *state;
	struct waiting all = { .count = 0 };
	struct waiter w = { &all, 1 };
	char key[64];
	f->config.memory_max_bytes = 64 * 1024 * 1024;
	assert_starts(f);
	struct spec_index *before = make_index(f, "topic"), *x = make_index(f, "topic"),
			  *after = make_index(f, "topic"), *new = NULL, *gone;
	struct spec_index *const indexes[] = { before, x, after };
	bind_many(f, x);
	for (int i = 0; i < 3; i++)
		bind_key(f, indexes[i], "old.key", 1);
	gone = make_index(f, "direct");
	bind_key(f, gone, "a", 1);
	uint64_t epoch = engine_epoch(f->engine);
	reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &w });
	uint32_t turns = 0;
	while (all.count == 0) {
		uv_run(&f->loop, UV_RUN_ONCE);
		if (all.count > 0)
			break;
		turns++;
		for (int i = 0; i < 3; i++) {
			snprintf(key, sizeof(key), "turn%u", turns);
			bind_key(f, indexes[i], key, turns);
			snprintf(key, sizeof(key), "half%u", turns);
			bind_key(f, indexes[i], key, turns);
		}
		for (int i = 0; i < 3; i++) {
			snprintf(key, sizeof(key), "half%u", turns - turns / 2);
			if (turns % 2)
				unbind_key(f, indexes[i], key, turns - turns / 2);
		}
		if (turns == 2) {
			for (int i = 0; i < 3; i++)
				unbind_key(f, indexes[i], "old.key", 1);
			for (uint32_t i = 0; i < BINDINGS; i += 7) {
				snprintf(key, sizeof(key), "w%u.x%u.*", i % 100, i / 100);
				unbind_key(f, x, key, i);
			}
			new = make_index(f, "fanout");
			bind_key(f, new, "-", 9);
			spec_index_destroy(gone);
		}
	}
	assert_int_equal(all.result.code, TIDE_OK);
	assert_true(turns >= 4);
	assert_int_equal(engine_epoch(f->engine), epoch + 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(routes_of(f, indexes[i], "old.key"), 0);
		for (uint32_t t = 1; t <= turns; t++) {
			snprintf(key, sizeof(key), "turn%u", t);
			assert_int_equal(routes_of(f, indexes[i], key), 1);
			snprintf(key, sizeof(key), "half%u", t);
			bool is_unbound = 2 * t - 1 <= turns;
			assert_int_equal(routes_of(f, indexes[i], key), !is_unbound);
		}
	}
	for (uint32_t i = 0; i < BINDINGS; i++) {
		snprintf(key, sizeof(key), "w%u.x%u.z", i % 100, i / 100);
		assert_int_equal(routes_of(f, x, key), i % 7 != 0);
	}
	assert_int_equal(routes_of(f, new, "any"), 1);
	for (int i = 0; i < 3; i++)
		spec_index_destroy(indexes[i]);
	spec_index_destroy(new);
}

TEST_THAT(closing_during_a_build_tells_who_waits)
{
	struct fixture *f = *state;
	struct waiting all = { .count = 0 };
	struct waiter w = { &all, 1 };
	write_many(f);
	assert_starts(f);
	struct spec_index *x = make_index(f, "topic");
	bind_many(f, x);
	reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &w });
	uv_run(&f->loop, UV_RUN_NOWAIT);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_true(f->engine->build.is_under_way);
	reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &w });
	spec_index_destroy(x);
	engine_close(f->engine, on_fixture_closed, f);
	f->engine = NULL;
	assert_int_equal(all.count, 2);
	assert_int_equal(all.result.code, TIDE_ESHUTDOWN);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_true(f->is_closed);
	assert_int_equal(f->reloads, 0);
}

/* ---- files that are put in force ----------------------------------------------------
 */

static int64_t delay_of(struct fixture *f, struct strategy *s)
{
	struct failure_view failure = { .reason = "nack", .attempts = 1, .failures = 1 };
	struct retry_decision d = { .delay_ms = -1 };
	struct msg *m = make_msg("k", 0, NULL);
	if (strategy_decide(s, &(struct script_question){ m, NULL }, &failure, &d,
			    &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	msg_unref(m);
	return d.delay_ms;
}

static struct strategy *use_mine(struct fixture *f)
{
	struct strategy *s = NULL;
	if (strategy_create(f->engine,
			    &(struct strategy_spec){ .kind = SCRIPT_RETRY,
						     .name = SLICE("mine"),
						     .options = NULL,
						     .user = "queue 'jobs'" },
			    &s, &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	return s;
}

static const char returns_one[] = "return { decide = function() return 1 end }";
static const char returns_two[] = "return { decide = function() return 2 end }";

TEST_THAT(files_are_loaded_in_turns_and_a_reload_comes_after)
{
	struct fixture *f = *state;
	struct waiting all = { .count = 0 };
	struct waiter back = { &all, 1 }, reload = { &all, 2 };
	f->config.memory_max_bytes = 64 * 1024 * 1024;
	write_many(f);
	write_file(f, "retry/mine.lua", returns_one);
	assert_starts(f);
	struct strategy *s = use_mine(f);
	struct spec_index *x = make_index(f, "topic");
	bind_many(f, x);
	struct bundle *first = bundle_ref(engine_files(f->engine));
	write_file(f, "retry/mine.lua", returns_two);
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
	assert_int_equal(delay_of(f, s), 2);
	assert_int_equal(reload_files(f->engine, first, ENGINE_ROLLBACK,
				      &(struct reload_asker){ "", on_done, &back },
				      &f->err),
			 TIDE_OK);
	assert_int_equal(all.count, 0);
	assert_int_equal(reload_files(f->engine, first, ENGINE_ROLLBACK,
				      &(struct reload_asker){ "", on_done, &back },
				      &f->err),
			 TIDE_EBUSY);
	reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &reload });
	run_until(f, &all, 1);
	assert_true(f->engine->build.turns > 3 || f->engine->build.is_under_way);
	assert_int_equal(all.result.code, TIDE_OK);
	assert_int_equal(engine_origin(f->engine), ENGINE_ROLLBACK);
	assert_int_equal(delay_of(f, s), 1);
	run_until(f, &all, 2);
	assert_int_equal(all.order[1], 2);
	assert_int_equal(engine_origin(f->engine), ENGINE_RELOAD);
	assert_int_equal(delay_of(f, s), 2);
	assert_int_equal(routes_of(f, x, "w5.x7.z"), 1);
	bundle_unref(first);
	strategy_destroy(s);
	spec_index_destroy(x);
}

TEST_THAT(files_that_lack_what_is_used_are_refused)
{
	struct fixture *f = *state;
	struct waiting all = { .count = 0 };
	struct waiter w = { &all, 1 };
	assert_starts(f);
	struct bundle *first = bundle_ref(engine_files(f->engine));
	write_file(f, "retry/mine.lua", returns_one);
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
	struct strategy *s = use_mine(f);
	assert_int_equal(reload_files(f->engine, first, ENGINE_ROLLBACK,
				      &(struct reload_asker){ "", on_done, &w }, &f->err),
			 TIDE_OK);
	run_until(f, &all, 1);
	assert_int_equal(all.result.code, TIDE_ERULE);
	assert_contains(all.result.text, "retry/mine.lua: is missing, but queue 'jobs'");
	assert_int_equal(reload_last(f->engine)->origin, ENGINE_ROLLBACK);
	assert_ptr_equal(reload_last(f->engine)->refused, first);
	assert_int_equal(engine_origin(f->engine), ENGINE_RELOAD);
	assert_int_equal(delay_of(f, s), 1);
	bundle_unref(first);
	strategy_destroy(s);
}

/* What is made and bound before the first generation is in it. */
TEST_THAT(engine_without_a_generation_is_loaded_in_turns)
{
	struct fixture *f = *state;
	struct waiting all = { .count = 0 };
	struct waiter w = { &all, 1 };
	struct engine_hooks hooks = { .ctx = f, .on_reload = on_fixture_reload };
	f->config.memory_max_bytes = 64 * 1024 * 1024;
	write_file(f, "retry/mine.lua", returns_one);
	write_many(f);
	assert_int_equal(engine_open(&f->engine, &f->loop, &f->config, &hooks, &f->err),
			 TIDE_OK);
	struct strategy *s = use_mine(f), *gone = use_mine(f);
	struct spec_index *x = make_index(f, "topic");
	bind_many(f, x);
	bind_key(f, x, "a.b", 1);
	bind_key(f, x, "c.d", 2);
	unbind_key(f, x, "a.b", 1);
	strategy_destroy(gone);
	reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &w });
	uv_run(&f->loop, UV_RUN_ONCE);
	bind_key(f, x, "e.f", 3);
	unbind_key(f, x, "c.d", 2);
	run_until(f, &all, 1);
	assert_int_equal(all.result.code, TIDE_OK);
	assert_true(f->engine->build.turns > 3);
	assert_int_equal(engine_epoch(f->engine), 1);
	assert_int_equal(engine_origin(f->engine), ENGINE_START);
	assert_int_equal(delay_of(f, s), 1);
	assert_int_equal(routes_of(f, x, "w5.x7.z"), 1);
	assert_int_equal(routes_of(f, x, "a.b"), 0);
	assert_int_equal(routes_of(f, x, "c.d"), 0);
	assert_int_equal(routes_of(f, x, "e.f"), 1);
	spec_index_destroy(x);
	strategy_destroy(s);
}

TEST_THAT(engine_without_a_generation_can_be_refused_and_closed)
{
	struct fixture *f = *state;
	struct waiting all = { .count = 0 };
	struct waiter w = { &all, 1 };
	assert_int_equal(engine_open(&f->engine, &f->loop, &f->config, NULL, &f->err),
			 TIDE_OK);
	struct strategy *s = use_mine(f);
	struct spec_index *x = make_index(f, "topic");
	bind_key(f, x, "a.b", 1);
	reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &w });
	run_until(f, &all, 1);
	assert_int_equal(all.result.code, TIDE_ERULE);
	assert_contains(all.result.text, "retry/mine.lua: is missing, but queue 'jobs'");
	spec_index_destroy(x);
	strategy_destroy(s);
}

static void on_timer(uv_timer_t *timer)
{
	*(bool *)timer->data = true;
}

static void run_for(struct fixture *f, int64_t ms)
{
	bool is_over = false;
	uv_timer_t timer;
	uv_timer_init(&f->loop, &timer);
	timer.data = &is_over;
	/* It repeats: one that is due already fires before the loop waits. */
	uv_timer_start(&timer, on_timer, (uint64_t)ms, 1);
	while (!is_over)
		uv_run(&f->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&f->loop, UV_RUN_NOWAIT);
}

/* What did not happen can only be waited for: ten times the debounce. */
TEST_THAT(touching_a_file_makes_no_generation)
{
	struct fixture *f = *state;
	f->config.watch = true;
	f->config.debounce_ms = 5;
	write_file(f, "lib.lua", "return 1");
	write_file(f, "retry/mine.lua",
		   "return { decide = function() return 1 end, doc = 'x' .. require "
		   "'lib' }");
	assert_starts(f);
	write_file(f, "retry/mine.lua",
		   "return { decide = function() return 1 end, doc = 'x' .. require "
		   "'lib' }");
	write_file(f, "unused.lua", "return 2");
	write_file(f, "retry/mine.lua~", "oops");
	run_for(f, 50);
	assert_int_equal(f->reloads, 0);
	assert_int_equal(engine_epoch(f->engine), 1);
	/* A module is a part of what requires it. */
	write_file(f, "lib.lua", "return 3");
	while (f->reloads == 0)
		run_for(f, 1);
	assert_int_equal(engine_epoch(f->engine), 2);
	/* Broken, and as it was: the refusal is over without a generation. */
	write_file(f, "retry/mine.lua", "oops");
	while (f->reloads == 1)
		run_for(f, 1);
	assert_int_equal(f->reload_result.code, TIDE_ERULE);
	write_file(f, "retry/mine.lua",
		   "return { decide = function() return 1 end, doc = 'x' .. require "
		   "'lib' }");
	while (f->engine->reload.refusal.code != TIDE_OK)
		run_for(f, 1);
	assert_int_equal(engine_epoch(f->engine), 2);
}

/* ---- torture ------------------------------------------------------------------------
 */

static size_t resident_kb(void)
{
	long pages = 0, ignored;
	FILE *file = fopen("/proc/self/statm", "r");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%ld %ld", &ignored, &pages), 2);
	fclose(file);
	return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* Write the script as careless tools do. */
static void change_file(struct fixture *f, int i)
{
	static const char whole[] = "local M = {}\nfunction M.decide() return %d end\n"
				    "return M\n";
	char text[128], from[256], to[256];
	snprintf(text, sizeof(text), whole, i);
	if (i % 4 == 0) { /* rename over */
		write_file(f, "retry/.mine.lua.tmp", text);
		snprintf(from, sizeof(from), "%s/retry/.mine.lua.tmp", f->dir);
		snprintf(to, sizeof(to), "%s/retry/mine.lua", f->dir);
		assert_int_equal(rename(from, to), 0);
		return;
	}
	if (i % 4 == 1) /* half of it */
		text[strlen(text) / 2] = '\0';
	if (i % 4 == 2) { /* gone */
		remove_file(f, "retry/mine.lua");
		return;
	}
	write_file(f, "retry/mine.lua", text);
}

/* Every decision works all the time, and is one that a whole file made. */
TEST_THAT(reload_after_reload_loses_and_leaks_nothing)
{
	struct fixture *f = *state;
	struct waiting all = { .count = 0 };
	struct waiter w = { &all, 1 };
	struct strategy *s;
	const char *wanted = getenv("TIDE_TEST_RELOADS");
	int reloads = wanted ? atoi(wanted) : 400, accepted = 0;
	int64_t good = 0;
	size_t early_kb = 0;
	change_file(f, 0);
	assert_starts(f);
	struct spec_index *x = make_index(f, "topic");
	bind_key(f, x, "a.*", 1);
	assert_int_equal(
		strategy_create(f->engine,
				&(struct strategy_spec){ .kind = SCRIPT_RETRY,
							 .name = SLICE("mine"),
							 .options = NULL,
							 .user = "queue 'jobs'" },
				&s, &f->err),
		TIDE_OK);
	for (int i = 1; i <= reloads; i++) {
		change_file(f, i);
		reload_start(f->engine, NULL, &(struct reload_asker){ "", on_done, &w });
		while (all.count < i) {
			uv_run(&f->loop, UV_RUN_NOWAIT);
			assert_int_equal(routes_of(f, x, "a.b"), 1);
			int64_t delay = delay_of(f, s);
			assert_true(delay == good || delay == i);
		}
		bool is_whole = i % 4 == 0 || i % 4 == 3;
		assert_int_equal(all.result.code, is_whole ? TIDE_OK : TIDE_ERULE);
		good = is_whole ? i : good;
		accepted += is_whole;
		assert_int_equal(delay_of(f, s), good);
		if (i == reloads / 2)
			early_kb = resident_kb();
	}
	assert_int_equal(engine_epoch(f->engine), 1 + accepted);
	if (getenv("VERBOSE"))
		print_message("%d reloads, resident %zu KiB, then %zu KiB\n", reloads,
			      early_kb, resident_kb());
	/* A sanitizer keeps what is freed, and looks for leaks itself. */
	if (!getenv("ASAN_OPTIONS"))
		assert_in_range(resident_kb(), 0, early_kb + 4096);
	strategy_destroy(s);
	spec_index_destroy(x);
}

RUN_TESTS(.setup = fixture_setup, .teardown = fixture_teardown)
