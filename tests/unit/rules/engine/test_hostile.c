/* Scripts that mean harm, or were written in a hurry: each costs its caller an
 * error with file and line, in bounded time, and the engine works on. */

#include "fixture.h"

#include <time.h>

static int64_t clock_ms(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Lua from 5.4.5 on cannot tell the line of a call whose stack finds no room. */
#define NO_STACK "hostile.lua:"

/* Each is the body of `rank`; `expected` is in the error. Where the error has no
 * better place it is where the body begins, line 2. */
static const struct {
	const char *name;
	const char *body;
	const char *expected;
} in_calls[] = {
	{ "endless loop", "while true do end", "hostile.lua:2: ran longer than" },
	{ "endless loop in pcall",
	  "while true do pcall(function() while true do end end) end",
	  "hostile.lua:2: ran longer than" },
	{ "endless loop in xpcall",
	  "while true do xpcall(function() while true do end end,"
	  " function() while true do end end) end",
	  "hostile.lua:2: ran longer than" },
	{ "endless loop in a metamethod",
	  "return setmetatable({}, { __index = function(t, k) return t[k + 1] end })[1]",
	  "hostile.lua:2: " },
	{ "a close handler",
	  "local x <close> = setmetatable({}, { __close = function() end })",
	  "hostile.lua:2: a script's metatable cannot have __close" },
	{ "__close set later",
	  "local m = {} local o = setmetatable({}, m) m.__close = print",
	  "hostile.lua:2: a script's metatable cannot have __close" },
	/* A metatable with a metatable of its own: what it gains is not seen. */
	{ "__close set later, unseen",
	  "local m = setmetatable({}, {}) local o = setmetatable({}, m) m.__close = print"
	  " local x <close> = o",
	  "hostile.lua:2: variable 'x' got a non-closable value" },
	{ "a break out of a loop whose fourth value has __close",
	  "local m = setmetatable({}, {}) local o = setmetatable({}, m)"
	  " local function d(n) return n == 0 and 0 or 1 + d(n - 1) end"
	  " m.__close = function() d(9000) end"
	  " for i = 1, 9 do for k in pairs, nil, nil, o do local function f() return k "
	  "end"
	  " break end end",
	  "hostile.lua:2: variable '(for state)' got a non-closable value" },
	{ "endless goto", "::again:: goto again", "hostile.lua:2: ran longer than" },
	{ "tables without end", "local t = {} while true do t[#t + 1] = {} end",
	  "hostile.lua:2: over the rules' memory ceiling" },
	{ "tables without end in pcall",
	  "while true do pcall(function() local t = {} while true do t = { t } end end) "
	  "end",
	  "collecting memory: the rules' memory ceiling of 8192 KiB is reached "
	  "(--rules-memory)" },
	{ "doubling a string", "local s = 'x' while true do s = s .. s end",
	  "hostile.lua:2: over the rules' memory ceiling" },
	{ "string.rep", "return #string.rep('x', 1 << 40)", "hostile.lua:2: string.rep" },
	{ "string.rep as a method", "return #('x'):rep(1 << 40)",
	  "hostile.lua:2: string.rep" },
	{ "string.rep with a separator", "return #('x'):rep(10, ('y'):rep(1 << 18))",
	  "hostile.lua:2: string.rep" },
	{ "string.format", "return #string.format('%99999999d', 1)", "hostile.lua:2: " },
	{ "table.concat", "local t = {} for i = 1, 1000 do t[i] = ('x'):rep(1 << 20) end",
	  "hostile.lua:2: over the rules' memory ceiling" },
	{ "table.insert into a table of any length",
	  "table.insert(setmetatable({}, { __len = function() return 1 << 50 end }), 1, "
	  "1)",
	  "hostile.lua:2: more than" },
	{ "table.move", "table.move({}, 1, 1 << 50, 2)", "hostile.lua:2: more than" },
	{ "table.concat over any range",
	  "return table.concat({}, '', -(1 << 62), 1 << 62)",
	  "hostile.lua:2: more than" },
	{ "table.sort of equal strings",
	  "local t, s = {}, ('x'):rep(1 << 13) for i = 1, 100000 do t[i] = s .. (i % 7) "
	  "if i > 90 then t[i] = t[i - 90] end end table.sort(t)",
	  "hostile.lua:2: ran longer than" },
	{ "table.unpack", "return select('#', table.unpack({}, 1, 1e8))",
	  "hostile.lua:2: more than 262144 elements" },
	{ "table.sort by a C function",
	  "local t, s = {}, ('x'):rep(1 << 16)"
	  " for i = 1, 1e5 do t[i] = s end table.sort(t, string.find)",
	  "hostile.lua:2: " },
	{ "table.concat as a metamethod of table.move",
	  "local t = { 'x', ('y'):rep(1 << 18) } for i = 3, 200 do t[i] = t[2] end"
	  " table.move(setmetatable(t, { __index = table.concat }), 201, 200000, 1, {})",
	  "hostile.lua:2: " },
	{ "a chain of __index in table.move",
	  "local o = {} for _ = 1, 1900 do o = setmetatable({}, { __index = o }) end"
	  " while true do table.move(o, 1, 262144, 1, {}) end",
	  "hostile.lua:2: ran longer than" },
	{ "a long number, many times",
	  "local s, t = ('0'):rep(1 << 18), {} for i = 1, 9000 do t[i] = s end"
	  " return math.max(table.unpack(t))",
	  "hostile.lua:2: ran longer than" },
	{ "a long number in string.format",
	  "local s, t = ('0'):rep(1 << 18), {} for i = 1, 9000 do t[i] = s end"
	  " return #string.format(('%d'):rep(9000), table.unpack(t))",
	  "hostile.lua:2: ran longer than" },
	{ "numbers of many digits",
	  "local t = {} for i = 1, 9000 do t[i] = 1e308 end"
	  " return #string.format(('%99.99f'):rep(9000), table.unpack(t))",
	  "hostile.lua:2: " },
	{ "nothing of long names",
	  "local o, t = setmetatable({}, { __name = ('n'):rep(1 << 20) }), {}"
	  " for i = 1, 1000 do t[i] = o end"
	  " for _ = 1, 900 do string.format(('%.0s'):rep(1000), table.unpack(t)) end",
	  "hostile.lua:2: ran longer than" },
	{ "the log of long names",
	  "local o, t = setmetatable({}, { __name = ('n'):rep(1 << 20) }), {}"
	  " for i = 1, 50000 do t[i] = o end tide.log(table.unpack(t))",
	  NO_STACK },
	{ "the log of many, of all lengths",
	  "local t = {} for i = 1, 9000 do t[i] = 'x' end"
	  " for n = 1, 9000, 200 do tide.log.error(table.unpack(t, 1, n)) end "
	  "error('done')",
	  "hostile.lua:2: done" },
	{ "next over what is gone, in gsub",
	  "local t = {} for i = 1, 60000 do t[i] = i end for i = 1, 60000 do t[i] = nil "
	  "end"
	  " local f = pairs(t) local m = { __index = f }"
	  " while true do ('x'):rep(1000):gsub('.', function() f(t) end) end",
	  "hostile.lua:2: ran longer than" },
	{ "numbers that share a place when the table grows",
	  "local t = {} for i = 1, 1 << 20 do t[i * 65535] = i end",
	  "hostile.lua:2: a table needs more than the budget of" },
	{ "the same in pcall",
	  "local t = {} local function f(n) t[n] = n end"
	  " for i = 1, 1 << 20 do pcall(f, i * 65535) end",
	  "hostile.lua:2: a table needs more than the budget of" },
	{ "the same by rawset",
	  "local t = {} for i = 1, 1 << 20 do rawset(t, i * 65535, i) end",
	  "hostile.lua:2: a table needs more than the budget of" },
	{ "numbers that do not share a place",
	  "local t = {} for i = 1, 20000 do t[i * 7 + (1 << 40)] = i t[i / 3 + 0.1] = i "
	  "end"
	  " error('done')",
	  "hostile.lua:2: done" },
	{ "captures without end",
	  "local r = ('%1'):rep(1 << 18) while true do ('xxxx'):gsub('()x', r) end",
	  "hostile.lua:2: " },
	{ "a pattern's budget in pcall",
	  "return pcall(string.find, ('a'):rep(39), ('a?'):rep(40) .. ('a'):rep(40)) and "
	  "1 or 2",
	  "hostile.lua:2: string.find: the pattern needs more than its budget" },
	{ "a pattern's budget in xpcall",
	  "return xpcall(string.find, function() return 1 end, ('a'):rep(39),"
	  " ('a?'):rep(40) .. ('a'):rep(40)) and 1 or 2",
	  "hostile.lua:2: string.find: the pattern needs more than its budget" },
	{ "a stack that grows in __concat",
	  "local m, o = {} local function d(n) return n == 0 and 1 or 1 + d(n - 1) end"
	  " m.__concat = function() d(5000) return o end o = setmetatable({}, m)"
	  " for _ = 1, 10 do local _ = o .. o .. o .. o end",
	  "hostile.lua:2: a script's metatable cannot have __concat" },
	{ "__concat set later",
	  "local m = setmetatable({}, {}) local o = setmetatable({}, m) m.__concat = "
	  "type return o .. o",
	  "hostile.lua:2: attempt to concatenate a table value" },
	{ "weak keys", "setmetatable({}, { __mode = 'k' })",
	  "hostile.lua:2: a script's metatable cannot have __mode 'k'" },
	{ "weak keys and values", "setmetatable({}, { __mode = 'vk' })",
	  "hostile.lua:2: a script's metatable cannot have __mode 'vk'" },
	{ "weak keys, later, to the collector",
	  "local m = setmetatable({}, {}) local t = setmetatable({}, m) m.__mode = 'k'"
	  " local ks = {} for i = 1, 12000 do ks[i] = {} end"
	  " for i = 1, 11999 do t[ks[i]] = ks[(i * 7919) % 11999 + 1] end"
	  " ks = { ks[1] } for i = 1, 30000 do ks[2] = { i } end error('done')",
	  "hostile.lua:2: done" },
	{ "weak keys, later, and again",
	  "local m = setmetatable({}, {}) local t = setmetatable({}, m) m.__mode = 'k'"
	  " assert(getmetatable(t) == m) setmetatable(t, m)",
	  "hostile.lua:2: a script's metatable cannot have __mode 'k'" },
	{ "string.pack", "return #string.pack('c1000000000', '')",
	  "hostile.lua:2: string.pack" },
	{ "string.pack of many", "return #string.pack(('c65536'):rep(1000), '')",
	  "hostile.lua:2: string.pack" },
	{ "string.byte of much", "return (('x'):rep(1 << 20):byte(1, -1))",
	  "hostile.lua:2: " },
	{ "utf8.codepoint of much", "return (utf8.codepoint(('x'):rep(1 << 20), 1, -1))",
	  "hostile.lua:2: " },
	{ "forty a? over forty a",
	  "return ('a'):rep(39):find(('a?'):rep(40) .. ('a'):rep(40))",
	  "hostile.lua:2: string.find: the pattern needs more than its budget" },
	{ "the same in gsub",
	  "return ('a'):rep(39):gsub(('a?'):rep(40) .. ('a'):rep(40), '')",
	  "hostile.lua:2: string.gsub: the pattern needs more than its budget" },
	{ "patterns again and again in pcall",
	  "while true do pcall(string.find, ('a'):rep(39), ('a?'):rep(40) .. "
	  "('a'):rep(40)) "
	  "end",
	  "hostile.lua:2: string.find: the pattern needs more than its budget" },
	{ "gsub with a C function",
	  "local s = ('x'):rep(1 << 20)"
	  " return s:gsub('', function() return s end)",
	  "hostile.lua:2: " },
	{ "pcall of pcall",
	  "local function f() return pcall(pcall, pcall, function() while true do end "
	  "end) "
	  "end while true do f() end",
	  "hostile.lua:2: ran longer than" },
	{ "a comparison that is endless",
	  "local m = { __lt = function() while true do end end }"
	  " return setmetatable({}, m) < setmetatable({}, m)",
	  "hostile.lua:2: ran longer than" },
	{ "__gc set later",
	  "local m = setmetatable({}, {}) setmetatable({}, m) m.__gc = function() end"
	  " setmetatable({}, m)",
	  "hostile.lua:2: a script's metatable cannot have __gc" },
	{ "deep recursion in pcall",
	  "local function f() return 1 + select(2, pcall(f)) end return f() .. ''",
	  "hostile.lua:2: " },
	{ "error(42)", "error(42)", "hostile.lua:2: 42" },
	{ "error(false)", "error(false)",
	  "hostile.lua:2: an error that is not a text but a boolean" },
	{ "error of a function", "error(print)",
	  "hostile.lua:2: an error that is not a text but a function" },
	{ "error of a view", "error(msg)",
	  "hostile.lua:2: an error that is not a text but a" },
	{ "deep recursion", "local function f() return 1 + f() end return f()",
	  NO_STACK },
	{ "deep recursion through C",
	  "local function f(s) return (s:gsub('.', f)) end return f('x')",
	  "hostile.lua:2: " },
	{ "deep recursion in the error handler",
	  "local function f() error(setmetatable({}, { __tostring = f })) end f()",
	  "hostile.lua" },
	{ "tostring that fails", "error(setmetatable({}, { __tostring = error }))",
	  "hostile.lua" },
	{ "tostring that is endless",
	  "error(setmetatable({}, { __tostring = function() while true do end end }))",
	  "hostile.lua" },
	{ "error(nil)", "error(nil)",
	  "hostile.lua:2: an error that is not a text but a nil" },
	{ "error({})", "error({})",
	  "hostile.lua:2: an error that is not a text but a table" },
	{ "error of many lines", "error('a\\nb\\27[31m', 0)", "hostile.lua:2: a b" },
	{ "error with a text of its own",
	  "error(setmetatable({}, { __tostring = function() return 'mine' end }))",
	  "hostile.lua:2: mine" },
	{ "a constant _ENV", "local _ENV <const> = 11 X = 'hi'",
	  "hostile.lua:2: attempt to index a number value" },
	{ "io", "return io.open('/etc/passwd')", "hostile.lua:2: " },
	{ "os", "os.exit(1)", "hostile.lua:2: " },
	{ "debug", "debug.sethook()", "hostile.lua:2: " },
	{ "load of bytecode", "assert(load('\\27Lua'))",
	  "hostile.lua:1: is bytecode; a script must be Lua text" },
	{ "load of a function", "load(function() return 'return 1' end)",
	  "hostile.lua:2: bad argument #1 to 'load' (load takes a text" },
	{ "load of nonsense", "assert(load('x x'))",
	  "load@priority/hostile.lua:1: syntax error" },
	{ "load with a name that lies", "load('error(1)', '=filter/other.lua:7: x')()",
	  "load(filter_other_lua)@priority/hostile.lua:1: 1 (called from "
	  "priority/hostile.lua:2)" },
	{ "load of more than a file may have", "assert(load((' '):rep(262145)))",
	  "the text is larger than 262144 bytes, the limit for a file" },
	{ "load of more jumps than a file may have",
	  "assert(load(('goto x '):rep(4097)))",
	  "load@priority/hostile.lua:1: more than 4096 'goto' and 'break' in a file" },
	{ "load with an environment that cannot be written",
	  "load('x = 1', '=x', 't', require 'tide.dests')()",
	  "load(x)@priority/hostile.lua:1: this table is read-only" },
	{ "load with no environment", "load('return print', '=x', 't', nil)()",
	  "load(x)@priority/hostile.lua:1: attempt to index a nil value (upvalue "
	  "'_ENV')" },
	{ "load of an endless loop", "load('while true do end')()",
	  "load@priority/hostile.lua:1: ran longer than its budget" },
	{ "load of an endless loop in pcall",
	  "while true do pcall(load('while true do end')) end",
	  "ran longer than its budget" },
	{ "load without end", "while true do load(('x = x or y '):rep(20000)) end",
	  "ran longer than its budget" },
	{ "functions of load without end",
	  "local t = {} while true do t[#t + 1] = assert(load('return \"' .. #t .. "
	  "'\"')) end",
	  "" },
	{ "load that constant _ENV", "load(\"local _ENV <const> = 11 X = 'hi'\")()",
	  "load@priority/hostile.lua:1: attempt to index a number value" },
	{ "rawset of a module", "rawset(require 'tide.dests', 'new', nil)",
	  "hostile.lua:2: this table is read-only" },
	{ "rawset of tide.log", "rawset(tide.log, 'info', nil)",
	  "hostile.lua:2: this table is read-only" },
	{ "rawset of an option", "rawset(opts, 'x', 1)",
	  "hostile.lua:2: this table is read-only" },
	{ "rawset of the message", "rawset(msg, 'key', 1)",
	  "hostile.lua:2: bad argument #1 to 'rawset' (table expected" },
	{ "rawset with no key", "rawset({}, nil, 1)",
	  "hostile.lua:2: table index is nil" },
	{ "rawset of __gc", "local m = {} setmetatable({}, m) rawset(m, '__gc', print)",
	  "hostile.lua:2: a script's metatable cannot have __gc" },
	{ "rawset of __gc behind a metatable",
	  "local m = setmetatable({}, { __newindex = print }) local o = setmetatable({}, "
	  "m)"
	  " rawset(m, '__close', print) local x <close> = o",
	  "hostile.lua:2: a script's metatable cannot have __close" },
	{ "__mode set later", "local m = {} setmetatable({}, m) m.__mode = 'k'",
	  "hostile.lua:2: a script's metatable cannot have __mode 'k'" },
	{ "__close that replaces another value",
	  "local m = { __close = false } setmetatable({}, m)",
	  "hostile.lua:2: a script's metatable cannot have __close" },
	{ "the guard of a metatable",
	  "local m = {} setmetatable({}, m)"
	  " error(tostring(getmetatable(m)))",
	  "hostile.lua:2: nil" },
	{ "a traceback has no addresses",
	  "error(debug.traceback('x'):match '0x%x+' or 'none')", "hostile.lua:2: none" },
	{ "debug.getupvalue", "debug.getupvalue(print, 1)",
	  "hostile.lua:2: attempt to call a nil value (field 'getupvalue')" },
	{ "dofile", "dofile('/etc/passwd')", "hostile.lua:2: " },
	{ "coroutine", "coroutine.wrap(function() end)()", "hostile.lua:2: " },
	{ "collectgarbage", "collectgarbage('stop')", "hostile.lua:2: " },
	{ "package", "package.loadlib('x', 'y')", "hostile.lua:2: " },
	{ "string.dump", "string.dump(function() end)", "hostile.lua:2: " },
	{ "math.random", "return math.random()", "hostile.lua:2: " },
	{ "require in a decision", "require 'late'", "hostile.lua:2: module 'late'" },
	{ "require of a path", "require '../../etc/passwd'",
	  "hostile.lua:2: bad argument" },
	{ "__gc", "setmetatable({}, { __gc = function() end })",
	  "hostile.lua:2: a script's metatable cannot have __gc" },
	{ "changing the methods of strings", "getmetatable('').__index.rep = nil",
	  "hostile.lua:2: " },
	{ "changing a module", "require 'tide.dests'.new = nil",
	  "hostile.lua:2: this table is read-only" },
	{ "changing a module's metatable",
	  "getmetatable(require 'tide.dests').__index = {}", "hostile.lua:2: " },
	{ "replacing a module's metatable", "setmetatable(require 'tide.dests', {})",
	  "hostile.lua:2: cannot change a protected metatable" },
	{ "changing tide.log", "tide.log.info = nil", "hostile.lua:2: this table is" },
	{ "changing an option", "opts.x = 1", "hostile.lua:2: this table is read-only" },
	{ "writing a message", "msg.key = 'x'", "hostile.lua:2: 'msg' is read-only" },
	{ "writing a header", "msg.headers.x = 'y'", "hostile.lua:2: 'msg.headers' is" },
	{ "the address of a table", "error(tostring({}) .. ' ' .. ('%s'):format(print))",
	  "hostile.lua:2: table function" },
	{ "the address of a view", "error(tostring(msg) .. ' ' .. tostring(queue))",
	  "hostile.lua:2: msg queue" },
	{ "the address of a function, long",
	  "error(('%s'):rep(40):format(table.unpack("
	  "setmetatable({}, { __index = function() return print end }), 1, 40)))",
	  "hostile.lua:2: functionfunction" },
	{ "the address in an error", "return msg[{}]",
	  "hostile.lua:2: there is no "
	  "'msg.table'; it has" },
	{ "%p of a text", "return ('%p'):format('x')",
	  "hostile.lua:2: string.format: no '%p': a script sees no addresses" },
	{ "%p behind a zero byte", "return ('\\0%-9p'):format({})",
	  "hostile.lua:2: string.format: no '%p': a script sees no addresses" },
	{ "a field that is not there", "return msg.prioritty",
	  "hostile.lua:2: there is no 'msg.prioritty'; it has "
	  "attempt" },
	{ "a queue's field that is not there", "return queue.length",
	  "hostile.lua:2: there is no 'queue.length'; it has name" },
	{ "NaN", "return 0 / 0", "hostile.lua:1: rank must return a finite number" },
	{ "infinity", "return math.huge",
	  "hostile.lua:1: rank must return a finite number" },
	{ "text for a number", "return '12'",
	  "hostile.lua:1: rank must return a finite" },
	{ "nothing", "", "hostile.lua:1: rank must return a finite number, not nil" },
	{ "a table", "return {}", "hostile.lua:1: rank must return a finite number" },
};

static int call(struct fixture *f, struct strategy *s)
{
	struct queue_view queue = { .vhost = SLICE("/"), .name = SLICE("jobs") };
	struct msg *m = make_msg("k", 3, "a=b", NULL);
	double rank = 0;
	int status = strategy_rank(s, &(struct script_question){ m, NULL }, &queue, &rank,
				   &f->err);
	msg_unref(m);
	return status;
}

static struct strategy *use(struct fixture *f, const char *name)
{
	struct strategy *s = NULL;
	if (strategy_create(f->engine,
			    &(struct strategy_spec){ .kind = SCRIPT_PRIORITY,
						     .name = slice_from(name),
						     .user = "queue 'jobs'" },
			    &s, &f->err) != TIDE_OK)
		fail_msg("%s: %s", name, f->err.text);
	return s;
}

/* Does its time end it, or may it? */
static bool is_of_time(const char *expected)
{
	return strstr(expected, "ran longer") ||
	       strlen(expected) <= strlen("hostile.lua:2: ");
}

static void end_in_an_error(struct fixture *f, size_t row)
{
	char script[1024];

	if (getenv("VERBOSE"))
		print_message("%s\n", in_calls[row].name);
	snprintf(script, sizeof(script),
		 "return { rank = function(msg, queue, opts)\n%s\nend }\n",
		 in_calls[row].body);
	write_file(f, "priority/hostile.lua", script);
	reload_in_budget(f);
	struct strategy *s = use(f, "hostile");
	int status = call(f, s);
	if (status != TIDE_ERULE || !strstr(f->err.text, in_calls[row].expected))
		fail_msg("%s: %d \"%s\"", in_calls[row].name, status, f->err.text);
	if (strpbrk(f->err.text, "\n\r\033"))
		fail_msg("%s: more than a line", in_calls[row].name);
	strategy_destroy(s);
}

static void try_calls(struct fixture *f, bool of_time)
{
	struct strategy *strict = use(f, "strict");

	for (size_t i = 0; i < sizeof(in_calls) / sizeof(in_calls[0]); i++) {
		if (is_of_time(in_calls[i].expected) != of_time)
			continue;
		end_in_an_error(f, i);
		assert_int_equal(call(f, strict), TIDE_OK);
	}
	strategy_destroy(strict);
}

TEST_THAT(hostile_calls_end_in_an_error_with_its_line)
{
	struct fixture *f = *state;
	f->config.memory_max_bytes = 8 * 1024 * 1024;
	/* For some rows it must not be more: a table of 32,768 numbers is too slow. */
	f->config.call_budget_ms = 1000;
	assert_starts(f);
	try_calls(f, false);
}

TEST_THAT(calls_without_end_end_when_their_time_is_up)
{
	struct fixture *f = *state;
	f->config.memory_max_bytes = 8 * 1024 * 1024;
	start_with_short_budget(f, 100);
	try_calls(f, true);
}

/* Whole files that must not load; `expected` is in the refusal. */
static const struct {
	const char *name;
	const char *text;
	const char *expected;
} at_load[] = {
	{ "empty file", "", "hostile.lua:1: a script must return a table" },
	{ "half a file", "return {\n  rank = function() return", "hostile.lua:2:" },
	{ "bytecode", "\033LuaT", "hostile.lua:1: is bytecode" },
	{ "endless loop", "\nwhile true do end", "hostile.lua:2: ran longer than" },
	{ "memory", "\n\nlocal t = {} while true do t[#t + 1] = {} end",
	  "hostile.lua:3: over the rules' memory ceiling" },
	{ "os", "os.exit(3)", "hostile.lua:1: " },
	{ "nesting",
	  "return ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
	  "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
	  "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
	  "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
	  "1",
	  "hostile.lua:1: " },
	{ "no function", "return {}",
	  "hostile.lua:1: a priority script needs a function" },
	{ "no function but a number", "return {\nrank = 1\n}",
	  "hostile.lua:3: a priority script needs a function 'rank'; here it is number" },
	{ "a misspelt key", "return { rank = type, puer = true }",
	  "hostile.lua:1: a priority script has no 'puer'" },
	{ "pure of a wrong type", "return { rank = type, pure = 1 }",
	  "'pure' must be true" },
	{ "an option of no type",
	  "return { rank = type,\noptions = { a = { type = 'durations' } } }",
	  "hostile.lua:2: option 'a': a type must be one of" },
	{ "a default that is not allowed",
	  "return { rank = type, options = { a = { type = 'integer', default = 'x' } } }",
	  "option 'a': the default must be an integer, not 'x'" },
	{ "a declaration that is none", "return { rank = type, options = { 'a' } }",
	  "options are declared as" },
	{ "a long doc", "return { rank = type, doc = ('x'):rep(1 << 20) }",
	  "hostile.lua:1: 'doc' has more than 1024 bytes" },
	{ "a long default",
	  "return { rank = type, options = { a = { default = ('x'):rep(1 << 20) } } }",
	  "hostile.lua:1: option 'a': the value has more than 1024 bytes" },
	{ "a long default, a list",
	  "return { rank = type, options = { a = { type = 'list',\n"
	  "  default = setmetatable({}, { __index = tostring, __len = function() return "
	  "1e9 // 1 | 0 end }) } } }",
	  "hostile.lua:2: option 'a': the value has more than 1024 bytes" },
	{ "a long doc of an option",
	  "return { rank = type, options = { a = { doc = ('x'):rep(1025) } } }",
	  "hostile.lua:1: option 'a': 'doc' has more than 1024 bytes" },
	{ "a doc that is no text",
	  "return { rank = type, options = { a = { doc = 5 } } }",
	  "hostile.lua:1: option 'a': 'doc' must be a text, not a number" },
	{ "a long choice",
	  "return { rank = type, options = { a = { choices = { ('x'):rep(1 << 20) } } } "
	  "}",
	  "hostile.lua:1: option 'a': choice 1" },
	{ "many choices",
	  "local c = {} for i = 1, 65 do c[i] = 'c' .. i end\n"
	  "return { rank = type, options = { a = { choices = c } } }",
	  "hostile.lua:2: option 'a': more than 64 choices" },
	{ "no choices", "return { rank = type, options = { a = { choices = {} } } }",
	  "hostile.lua:1: option 'a': no choices" },
	{ "a choice that is not of the type",
	  "return { rank = type, options = { a = { type = 'integer', choices = { 'x' } } "
	  "} }",
	  "hostile.lua:1: option 'a': the choice 'x' is not allowed" },
	{ "min over max",
	  "return { rank = type, options = { a = { type = 'integer', min = 5, max = 1 } "
	  "} "
	  "}",
	  "hostile.lua:1: option 'a': min is more than max" },
	{ "min of a string", "return { rank = type, options = { a = { min = 5 } } }",
	  "hostile.lua:1: option 'a': min and max need a type with an order, not "
	  "string" },
	{ "max of a list of strings",
	  "return { rank = type, options = { a = { type = 'list', max = 5 } } }",
	  "hostile.lua:1: option 'a': min and max need a type with an order" },
	{ "min that is no number",
	  "return { rank = type, options = { a = { type = 'number', min = 0/0 } } }",
	  "hostile.lua:1: option 'a': a bound must be a number or a duration" },
	{ "required, with a default",
	  "return { rank = type, options = { a = { required = true, default = 'x' } } }",
	  "hostile.lua:1: option 'a': a required option cannot have a default" },
	{ "required of a wrong type",
	  "return { rank = type, options = { a = { required = 'no' } } }",
	  "hostile.lua:1: option 'a': 'required' must be true or false" },
	{ "required of any name",
	  "return { rank = type, options = { ['*'] = { required = true } } }",
	  "hostile.lua:1: option '*' stands for any name: it can be neither required nor "
	  "have a default" },
	{ "of, but no list",
	  "return { rank = type, options = { a = { of = 'integer' } } }",
	  "hostile.lua:1: option 'a': only a list takes 'of'" },
	{ "a name with a space", "return { rank = type, options = { ['a b'] = {} } }",
	  "hostile.lua:1: 'a b' is not a name of an option" },
	{ "a name with a sign", "return { rank = type, options = { ['a=b'] = {} } }",
	  "hostile.lua:1: 'a=b' is not a name of an option" },
	{ "an empty name", "return { rank = type, options = { [''] = {} } }",
	  "hostile.lua:1: '' is not a name of an option" },
	{ "a long name", "return { rank = type, options = { [('x'):rep(65)] = {} } }",
	  "is not a name of an option" },
	{ "a missing module", "\nrequire 'nowhere'",
	  "hostile.lua:2: no module 'nowhere'" },
	{ "a module of a broken text", "require 'broken'", "broken.lua:1:" },
	{ "a module that requires itself", "require 'itself'",
	  "module 'itself' requires itself" },
	{ "a module outside", "require '..passwd'", "hostile.lua:1: bad argument" },
	{ "a module outside, absolute", "require '/etc/passwd'",
	  "hostile.lua:1: bad argument" },
};

/* The best of a few, in time of the processor: the machine may have other things to do.
 */
TEST_THAT(overrun_costs_at_most_twice_the_budget)
{
	struct fixture *f = *state;
	int64_t budget, best = INT64_MAX;

	write_file(f, "priority/loop.lua",
		   "return { rank = function() while true do end end }");
	start_with_short_budget(f, 50);
	budget = f->config.call_budget_ms;
	struct strategy *s = use(f, "loop");
	for (int i = 0; i < 10 && best > 2 * budget; i++) {
		int64_t started = clock_ms(CLOCK_MONOTONIC);
		int64_t used = clock_ms(CLOCK_THREAD_CPUTIME_ID);

		assert_int_equal(call(f, s), TIDE_ERULE);
		assert_true(clock_ms(CLOCK_MONOTONIC) - started >= budget);
		used = clock_ms(CLOCK_THREAD_CPUTIME_ID) - used;
		best = used < best ? used : best;
	}
	assert_true(best <= 2 * budget);
	strategy_destroy(s);
}

TEST_THAT(hostile_files_are_refused_with_their_line)
{
	struct fixture *f = *state;
	/* The endless loop waits so long. */
	f->config.call_budget_ms = 2000;
	f->config.memory_max_bytes = 4 * 1024 * 1024;
	assert_starts(f);
	struct strategy *strict = use(f, "strict");
	write_file(f, "broken.lua", "return +");
	write_file(f, "itself.lua", "return require 'itself'");
	for (size_t i = 0; i < sizeof(at_load) / sizeof(at_load[0]); i++) {
		write_file(f, "priority/hostile.lua", at_load[i].text);
		if (reload_now(f->engine, &f->err) != TIDE_ERULE)
			fail_msg("%s: was accepted", at_load[i].name);
		if (!strstr(f->err.text, at_load[i].expected))
			fail_msg("%s: \"%s\"", at_load[i].name, f->err.text);
		assert_int_equal(engine_epoch(f->engine), 1);
		assert_int_equal(call(f, strict), TIDE_OK);
	}
	strategy_destroy(strict);
}

/* The stack depth does not depend on how many modules a rule has. */
TEST_THAT(modules_that_require_each_other_nest_to_a_bound)
{
	struct fixture *f = *state;
	char name[32], text[64];

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "m%d.lua", i);
		snprintf(text, sizeof(text), "return require 'm%d'", i + 1);
		write_file(f, name, text);
	}
	assert_starts(f);
	write_file(f, "priority/deep.lua", "require 'm0' return { rank = type }");
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_ERULE);
	assert_non_null(strstr(f->err.text, "C stack overflow"));
	write_file(f, "priority/deep.lua", "require 'm950' return { rank = type }");
	write_file(f, "m1000.lua", "return {}");
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_OK);
}

