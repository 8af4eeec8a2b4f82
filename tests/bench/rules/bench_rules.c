/* bench_rules.c: what rules cost, in nanoseconds. `make bench-rules` runs it in the
 * top folder: it uses the shipped rules.
 *
 * Every figure is the best of ROUNDS rounds, those that are compared take turns:
 * what other processes do makes a round slower, never faster. Exit status 1 when one is
 * above its limit. */

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "session/service.h"
#include "session/session_private.h"
#include "session/session.h"
#include "rules/api/api_tide.h"
#include "rules/sandbox/pattern.h"
#include "rules/sandbox/sandbox.h"
#include "rules/sandbox/script.h"
#include "rules/engine/filter.h"
#include "rules/engine/index.h"
#include "rules/engine/strategy.h"
#include "rules/spec/spec_index.h"

#define ROUNDS 15
#define BINDINGS 10000
#define CALLS 20000
#define MATCH_LIMIT_NS 5000
#define FILTERS_LIMIT_NS 2000
#define RULED_OUT_LIMIT_NS 500 /* five calls into Lua take twice as long */

static void fail(const char *what, const struct error *err)
{
	fprintf(stderr, "bench_rules: %s: %s\n", what, err->text);
	exit(1);
}

static void print(const char *what, double ns)
{
	printf("%-58s %10.0f ns\n", what, ns);
}

static int over; /* figures that are above their limit */

/* A figure that was promised (docs/rules-reference.md). */
static void print_limited(const char *what, double ns, double limit_ns)
{
	bool is_over = ns >= limit_ns;
	printf("%-58s %10.0f ns, limit %.0f%s\n", what, ns, limit_ns,
	       is_over ? ": OVER" : "");
	over += is_over;
}

static double best(double so_far, uint64_t started_ns, size_t calls)
{
	double ns = (double)(uv_hrtime() - started_ns) / (double)calls;
	return so_far == 0 || ns < so_far ? ns : so_far;
}

static struct msg *make_msg(const char *key)
{
	struct msg spec = { .id = 1,
			    .ts_unix_ms = 1,
			    .exchange = SLICE("shop"),
			    .key = slice_from(key),
			    .payload = "hello",
			    .payload_len = 5 };
	struct msg *m = msg_create(&spec);
	if (!m)
		abort();
	return m;
}

/* ---- the engine by itself ------------------------------------------------------- */

static void bind_many(struct spec_index *x)
{
	char pattern[64];
	struct error err;
	for (uint32_t i = 0; i < BINDINGS; i++) {
		snprintf(pattern, sizeof(pattern), "w%u.x%u.%s", i % 100, i / 100,
			 i % 3 ? "*" : "eu");
		if (spec_index_bind(x,
				    &(struct index_binding){
					    0, i, slice_from(pattern), NULL, { 0 } },
				    &err) != TIDE_OK)
			fail("bind", &err);
	}
}

static void bench_topic(struct engine *e)
{
	struct spec_index *x;
	struct error err;
	struct msg *messages[512];
	const uint32_t *dests;
	size_t count;
	double ns = 0;
	char key[64];
	if (spec_index_create(e,
			      &(struct index_spec){ .type = SLICE("topic"),
						    .user = "exchange 'bench'" },
			      &x, &err) != TIDE_OK)
		fail("topic", &err);
	bind_many(x);
	for (int i = 0; i < 512; i++) {
		snprintf(key, sizeof(key), "w%d.x%d.eu", i * 7 % 100, i * 13 % 100);
		messages[i] = make_msg(key);
	}
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t started = uv_hrtime();
		for (size_t i = 0; i < CALLS; i++)
			if (index_route(
				    x->index,
				    &(struct script_question){ messages[i % 512], NULL },
				    &dests, &count, &err) != TIDE_OK)
				fail("route", &err);
		ns = best(ns, started, CALLS);
	}
	print_limited("uncached match of a three-word key over 10,000 bindings", ns,
		      MATCH_LIMIT_NS);
	for (int i = 0; i < 512; i++)
		msg_unref(messages[i]);
	spec_index_destroy(x);
}

