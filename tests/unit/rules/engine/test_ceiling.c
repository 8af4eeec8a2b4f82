/* The time ceiling holds whatever calls what: every function that a script can
 * reach, called by every loop that is written in C, with what costs most; and files
 * that are hard to compile. Processor time of the thread is what counts. */

#include "fixture.h"
#include "full.h"

#include <time.h>

#include "host/log.h"

static int64_t thread_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A machine or a sanitizer that needs more to load the scripts is as much slower. */
#define BUDGET_MS 20

/* Twice the budget, and the longest that one instruction or one call of a library
 * function takes: the comparison of two texts of SCRIPT_STRING_MAX zeros, a
 * collection of all the memory. That is five budgets of a machine on which the scripts
 * just fail to load in half of one. */
static int64_t ceiling_ms(const struct fixture *f)
{
	return 30 * f->config.call_budget_ms;
}

/* msg.key is "<function> <loop>", both numbers; the rank is 1, and 0 when there is no
 * such function, 2 when there is no such loop. */
static const char script[] =
	"local functions, names, seen = {}, {}, {}\n"
	"local function add(name, value)\n"
	"  if seen[value] then return end\n"
	"  seen[value] = true\n"
	"  if type(value) == 'function' then\n"
	"    functions[#functions + 1], names[#names + 1] = value, name\n"
	"  elseif type(value) == 'table' then\n"
	"    for k, v in pairs(value) do add(name .. '.' .. tostring(k), v) end\n"
	"  end\n"
	"end\n"
	"add('_G', _G)\n"
	"add('pairs()', (pairs({})))\n"
	"add('pairs(module)', (pairs(require 'tide.dests')))\n"
	"add('ipairs()', (ipairs({})))\n"
	"add('gmatch()', (('x'):gmatch('x')))\n"
	"add('gmatch() of much', (('x'):rep(1 << 20):gmatch('.-.-y')))\n"
	"add('codes()', (utf8.codes('x')))\n"
	"add('counter:incr', tide.counter('x').incr)\n"
	"add('counter:get', tide.counter('x').get)\n"
	"add('bucket:take', tide.bucket('x', { rate = 1 }).take)\n"
	"local text = ('0'):rep(1 << 20)\n"
	"local code = ('x = x or y '):rep(20000)\n"
	"local zeros = ('\\0'):rep(1 << 20)\n"
	"local emptied = {}\n"
	"for i = 1, 50000 do emptied[i] = i end\n"
	"for i = 1, 50000 do emptied[i] = nil end\n"
	"local chain = {}\n"
	"for _ = 1, 1900 do chain = setmetatable({}, { __index = chain }) end\n"
	"local function object(f)\n"
	"  local m = { __name = text, __index = f, __newindex = f, __call = f, __lt = "
	"f,\n"
	"    __le = f, __eq = f, __tostring = f, __pairs = f,\n"
	"    __unm = f, __add = f }\n"
	"  m.__len = function() return 200000 end\n"
	"  return setmetatable({}, m)\n"
	"end\n"
	"local function many(value, n)\n"
	"  local list = {}\n"
	"  for i = 1, n do list[i] = value end\n"
	"  return list\n"
	"end\n"
	"local sink = setmetatable({}, { __newindex = rawequal })\n"
	"local named = setmetatable({}, { __name = text })\n"
	"local loops = {\n"
	"  function(f) table.move(object(f), 1, 200000, 1, sink) end,\n"
	"  function(f) table.move(chain, 1, 200000, 1, object(f)) end,\n"
	"  function(f) table.insert(object(f), 1, 2) end,\n"
	"  function(f) table.remove(object(f), 1) end,\n"
	"  function(f) table.concat(object(f), text) end,\n"
	"  function(f) table.unpack(object(f), 1, 200000) end,\n"
	"  function(f) table.sort(many(object(f), 1000)) end,\n"
	"  function(f) table.sort(many(text, 50000), f) end,\n"
	"  function(f) table.sort(many(emptied, 50000), f) end,\n"
	"  function(f) table.sort(object(f), f) end,\n"
	"  function(f) text:gsub('', f) end,\n"
	"  function(f) text:gsub('.', object(f)) end,\n"
	"  function(f) text:gsub('.*', f) end,\n"
	"  function(f) for _ = 1, 100 do string.format(('%.0s'):rep(900),\n"
	"    table.unpack(many(object(f), 900))) end end,\n"
	"  function(f) for _ = 1, 100 do local o = object(f)\n"
	"    local _ = -o + o + o + -o + text + o, o < o, o <= text, o == object(f) end "
	"end,\n"
	"  function(f) tide.log(table.unpack(many(object(f), 20000))) end,\n"
	"  function(f) print(table.unpack(many(named, 20000))) end,\n"
	"  function(f) f(table.unpack(many(text, 20000))) end,\n"
	"  function(f) f(('%d'):rep(20000), table.unpack(many(text, 20000))) end,\n"
	"  function(f) f(('%.0s'):rep(20000), table.unpack(many(named, 20000))) end,\n"
	"  function(f) f(('%q'):rep(20), table.unpack(many(zeros, 20))) end,\n"
	"  function(f) f(('i1'):rep(20000), table.unpack(many(text, 20000))) end,\n"
	"  function(f) f(table.unpack(many(65, 200000))) end,\n"
	"  function(f) f(text, 1, -1) f(text, text) end,\n"
	"  function(f) f(zeros, zeros) f(zeros, '.-.-.-1') end,\n"
	"  function(f) f(zeros .. '1', ('%1'):rep(200000)) end,\n"
	"  function(f) f('xx', '()x', ('%1'):rep(200000)) end,\n"
	"  function(f) f(emptied) f(chain, 1) f(f, f) end,\n"
	"  function(f) f(1 << 40) f('x', 1 << 40) f({}, 1, 1 << 40) end,\n"
	"  function(f) for _ = 1, 100 do f(code) end end,\n"
	"  function(f) f(f, object(f)) f(object(f), f) end,\n"
	"  function(f) for a in f, object(f) do f(a) end end,\n"
	"  function(f) for a in pairs(object(f)) do f(a) end end,\n"
	"  function(f) xpcall(error, f, object(f)) end,\n"
	"  function(f) error(object(f)) end,\n"
	"}\n"
	"return { rank = function(msg)\n"
	"  local i, j = msg.key:match '(%d+) (%d+)'\n"
	"  local f, loop = functions[tonumber(i)], loops[tonumber(j)]\n"
	"  if not f then return 0 end\n"
	"  if not loop then return 2 end\n"
	"  for _ = 1, 3 do pcall(loop, f) end\n"
	"  return 1\n"
	"end }\n";

