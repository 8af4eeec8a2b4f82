#include "fixture.h"
#include "full.h"
#include "rules/engine/engine_private.h"
#include "rules/spec/spec_index.h"

#include "base/buf.h"

/* ---- helpers ------------------------------------------------------------------- */

static struct args args_of(const char *text)
{
	struct args args = { 0 };
	assert_int_equal(args_parse(&args, slice_from(text)), TIDE_OK);
	return args;
}

static struct spec_index *make_index(struct fixture *f, const char *type)
{
	struct spec_index *x = NULL;
	int status = spec_index_create(f->engine,
				       &(struct index_spec){ .type = slice_from(type),
							     .user = "exchange 'shop'" },
				       &x, &f->err);
	if (status != TIDE_OK)
		fail_msg("%s", f->err.text);
	return x;
}

static int bind_dest(struct fixture *f, struct spec_index *x, const char *pattern,
		     const char *options, uint32_t dest)
{
	struct args args = args_of(options);
	int status = spec_index_bind(
		x, &(struct index_binding){ 0, dest, slice_from(pattern), &args, { 0 } },
		&f->err);
	args_deinit(&args);
	return status;
}

static int unbind_dest(struct fixture *f, struct spec_index *x, const char *pattern,
		       const char *options, uint32_t dest)
{
	struct args args = args_of(options);
	int status = spec_index_unbind(
		x, &(struct index_binding){ 0, dest, slice_from(pattern), &args, { 0 } },
		&f->err);
	args_deinit(&args);
	return status;
}

