/* Our pattern functions beside Lua's: what both say of random patterns and
 * subjects is the same, and what Lua's never end, ours do.
 *
 * TIDE_TEST_SEED repeats a run, TIDE_TEST_ROUNDS makes a longer one. */

#include "check.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rules/sandbox/pattern.h"
#include "rules/sandbox/script.h"

struct lab {
	struct watchdog *watchdog;
	struct script_state script;
	const char *chunk;
	lua_Integer seed, rounds;
};

/* Lets the call go on after a budget was used up, as no script can. */
static int l_forget(lua_State *L)
{
	script_state_of(L)->fault[0] = '\0';
	return 0;
}

/* Runs the chunk with both libraries, the seed, the number of rounds and l_forget. */
static int l_run(lua_State *L)
{
	struct lab *lab = lua_touserdata(L, 1);
	luaL_openlibs(L);
	if (luaL_loadbufferx(L, lab->chunk, strlen(lab->chunk), "=test.lua", "t"))
		return lua_error(L);
	lua_getglobal(L, "string");
	lua_newtable(L);
	pattern_lib_install(L, lua_gettop(L));
	lua_pushinteger(L, lab->seed);
	lua_pushinteger(L, lab->rounds);
	lua_pushcfunction(L, l_forget);
	lua_call(L, 5, 0);
	return 0;
}

static int run(const char *chunk, int64_t budget_ms, struct error *err)
{
	const char *seed = getenv("TIDE_TEST_SEED");
	const char *rounds = getenv("TIDE_TEST_ROUNDS");
	struct lab lab = { .chunk = chunk,
			   .seed = seed ? atoll(seed) : 1,
			   .rounds = rounds ? atoll(rounds) : 30000 };
	struct script_call call = { .file = "test.lua", .body = l_run, .ctx = &lab };
	assert_int_equal(watchdog_create(&lab.watchdog, budget_ms, script_on_overrun),
			 TIDE_OK);
	assert_int_equal(script_state_init(&lab.script, lab.watchdog, 64 * 1024 * 1024),
			 TIDE_OK);
	int status = script_enter(&lab.script, &call, err);
	script_state_deinit(&lab.script);
	watchdog_destroy(lab.watchdog);
	return status;
}

static void expect_ok(const char *chunk)
{
	struct error err;
	if (run(chunk, 120000, &err) != TIDE_OK)
		fail_msg("%s", err.text);
}

/* Patterns are made of pieces, so that most are right; those that are wrong are
 * wrong for both, but ours says so also where a match does not come to it. */