static int call(struct strategy *s, const char *key, double *rank, struct error *err)
{
	struct queue_view queue = { .vhost = SLICE("/"), .name = SLICE("jobs") };
	struct msg *m = make_msg(key, 3, "a=b", NULL);
	int status;
	/* An open circuit calls nothing, for a millisecond. */
	while ((status = strategy_rank(s, &(struct script_question){ m, NULL }, &queue,
				       rank, err)) != TIDE_OK &&
	       strstr(err->text, "(not called again"))
		usleep(200);
	msg_unref(m);
	return status;
}

static void no_function_hides_from_the_budget(void **state)
{
	struct fixture *f = *state;
	int64_t longest = 0;
	unsigned calls = 0;
	double rank = 1;
	f->config.memory_max_bytes = 64 * 1024 * 1024;
	f->config.breaker_rest_ms = 1;
	write_file(f, "priority/all.lua", script);
	start_with_short_budget(f, BUDGET_MS);
	struct strategy *s = NULL;
	assert_int_equal(
		strategy_create(f->engine,
				&(struct strategy_spec){ .kind = SCRIPT_PRIORITY,
							 .name = SLICE("all"),
							 .options = NULL,
							 .user = "queue 'jobs'" },
				&s, &f->err),
		TIDE_OK);
	for (int function = 1; rank != 0; function++) {
		for (int loop = 1; rank != 0; loop++) {
			if ((function + loop) % FULL(1, 7))
				continue;
			char key[32];
			snprintf(key, sizeof(key), "%d %d", function, loop);
			int64_t started = thread_ms();
			rank = 1;
			int status = call(s, key, &rank, &f->err);
			int64_t took = thread_ms() - started;
			calls++;
			longest = took > longest ? took : longest;
			if (getenv("VERBOSE"))
				print_message("%s: %d ms\n", key, (int)took);
			if (took > ceiling_ms(f))
				fail_msg("%s: %d ms: %s", key, (int)took, f->err.text);
			if (status == TIDE_OK && rank == 2)
				break;
		}
	}
	print_message("%u calls, the longest %d ms\n", calls, (int)longest);
	assert_in_range(calls, 2000 / FULL(1, 7), 20000);
	strategy_destroy(s);
}