/* The destinations of a message as a sum of powers of two; it is released. */
static unsigned route(struct fixture *f, struct spec_index *x, struct msg *m)
{
	const uint32_t *dests;
	size_t count;
	unsigned sum = 0;
	if (index_route(x->index, &(struct script_question){ m, NULL }, &dests, &count,
			&f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	for (size_t i = 0; i < count; i++)
		sum += 1U << dests[i];
	msg_unref(m);
	return sum;
}

static unsigned route_key(struct fixture *f, struct spec_index *x, const char *key)
{
	return route(f, x, make_msg(key, 0, NULL));
}

static int route_fails(struct fixture *f, struct spec_index *x)
{
	const uint32_t *dests;
	size_t count;
	struct msg *m = make_msg("k", 0, NULL);
	int status = index_route(x->index, &(struct script_question){ m, NULL }, &dests,
				 &count, &f->err);
	msg_unref(m);
	return status;
}

static struct strategy *make_strategy(struct fixture *f, enum script_kind kind,
				      const char *name, const char *options)
{
	struct strategy *s = NULL;
	struct args args = args_of(options);
	int status = strategy_create(f->engine,
				     &(struct strategy_spec){ .kind = kind,
							      .name = slice_from(name),
							      .options = &args,
							      .user = "queue 'jobs'" },
				     &s, &f->err);
	args_deinit(&args);
	return status == TIDE_OK ? s : NULL;
}

static struct retry_decision decide(struct fixture *f, struct strategy *s,
				    unsigned failures)
{
	struct failure_view failure = { .reason = "nack",
					.attempts = failures,
					.failures = failures };
	struct retry_decision d = { .action = RETRY_DROP, .delay_ms = -1 };
	struct msg *m = make_msg("k", 0, NULL);
	if (strategy_decide(s, &(struct script_question){ m, NULL }, &failure, &d,
			    &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	msg_unref(m);
	return d;
}

/* ---- routing --------------------------------------------------------------------- */

TEST_THAT(direct_routes_by_the_key)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct spec_index *x = make_index(f, "direct");
	assert_true(index_is_pure(x->index));
	assert_string_equal(index_script(x->index), "routing/direct.lua");
	assert_int_equal(bind_dest(f, x, "a", "", 0), TIDE_OK);
	assert_int_equal(bind_dest(f, x, "a", "", 1), TIDE_OK);
	assert_int_equal(bind_dest(f, x, "b", "", 2), TIDE_OK);
	assert_int_equal(route_key(f, x, "a"), 3);
	assert_int_equal(route_key(f, x, "b"), 4);
	assert_int_equal(route_key(f, x, "c"), 0);
	assert_int_equal(unbind_dest(f, x, "a", "", 0), TIDE_OK);
	assert_int_equal(route_key(f, x, "a"), 2);
	assert_int_equal(unbind_dest(f, x, "a", "", 0), TIDE_ENOTFOUND);
	spec_index_destroy(x);
}

TEST_THAT(fanout_routes_to_every_binding)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct spec_index *x = make_index(f, "fanout");
	assert_int_equal(bind_dest(f, x, "a", "", 0), TIDE_OK);
	assert_int_equal(bind_dest(f, x, "-", "", 3), TIDE_OK);
	assert_int_equal(route_key(f, x, "whatever"), 9);
	spec_index_destroy(x);
}

TEST_THAT(topic_routes_by_words)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct spec_index *x = make_index(f, "topic");
	assert_int_equal(bind_dest(f, x, "orders.*.eu", "", 0), TIDE_OK);
	assert_int_equal(bind_dest(f, x, "orders.#", "", 1), TIDE_OK);
	assert_int_equal(bind_dest(f, x, "#", "", 2), TIDE_OK);
	assert_int_equal(route_key(f, x, "orders.new.eu"), 7);
	assert_int_equal(route_key(f, x, "orders"), 6);
	assert_int_equal(route_key(f, x, "other"), 4);
	assert_int_equal(unbind_dest(f, x, "orders.#", "", 1), TIDE_OK);
	assert_int_equal(route_key(f, x, "orders.new.eu"), 5);
	spec_index_destroy(x);
}

TEST_THAT(headers_route_by_all_or_any_value)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct spec_index *x = make_index(f, "headers");
	assert_false(index_is_pure(x->index));
	assert_int_equal(bind_dest(f, x, "-", "region=eu kind=order", 0), TIDE_OK);
	assert_int_equal(bind_dest(f, x, "-", "region=eu kind=order match=any", 1),
			 TIDE_OK);
	assert_int_equal(bind_dest(f, x, "-", "match=most", 2), TIDE_EMISMATCH);
	assert_contains(f->err.text, "all any");
	assert_int_equal(route(f, x, make_msg("k", 0, "region=eu", "kind=order", NULL)),
			 3);
	assert_int_equal(route(f, x, make_msg("k", 0, "region=eu", NULL)), 2);
	assert_int_equal(route(f, x, make_msg("k", 0, "region=us", NULL)), 0);
	assert_int_equal(unbind_dest(f, x, "-", "region=eu kind=order match=any", 1),
			 TIDE_OK);
	assert_int_equal(route(f, x, make_msg("k", 0, "region=eu", NULL)), 0);
	spec_index_destroy(x);
}

TEST_THAT(binding_twice_is_binding_once)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct spec_index *x = make_index(f, "fanout");
	assert_int_equal(bind_dest(f, x, "a", "", 0), TIDE_OK);
	assert_int_equal(bind_dest(f, x, "a", "", 0), TIDE_OK);
	assert_int_equal(unbind_dest(f, x, "a", "", 0), TIDE_OK);
	assert_int_equal(route_key(f, x, "k"), 0);
	spec_index_destroy(x);
}

TEST_THAT(unknown_type_names_those_there_are)
{
	struct fixture *f = *state;
	struct spec_index *x;
	assert_starts(f);
	assert_int_equal(spec_index_create(f->engine,
					   &(struct index_spec){ .type = SLICE("topik"),
								 .user = "u" },
					   &x, &f->err),
			 TIDE_ENOTFOUND);
	assert_contains(f->err.text,
			"consistent-hash content direct fanout headers random topic");
	assert_non_null(
		generation_find(f->engine->current, SCRIPT_ROUTING, SLICE("topic")));
	assert_null(generation_find(f->engine->current, SCRIPT_RETRY, SLICE("topic")));
}