/* Each binding wants a kind that many want, and a tenant of its own. */
static void bench_headers(struct engine *e)
{
	struct spec_index *x;
	struct error err;
	struct msg_header headers[] = { { SLICE("kind"), SLICE("order") },
					{ SLICE("tenant"), SLICE("t7") } };
	struct msg spec = {
		.id = 1, .key = SLICE("k"), .headers = headers, .header_count = 2
	};
	struct msg *m = msg_create(&spec);
	const uint32_t *dests;
	size_t count = 0;
	char tenant[16];
	double ns = 0;
	if (!m || spec_index_create(e,
				    &(struct index_spec){ .type = SLICE("headers"),
							  .user = "exchange 'bench'" },
				    &x, &err) != TIDE_OK)
		fail("headers", &err);
	for (uint32_t i = 0; i < BINDINGS; i++) {
		struct args args = { 0 };
		snprintf(tenant, sizeof(tenant), "t%u", i);
		if (args_add(&args, SLICE("kind"), SLICE("order")) < 0 ||
		    args_add(&args, SLICE("tenant"), slice_from(tenant)) < 0)
			abort();
		if (spec_index_bind(
			    x, &(struct index_binding){ 0, i, SLICE("-"), &args, { 0 } },
			    &err) != TIDE_OK)
			fail("bind", &err);
		args_deinit(&args);
	}
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t started = uv_hrtime();
		for (size_t i = 0; i < CALLS; i++)
			if (index_route(x->index, &(struct script_question){ m, NULL },
					&dests, &count, &err) != TIDE_OK)
				fail("route", &err);
		ns = best(ns, started, CALLS);
	}
	if (count != 1)
		abort();
	print_limited("match of two headers over 10,000 bindings", ns, MATCH_LIMIT_NS);
	msg_unref(m);
	spec_index_destroy(x);
}

static void bench_call(struct engine *e)
{
	struct strategy *s;
	struct error err;
	struct queue_view queue = { .vhost = SLICE("/"), .name = SLICE("jobs") };
	struct msg *m = make_msg("a.b.c");
	double rank, ns = 0;
	if (strategy_create(e,
			    &(struct strategy_spec){ .kind = SCRIPT_PRIORITY,
						     .name = SLICE("strict"),
						     .options = NULL,
						     .user = "bench" },
			    &s, &err) != TIDE_OK)
		fail("strict", &err);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t started = uv_hrtime();
		for (size_t i = 0; i < CALLS; i++)
			if (strategy_rank(s, &(struct script_question){ m, NULL }, &queue,
					  &rank, &err) != TIDE_OK)
				fail("rank", &err);
		ns = best(ns, started, CALLS);
	}
	print("a call of a small script (priority 'strict'), all told", ns);
	strategy_destroy(s);
	msg_unref(m);
}

/* With a backlog of many tenants, as it is when fairness counts. */
static void bench_fair(struct engine *e)
{
	enum { TENANTS = 1000 };
	struct strategy *s;
	struct error err;
	struct queue_view queue = { .vhost = SLICE("/"),
				    .name = SLICE("jobs"),
				    .ready = 1 };
	struct msg *messages[TENANTS];
	double rank, ns = 0;
	char tenant[32];
	struct msg_header header = { SLICE("tenant"), SLICE("") };
	struct msg spec = {
		.id = 1, .key = SLICE("jobs"), .headers = &header, .header_count = 1
	};
	for (int i = 0; i < TENANTS; i++) {
		snprintf(tenant, sizeof(tenant), "tenant-%d", i);
		header.value = slice_from(tenant);
		messages[i] = msg_create(&spec);
		if (!messages[i])
			abort();
	}
	if (strategy_create(e,
			    &(struct strategy_spec){ .kind = SCRIPT_PRIORITY,
						     .name = SLICE("fair"),
						     .options = NULL,
						     .user = "bench" },
			    &s, &err) != TIDE_OK)
		fail("fair", &err);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t started = uv_hrtime();
		for (size_t i = 0; i < CALLS; i++)
			if (strategy_rank(s,
					  &(struct script_question){
						  messages[i % TENANTS], NULL },
					  &queue, &rank, &err) != TIDE_OK)
				fail("rank", &err);
		ns = best(ns, started, CALLS);
	}
	print("a rank of priority 'fair', 1,000 tenants with a backlog", ns);
	strategy_destroy(s);
	for (int i = 0; i < TENANTS; i++)
		msg_unref(messages[i]);
}

/* ---- the watchdog, and the pattern functions --------------------------------------- */