/* `head`, then `again` up to the longest that a file is, then `tail`. */
static const struct {
	const char *head, *again, *tail;
	const char *expected;
} slow[] = {
	{ "local x\nlocal y = x", "\nor x", "", ": ran longer than" },
	{ "local x\nlocal y = x", "\nand x", "", ": ran longer than" },
	{ "local y =", "{}or\n", "1", ": ran longer than" },
	{ "local x if x then ", "\nelseif x then ", " end", NULL },
	{ "do ", "goto a\n", "::a:: end", ":4097: more than 4096 'goto' and 'break'" },
	{ "while 1 do ", "break\n", "end", ":4097: more than 4096 'goto' and 'break'" },
	{ "", "do local a <close> = nil end\n", "", NULL },
	{ "local t = {", "function() end,\n", "}", NULL },
	{ "local t = {", "{},\n", "}", NULL },
	{ "", ";", "", NULL },
	{ "--[[", "x", "]]", NULL },
	{ "local s = '", "x", "'", NULL },
	{ "local s = ", "'x'..", "'x'", NULL },
	{ "", "::a::\n", "", NULL },
	{ "", "x=x\n", "", NULL },
};

static void no_file_is_compiled_for_longer_than_the_budget(void **state)
{
	struct fixture *f = *state;
	static char text[256 * 1024 + 1];
	start_with_short_budget(f, BUDGET_MS);
	for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++) {
		size_t end = sizeof(text) - 64 - strlen(slow[i].tail);
		size_t len = strlen(strcpy(text, slow[i].head));
		while (len + strlen(slow[i].again) < end)
			len += strlen(strcpy(text + len, slow[i].again));
		strcpy(text + len, slow[i].tail);
		write_file(f, "priority/slow.lua", text);
		int64_t started = thread_ms();
		int status = reload_now(f->engine, &f->err);
		int64_t took = thread_ms() - started;
		if (took > ceiling_ms(f))
			fail_msg("%zu: took %d ms", i, (int)took);
		/* None of them returns a table. */
		assert_int_equal(status, TIDE_ERULE);
		assert_contains(f->err.text, "priority/slow.lua:");
		if (slow[i].expected)
			assert_contains(f->err.text, slow[i].expected);
	}
	memset(text, ' ', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	strcpy(text + sizeof(text) - 40, "return { rank = type }");
	write_file(f, "priority/slow.lua", text);
	if (reload_now(f->engine, &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	strcat(text, "                 "); /* as long as may be */
	assert_int_equal(strlen(text), sizeof(text) - 1);
	write_file(f, "priority/slow.lua", text);
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
}

static void file_over_the_limit_is_refused(void **state)
{
	struct fixture *f = *state;
	static char text[256 * 1024 + 2];
	assert_starts(f);
	memset(text, ' ', sizeof(text) - 1);
	write_file(f, "priority/long.lua", text);
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_ERULE);
	assert_contains(f->err.text,
			"priority/long.lua:1: is larger than 262144 bytes, the limit");
}

/* What setmetatable promises beside refusing: see safe_lib.c. */
static void metatables_are_those_of_the_manual_but_for_some(void **state)
{
	struct fixture *f = *state;
	write_file(
		f, "priority/meta.lua",
		"local Base = {} Base.__index = Base\n"
		"function Base:name() return 'base' end\n"
		"local C = setmetatable({}, Base) C.__index = C\n"
		"local o = setmetatable({}, C)\n"
		"assert(getmetatable(o) == C and getmetatable(C) == Base)\n"
		"assert(o:name() == 'base')\n"
		"function C:name() return 'c' end\n"
		"assert(o:name() == 'c')\n"
		"C.__tostring = function() return 'later' end\n"
		"assert(tostring(o) ~= 'later')\n"
		"assert(tostring(setmetatable({}, C)) == 'later')\n"
		"assert(tostring(o) == 'later')\n"
		"assert(setmetatable(o, nil) == o and getmetatable(o) == nil)\n"
		"assert(not pcall(setmetatable, setmetatable({}, { __metatable = 1 }), "
		"{}))\n"
		"assert(getmetatable(setmetatable({}, { __metatable = 1 })) == 1)\n"
		"local P = {} P.__metatable = P\n"
		"assert(not pcall(setmetatable, setmetatable({}, P), {}))\n"
		"assert(not pcall(setmetatable, {}) and not pcall(setmetatable, {}, 1))\n"
		"assert(not pcall(setmetatable, 1, {}))\n"
		"local a, b = setmetatable({}, C), setmetatable({}, C)\n"
		"C.__eq = function() return true end\n"
		"assert(a ~= b) setmetatable(a, C) assert(a == b)\n"
		"local weak = setmetatable({}, { __mode = 'v' })\n"
		"return { rank = function()\n"
		"  weak[1] = {}\n"
		"  for i = 1, 200000 do local _ = { i } end\n"
		"  return next(weak) == nil and 1 or nil\n"
		"end }\n");
	f->config.call_budget_ms = 5000;
	assert_starts(f);
	struct strategy *s = NULL;
	double rank = 0;
	assert_int_equal(
		strategy_create(f->engine,
				&(struct strategy_spec){ .kind = SCRIPT_PRIORITY,
							 .name = SLICE("meta"),
							 .options = NULL,
							 .user = "queue 'jobs'" },
				&s, &f->err),
		TIDE_OK);
	if (call(s, "k", &rank, &f->err) != TIDE_OK)
		fail_msg("%s", f->err.text);
	strategy_destroy(s);
}

/* `table` and `string` here and in Lua agree, also on what is unusual. */
static void functions_of_tables_are_those_of_the_manual(void **state)
{
	struct fixture *f = *state;
	write_file(
		f, "priority/tables.lua",
		"local t = { 1, 2, 3 }\n"
		"table.insert(t, 4) table.insert(t, 1, 0) table.insert(t, 6, 5)\n"
		"assert(table.concat(t, ',') == '0,1,2,3,4,5')\n"
		"assert(not pcall(table.insert, t, 8, 1) and not pcall(table.insert, t, "
		"0, "
		"1))\n"
		"assert(not pcall(table.insert, t) and not pcall(table.insert, t, 1, 2, "
		"3))\n"
		"assert(not pcall(table.insert, 1, 2) and not pcall(table.insert, 'x', "
		"2))\n"
		"assert(table.remove(t) == 5 and table.remove(t, 1) == 0)\n"
		"assert(table.remove(t, 5) == nil and not pcall(table.remove, t, 6))\n"
		"assert(table.remove({}) == nil and table.remove({}, 0) == nil)\n"
		"assert(table.concat(t, '-', 2, 3) == '2-3' and table.concat(t, 'x', 3, "
		"2) == "
		"'')\n"
		"assert(table.concat({ 1, 2.5, 'x' }) == '12.5x')\n"
		"assert(not pcall(table.concat, { {} }) and not pcall(table.concat, { 1 "
		"}, 'x', "
		"1, 2))\n"
		"assert(table.concat({ [math.maxinteger] = 'x' }, '', math.maxinteger,\n"
		"  math.maxinteger) == 'x')\n"
		"assert(table.concat(table.move({ 1, 2, 3 }, 2, 3, 1)) == '233')\n"
		"assert(table.concat(table.move({ 1, 2, 3 }, 1, 3, 2)) == '1123')\n"
		"assert(table.concat(table.move({ 1, 2, 3 }, 1, 3, 3, { 8, 9 })) == "
		"'89123')\n"
		"assert(#table.move({ 1 }, 1, 0, 5) == 1)\n"
		"assert(table.move({ [math.mininteger] = 1 }, math.mininteger,\n"
		"  math.mininteger, 1)[1] == 1)\n"
		"assert(not pcall(table.move, { 1, 2 }, 1, 2, math.maxinteger))\n"
		"assert(select('#', table.unpack({}, 1, 3)) == 3)\n"
		"assert(select('#', table.unpack({ 1, 2 })) == 2)\n"
		"assert(select('#', table.unpack({}, 2, 1)) == 0)\n"
		"table.sort(t, function(a, b) return a > b end)\n"
		"assert(table.concat(t) == '4321')\n"
		"table.sort(t) assert(table.concat(t) == '1234')\n"
		"assert(string.format('%d %s %%|%5.1f', '3', true, 2) == '3 true %|  "
		"2.0')\n"
		"local o = setmetatable({}, { __tostring = function() return 'o' end })\n"
		"assert(string.format('%s%%%5s|%d', o, o, 3) == 'o%    o|3')\n"
		"assert(string.format(('%s'):rep(40), "
		"table.unpack(table.pack(('x'):rep(40):byte(1, "
		"-1)))) ==\n"
		"  ('120'):rep(40))\n"
		"assert(not pcall(string.format, '%s%s', o) and not pcall(string.format, "
		"'%y', "
		"o))\n"
		"assert(not pcall(string.format, '%', o))\n"
		"assert(math.max(1, '3', 2) == 3 and math.min(2, 1.5) == 1.5)\n"
		"assert(not pcall(math.max) and not pcall(math.max, 'x') and not "
		"pcall(math.max, '1\\0'))\n"
		"assert(string.char(65, '66') == 'AB' and string.char() == '')\n"
		"assert(utf8.char(228, '246') == '\\u{e4}\\u{f6}')\n"
		"assert(next({}) == nil and next({ 5 }) == 1 and not pcall(next, 1))\n"
		"local p = setmetatable({}, { __pairs = function() return next, { a = 1 "
		"} end "
		"})\n"
		"for k, v in pairs(p) do assert(k == 'a' and v == 1) end\n"
		"assert(select('#', pcall(error)) == 2 and select(2, pcall(error, 'x', "
		"0)) == "
		"'x')\n"
		"assert(select(2, xpcall(error, function(m) return m .. '!' end, 'x')) "
		"== "
		"'x!')\n"
		"return { rank = type }\n");
	assert_starts(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	log_configure(LOG_ERROR, false); /* tide.log is among the functions */
	const struct CMUnitTest tests[] = {
		TEST(no_function_hides_from_the_budget),
		TEST(no_file_is_compiled_for_longer_than_the_budget),
		TEST(file_over_the_limit_is_refused),
		TEST(metatables_are_those_of_the_manual_but_for_some),
		TEST(functions_of_tables_are_those_of_the_manual),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
