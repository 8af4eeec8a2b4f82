/* The circuit breaker by itself, the cost histogram, and both in the engine. */

#include "rules/engine/fixture.h"

#include "base/json.h"
#include "rules/sandbox/breaker.h"
#include "rules/sandbox/cost.h"
#include "rules/engine/reload.h"
#include "rules/engine/strategy.h"
#include "rules/engine/engine_status.h"

static bool fail_many(struct breaker *b, int calls, int64_t now_ms)
{
	bool has_changed = false;
	for (int i = 0; i < calls; i++)
		has_changed |= breaker_count(b, true, now_ms);
	return has_changed;
}

static void ten_failures_open_the_circuit(void **state)
{
	struct breaker b = { .is_open = false };
	assert_false(fail_many(&b, 9, 1000));
	for (int i = 0; i < 1000; i++)
		assert_false(breaker_count(&b, false, 1000));
	assert_true(breaker_count(&b, true, 1000));
	assert_false(breaker_allows(&b, 1000, 5000));
	assert_string_equal(breaker_state(&b, 1000, 5000), "open");
}

static void failures_that_are_long_ago_do_not_count(void **state)
{
	struct breaker b = { .is_open = false };
	for (int64_t now_ms = 0; now_ms < 1000000; now_ms += 1500)
		assert_false(breaker_count(&b, true, now_ms));
	assert_false(breaker_is_blank(&b, 1000000));
	assert_true(breaker_is_blank(&b, 1010000));
}

static void one_call_is_tried_after_a_rest(void **state)
{
	struct breaker b = { .is_open = false };
	assert_true(fail_many(&b, 10, 1000));
	assert_false(breaker_allows(&b, 5999, 5000));
	assert_true(breaker_allows(&b, 6000, 5000));
	assert_string_equal(breaker_state(&b, 6000, 5000), "half-open");
	assert_false(breaker_count(&b, true, 6000));
	assert_false(breaker_allows(&b, 6001, 5000));
	assert_true(breaker_count(&b, false, 11000));
	assert_string_equal(breaker_state(&b, 11000, 5000), "closed");
	assert_false(fail_many(&b, 9, 11000));
}

static void quantiles_lie_in_their_bucket(void **state)
{
	struct cost c = { .max_ns = 0 };
	assert_int_equal(cost_quantile_ns(&c, 0.5), 0);
	for (int i = 0; i < 99; i++)
		cost_add(&c, 1000);
	cost_add(&c, 1000000);
	assert_in_range(cost_quantile_ns(&c, 0.5), 512, 1023);
	assert_in_range(cost_quantile_ns(&c, 0.999), 524288, 1000000);
	assert_int_equal(c.max_ns, 1000000);
	cost_add(&c, 0);
	cost_add(&c, UINT64_MAX);
}

static const char moody[] = "return { rank = function(msg)\n"
			    "  if msg.priority == 1 then while true do end end\n"
			    "  if msg.priority == 2 then error 'moody' end\n"
			    "  return 1\n"
			    "end }\n";

static int rank(struct fixture *f, struct strategy *s, int priority)
{
	struct queue_view queue = { .vhost = SLICE("/"), .name = SLICE("jobs") };
	struct msg *m = make_msg("k", priority, NULL);
	double rank = 0;
	int status = strategy_rank(s, &(struct script_question){ m, NULL }, &queue, &rank,
				   &f->err);
	msg_unref(m);
	return status;
}

static struct strategy *start_moody(struct fixture *f)
{
	struct strategy *s;
	write_file(f, "priority/moody.lua", moody);
	start_with_short_budget(f, 10);
	assert_int_equal(
		strategy_create(f->engine,
				&(struct strategy_spec){ .kind = SCRIPT_PRIORITY,
							 .name = SLICE("moody"),
							 .options = NULL,
							 .user = "queue 'jobs'" },
				&s, &f->err),
		TIDE_OK);
	return s;
}

static void assert_status(struct fixture *f, const char *part)
{
	struct buf text = { 0 };
	struct json j;
	j = (struct json){ .out = &text };
	engine_status(f->engine, &j);
	assert_contains(buf_cstr(&text), part);
	buf_deinit(&text);
}