static const char work[] = "return function()\n"
			   "  local sum = 0\n"
			   "  for i = 1, 20000 do sum = sum + i % 7 end\n"
			   "  return sum\n"
			   "end";

static int l_noop(lua_State *L)
{
	return 0;
}

/* Calls the function that the registry has under this key. */
static const char work_key;

static int l_work(lua_State *L)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &work_key);
	lua_call(L, 0, 0);
	return 0;
}

static int l_load_work(lua_State *L)
{
	const char *text = lua_touserdata(L, 1);
	luaL_openlibs(L);
	if (luaL_loadstring(L, text) != LUA_OK)
		lua_error(L);
	lua_call(L, 0, 1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &work_key);
	return 0;
}

static void enter(struct script_state *s, lua_CFunction body, const char *text)
{
	struct error err;
	struct script_call call = { .file = "bench", .body = body, .ctx = (void *)text };
	if (script_enter(s, &call, &err) != TIDE_OK)
		fail("script_enter", &err);
}

/* A long computation inside of the door and without it. */
static void bench_watchdog(void)
{
	struct watchdog *w;
	struct script_state s;
	struct error err = { .text = "" };
	double watched = 0, plain = 0, door = 0;
	if (watchdog_create(&w, 1000, script_on_overrun) != TIDE_OK ||
	    script_state_init(&s, w, 1 << 24) < 0)
		fail("watchdog", &err);
	enter(&s, l_load_work, work);
	for (int round = 0; round < ROUNDS * 4; round++) {
		uint64_t started = uv_hrtime();
		for (int i = 0; i < 10; i++)
			enter(&s, l_work, NULL);
		watched = best(watched, started, 10);
		started = uv_hrtime();
		for (int i = 0; i < 10; i++) {
			lua_pushcfunction(s.L, l_work);
			if (lua_pcall(s.L, 0, 0, 0) != LUA_OK)
				abort();
		}
		plain = best(plain, started, 10);
		started = uv_hrtime();
		for (size_t i = 0; i < CALLS; i++)
			enter(&s, l_noop, NULL);
		door = best(door, started, CALLS);
	}
	print("a computation of 20,000 rounds, plain Lua", plain);
	print("the same under the watchdog", watched);
	printf("%-58s %10.2f %%\n", "  difference", (watched - plain) / plain * 100);
	print("the door by itself: pcall, watchdog, restoring the stack", door);
	script_state_deinit(&s);
	watchdog_destroy(w);
}

/* Defines `run(string)`: times of each pattern with these functions. */
static const char patterns[] =
	"local key = 'orders.eu.paid.x'\n"
	"local list = ('abc=12; '):rep(200)\n"
	"return {\n"
	"  { 'match: the first word', function(s) return s.match(key, '^[^.]*') end },\n"
	"  { 'find: a literal', function(s) return s.find(key, 'paid', 1, true) end },\n"
	"  { 'match: four captures',\n"
	"    function(s) return s.match(key, '(%w+)%.(%w+)%.(%w+)%.(.*)') end },\n"
	"  { 'gsub: 1600 bytes', function(s) return s.gsub(list, '%d+', 'n') end },\n"
	"  { 'gmatch: 1600 bytes', function(s)\n"
	"    local n = 0 for k in s.gmatch(list, '(%a+)=') do n = n + #k end return n\n"
	"  end },\n"
	"  { 'find: nothing in 1600 bytes', function(s) return s.find(list, '%d+x') end "
	"},\n"
	"}";

/* Functions of `tide` that a filter may call for each message. */
static const char blocks[] =
	"local ms, networks = 1774785600123, tide.cidr '10.0.0.0/8, 192.0.2.0/24, "
	"fd00::/8'\n"
	"local kb = ('x'):rep(1024)\n"
	"return {\n"
	"  { 'tide.match', function() return tide.match('orders.*.paid', "
	"'orders.eu.paid') end },\n"
	"  { 'tide.cidr: has, three networks', function() return networks:has "
	"'192.0.2.7' end },\n"
	"  { 'tide.time.fields, in a zone',\n"
	"    function() return tide.time.fields(ms, 'Europe/Berlin') end },\n"
	"  { 'tide.time.format', function() return tide.time.format(ms) end },\n"
	"  { 'tide.time.parse', function() return tide.time.parse '2026-03-29T12:00:00Z' "
	"end },\n"
	"  { 'tide.uuid', function() return tide.uuid() end },\n"
	"  { 'tide.random_bytes(16)', function() return tide.random_bytes(16) end },\n"
	"  { 'tide.crc32 of 1 KB', function() return tide.crc32(kb) end },\n"
	"  { 'tide.sha256 of 1 KB', function() return tide.sha256(kb) end },\n"
	"  { 'tide.hex.encode of 1 KB', function() return tide.hex.encode(kb) end },\n"
	"}\n";

