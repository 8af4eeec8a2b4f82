/* Scripts that are asked where the broker does something: match, order, arguments. */

#include "fixture.h"

#include <lauxlib.h>

#include "base/msg.h"
#include "rules/engine/engine_private.h"
#include "rules/engine/deliver.h"
#include "rules/engine/hook.h"
#include "rules/engine/policy.h"

#define ANSWERS_MAX 200

/* What the scripts return, one after the other. */
struct answers {
	char text[ANSWERS_MAX];
};

/* Keeps what a script returned; "stop" ends the chain. */
static void take_text(lua_State *L, const struct use_call *c, unsigned result)
{
	struct hook_call *call = c->ctx;
	struct answers *a = call->ctx;
	size_t len = strlen(a->text);

	if (result != RESULT_TEXT)
		use_refuse_result(L, c);
	snprintf(a->text + len, sizeof(a->text) - len, "%s ", lua_tostring(L, -1));
	call->is_decided = strcmp(lua_tostring(L, -1), "stop") == 0;
}

static void add_hook(const struct fixture *f, const char *name, const char *match,
		     const char *body)
{
	char file[64], text[512];

	snprintf(file, sizeof(file), "deliver/%s.lua", name);
	snprintf(text, sizeof(text),
		 "return { %s%s%s\ndeliver = function(_, what) what = what.protocol %s "
		 "end }",
		 match ? "match = " : "", match ? match : "", match ? "," : "", body);
	write_file(f, file, text);
}

static int setup(void **state)
{
	char path[128];
	int rc = fixture_setup(state);
	struct fixture *f = *state;

	snprintf(path, sizeof(path), "%s/deliver", f->dir);
	return rc || mkdir(path, 0700);
}

static struct hook_subject of_queue(const char *vhost, const char *queue)
{
	return (struct hook_subject){ .vhost = slice_from(vhost),
				      .queue = slice_from(queue) };
}

static struct hook_call asked; /* as the last `ask` left it */

static const char *ask(struct fixture *f, struct hook_subject subject)
{
	static const struct consumer_view consumer = { .protocol = "what" };
	struct msg *m = make_msg("k", 0, NULL);
	struct script_refusal refusal;
	struct draft draft;
	static struct answers answers;
	struct hook_call c = { .kind = SCRIPT_DELIVER,
			       .subject = subject,
			       .given = { &draft, &consumer },
			       .take = take_text,
			       .refusal = &refusal,
			       .ctx = &answers };

	answers.text[0] = '\0';
	draft_init(&draft, m, 0, NULL);
	int rc = hook_run(f->engine, &c, &f->err);
	asked = c;
	draft_deinit(&draft);
	msg_unref(m);
	return rc == TIDE_OK ? answers.text : f->err.text;
}

static void scripts_that_match_are_asked_in_the_order_of_their_names(void **state)
{
	struct fixture *f = *state;

	add_hook(f, "20-b", "{ queue = 'jobs' }", "return 'b'");
	add_hook(f, "10-a", "{}", "return 'a-' .. what");
	add_hook(f, "30-c", "{ queue = { 'mail.#', 'jobs' }, vhost = 'shop' }",
		 "return 'c'");
	add_hook(f, "model", NULL, "return 'never'");
	assert_starts(f);
	assert_true(hook_is_used(f->engine, SCRIPT_DELIVER));
	assert_false(hook_is_used(f->engine, SCRIPT_SETTLED));
	for (int again = 0; again < 2; again++) {
		assert_string_equal(ask(f, of_queue("/", "jobs")), "a-what b ");
		assert_string_equal(ask(f, of_queue("shop", "jobs")), "a-what b c ");
		assert_string_equal(ask(f, of_queue("shop", "mail.eu")), "a-what c ");
		assert_string_equal(ask(f, of_queue("/", "other")), "a-what ");
	}
}

static void message_decides_what_the_address_does_not(void **state)
{
	struct fixture *f = *state;
	struct msg *m = make_msg("k", 0, "tenant=acme", "test=1", NULL);
	struct hook_subject s = of_queue("/", "jobs");

	add_hook(f, "a", "{ headers = { tenant = { 'acme', 'b' } } }", "return 'tenant'");
	add_hook(f, "b", "{ headers = { test = false } }", "return 'real'");
	add_hook(f, "c", "{ headers = { test = true }, max_size = 4 }", "return 'small'");
	add_hook(f, "d", "{ min_size = 5, user = 'bob' }", "return 'bob'");
	add_hook(f, "e", "{ except = { queue = '#', user = 'bob' } }", "return 'others'");
	add_hook(f, "f", "{ except = { queue = 'jobs' } }", "return 'elsewhere'");
	assert_starts(f);
	assert_string_equal(ask(f, s), "others ");
	s.msg = m;
	assert_string_equal(ask(f, s), "tenant others ");
	s.user = slice_from("bob");
	assert_string_equal(ask(f, s), "tenant bob ");
	s.queue = slice_from("mail");
	assert_string_equal(ask(f, s), "tenant bob elsewhere ");
	msg_unref(m);
}