TEST_THAT(script_that_cannot_unbind_gets_a_new_index)
{
	struct fixture *f = *state;
	write_file(f, "routing/stuck.lua",
		   "local M = {}\n"
		   "function M.new() return {} end\n"
		   "function M.bind(i, _, dest) i[#i + 1] = dest end\n"
		   "function M.unbind(i) i[1] = 99 error('cannot') end\n"
		   "function M.route(i, _, to) for _, d in ipairs(i) do to(d) end end\n"
		   "return M\n");
	assert_starts(f);
	struct spec_index *x = make_index(f, "stuck");
	assert_int_equal(bind_dest(f, x, "a", "", 0), TIDE_OK);
	assert_int_equal(bind_dest(f, x, "b", "", 1), TIDE_OK);
	assert_int_equal(unbind_dest(f, x, "a", "", 0), TIDE_OK);
	assert_int_equal(route_key(f, x, "k"), 2);
	spec_index_destroy(x);
}

TEST_THAT(destination_that_nothing_is_bound_to_is_refused)
{
	struct fixture *f = *state;
	write_file(f, "routing/liar.lua",
		   "local M = {}\n"
		   "function M.new() return {} end\n"
		   "function M.bind() end\n"
		   "function M.unbind() end\n"
		   "function M.route(_, _, to) to(7) end\n"
		   "return M\n");
	assert_starts(f);
	struct spec_index *x = make_index(f, "liar");
	assert_int_equal(bind_dest(f, x, "a", "", 0), TIDE_OK);
	assert_int_equal(route_fails(f, x), TIDE_ERULE);
	assert_contains(f->err.text, "routing/liar.lua:5: no binding leads to 7");
	spec_index_destroy(x);
}

/* ---- strategies ---------------------------------------------------------------------
 */

static unsigned pick(struct fixture *f, struct strategy *s, struct msg *m)
{
	unsigned shard = 99;
	if (strategy_pick(s, &(struct script_question){ m, NULL }, 4, &shard, &f->err) !=
	    TIDE_OK)
		fail_msg("%s", f->err.text);
	msg_unref(m);
	return shard;
}

TEST_THAT(round_robin_counts_for_each_queue)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct strategy *a = make_strategy(f, SCRIPT_SHARDING, "round_robin", "");
	struct strategy *b = make_strategy(f, SCRIPT_SHARDING, "round_robin", "");
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(pick(f, a, make_msg("k", 0, NULL)), i % 4);
	assert_int_equal(pick(f, b, make_msg("k", 0, NULL)), 0);
	strategy_destroy(a);
	strategy_destroy(b);
}

TEST_THAT(hash_keeps_a_key_in_its_shard)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct strategy *by_key = make_strategy(f, SCRIPT_SHARDING, "hash", "");
	struct strategy *by_header =
		make_strategy(f, SCRIPT_SHARDING, "hash", "by=customer");
	assert_true(strategy_is_pure(by_key));
	assert_false(strategy_is_pure(by_header));
	unsigned shard = pick(f, by_key, make_msg("some.key", 0, NULL));
	assert_int_equal(pick(f, by_key, make_msg("some.key", 0, NULL)), shard);
	shard = pick(f, by_header, make_msg("x", 0, "customer=7", NULL));
	assert_int_equal(pick(f, by_header, make_msg("y", 0, "customer=7", NULL)), shard);
	strategy_destroy(by_key);
	strategy_destroy(by_header);
}

