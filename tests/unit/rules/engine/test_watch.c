/* Reloads that the engine begins by itself, when files change. */

#include <errno.h>

#include "fixture.h"
#include "rules/engine/watch.h"

static const char decide_text[] = "return { decide = function() return %d end }\n";

static void write_decide(struct fixture *f, const char *name, int delay_ms)
{
	char text[128];
	snprintf(text, sizeof(text), decide_text, delay_ms);
	write_file(f, name, text);
}

static void on_deadline(uv_timer_t *timer)
{
	*(bool *)timer->data = true;
}

static void on_watch_closed(void *ctx)
{
	*(bool *)ctx = true;
}

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

/* Run the loop until the reload after `reloads` has happened and, with `s`, its
 * decision is `delay_ms`: a slow machine may see one change as two. */
static void wait_for(struct fixture *f, int reloads, struct strategy *s, int delay_ms)
{
	bool is_late = false;
	uv_timer_t deadline;
	uv_timer_init(&f->loop, &deadline);
	deadline.data = &is_late;
	uv_timer_start(&deadline, on_deadline, (uint64_t)patience_ms(DEADLINE_MS), 1);
	while (!is_late && (f->reloads <= reloads || (s && delay_of(f, s) != delay_ms)))
		uv_run(&f->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&deadline, NULL);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	if (is_late)
		fail_msg("no reload came; the last said: %s", f->reload_result.text);
}

