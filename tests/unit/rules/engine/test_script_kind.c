/* A kind of scripts costs one row: the table with one more, and what is made of it. */

#define SCRIPT_KIND_REHEARSAL \
	{                                                                            \
		.folder = "greet",                                                   \
		.functions = {                                                       \
			[RULE_DECIDE] = { "greet", false,                            \
					  { MSG, SEEN("client", client_view), OWN }, \
					  REFUSES | RESULT_TEXT,                     \
					  "nothing, a text, or false and a reason" },\
			KEEPS_STATE,                                                 \
		},                                                                   \
		.match = MATCH_VHOST | MATCH_USER,                                   \
		.refusal = "a greeter refused it",                                   \
	},
#include "rules/engine/script_kind.c"

#include "fixture.h"

#include "base/buf.h"
#include "base/json.h"
#include "check/check.h"
#include "rules/engine/hook.h"
#include "rules/spec/spec.h"

#define SCRIPT_GREET ((enum script_kind)(SCRIPT_CONNECT + 1))

static const char greeter[] =
	"return { match = { vhost = 'shop' }, options = { word = { default = 'hello' } "
	"},\n"
	"new = function() return { count = 0 } end,\n"
	"greet = function(msg, client, opts, state)\n"
	"  state.count = state.count + 1\n"
	"  if client.user == 'eve' then return false, 'not ' .. client.user end\n"
	"  if client.user == 'mallory' then return false end\n"
	"  if client.user == 'trent' then return 5 end\n"
	"  return opts.word .. ' ' .. client.user .. ' ' .. msg.key .. ' ' .. "
	"state.count\n"
	"end }";

static int setup(void **state)
{
	char path[128];
	int rc = fixture_setup(state);
	struct fixture *f = *state;

	snprintf(path, sizeof(path), "%s/greet", f->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	write_file(f, "greet/10-x.lua", greeter);
	return rc;
}

static void take_greeting(lua_State *L, const struct use_call *c, unsigned result)
{
	const struct hook_call *call = c->ctx;

	snprintf(call->ctx, 100, "%s", lua_tostring(L, -1) ? lua_tostring(L, -1) : "");
}

/* What the scripts say to a user of the vhost "shop". */
static const char *greet(struct fixture *f, const char *user)
{
	static char text[ERROR_TEXT_MAX];
	static struct script_refusal refusal;
	const struct auth_login client = { .user = slice_from(user) };
	struct msg *m = make_msg("k", 0, NULL);
	const struct api_msg msg = { .msg = m };
	struct hook_call call = { .kind = SCRIPT_GREET,
				  .subject = { .vhost = SLICE("shop"),
					       .user = client.user },
				  .given = { &msg, &client },
				  .take = take_greeting,
				  .ctx = text,
				  .refusal = &refusal };
	int rc = hook_run(f->engine, &call, &f->err);

	msg_unref(m);
	return rc < 0 ? f->err.text : refusal.is_refused ? refusal.reason : text;
}

static void kind_is_loaded_asked_and_listed(void **state)
{
	struct fixture *f = *state;
	struct buf out = { 0 };
	struct json json = { .out = &out };

	assert_starts(f);
	assert_string_equal(greet(f, "bob"), "hello bob k 1");
	assert_string_equal(greet(f, "eve"), "not eve");
	assert_string_equal(greet(f, "mallory"), "a greeter refused it");
	assert_string_equal(greet(f, "trent"),
			    "greet/10-x.lua:3: greet must return nothing, a text, or "
			    "false and a reason, not a number");
	engine_status(f->engine, &json);
	assert_contains(
		buf_cstr(&out),
		"{\"kind\":\"greet\",\"name\":\"10-x\",\"file\":\"greet/10-x.lua\"");
	assert_contains(buf_cstr(&out), "\"rejected\":2");
	buf_deinit(&out);
	write_file(f, "greet/20-y.lua",
		   "return { match = { queue = 'x' }, greet = print }");
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_ERULE);
	assert_contains(f->err.text, "'match' of a greet script has no 'queue'; it has "
				     "vhost, user, except");
}

/* Both print what they find. */
static void kind_is_checked_and_tested(void **state)
{
	const struct fixture *f = *state;
	const struct check_options check = { .dir = f->dir, .lua_dir = FRAMEWORK_DIR };
	const struct spec_options spec = { .dir = f->dir, .lua_dir = FRAMEWORK_DIR };

	assert_int_equal(check_run(&check), 0);
	write_file(f, "greet/x_spec.lua",
		   "it('greets', function()\n"
		   "  local engine = require('tidemq').open()\n"
		   "  local client = { user = 'bob', vhost = 'shop' }\n"
		   "  assert.equal('hello bob k 1', engine:ask('greet', { key = 'k' }, "
		   "client))\n"
		   "  client.user = 'eve'\n"
		   "  assert.same({ false, 'not eve' }, { engine:ask('greet', {}, "
		   "client) })\n"
		   "end)");
	assert_int_equal(spec_run(&spec), 0);
	write_file(f, "greet/20-y.lua", "return { match = {}, gret = print }");
	assert_int_equal(check_run(&check), 1);
}

/* The stubs for editors name the functions and their arguments as the table does. */
static void stubs_follow_the_table(void **state)
{
	static char stubs[65536];
	FILE *in = fopen(FRAMEWORK_DIR "/meta/tide.lua", "r");

	assert_non_null(in);
	stubs[fread(stubs, 1, sizeof(stubs) - 1, in)] = '\0';
	fclose(in);
	for (unsigned row = 0; row < SCRIPT_GREET * RULE_FUNCTION_COUNT; row++) {
		const struct script_function *f =
			&script_kind_rows[row / RULE_FUNCTION_COUNT]
				 .functions[row % RULE_FUNCTION_COUNT];
		char wanted[200];

		if (!f->name || !f->arguments[0].name)
			continue;
		snprintf(wanted, sizeof(wanted), "---@field %s %sfun(%s: ", f->name,
			 f->is_optional ? "nil|" : "", f->arguments[0].name);
		assert_contains(stubs, wanted);
		const char *at = strstr(stubs, wanted);
		for (int i = 1; i < SCRIPT_ARGUMENTS_MAX && f->arguments[i].name; i++) {
			snprintf(wanted, sizeof(wanted), ", %s: ", f->arguments[i].name);
			const char *next = strstr(at, wanted);
			if (!next || memchr(at, '\n', (size_t)(next - at)))
				fail_msg("the stub of %s lacks %s", f->name, wanted);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stubs_follow_the_table),
		cmocka_unit_test_setup_teardown(kind_is_loaded_asked_and_listed, setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(kind_is_checked_and_tested, setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