static const char differential[] =
	"local stock, safe, seed, rounds = ...\n"
	"math.randomseed(seed)\n"
	"print('TIDE_TEST_SEED=' .. seed)\n"
	"local random = math.random\n"
	"local function one(list) return list[random(#list)] end\n"
	"local singles = { 'a', 'b', 'c', '.', '%a', '%d', '%s', '%w', '%p', '%W',\n"
	"  '%D', '%x', '%u', '%l', '%c', '%g', '%G', '%.', '%%', '%]', '[ab]',\n"
	"  '[^ab]', '[a-c]', '[%w_]', '[^%s]', '[]a]', '[^]]', '[a-]', '[-a]',\n"
	"  '[%-a]', '[a%]b]', '[\\0-\\127]', '\\0', '\\255', '[\\200-\\255]', '$', '^',\n"
	"  '[a-%w]', '[%a-z]', '-', '%z', '%Z', '[%z]', '[^%Z]', '%y' }\n"
	"local signs = { '', '', '', '*', '+', '-', '?' }\n"
	"local others = { '(', ')', '()', '%1', '%2', '%b()', '%bab', '%bxx',\n"
	"  '%f[%w]', '%f[^%w]', '%f[\\0]', '%f[a-c]' }\n"
	"local wrong = { '[', '[a', '%', '%b', '%f', '%ba', '(', ')', '%3', '%0', '[^',\n"
	"  '[%', '[a-' }\n"
	"local function pattern()\n"
	"  local p, open = {}, 0\n"
	"  if random(8) == 1 then p[1] = '^' end\n"
	"  for i = 1, random(0, 7) do\n"
	"    if random(4) == 1 then\n"
	"      local o = one(others)\n"
	"      if o == '(' then open = open + 1 end\n"
	"      if o == ')' then if open == 0 then o = '' else open = open - 1 end end\n"
	"      p[#p + 1] = o\n"
	"    else\n"
	"      p[#p + 1] = one(singles) .. one(signs)\n"
	"    end\n"
	"  end\n"
	"  p[#p + 1] = (')'):rep(open)\n"
	"  if random(8) == 1 then p[#p + 1] = '$' end\n"
	"  if random(20) == 1 then table.insert(p, random(#p), one(wrong)) end\n"
	"  return table.concat(p)\n"
	"end\n"
	"local alphabet = { 'a', 'a', 'a', 'b', 'b', 'c', 'x', '(', ')', ' ', '1', '.',\n"
	"  '-', ']', '%', '$', '^', '\\0', '\\n', '\\255', '_', 'Z' }\n"
	"local function subject()\n"
	"  local s = {}\n"
	"  for i = 1, random(0, 14) do s[i] = one(alphabet) end\n"
	"  return table.concat(s)\n"
	"end\n"
	"local function iterate(lib) return function(...)\n"
	"  local all = {}\n"
	"  for a, b, c in lib.gmatch(...) do\n"
	"    all[#all + 1] = ('%s|%s|%s'):format(a, b, c)\n"
	"  end\n"
	"  return table.concat(all, ';')\n"
	"end end\n"
	"local inits = { 1, 1, 2, 5, 0, -1, -3, 15, 100, -100 }\n"
	"local texts = { 'x', '', '%0', '<%1>', '%%', '%0%0', '%2', '%', '%x', 7 }\n"
	"local tables = { { a = 1, b = false, ab = 'AB' },\n"
	"  setmetatable({}, { __index = function(_, k) return k and '!' end }),\n"
	"  function(a, b) return b end, function() end, function(...) return #... end,\n"
	"  function(a) return a and a ~= 'b' and {} or nil end }\n"
	"local function quote(v)\n"
	"  return type(v) == 'string' and stock.format('%q', v) or tostring(v)\n"
	"end\n"
	"local errors, matches = 0, 0\n"
	"local function compare(name, f, g, ...)\n"
	"  local want, got = table.pack(pcall(f, ...)), table.pack(pcall(g, ...))\n"
	"  local is_same = want[1] == got[1] and (not want[1] or want.n == got.n)\n"
	"  for i = 2, want[1] and want.n or 0 do\n"
	"    is_same = is_same and want[i] == got[i]\n"
	"      and math.type(want[i]) == math.type(got[i])\n"
	"  end\n"
	"  if not got[1] then errors = errors + 1\n"
	"  elseif got[2] then matches = matches + 1 end\n"
	"  -- Wrong parts that Lua's matcher did not come to.\n"
	"  local text = tostring(got[2])\n"
	"  if want[1] and not got[1] and (text:find('malformed', 1, true) or\n"
	"      text:find('capture', 1, true) or text:find(\"missing '['\", 1, true)) "
	"then\n"
	"    return\n"
	"  end\n"
	"  if is_same then return end\n"
	"  local args, n = {}, select('#', ...)\n"
	"  for i = 1, n do args[i] = quote((select(i, ...))) end\n"
	"  for i = 1, math.max(want.n, got.n) do\n"
	"    want[i], got[i] = quote(want[i]), quote(got[i])\n"
	"  end\n"
	"  error(('seed %d: %s(%s) is %s, not %s'):format(seed, name,\n"
	"    table.concat(args, ', '), table.concat(got, ', '), table.concat(want, ', "
	"')), "
	"0)\n"
	"end\n"
	"for i = 1, rounds do\n"
	"  local s, p = subject(), pattern()\n"
	"  compare('find', stock.find, safe.find, s, p, one(inits))\n"
	"  compare('find', stock.find, safe.find, s, subject(), one(inits), true)\n"
	"  compare('match', stock.match, safe.match, s, p, one(inits))\n"
	"  compare('gmatch', iterate(stock), iterate(safe), s, p, one(inits))\n"
	"  compare('gsub', stock.gsub, safe.gsub, s, p, one(texts))\n"
	"  compare('gsub', stock.gsub, safe.gsub, s, p, one(tables))\n"
	"  compare('gsub', stock.gsub, safe.gsub, s, p, one(texts), random(-1, 4))\n"
	"end\n"
	"print(matches .. ' matches, ' .. errors .. ' errors')\n"
	"assert(matches > rounds and errors > 0)\n";