TEST_THAT(globals_of_one_file_are_not_those_of_another)
{
	struct fixture *f = *state;
	write_file(f, "priority/a.lua",
		   "leaked = 1\n_G.also = 1\nstring.format = nil\ntide.hash = nil\n"
		   "return { rank = function() return leaked end }");
	write_file(f, "priority/b.lua",
		   "assert(leaked == nil and also == nil)\n"
		   "assert(string.format and tide.hash and ('').format)\n"
		   "return { rank = function() assert(leaked == nil) return 1 end }");
	assert_starts(f);
	struct strategy *a = use(f, "a"), *b = use(f, "b");
	assert_int_equal(call(f, a), TIDE_OK);
	assert_int_equal(call(f, b), TIDE_OK);
	strategy_destroy(a);
	strategy_destroy(b);
}

TEST_THAT(kept_view_is_expired_in_the_next_call)
{
	struct fixture *f = *state;
	write_file(f, "priority/keeps.lua",
		   "local kept, headers, each\n"
		   "return { rank = function(msg)\n"
		   "  if not kept then\n"
		   "    kept, headers, each = msg, msg.headers, pairs(msg.headers)\n"
		   "    return #msg.key\n"
		   "  end\n"
		   "  for _, read in ipairs { function() return kept.key end,\n"
		   "      function() return headers.a end, function() return each() end "
		   "} do\n"
		   "    local ok, message = pcall(read)\n"
		   "    assert(not ok and message:find 'has expired', message)\n"
		   "  end\n"
		   "  return kept.key\n"
		   "end }\n");
	assert_starts(f);
	struct strategy *s = use(f, "keeps");
	assert_int_equal(call(f, s), TIDE_OK);
	assert_int_equal(call(f, s), TIDE_ERULE);
	assert_contains(f->err.text, "priority/keeps.lua:12: this 'msg' has expired");
	strategy_destroy(s);
}