static struct strategy *start(struct fixture *f)
{
	struct strategy *s;
	f->config.watch = true;
	write_decide(f, "retry/mine.lua", 1);
	assert_starts(f);
	if (strategy_create(f->engine,
			    &(struct strategy_spec){ .kind = SCRIPT_RETRY,
						     .name = SLICE("mine"),
						     .options = NULL,
						     .user = "queue 'jobs'" },
			    &s, &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	assert_int_equal(delay_of(f, s), 1);
	return s;
}

static void make_folders(struct fixture *f, const char *name)
{
	char path[256];
	for (const char *slash = name; slash; slash = strchr(slash + 1, '/')) {
		const char *end = strchr(slash + 1, '/');
		int len = end ? (int)(end - name) : (int)strlen(name);
		snprintf(path, sizeof(path), "%s/%.*s", f->dir, len, name);
		if (mkdir(path, 0700) != 0)
			assert_int_equal(errno, EEXIST);
	}
}

static void rename_file(struct fixture *f, const char *from, const char *to)
{
	char from_path[256], to_path[256];
	snprintf(from_path, sizeof(from_path), "%s/%s", f->dir, from);
	snprintf(to_path, sizeof(to_path), "%s/%s", f->dir, to);
	assert_int_equal(rename(from_path, to_path), 0);
}

/* Make it, or put it in the place of another at once. */
static void switch_link(struct fixture *f, const char *name, const char *target)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/.new_link", f->dir);
	assert_int_equal(symlink(target, path), 0);
	rename_file(f, ".new_link", name);
}

TEST_THAT(changed_file_is_loaded)
{
	struct fixture *f = *state;
	struct strategy *s = start(f);
	write_decide(f, "retry/mine.lua", 2);
	wait_for(f, 0, s, 2);
	write_decide(f, "retry/mine.lua", 3);
	wait_for(f, 1, s, 3);
	strategy_destroy(s);
}

TEST_THAT(file_renamed_over_another_is_loaded)
{
	struct fixture *f = *state;
	char from[256], to[256];
	struct strategy *s = start(f);
	write_decide(f, "retry/.mine.lua.new", 2);
	snprintf(from, sizeof(from), "%s/retry/.mine.lua.new", f->dir);
	snprintf(to, sizeof(to), "%s/retry/mine.lua", f->dir);
	assert_int_equal(rename(from, to), 0);
	wait_for(f, 0, s, 2);
	strategy_destroy(s);
}

TEST_THAT(refusal_is_told_and_the_next_change_heals)
{
	struct fixture *f = *state;
	struct strategy *s = start(f);
	write_file(f, "retry/mine.lua", "oops");
	wait_for(f, 0, NULL, 0);
	assert_int_equal(f->reload_result.code, TIDE_ERULE);
	assert_contains(f->reload_result.text, "retry/mine.lua:1:");
	assert_int_equal(delay_of(f, s), 1);
	write_decide(f, "retry/mine.lua", 2);
	wait_for(f, f->reloads, s, 2);
	assert_int_equal(f->reload_result.code, TIDE_OK);
	strategy_destroy(s);
}

TEST_THAT(file_in_a_new_folder_is_loaded)
{
	struct fixture *f = *state;
	char folder[256];
	struct strategy *s = start(f);
	snprintf(folder, sizeof(folder), "%s/lib", f->dir);
	assert_int_equal(mkdir(folder, 0700), 0);
	write_file(f, "lib/delays.lua", "return { first = 2 }");
	write_file(f, "retry/mine.lua",
		   "local delays = require 'lib.delays'\n"
		   "return { decide = function() return delays.first end }\n");
	wait_for(f, 0, s, 2);
	write_file(f, "lib/delays.lua", "return { first = 3 }");
	wait_for(f, f->reloads, s, 3);
	strategy_destroy(s);
}

/* As deployments do it: rules -> releases/1, then -> releases/2. */
TEST_THAT(switched_link_is_followed)
{
	struct fixture *f = *state;
	char link_path[128], new_link[128], folder[128];
	snprintf(link_path, sizeof(link_path), "%s/current", f->dir);
	snprintf(new_link, sizeof(new_link), "%s/next", f->dir);
	for (int i = 1; i <= 2; i++) {
		snprintf(folder, sizeof(folder), "%s/%d", f->dir, i);
		assert_int_equal(mkdir(folder, 0700), 0);
		snprintf(folder, sizeof(folder), "%s/%d/retry", f->dir, i);
		assert_int_equal(mkdir(folder, 0700), 0);
		snprintf(folder, sizeof(folder), "%d/retry/mine.lua", i);
		write_decide(f, folder, i);
	}
	assert_int_equal(symlink("1", link_path), 0);
	f->config.rules_dir = link_path;
	struct strategy *s = start(f); /* writes retry/mine.lua elsewhere too */
	assert_int_equal(symlink("2", new_link), 0);
	assert_int_equal(rename(new_link, link_path), 0);
	wait_for(f, 0, s, 2);
	/* The new place is watched as well as the old one was. */
	write_decide(f, "2/retry/mine.lua", 3);
	wait_for(f, f->reloads, s, 3);
	strategy_destroy(s);
}

/* As deployments do it one level up: current -> releases/1, rules in current/rules. */
TEST_THAT(switched_link_on_the_way_to_the_directory_is_followed)
{
	struct fixture *f = *state;
	char rules[128], name[64];
	for (int i = 1; i <= 2; i++) {
		snprintf(name, sizeof(name), "%d/rules/retry", i);
		make_folders(f, name);
		snprintf(name, sizeof(name), "%d/rules/retry/mine.lua", i);
		write_decide(f, name, i);
	}
	switch_link(f, "current", "1");
	snprintf(rules, sizeof(rules), "%s/current/rules", f->dir);
	f->config.rules_dir = rules;
	struct strategy *s = start(f);
	switch_link(f, "current", "2");
	wait_for(f, 0, s, 2);
	write_decide(f, "2/rules/retry/mine.lua", 3);
	wait_for(f, f->reloads, s, 3);
	switch_link(f, "current", "1");
	wait_for(f, f->reloads, s, 1);
	strategy_destroy(s);
}

/* As volumes of Kubernetes have it: a file is a link through ..data, which is one too. */
TEST_THAT(switched_link_of_a_file_is_followed)
{
	struct fixture *f = *state;
	make_folders(f, "rules/retry");
	make_folders(f, "rules/retry/..1");
	make_folders(f, "rules/retry/..2");
	write_decide(f, "rules/retry/..1/mine.lua", 1);
	write_decide(f, "rules/retry/..2/mine.lua", 2);
	switch_link(f, "rules/retry/..data", "..1");
	switch_link(f, "rules/retry/mine.lua", "..data/mine.lua");
	char rules[128];
	snprintf(rules, sizeof(rules), "%s/rules", f->dir);
	f->config.rules_dir = rules;
	struct strategy *s = start(f);
	switch_link(f, "rules/retry/..data", "..2");
	wait_for(f, 0, s, 2);
	write_decide(f, "rules/retry/..2/mine.lua", 3);
	wait_for(f, f->reloads, s, 3);
	strategy_destroy(s);
}

TEST_THAT(switched_link_of_a_folder_is_followed)
{
	struct fixture *f = *state;
	char rules[128];
	make_folders(f, "rules");
	make_folders(f, "..1/retry");
	make_folders(f, "..2/retry");
	write_decide(f, "..1/retry/mine.lua", 1);
	write_decide(f, "..2/retry/mine.lua", 2);
	switch_link(f, "..data", "..1");
	switch_link(f, "rules/retry", "../..data/retry");
	snprintf(rules, sizeof(rules), "%s/rules", f->dir);
	f->config.rules_dir = rules;
	struct strategy *s = start(f);
	switch_link(f, "..data", "..2");
	wait_for(f, 0, s, 2);
	write_decide(f, "..2/retry/mine.lua", 3);
	wait_for(f, f->reloads, s, 3);
	strategy_destroy(s);
}

TEST_THAT(file_that_a_link_leads_to_is_watched)
{
	struct fixture *f = *state;
	char rules[128];
	make_folders(f, "rules/retry");
	make_folders(f, "elsewhere");
	write_decide(f, "elsewhere/mine.lua", 1);
	switch_link(f, "rules/retry/mine.lua", "../../elsewhere/mine.lua");
	snprintf(rules, sizeof(rules), "%s/rules", f->dir);
	f->config.rules_dir = rules;
	struct strategy *s = start(f);
	write_decide(f, "elsewhere/mine.lua", 2);
	wait_for(f, 0, s, 2);
	write_decide(f, "elsewhere/new", 3);
	rename_file(f, "elsewhere/new", "elsewhere/mine.lua");
	wait_for(f, f->reloads, s, 3);
	strategy_destroy(s);
}

TEST_THAT(deep_modules_and_links_in_a_circle_are_no_trouble)
{
	struct fixture *f = *state;
	make_folders(f, "a/b/c/d/e/f/g");
	switch_link(f, "a/b/round", "..");
	write_file(f, "a/b/c/d/e/f/g/m.lua", "return 2");
	struct strategy *s = start(f);
	write_file(f, "retry/mine.lua",
		   "local m = require 'a.b.c.d.e.f.g.m'\n"
		   "return { decide = function() return m end }\n");
	wait_for(f, 0, s, 2);
	write_file(f, "a/b/c/d/e/f/g/m.lua", "return 3");
	wait_for(f, f->reloads, s, 3);
	strategy_destroy(s);
}

TEST_THAT(directory_that_is_replaced_is_found_again)
{
	struct fixture *f = *state;
	char rules[128], old[128], folder[128];
	snprintf(rules, sizeof(rules), "%s/rules", f->dir);
	snprintf(old, sizeof(old), "%s/old", f->dir);
	snprintf(folder, sizeof(folder), "%s/rules/retry", f->dir);
	assert_int_equal(mkdir(rules, 0700), 0);
	assert_int_equal(mkdir(folder, 0700), 0);
	write_decide(f, "rules/retry/mine.lua", 1);
	f->config.rules_dir = rules;
	struct strategy *s = start(f);
	assert_int_equal(rename(rules, old), 0);
	wait_for(f, 0, NULL, 0);
	assert_int_equal(f->reload_result.code, TIDE_ERULE);
	assert_int_equal(mkdir(rules, 0700), 0);
	assert_int_equal(mkdir(folder, 0700), 0);
	write_decide(f, "rules/retry/mine.lua", 2);
	wait_for(f, f->reloads, s, 2);
	strategy_destroy(s);
}

TEST_THAT(scripts_that_keep_too_much_are_loaded_anew)
{
	struct fixture *f = *state;
	f->config.memory_max_bytes = 1024 * 1024;
	struct strategy *s = start(f);
	write_file(f, "retry/mine.lua",
		   "local kept = {}\n"
		   "return { decide = function()\n"
		   "  kept[#kept + 1] = ('x'):rep(10000) .. #kept\n"
		   "  return #kept\n"
		   "end }\n");
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
	struct failure_view failure = { .reason = "nack", .attempts = 1, .failures = 1 };
	struct retry_decision d;
	struct msg *m = make_msg("k", 0, NULL);
	int calls = 0;
	while (strategy_decide(s, &(struct script_question){ m, NULL }, &failure, &d,
			       &f->err) == TIDE_OK)
		assert_int_equal(d.delay_ms, ++calls);
	assert_true(calls > 10);
	assert_contains(f->err.text, "memory ceiling");
	msg_unref(m);
	int reloads = f->reloads;
	wait_for(f, reloads, NULL, 0);
	assert_int_equal(delay_of(f, s), 1);
	strategy_destroy(s);
}

static void count_change(void *ctx)
{
	++*(int *)ctx;
}

TEST_THAT(no_folder_is_too_large_for_a_turn)
{
	struct fixture *f = *state;
	int changes = 0, turns = 0;
	bool is_late = false, is_closed = false;
	struct watch_config config = { .dirs = { f->dir },
				       .on_change = count_change,
				       .ctx = &changes };
	struct watch *w;
	uv_timer_t deadline;
	char name[64];

	for (int i = 0; i < 900; i++) {
		snprintf(name, sizeof(name), "many/%d", i);
		make_folders(f, name);
	}
	assert_int_equal(watch_open(&w, &f->loop, &config), 0);
	uv_timer_init(&f->loop, &deadline);
	deadline.data = &is_late;
	uv_timer_start(&deadline, on_deadline, (uint64_t)patience_ms(DEADLINE_MS), 0);
	watch_poke(w);
	for (; !is_late && changes == 0; turns++)
		uv_run(&f->loop, UV_RUN_ONCE);
	assert_false(is_late);
	/* Those of the folders and what else is in the directory. */
	assert_true(turns > 20);
	watch_close(w, on_watch_closed, &is_closed);
	uv_close((uv_handle_t *)&deadline, NULL);
	while (!is_closed)
		uv_run(&f->loop, UV_RUN_ONCE);
}

TEST_THAT(directories_side_by_side_are_watched)
{
	struct fixture *f = *state;
	char rules[256], lua[256];
	bool is_closed = false;
	struct watch *w;

	make_folders(f, "rules");
	make_folders(f, "lua");
	snprintf(rules, sizeof(rules), "%s/rules", f->dir);
	snprintf(lua, sizeof(lua), "%s/lua", f->dir);
	const struct watch_config config = { .dirs = { rules, lua },
					     .on_change = count_change };
	assert_int_equal(watch_open(&w, &f->loop, &config), 0);
	watch_close(w, on_watch_closed, &is_closed);
	while (!is_closed)
		uv_run(&f->loop, UV_RUN_ONCE);
}

TEST_THAT(closing_while_a_change_rests_is_safe)
{
	struct fixture *f = *state;
	struct strategy *s = start(f);
	write_decide(f, "retry/mine.lua", 2);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	strategy_destroy(s);
}

RUN_TESTS(.setup = fixture_setup, .teardown = fixture_teardown)