static double rank(struct fixture *f, struct strategy *s, int priority)
{
	struct queue_view queue = { .vhost = SLICE("/"), .name = SLICE("jobs") };
	struct msg *m = make_msg("k", priority, NULL);
	double rank_of = 1e9;
	if (strategy_rank(s, &(struct script_question){ m, NULL }, &queue, &rank_of,
			  &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	msg_unref(m);
	return rank_of;
}

TEST_THAT(strict_puts_the_higher_priority_first)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct strategy *strict = make_strategy(f, SCRIPT_PRIORITY, "strict", "");
	struct strategy *fifo = make_strategy(f, SCRIPT_PRIORITY, "fifo", "");
	assert_true(rank(f, strict, 9) < rank(f, strict, 1));
	assert_true(rank(f, fifo, 9) == rank(f, fifo, 1));
	assert_true(strategy_is_pure(fifo));
	strategy_destroy(strict);
	strategy_destroy(fifo);
}

TEST_THAT(exponential_doubles_up_to_its_cap)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct strategy *s =
		make_strategy(f, SCRIPT_RETRY, "exponential", "base=500ms max=5 cap=3s");
	const int64_t expected[] = { 500, 1000, 2000, 3000 };
	for (unsigned i = 0; i < 4; i++) {
		struct retry_decision d = decide(f, s, i + 1);
		assert_int_equal(d.action, RETRY_AFTER);
		assert_int_equal(d.delay_ms, expected[i]);
	}
	assert_int_equal(decide(f, s, 5).action, RETRY_DEAD_LETTER);
	strategy_destroy(s);
}

TEST_THAT(wrong_options_name_the_right_ones)
{
	struct fixture *f = *state;
	assert_starts(f);
	assert_null(make_strategy(f, SCRIPT_RETRY, "exponential", "bse=1s"));
	assert_int_equal(f->err.code, TIDE_EMISMATCH);
	assert_contains(f->err.text, "base cap factor jitter max");
	assert_null(make_strategy(f, SCRIPT_RETRY, "exponential", "base=soon"));
	assert_int_equal(f->err.code, TIDE_EMISMATCH);
	assert_contains(f->err.text, "duration");
	assert_null(make_strategy(f, SCRIPT_RETRY, "exponential", "factor=0.5"));
	assert_contains(f->err.text, "at least 1");
	assert_null(make_strategy(f, SCRIPT_RETRY, "exponential", "factor=nan"));
	assert_null(make_strategy(f, SCRIPT_RETRY, "exponential", "max=1e3"));
	assert_null(make_strategy(f, SCRIPT_PRIORITY, "fifo", "x=1"));
}

/* ---- generations ----------------------------------------------------------------------
 */

static const char direct_to_all[] =
	"local M = { pure = true }\n"
	"function M.new() return {} end\n"
	"function M.bind(i, _, dest) i[#i + 1] = dest end\n"
	"function M.unbind() end\n"
	"function M.route(i, _, to) for _, d in ipairs(i) do to(d) end end\n"
	"return M\n";

TEST_THAT(reload_rebuilds_the_indexes)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct spec_index *x = make_index(f, "direct");
	struct strategy *s = make_strategy(f, SCRIPT_RETRY, "exponential", "base=500ms");
	assert_int_equal(engine_epoch(f->engine), 1);
	assert_int_equal(bind_dest(f, x, "a", "", 0), TIDE_OK);
	assert_int_equal(bind_dest(f, x, "b", "", 1), TIDE_OK);
	write_file(f, "routing/direct.lua", direct_to_all);
	assert_int_equal(route_key(f, x, "a"), 1);
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
	assert_int_equal(engine_epoch(f->engine), 2);
	assert_int_equal(route_key(f, x, "a"), 3);
	assert_int_equal(decide(f, s, 1).delay_ms, 500);
	spec_index_destroy(x);
	strategy_destroy(s);
}

TEST_THAT(refused_reload_leaves_everything)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct spec_index *x = make_index(f, "direct");
	assert_int_equal(bind_dest(f, x, "a", "", 0), TIDE_OK);
	write_file(f, "routing/direct.lua", "local M = {}\n\nreturn M +\n");
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_ERULE);
	assert_contains(f->err.text, "routing/direct.lua:4:");
	assert_int_equal(engine_epoch(f->engine), 1);
	assert_int_equal(route_key(f, x, "a"), 1);
	spec_index_destroy(x);
}