TEST_THAT(fields_of_a_message_are_those_published)
{
	struct fixture *f = *state;
	write_file(f, "priority/reads.lua",
		   "return { rank = function(msg, queue)\n"
		   "  assert(msg.key == 'k' and msg.exchange == 'shop')\n"
		   "  assert(msg.payload == 'hello' and msg.size == 5)\n"
		   "  assert(msg.priority == 3 and msg.attempt == 0)\n"
		   "  assert(msg.id == '0000000000001234' and msg.ts == 1000000)\n"
		   "  assert(msg.delay == 0 and msg.ttl == nil)\n"
		   "  assert(msg.headers.a == 'b' and msg.headers.c == nil)\n"
		   "  for name, value in pairs(msg.headers) do\n"
		   "    assert(name == 'a' and value == 'b')\n"
		   "  end\n"
		   "  assert(queue.name == 'jobs' and queue.vhost == '/')\n"
		   "  assert(queue.served == 0 and queue.ready == 0)\n"
		   "  return 1\n"
		   "end }\n");
	assert_starts(f);
	struct strategy *s = use(f, "reads");
	if (call(f, s) != TIDE_OK)
		fail_msg("%s", f->err.text);
	strategy_destroy(s);
}

TEST_THAT(memory_that_one_call_left_is_there_for_the_next)
{
	struct fixture *f = *state;
	write_file(f, "priority/bomb.lua",
		   "return { rank = function()\n"
		   "  local t = {} while true do t[#t + 1] = {} end\n"
		   "end }\n");
	assert_starts(f);
	struct strategy *bomb = use(f, "bomb"), *strict = use(f, "strict");
	for (int i = 0; i < 20; i++) {
		assert_int_equal(call(f, bomb), TIDE_ERULE);
		assert_int_equal(call(f, strict), TIDE_OK);
	}
	strategy_destroy(bomb);
	strategy_destroy(strict);
}

TEST_THAT(pipe_in_the_directory_blocks_nobody)
{
	struct fixture *f = *state;
	char path[256];
	snprintf(path, sizeof(path), "%s/priority/pipe.lua", f->dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(start_engine(f), TIDE_ERULE);
	assert_contains(f->err.text, "pipe.lua: is not a regular file");
	f->engine = NULL;
}

TEST_THAT(what_editors_leave_is_no_script)
{
	struct fixture *f = *state;
	write_file(f, "priority/.strict.lua.swp", "x");
	write_file(f, "priority/.#strict.lua", "x");
	write_file(f, "priority/#strict.lua#", "x");
	write_file(f, "priority/strict.lua~", "x");
	write_file(f, "priority/4913", "x");
	write_file(f, "priority/README.md", "x");
	write_file(f, "priority/strict_spec.lua", "x");
	assert_starts(f);
	write_file(f, "priority/two words.lua", "return {}");
	assert_int_equal(reload_now(f->engine, &f->err), TIDE_ERULE);
	assert_contains(f->err.text, "priority/two words.lua:1: the name of a script");
}

RUN_TESTS(.setup = fixture_setup, .teardown = fixture_teardown)
