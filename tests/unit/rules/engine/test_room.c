/* What scripts keep comes near their memory ceiling. */

#include "fixture.h"
#include "rules/spec/spec_index.h"

#include "rules/engine/engine_private.h"

#define CEILING ((size_t)4 * 1024 * 1024)

static struct spec_index *start_and_use(struct fixture *f, const char *type)
{
	struct spec_index *x = NULL;
	f->config.memory_max_bytes = CEILING;
	assert_starts(f);
	if (spec_index_create(f->engine,
			      &(struct index_spec){ .type = slice_from(type),
						    .user = "exchange 'shop'" },
			      &x, &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	return x;
}

static const struct script_state *state_of(const struct fixture *f)
{
	return &f->engine->current->script;
}

static struct account *account_of(struct fixture *f, const char *file, const char *vhost)
{
	return account_open(&f->engine->current->script.accounts, file,
			    slice_from(vhost));
}

static int bind_number(struct fixture *f, struct spec_index *x, uint32_t n)
{
	char pattern[64];
	snprintf(pattern, sizeof(pattern), "w%u.x%u.*", n % 100, n / 100);
	return spec_index_bind(
		x, &(struct index_binding){ 0, n, slice_from(pattern), NULL, { 0 } },
		&f->err);
}

static void unbind_number(struct fixture *f, struct spec_index *x, uint32_t n)
{
	char pattern[64];
	snprintf(pattern, sizeof(pattern), "w%u.x%u.*", n % 100, n / 100);
	if (spec_index_unbind(
		    x, &(struct index_binding){ 0, n, slice_from(pattern), NULL, { 0 } },
		    &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
}

/* How many went in; no allocation was refused on the way. */
static uint32_t bind_until_refused(struct fixture *f, struct spec_index *x)
{
	uint32_t n = 0;
	while (bind_number(f, x, n) == TIDE_OK) {
		assert_false(state_of(f)->was_refused);
		assert_true(n++ < 100000);
	}
	return n;
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

TEST_THAT(bindings_are_refused_before_memory_is)
{
	struct fixture *f = *state;
	struct spec_index *x = start_and_use(f, "topic"), *other;
	uint32_t n = bind_until_refused(f, x);
	assert_true(n > 1000);
	assert_int_equal(f->err.code, TIDE_ELIMIT);
	assert_contains(f->err.text, "the scripts' memory is nearly full");
	assert_contains(f->err.text, " of 4096 KiB");
	assert_contains(f->err.text, "--rules-memory");
	assert_int_equal(spec_index_create(f->engine,
					   &(struct index_spec){ .type = SLICE("topic"),
								 .user = "exchange 'y'" },
					   &other, &f->err),
			 TIDE_ELIMIT);
	/* There is room for calls, and for all of it once more in a new generation. */
	for (int i = 0; i < 2000; i++) {
		assert_int_equal(routes_of(f, x, "w7.x3.z"), 1);
		assert_false(state_of(f)->was_refused);
	}
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
	assert_int_equal(routes_of(f, x, "w7.x3.z"), 1);
	spec_index_destroy(x);
}

TEST_THAT(what_is_unbound_makes_room)
{
	struct fixture *f = *state;
	struct spec_index *x = start_and_use(f, "topic");
	uint32_t n = bind_until_refused(f, x);
	for (uint32_t i = 0; i < n / 2; i++)
		unbind_number(f, x, i);
	/* What is garbage now is collected between the turns, if it was not yet. */
	while (bind_number(f, x, 0) != TIDE_OK) {
		assert_int_equal(f->err.code, TIDE_ELIMIT);
		assert_true(uv_is_active((uv_handle_t *)&f->engine->room.collector));
		uv_run(&f->loop, UV_RUN_ONCE);
	}
	for (uint32_t i = 1; i < n / 3; i++)
		assert_int_equal(bind_number(f, x, i), TIDE_OK);
	spec_index_destroy(x);
}

/* A state that is full of bindings is collected once, and not again for each. */
TEST_THAT(collecting_in_vain_is_not_repeated)
{
	struct fixture *f = *state;
	struct spec_index *x = start_and_use(f, "topic");
	uint32_t n = bind_until_refused(f, x);
	/* The little that each frees is used, until there is nothing. */
	do {
		while (uv_is_active((uv_handle_t *)&f->engine->room.collector))
			uv_run(&f->loop, UV_RUN_ONCE);
		while (bind_number(f, x, n) == TIDE_OK)
			n++;
	} while (uv_is_active((uv_handle_t *)&f->engine->room.collector));
	for (int i = 0; i < 10; i++)
		assert_int_equal(bind_number(f, x, n), TIDE_ELIMIT);
	assert_false(uv_is_active((uv_handle_t *)&f->engine->room.collector));
	spec_index_destroy(x);
}

/* Garbage of a state that is three quarters full is collected in time. */
TEST_THAT(garbage_does_not_reach_the_ceiling)
{
	struct fixture *f = *state;
	struct retry_decision d;
	struct failure_view failure = { .reason = "nack", .attempts = 1, .failures = 1 };
	struct strategy *s;
	f->config.memory_max_bytes = CEILING;
	write_file(f, "retry/mine.lua",
		   "local kept = {}\n"
		   "for i = 1, 16000 do kept[i] = { i } end\n"
		   "return { decide = function()\n"
		   "  local t = {}\n"
		   "  for i = 1, 50 do t[i] = { tostring(i) .. 'some text' } end\n"
		   "  return #t + #kept\n"
		   "end }\n");
	assert_starts(f);
	assert_in_range(state_of(f)->memory_bytes, CEILING / 3, CEILING / 2);
	assert_int_equal(
		strategy_create(f->engine,
				&(struct strategy_spec){ .kind = SCRIPT_RETRY,
							 .name = SLICE("mine"),
							 .options = NULL,
							 .user = "queue 'jobs'" },
				&s, &f->err),
		TIDE_OK);
	struct msg *m = make_msg("k", 0, NULL);
	for (int i = 0; i < 5000; i++) {
		assert_int_equal(strategy_decide(s, &(struct script_question){ m, NULL },
						 &failure, &d, &f->err),
				 TIDE_OK);
		assert_false(state_of(f)->was_refused);
	}
	msg_unref(m);
	strategy_destroy(s);
}

TEST_THAT(scripts_without_memory_are_not_asked_again_at_once)
{
	struct fixture *f = *state;
	struct retry_decision d;
	struct failure_view failure = { .reason = "nack", .attempts = 1, .failures = 1 };
	struct strategy *s;
	f->config.memory_max_bytes = CEILING;
	write_file(f, "retry/mine.lua",
		   "local kept = {}\n"
		   "return { decide = function()\n"
		   "  kept[#kept + 1] = ('x'):rep(10000) .. #kept\n"
		   "  return #kept\n"
		   "end }\n");
	assert_starts(f);
	assert_int_equal(
		strategy_create(f->engine,
				&(struct strategy_spec){ .kind = SCRIPT_RETRY,
							 .name = SLICE("mine"),
							 .options = NULL,
							 .user = "queue 'jobs'" },
				&s, &f->err),
		TIDE_OK);
	struct msg *m = make_msg("k", 0, NULL);
	while (strategy_decide(s, &(struct script_question){ m, NULL }, &failure, &d,
			       &f->err) == TIDE_OK)
		;
	assert_contains(f->err.text, "retry/mine.lua:3: over the rules' memory ceiling");
	assert_contains(f->err.text, " of 4096 KiB (--rules-memory)");
	assert_true(state_of(f)->is_exhausted);
	uint64_t calls = state_of(f)->serial;
	assert_int_equal(strategy_decide(s, &(struct script_question){ m, NULL },
					 &failure, &d, &f->err),
			 TIDE_ERULE);
	assert_int_equal(state_of(f)->serial, calls);
	assert_contains(f->err.text, "not called: the rules' memory ceiling of 4096 KiB");
	/* Without a loop there is no new generation; after a while one is tried. */
	account_of(f, "retry/mine.lua", "")->rests_until_ms = 0;
	assert_int_equal(strategy_decide(s, &(struct script_question){ m, NULL },
					 &failure, &d, &f->err),
			 TIDE_ERULE);
	assert_true(state_of(f)->serial > calls);
	msg_unref(m);
	strategy_destroy(s);
}

static struct strategy *use_in(struct fixture *f, const char *name, const char *vhost)
{
	struct strategy *s;
	if (strategy_create(f->engine,
			    &(struct strategy_spec){ .kind = SCRIPT_RETRY,
						     .name = slice_from(name),
						     .user = "queue 'jobs'",
						     .vhost = slice_from(vhost) },
			    &s, &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	return s;
}

static int decide_once(struct fixture *f, struct strategy *s)
{
	struct retry_decision d;
	struct failure_view failure = { .reason = "nack", .attempts = 1, .failures = 1 };
	struct msg *m = make_msg("k", 0, NULL);
	int rc = strategy_decide(s, &(struct script_question){ m, NULL }, &failure, &d,
				 &f->err);
	msg_unref(m);
	return rc;
}

/* Two scripts that keep what they are given, in two vhosts, and one that only works. */
TEST_THAT(script_that_leaks_fails_no_other)
{
	static const char leak[] = "local kept = {}\n"
				   "return { decide = function()\n"
				   "  kept[#kept + 1] = ('x'):rep(10000) .. #kept\n"
				   "  return 1\n"
				   "end }\n";
	struct fixture *f = *state;
	f->config.memory_max_bytes = CEILING;
	f->config.breaker_rest_ms = 1;
	write_file(f, "retry/leak.lua", leak);
	write_file(f, "retry/keeps.lua", leak);
	write_file(f, "retry/works.lua",
		   "return { decide = function()\n"
		   "  local t = {}\n"
		   "  for i = 1, 50 do t[i] = { tostring(i) .. 'some text' } end\n"
		   "  return #t\n"
		   "end }\n");
	assert_starts(f);
	struct strategy *hostile = use_in(f, "leak", "hostile"),
			*other = use_in(f, "leak", "other"),
			*keeps = use_in(f, "keeps", "other"),
			*works = use_in(f, "works", "hostile");
	for (int i = 0; i < 1000; i++) {
		bool has_failed = decide_once(f, hostile) != TIDE_OK;
		if (has_failed && i % 100 == 99)
			account_of(f, "retry/leak.lua", "hostile")->rests_until_ms = 0;
		if (decide_once(f, works) != TIDE_OK)
			fail_msg("%d: %s", i, f->err.text);
		/* Half of what others had is free. */
		if (i < 60 && (decide_once(f, other) != TIDE_OK ||
			       decide_once(f, keeps) != TIDE_OK))
			fail_msg("%d: %s", i, f->err.text);
	}
	assert_int_not_equal(decide_once(f, hostile), TIDE_OK);
	assert_int_equal(decide_once(f, works), TIDE_OK);
	const struct account *most = account_largest(state_of(f)->accounts);
	assert_string_equal(most->file, "retry/leak.lua");
	assert_true(slice_is(most->vhost, "hostile"));
	assert_in_range(most->bytes, CEILING / 8, CEILING / 2);
	strategy_destroy(hostile);
	strategy_destroy(other);
	strategy_destroy(keeps);
	strategy_destroy(works);
}

RUN_TESTS(.setup = fixture_setup, .teardown = fixture_teardown)