static int l_blocks(lua_State *L)
{
	struct api_tide tide = { .about = "bench" };
	struct sandbox sandbox = { .rules_dir = ".", .lua_dir = "." };
	struct source source = { .data = mem_strdup(blocks), .len = sizeof(blocks) - 1 };

	sandbox_open(L, &sandbox);
	api_tide_open(L, &tide);
	sandbox_load_take(L, &source, "bench.lua");
	lua_call(L, 0, 1);
	int list = lua_gettop(L);
	for (lua_Integer i = 1; lua_geti(L, list, i) == LUA_TTABLE; i++) {
		double ns = 0;

		lua_geti(L, -1, 1);
		lua_geti(L, -2, 2);
		for (int round = 0; round < ROUNDS; round++) {
			uint64_t started = uv_hrtime();
			for (int k = 0; k < 1000; k++) {
				lua_pushvalue(L, -1);
				lua_call(L, 0, 0);
			}
			ns = best(ns, started, 1000);
		}
		print(lua_tostring(L, -2), ns);
		lua_settop(L, list);
	}
	zones_deinit(&tide.zones);
	return 0;
}

static double time_pattern(lua_State *L, int function, int library)
{
	double ns = 0;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t started = uv_hrtime();
		for (int i = 0; i < 1000; i++) {
			lua_pushvalue(L, function);
			lua_pushvalue(L, library);
			lua_call(L, 1, 0);
		}
		ns = best(ns, started, 1000);
	}
	return ns;
}

static int l_patterns(lua_State *L)
{
	luaL_openlibs(L);
	lua_settop(L, 0);
	lua_getglobal(L, "string"); /* 1: Lua's */
	lua_newtable(L);            /* 2: ours */
	pattern_lib_install(L, 2);
	if (luaL_dostring(L, patterns) != LUA_OK)
		return lua_error(L);
	for (lua_Integer i = 1; lua_geti(L, 3, i) == LUA_TTABLE; i++) {
		lua_geti(L, 4, 1);
		lua_geti(L, 4, 2);
		double stock = time_pattern(L, 6, 1), ours = time_pattern(L, 6, 2);
		printf("%-32s Lua %8.0f ns, ours %8.0f ns  (%.2f)\n", lua_tostring(L, 5),
		       stock, ours, ours / stock);
		lua_settop(L, 3);
	}
	return 0;
}

/* The body in a state of its own. */
static void bench_state(lua_CFunction body)
{
	struct watchdog *w;
	struct script_state s;
	struct error err = { .text = "" };
	if (watchdog_create(&w, 60000, script_on_overrun) != TIDE_OK ||
	    script_state_init(&s, w, 1 << 26) != TIDE_OK)
		fail("watchdog", &err);
	enter(&s, body, NULL);
	script_state_deinit(&s);
	watchdog_destroy(w);
}

/* ---- the broker ------------------------------------------------------------------- */

static void on_reply(void *ctx, unsigned channel, struct reply *r)
{
	if (r->kind != REPLY_ERROR)
		return;
	fprintf(stderr, "bench_rules: %s\n", r->text);
	exit(1);
}
static void on_progress(void *ctx)
{
}
static bool can_take(void *ctx)
{
	return true;
}
static void on_blocked(void *ctx, bool is_blocked, const char *why)
{
}

static const struct session_ops ops = { .on_reply = on_reply,
					.on_progress = on_progress,
					.can_take = can_take,
					.on_blocked = on_blocked };

/* The loop would wait for more. */
static void on_closed(void *ctx)
{
	uv_stop(ctx);
}
static void on_started(void *ctx, const struct error *failed)
{
	if (failed)
		fail("start", failed);
	uv_stop(ctx);
}
static void on_turn(void *ctx)
{
}

static struct reply *request(struct session *s)
{
	return reply_create(session_channel(s, 0), true);
}