/* So many calls that overrun; the one behind them was not made. A machine that is slow
 * and busy takes longer for ten than they may be apart. */
static int overrun_until_open(struct fixture *f, struct strategy *s)
{
	int calls = -1;
	do {
		assert_int_equal(rank(f, s, 1), TIDE_ERULE);
		calls++;
	} while (!strstr(f->err.text, "(not called again"));
	return calls;
}

static void use_that_keeps_overrunning_is_not_called(void **state)
{
	struct fixture *f = *state;
	struct strategy *s, *other;
	char fault[160], counts[64];
	f->config.breaker_rest_ms = 3600000;
	s = start_moody(f);
	assert_int_equal(
		strategy_create(f->engine,
				&(struct strategy_spec){ .kind = SCRIPT_PRIORITY,
							 .name = SLICE("moody"),
							 .options = NULL,
							 .user = "queue 'other'" },
				&other, &f->err),
		TIDE_OK);
	int calls = overrun_until_open(f, s);
	assert_true(calls >= 10);
	snprintf(counts, sizeof(counts), "\"calls\":%d,\"errors\":%d", calls, calls);
	/* It would work now, but it is not asked. */
	assert_int_equal(rank(f, s, 0), TIDE_ERULE);
	snprintf(fault, sizeof(fault),
		 "ran longer than its budget of %d ms (not called again: it uses up its "
		 "time or memory too often",
		 (int)f->config.call_budget_ms);
	assert_contains(f->err.text, fault);
	assert_status(f, counts);
	assert_status(f, "\"circuit\":\"open\",\"circuit_since_ms\":1");
	assert_status(f, "\"circuits\":[{\"user\":\"queue 'jobs'\",\"circuit\":\"open\"");
	assert_status(f, "\"skipped\":2");
	/* Another queue has done nothing wrong. */
	assert_int_equal(rank(f, other, 0), TIDE_OK);
	reload_in_budget(f);
	assert_int_equal(rank(f, s, 0), TIDE_OK);
	assert_status(f, "\"circuit\":\"closed\"");
	strategy_destroy(s);
	strategy_destroy(other);
}

static void errors_open_no_circuit(void **state)
{
	struct fixture *f = *state;
	struct strategy *s = start_moody(f);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(rank(f, s, 2), TIDE_ERULE);
	assert_int_equal(rank(f, s, 0), TIDE_OK);
	assert_status(f, "\"circuit\":\"closed\"");
	strategy_destroy(s);
}

static void next_use_of_a_number_has_a_closed_circuit(void **state)
{
	struct fixture *f = *state;
	struct strategy *s = start_moody(f);
	for (int i = 0; i < 10; i++)
		assert_int_equal(rank(f, s, 1), TIDE_ERULE);
	strategy_destroy(s);
	assert_int_equal(
		strategy_create(f->engine,
				&(struct strategy_spec){ .kind = SCRIPT_PRIORITY,
							 .name = SLICE("moody"),
							 .options = NULL,
							 .user = "queue 'jobs'" },
				&s, &f->err),
		TIDE_OK);
	assert_int_equal(rank(f, s, 0), TIDE_OK);
	strategy_destroy(s);
}

static void circuit_closes_by_itself_when_a_call_works(void **state)
{
	struct fixture *f = *state;
	f->config.breaker_rest_ms = 1;
	struct strategy *s = start_moody(f);
	for (int i = 0; i < 10; i++)
		assert_int_equal(rank(f, s, 1), TIDE_ERULE);
	while (rank(f, s, 0) != TIDE_OK)
		;
	assert_int_equal(rank(f, s, 0), TIDE_OK);
	assert_int_equal(rank(f, s, 1), TIDE_ERULE);
	assert_int_equal(rank(f, s, 0), TIDE_OK);
	strategy_destroy(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_failures_open_the_circuit),
		cmocka_unit_test(failures_that_are_long_ago_do_not_count),
		cmocka_unit_test(one_call_is_tried_after_a_rest),
		cmocka_unit_test(quantiles_lie_in_their_bucket),
		TEST(use_that_keeps_overrunning_is_not_called),
		TEST(errors_open_no_circuit),
		TEST(next_use_of_a_number_has_a_closed_circuit),
		TEST(circuit_closes_by_itself_when_a_call_works),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