TEST_THAT(random_patterns_match_as_those_of_lua)
{
	expect_ok(differential);
}

static const char long_ones[] =
	"local stock, safe = ...\n"
	"local big = ('abc,def '):rep(20000)\n"
	"for _, p in ipairs { '%a+', '[^,]*', '(%a-),', '.-$', '^.*$', '()', "
	"'%f[%w]%w+',\n"
	"    ('[a-c]'):rep(3) .. (',?'):rep(100) } do\n"
	"  assert(stock.find(big, p) == safe.find(big, p), p)\n"
	"  local a, n = stock.gsub(big, p, '<%0>')\n"
	"  local b, k = safe.gsub(big, p, '<%0>')\n"
	"  assert(a == b and n == k, p)\n"
	"end\n"
	"-- Deeper than Lua's own matcher goes.\n"
	"assert(safe.find(('a'):rep(1000), ('a?'):rep(1000)) == 1)\n"
	"assert(select('#', safe.match('x', ('()'):rep(32))) == 32)\n"
	"assert(not pcall(safe.match, 'x', ('()'):rep(33)))\n"
	"assert(not pcall(safe.gsub, 'x', 'x'))\n"
	"assert(not pcall(safe.find, {}, 'x'))\n"
	"assert(safe.find(123, 2) == 2)\n";

TEST_THAT(long_patterns_and_subjects_match_as_those_of_lua)
{
	expect_ok(long_ones);
}

static const char pathological[] =
	"local _, safe, _, _, forget = ...\n"
	"local hostile = {\n"
	"  { ('a?'):rep(40) .. ('a'):rep(40), ('a'):rep(39) },\n"
	"  { ('a*'):rep(20) .. 'b', ('a'):rep(200) },\n"
	"  { ('a-'):rep(20) .. 'b', ('a'):rep(200) },\n"
	"  { ('.-'):rep(20) .. 'x', ('a'):rep(1000) },\n"
	"  { '.-.-.-.-b$', ('a'):rep(100000) },\n"
	"  { '(.-)%1%1%1b', ('a'):rep(100000) },\n"
	"  { '(.*)(.*)(.*)(.*)(.*)x', ('a'):rep(10000) },\n"
	"  { '%b()', ('('):rep(1000000) },\n"
	"  { ('[ab]*'):rep(1000) .. 'c', ('ab'):rep(1000) },\n"
	"}\n"
	"local function expect(name, ok, message)\n"
	"  forget()\n"
	"  assert(not ok and message:find('string.' .. name, 1, true)\n"
	"    and message:find('budget of', 1, true), message)\n"
	"end\n"
	"local most\n"
	"for i, h in ipairs(hostile) do\n"
	"  local p, s = h[1], h[2]\n"
	"  local before = os.clock()\n"
	"  expect('find', pcall(safe.find, s, p))\n"
	"  local took = os.clock() - before\n"
	"  most = most or 100 * took -- however fast the machine is\n"
	"  assert(took < most, 'slow: ' .. i)\n"
	"  expect('match', pcall(safe.match, s, p))\n"
	"  expect('gsub', pcall(safe.gsub, s, p, 'x'))\n"
	"  expect('gmatch', pcall(safe.gmatch(s, p)))\n"
	"end\n"
	"-- Linear, whatever is looked for.\n"
	"local s = ('a'):rep(1000000)\n"
	"assert(not safe.find(s, ('a'):rep(500000) .. 'b', 1, true))\n";

TEST_THAT(hostile_patterns_stop_at_the_budget)
{
	expect_ok(pathological);
}

TEST_THAT(time_budget_stops_a_match_too)
{
	struct error err;
	int status = run("local _, safe = ...\n"
			 "local s = ('a'):rep(1 << 20):rep(16)\n"
			 "while true do safe.find(s, '.-.-b') end",
			 50, &err);
	assert_int_equal(status, TIDE_ERULE);
	if (!strstr(err.text, "test.lua:3: "))
		fail_msg("%s", err.text);
}

RUN_TESTS()