static void define(struct session *s)
{
	struct declare_spec queue = { true, SLICE("jobs"), SLICE(""), NULL };
	struct declare_spec exchange = { false, SLICE("shop"), SLICE("topic"), NULL };
	struct bind_spec binding = { .dest = SLICE("jobs"),
				     .exchange = SLICE("shop"),
				     .pattern = SLICE("*.eu.#") };
	struct args args = { 0 }, none = { 0 };
	struct error err;
	if (args_add(&args, SLICE("durable"), SLICE("0")) != TIDE_OK)
		abort();
	queue.args = exchange.args = &args;
	binding.args = &none;
	if (session_define_declare(s, &queue, request(s), &err) < 0 ||
	    session_define_declare(s, &exchange, request(s), &err) < 0 ||
	    session_define_bind(s, &binding, request(s), &err) < 0)
		fail("define", &err);
	args_deinit(&args);
}

static double publish(struct session *s, const struct publish_spec *spec, double so_far)
{
	struct error err;
	const size_t count = 4000;
	const struct publish_demand demand = { .must = true };
	const struct purge_spec purge = { .queue = SLICE("jobs"), .partition = -1 };
	uint64_t started = uv_hrtime();
	for (size_t i = 0; i < count; i++) {
		struct msg *m;
		if (session_publish_prepare(s, spec, &m, &err) != TIDE_OK)
			fail("prepare", &err);
		memcpy(msg_payload_room(m), "hello", 5);
		session_publish_take(s, m, &demand, request(s));
	}
	so_far = best(so_far, started, count);
	if (session_purge(s, &purge, request(s), &err) < 0)
		fail("purge", &err);
	service_turn(s->service);
	return so_far;
}

static void bench_publish(struct service *service)
{
	struct session *s = session_create(service, &ops, NULL);
	struct publish_spec direct = { .key = SLICE("jobs"), .payload_len = 5 };
	struct publish_spec routed = { .exchange = SLICE("shop"),
				       .key = SLICE("orders.eu.paid"),
				       .payload_len = 5 };
	double to_queue = 0, through_lua = 0;
	define(s);
	for (int round = 0; round < ROUNDS * 4; round++) {
		to_queue = publish(s, &direct, to_queue);
		through_lua = publish(s, &routed, through_lua);
	}
	print("a publish to a queue, in the broker alone", to_queue);
	print("a publish through a topic exchange, decision remembered", through_lua);
	printf("%-58s %10.2f %%\n", "  difference",
	       (through_lua - to_queue) / to_queue * 100);
	session_destroy(s);
}

/* ---- filters -------------------------------------------------------------------- */

#define CHAIN 5

/* Five filters for each exchange: what they match besides, and their function. */
static const struct {
	const char *exchange, *match[CHAIN], *body[CHAIN];
	const char *what;
	double limit_ns; /* 0: none */
} chains[] = {
	{ "looking",
	  { "", "", "", "", "" },
	  { "if msg.headers.blocked then return false, 'blocked' end",
	    "if msg.size > 100000 then return false, 'too big' end",
	    "if not msg.headers.tenant then return false, 'no tenant' end",
	    "if msg.key == 'orders.old' then msg.key = 'orders.new' end",
	    "if msg.priority > 9 then msg.priority = 9 end" },
	  "a message through five filters that look at it",
	  FILTERS_LIMIT_NS },
	{ "mixed",
	  { "", "", "", "", "" },
	  { "if msg.headers.blocked then return false, 'blocked' end",
	    "if msg.size > 100000 then return false, 'too big' end",
	    "if not msg.headers.tenant then return false, 'no tenant' end",
	    "msg.headers.h4 = 'v'", "msg.headers.h5 = 'v'" },
	  "the same, but two of them write a header",
	  FILTERS_LIMIT_NS },
	{ "writing",
	  { "", "", "", "", "" },
	  { "msg.headers.h1 = 'v'", "msg.headers.h2 = 'v'", "msg.headers.h3 = 'v'",
	    "msg.headers.h4 = 'v'", "msg.headers.h5 = 'v'" },
	  "the same, but all of them write one",
	  0 },
	{ "ruled-out",
	  { ", headers = { tier = 'gold' }", ", headers = { tenant = { 'b', 'c' } }",
	    ", min_size = 6", ", user = 'bob'",
	    ", except = { headers = { region = true } }" },
	  { "", "", "", "", "" },
	  "five filters that header, size or user rule out",
	  RULED_OUT_LIMIT_NS },
};
#define CHAINS (sizeof(chains) / sizeof(chains[0]))