static void decision_ends_the_chain_and_a_failure_too(void **state)
{
	struct fixture *f = *state;

	add_hook(f, "10", "{}", "return 'stop'");
	add_hook(f, "20", "{}", "return 'late'");
	add_hook(f, "05", "{ queue = 'bad' }", "return {}");
	assert_starts(f);
	assert_string_equal(ask(f, of_queue("/", "jobs")), "stop ");
	assert_true(asked.is_decided);
	assert_string_equal(asked.file, "deliver/10.lua");
	assert_int_equal(asked.line, 2);
	assert_string_equal(ask(f, of_queue("/", "bad")),
			    "deliver/05.lua:2: deliver must return nothing, false and a "
			    "reason, or a delay of 1 or more milliseconds or like "
			    "\"30s\", not a table");
}

static void match_that_cannot_be_is_refused(void **state)
{
	static const char *const cases[][2] = {
		{ "{ qeue = 'x' }",
		  "'match' of a deliver script has no 'qeue'; it has queue, vhost, user, "
		  "headers, min_size, max_size, except" },
		{ "{ except = { except = {} } }",
		  "'match.except' of a deliver script has no 'except'" },
		{ "{ except = 'x' }",
		  "'match.except' must be a table like 'match', not a string" },
		{ "{ queue = setmetatable({}, { __len = function() return -1 end }) }",
		  "'match.queue' is an empty list" },
		{ "{ queue = 5 }",
		  "'match.queue' must be a text or a list of texts, not a number" },
		{ "{ queue = {} }", "'match.queue' is an empty list" },
		{ "{ queue = 'a b' }", "'match.queue' must be 1-255 bytes of UTF-8" },
		{ "{ headers = 'x' }", "'match.headers' must be a table like" },
		{ "{ headers = { 'x' } }", "'match.headers' must be a table of at most" },
		{ "{ headers = { x = 5 } }",
		  "'match.headers.x' must be a text or a list" },
		{ "{ min_size = 'x' }", "'match.min_size' must be an integer" },
		{ "{ max_size = -1 }", "'match.max_size' must be an integer" },
		{ "'jobs'", "'match' must be a table like" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		add_hook(f, "a", cases[i][0], "return ''");
		assert_int_equal(start_engine(f), TIDE_ERULE);
		assert_contains(f->err.text, "deliver/a.lua:");
		assert_contains(f->err.text, cases[i][1]);
	}
}

static void thing_that_is_declared_has_one_name(void **state)
{
	struct fixture *f = *state;
	char path[128];
	struct policy_call c = { .kind = "queue",
				 .vhost = SLICE("/"),
				 .name = SLICE("jobs") };

	snprintf(path, sizeof(path), "%s/declare", f->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	write_file(f, "declare/a.lua",
		   "return { match = { queue = '#' }, declare = function(what) "
		   "what.options.ttl = 1 end }");
	write_file(f, "declare/b.lua",
		   "return { match = { exchange = 'eu.*' }, declare = function(what) "
		   "what.options.ttl = 2 end }");
	assert_starts(f);
	assert_int_equal(policy_ask(f->engine, &c, &f->err), TIDE_OK);
	assert_string_equal(c.files, "declare/a.lua");
	c.kind = "exchange";
	c.type = "topic";
	c.name = SLICE("eu.orders");
	assert_int_equal(policy_ask(f->engine, &c, &f->err), TIDE_OK);
	assert_string_equal(c.files, "declare/b.lua");
	args_deinit(&c.options);
	write_file(f, "declare/a.lua",
		   "return { match = { queue = '#', exchange = 'x' }, declare = print }");
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_ERULE);
	assert_contains(f->err.text, "'match' has both 'exchange' and 'queue'");
}

/* What reads documents keeps memory beside that of the state. */
static void call_leaves_little_of_what_it_has_decoded(void **state)
{
	struct fixture *f = *state;
	const struct documents *d;

	add_hook(f, "a", "{ queue = 'much' }",
		 "local text = '[' .. ('1,'):rep(100000) .. '1]'\n"
		 "return #tide.json.decode(text) == 100001 and 'read' or 'no'");
	add_hook(f, "b", "{ queue = 'little' }",
		 "return tide.json.decode('[1]')[1] == 1 and 'read' or 'no'");
	assert_int_equal(start_engine(f), TIDE_OK);
	d = f->engine->current->script.documents;
	assert_string_equal(ask(f, of_queue("/", "little")), "read ");
	assert_in_range(d->held_bytes, 1, 16384);
	assert_string_equal(ask(f, of_queue("/", "much")), "read ");
	assert_in_range(d->held_bytes, 0, DOCUMENTS_KEPT_BYTES);
	assert_string_equal(ask(f, of_queue("/", "little")), "read ");
	assert_in_range(d->held_bytes, 1, 16384);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(scripts_that_match_are_asked_in_the_order_of_their_names),
		TEST(message_decides_what_the_address_does_not),
		TEST(decision_ends_the_chain_and_a_failure_too),
		TEST(match_that_cannot_be_is_refused),
		TEST(thing_that_is_declared_has_one_name),
		TEST(call_leaves_little_of_what_it_has_decoded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