TEST_THAT(script_that_refuses_a_binding_refuses_the_reload)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct spec_index *x = make_index(f, "direct");
	assert_int_equal(bind_dest(f, x, "a", "", 0), TIDE_OK);
	write_file(f, "routing/direct.lua",
		   "local M = {}\n"
		   "function M.new() return {} end\n"
		   "function M.bind(_, pattern) error('not ' .. pattern) end\n"
		   "M.unbind, M.route = M.new, M.new\n"
		   "return M\n");
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_ERULE);
	assert_contains(f->err.text, "routing/direct.lua:3: not a");
	assert_contains(f->err.text, "exchange 'shop'");
	assert_int_equal(route_key(f, x, "a"), 1);
	spec_index_destroy(x);
}

TEST_THAT(removed_script_in_use_refuses_the_reload)
{
	struct fixture *f = *state;
	assert_starts(f);
	write_file(f, "retry/mine.lua", "return { decide = function() return 1 end }");
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
	struct strategy *s = make_strategy(f, SCRIPT_RETRY, "mine", "");
	remove_file(f, "retry/mine.lua");
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_ERULE);
	assert_contains(f->err.text, "retry/mine.lua");
	assert_contains(f->err.text, "queue 'jobs'");
	assert_int_equal(decide(f, s, 1).action, RETRY_AFTER);
	strategy_destroy(s);
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
	assert_null(generation_find(f->engine->current, SCRIPT_RETRY, SLICE("mine")));
}

/* The rules directory, and beside a framework of its own the shipped scripts. */
static void make_shipped(struct fixture *f, char rules_dir[256], char lua_dir[256])
{
	static const char *const folders[] = {
		"own",           "own/retry",     "x", "x/lua", "x/rules",
		"x/rules/retry", "x/rules/filter"
	};
	char path[256];

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", f->dir, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(rules_dir, 256, "%s/own", f->dir);
	snprintf(lua_dir, 256, "%s/x/lua", f->dir);
	f->config.rules_dir = rules_dir;
	f->config.lua_dir = lua_dir;
	write_file(f, "x/rules/retry/a.lua",
		   "return { decide = function() return 1 end }");
	write_file(f, "x/rules/retry/b.lua",
		   "return { decide = function() return 1 end }");
	write_file(f, "x/rules/filter/on.lua",
		   "return { match = {}, publish = function() return false end }");
}

TEST_THAT(shipped_scripts_stand_in_and_are_not_active)
{
	struct fixture *f = *state;
	char rules_dir[256], lua_dir[256];
	make_shipped(f, rules_dir, lua_dir);
	write_file(f, "own/retry/b.lua", "return { decide = function() return 2 end }");
	assert_starts(f);
	const struct generation *g = f->engine->current;
	assert_int_equal(g->rule_count, 2);
	assert_string_equal(g->rules[0]->file, "shipped/retry/a.lua");
	assert_string_equal(g->rules[1]->file, "retry/b.lua");
	assert_int_equal(g->files->count, 1);
	assert_true(generation_is_current(g));
	/* A file of a name that was a shipped one's; a newer version of what is shipped.
	 */
	write_file(f, "own/retry/a.lua", "return { decide = function() return 3 end }");
	assert_false(generation_is_current(g));
	remove_file(f, "own/retry/a.lua");
	assert_true(generation_is_current(g));
	write_file(f, "x/rules/retry/a.lua",
		   "return { decide = function() return 4 end }");
	assert_false(generation_is_current(g));
	struct strategy *s = make_strategy(f, SCRIPT_RETRY, "a", "");
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
	assert_int_equal(decide(f, s, 1).delay_ms, 4);
	strategy_destroy(s);
}