static void write_filters(const char *dir)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/filter", dir);
	if (mkdir(path, 0700) != 0)
		abort();
	for (size_t i = 0; i < CHAINS * CHAIN; i++) {
		snprintf(path, sizeof(path), "%s/filter/%02zu.lua", dir, i);
		FILE *file = fopen(path, "w");
		if (!file)
			abort();
		fprintf(file,
			"return { match = { exchange = '%s', key = 'orders.#'%s }, "
			"publish = function(msg) %s end }\n",
			chains[i / CHAIN].exchange, chains[i / CHAIN].match[i % CHAIN],
			chains[i / CHAIN].body[i % CHAIN]);
		fclose(file);
	}
}

static void remove_filters(const char *dir)
{
	char path[256];
	for (size_t i = 0; i < CHAINS * CHAIN; i++) {
		snprintf(path, sizeof(path), "%s/filter/%02zu.lua", dir, i);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/filter", dir);
	rmdir(path);
	rmdir(dir);
}

static double time_filters(struct engine *e, const char *exchange)
{
	struct msg_header headers[] = { { SLICE("tenant"), SLICE("a") },
					{ SLICE("region"), SLICE("eu") } };
	struct msg spec = { .id = 1,
			    .exchange = slice_from(exchange),
			    .key = SLICE("orders.eu"),
			    .headers = headers,
			    .header_count = 2,
			    .payload = "hello",
			    .payload_len = 5 };
	struct msg *m = msg_create(&spec);
	struct error err;
	double ns = 0;
	if (!m)
		abort();
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t started = uv_hrtime();
		for (size_t i = 0; i < CALLS; i++) {
			struct filter_pass p;
			p.msg = msg_ref(m);
			p.context = NULL;
			p.vhost = SLICE("/");
			p.now_unix_ms = 1;
			p.hops = 0;
			p.sender = NULL;
			p.copies.max = 0;
			p.on_step = NULL;
			if (filter_run(e, &p, &err) != TIDE_OK)
				fail("filter", &err);
			msg_unref(p.msg);
		}
		ns = best(ns, started, CALLS);
	}
	msg_unref(m);
	return ns;
}

static void bench_filters(void)
{
	char dir[] = "/tmp/tide-bench-XXXXXX";
	const struct engine_config config = { .rules_dir = dir,
					      .lua_dir = "lua",
					      .memory_max_bytes = 64 << 20,
					      .call_budget_ms = 1000 };
	struct engine *e;
	struct error err;
	uv_loop_t loop;
	if (!mkdtemp(dir))
		abort();
	write_filters(dir);
	uv_loop_init(&loop);
	if (engine_create(&e, &loop, &config, NULL, &err) != TIDE_OK)
		fail("filters", &err);
	for (size_t i = 0; i < CHAINS; i++) {
		double ns = time_filters(e, chains[i].exchange);
		if (chains[i].limit_ns > 0)
			print_limited(chains[i].what, ns, chains[i].limit_ns);
		else
			print(chains[i].what, ns);
	}
	print("a message that no filter matches", time_filters(e, "other"));
	engine_close(e, NULL, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	remove_filters(dir);
}

int main(void)
{
	uv_loop_t *loop = uv_default_loop();
	struct broker_config config;
	struct service *service;
	struct error err;
	struct service_hooks hooks = { loop, on_started, NULL, on_turn, on_closed };
	broker_config_init(&config);
	config.store.url = "none";
	config.rules_watch = false;
	if (service_create(&service, loop, &config, &hooks, &err) != TIDE_OK)
		fail("service_create", &err);
	uv_run(loop, UV_RUN_DEFAULT);
	bench_topic(service->broker->engine);
	bench_headers(service->broker->engine);
	bench_call(service->broker->engine);
	bench_fair(service->broker->engine);
	bench_watchdog();
	bench_filters();
	bench_publish(service);
	bench_state(l_blocks);
	bench_state(l_patterns);
	service_close(service, 0);
	uv_run(loop, UV_RUN_DEFAULT);
	return over > 0;
}