TEST_THAT(handles_made_after_reloads_do_not_mix)
{
	struct fixture *f = *state;
	assert_starts(f);
	struct spec_index *a = make_index(f, "direct");
	struct spec_index *b = make_index(f, "fanout");
	assert_int_equal(bind_dest(f, a, "a", "", 0), TIDE_OK);
	assert_int_equal(bind_dest(f, b, "a", "", 1), TIDE_OK);
	spec_index_destroy(a);
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
	struct spec_index *c = make_index(f, "direct");
	assert_int_equal(bind_dest(f, c, "c", "", 2), TIDE_OK);
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
	assert_int_equal(route_key(f, b, "c"), 2);
	assert_int_equal(route_key(f, c, "c"), 4);
	assert_int_equal(route_key(f, c, "a"), 0);
	spec_index_destroy(b);
	spec_index_destroy(c);
}

TEST_THAT(start_with_broken_rules_fails_with_the_line)
{
	struct fixture *f = *state;
	write_file(f, "retry/broken.lua", "return {\n  decide = 5,\n}\n");
	assert_int_equal(start_engine(f), TIDE_ERULE);
	assert_contains(f->err.text, "retry/broken.lua:3:");
	assert_contains(f->err.text, "decide");
	f->engine = NULL;
}

TEST_THAT(status_tells_calls_errors_and_the_last_refusal)
{
	struct fixture *f = *state;
	struct json json;
	struct buf out = { 0 };
	write_file(f, "priority/bad.lua",
		   "return { rank = function()\n  return 'x'\nend }\n");
	assert_starts(f);
	struct strategy *s = make_strategy(f, SCRIPT_PRIORITY, "bad", "");
	struct queue_view queue = { .vhost = SLICE("/"), .name = SLICE("jobs") };
	struct msg *m = make_msg("k", 0, NULL);
	double unused;
	assert_int_equal(strategy_rank(s, &(struct script_question){ m, NULL }, &queue,
				       &unused, &f->err),
			 TIDE_ERULE);
	write_file(f, "retry/broken.lua", "oops");
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_ERULE);
	json = (struct json){ .out = &out };
	engine_status(f->engine, &json);
	const char *text = buf_cstr(&out);
	assert_contains(text, "\"calls\":1,\"errors\":1");
	assert_contains(text, "priority/bad.lua:1: rank must return a finite number");
	assert_contains(text, "\"refusal\":{\"error\":\"retry/broken.lua:1:");
	buf_deinit(&out);
	msg_unref(m);
	strategy_destroy(s);
}

/* Nearly every allocation of the state is refused once: one outside of the door
 * would end the process. */
TEST_THAT(every_shortage_of_memory_is_an_error)
{
	struct fixture *f = *state;
	bool has_routed = false;
	for (size_t max = 0; !has_routed; max += FULL(1999, 333)) {
		f->config.memory_max_bytes = max;
		f->is_closed = false;
		assert_true(max < 1024 * 1024);
		if (start_engine(f) != TIDE_OK)
			continue;
		struct spec_index *x = NULL;
		const uint32_t *dests;
		size_t count = 0;
		struct msg *m = make_msg("a.b", 0, NULL);
		int status = spec_index_create(
			f->engine,
			&(struct index_spec){ .type = SLICE("topic"),
					      .user = "exchange 'shop'" },
			&x, &f->err);
		if (status == TIDE_OK)
			status = bind_dest(f, x, "a.*", "", 5);
		if (status == TIDE_OK)
			status = reload_now(f->engine, &f->err);
		if (status == TIDE_OK)
			status = index_route(x->index,
					     &(struct script_question){ m, NULL }, &dests,
					     &count, &f->err);
		if (status != TIDE_OK)
			assert_true(status == TIDE_ERULE || status == TIDE_ELIMIT);
		has_routed = status == TIDE_OK && count == 1 && dests[0] == 5;
		msg_unref(m);
		spec_index_destroy(x);
		engine_close(f->engine, on_fixture_closed, f);
		uv_run(&f->loop, UV_RUN_DEFAULT);
		assert_true(f->is_closed);
	}
	f->engine = NULL;
}

RUN_TESTS(.setup = fixture_setup, .teardown = fixture_teardown)
