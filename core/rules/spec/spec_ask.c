/* spec_ask.c: what a spec asks scripts: a method of an engine for each kind, and the
 * strategies and indexes that an engine makes. The views that scripts get are filled by
 * the rows of the kinds. docs/rules-testing.md has the methods. */

#include <limits.h>
#include <string.h>

#include "rules/engine/deliver.h"
#include "rules/engine/hook.h"
#include "rules/engine/policy.h"
#include "rules/engine/schedule.h"
#include "rules/engine/settled.h"
#include "rules/sandbox/field.h"
#include "spec_index.h"
#include "spec_value.h"

#define INDEX "luatide.index"
#define STRATEGY "luatide.strategy"
#define SUBJECT_MAX 512 /* bytes of a struct behind a view */

static struct engine *engine_of(lua_State *L)
{
	return spec_box_check(L, SPEC_ENGINE);
}

/* The view that the kind's function gets as that argument. */
static const struct view_type *view_of(enum script_kind kind, enum rule_function function,
				       unsigned argument)
{
	return script_kind_rows[kind].functions[function].arguments[argument].view;
}

static void unref_copies(const struct draft_copies *copies)
{
	for (unsigned i = 0; i < copies->count; i++)
		msg_unref(copies->items[i]);
}

/* ---- Any kind with a match ---- */

/* The arguments of the scripts, and the answer of the last one. */
struct spec_asking {
	struct api_msg msg;
	struct msg *read; /* the message behind `msg` and `draft`, a reference */
	struct draft draft;
	struct draft_copies copies; /* which nobody publishes */
	_Alignas(16) char subjects[SCRIPT_ARGUMENTS_MAX][SUBJECT_MAX];
	unsigned result;
	double number;
	struct buf text;
};

static void take_result(lua_State *L, const struct use_call *c, unsigned result)
{
	struct hook_call *call = c->ctx;
	struct spec_asking *a = call->ctx;

	a->result = result;
	a->number = lua_tonumber(L, -1);
	buf_clear(&a->text);
	if (result == RESULT_TEXT)
		buf_append_slice(&a->text, field_slice(L, -1));
}

/* The row's arguments, but `opts` and `state`, from the method's third on. */
static void read_arguments(lua_State *L, const struct script_function *f,
			   struct spec_asking *a, struct hook_call *call)
{
	static const struct spec_preset none[] = { { NULL, NULL } };
	int idx = 3;

	for (int i = 0; i < SCRIPT_ARGUMENTS_MAX && f->arguments[i].push; i++) {
		const struct script_argument *argument = &f->arguments[i];

		if (argument->view) {
			spec_value_view(L, idx, argument->view, none, a->subjects[i]);
			call->given[i] = a->subjects[i];
		} else if (strcmp(argument->name, "msg") == 0) {
			a->read = spec_value_msg(L, idx);
			a->msg = (struct api_msg){ .msg = a->read };
			a->copies.max = DRAFT_COPIES_MAX;
			draft_init(&a->draft, a->read, a->read->ts_unix_ms, &a->copies);
			call->subject.msg = a->read;
			call->given[i] = argument->is_written ? (void *)&a->draft
							      : (void *)&a->msg;
		} else {
			continue;
		}
		call->subject.vhost = spec_value_slice(L, idx, "vhost", "/");
		call->subject.user = spec_value_slice(L, idx, "user", "");
		call->subject.queue = spec_value_slice(L, idx++, "queue", "");
	}
}

/* ask (kind, argument, …): the scripts of the kind that match are asked, with a table for
 * each argument of the row but `opts` and `state`. `vhost`, `user` and `queue` of the
 * last one are what `match` is held against. -> what the last script returned, true for
 * nothing; or false and the reason of a refusal */
static int l_ask(lua_State *L)
{
	struct engine *e = engine_of(L);
	const char *file, *kind = luaL_checkstring(L, 2);
	struct script_refusal refusal = { false, "" };
	struct spec_asking a = { .result = 0 };
	struct hook_call call = { .context = spec_box_context(L),
				  .take = take_result,
				  .ctx = &a,
				  .refusal = &refusal };
	struct error err;
	int count = 1;

	call.kind = script_kind_of(lua_pushfstring(L, "%s/", kind), &file);
	luaL_argcheck(L, file && script_kind_has_match(call.kind), 2,
		      "no kind of scripts with a match");
	read_arguments(L, &script_kind_rows[call.kind].functions[RULE_DECIDE], &a, &call);
	int rc = hook_run(e, &call, &err);
	if (a.result == RESULT_TEXT)
		field_push(L, buf_slice(&a.text));
	else if (a.result == RESULT_NUMBER)
		lua_pushnumber(L, a.number);
	else
		lua_pushboolean(L, !refusal.is_refused);
	if (refusal.is_refused) {
		lua_pushboolean(L, false);
		lua_pushstring(L, refusal.reason);
		count = 2;
	}
	buf_deinit(&a.text);
	unref_copies(&a.copies);
	if (a.read)
		draft_deinit(&a.draft);
	msg_unref(a.read);
	return spec_value_answer(L, rc, &err, count);
}

/* ---- Messages: filter, deliver, settled ---- */

/* The filters that a message has passed, while their engine is as it is. */
struct passed {
	const char *files[64];
	size_t count;
};

static void note_pass(void *ctx, const struct filter_step *step)
{
	struct passed *passed = ctx;

	if (passed->count < sizeof(passed->files) / sizeof(passed->files[0]))
		passed->files[passed->count++] = step->file;
}

/* filter (msg) -> what became of it, with `copies`, `hops` and the files that it has
 * `passed`; the copies do not pass the filters again */
static int l_filter(lua_State *L)
{
	struct engine *e = engine_of(L);
	struct passed passed = { .count = 0 };
	struct error err;
	struct filter_pass p = { .msg = spec_value_msg(L, 2),
				 .context = spec_box_context(L),
				 .vhost = spec_value_slice(L, 2, "vhost", "/"),
				 .copies = { .max = DRAFT_COPIES_MAX },
				 .on_step = note_pass,
				 .ctx = &passed };

	p.now_unix_ms = p.msg->ts_unix_ms;
	int rc = filter_run(e, &p, &err);
	spec_value_push_msg(L, p.msg);
	spec_value_push_msgs_take(L, &p.copies);
	lua_setfield(L, -2, "copies");
	spec_value_set_integer(L, "hops", p.hops);
	spec_value_set_list(L, "passed", passed.files, passed.count);
	msg_unref(p.msg);
	return spec_value_answer(L, rc, &err, 1);
}

static int l_filter_count(lua_State *L)
{
	lua_pushinteger(L, filter_count(engine_of(L)));
	return 1;
}

static void push_pass(lua_State *L, const struct deliver_pass *p)
{
	lua_newtable(L);
	spec_value_set_text(L, "verdict", deliver_verdict_names[p->verdict]);
	if (p->verdict != DELIVER_GIVE && p->reason[0])
		spec_value_set_text(L, "reason", p->reason);
	if (p->verdict == DELIVER_LATER)
		spec_value_set_integer(L, "delay", p->delay_ms);
	spec_value_set_text(L, "script", p->file);
	spec_value_set_headers(L, p->head ? p->head : p->msg);
}

/* deliver (msg, consumer) -> { verdict =, reason =, delay =, script =, headers = } */
static int l_deliver(lua_State *L)
{
	static const struct spec_preset presets[] = {
		{ "vhost", "/" },       { "queue", "spec" }, { "address", "127.0.0.1" },
		{ "protocol", "line" }, { "prefetch", "1" }, { "attempt", "" },
		{ "keeps_order", "" },  { NULL, NULL },
	};
	struct engine *e = engine_of(L);
	struct consumer_view consumer = { .channel = 0 };
	struct error err;

	spec_value_view(L, 3, view_of(SCRIPT_DELIVER, RULE_DECIDE, 1), presets,
			&consumer);
	struct msg *msg = spec_value_msg(L, 2);
	struct deliver_pass p = { .msg = msg,
				  .attempt = (uint32_t)spec_value_integer(L, 3, "attempt",
									  1),
				  .keeps_order = spec_value_flag(L, 3, "keeps_order"),
				  .consumer = &consumer,
				  .context = spec_box_context(L),
				  .now_unix_ms = msg->ts_unix_ms };
	int rc = deliver_run(e, &p, &err);
	push_pass(L, &p);
	msg_unref(p.head);
	msg_unref(msg);
	return spec_value_answer(L, rc, &err, 1);
}

/* The first failure is told. */
static void note_failure(void *ctx, const struct settled_step *step)
{
	struct error *err = ctx;

	if (err->code == TIDE_OK)
		*err = *step->failure;
}

/* settled (msg, outcome) -> the copies */
static int l_settled(lua_State *L)
{
	static const struct spec_preset presets[] = {
		{ "vhost", "/" }, { "queue", "spec" }, { "attempts", "1" }, { NULL, NULL }
	};
	struct engine *e = engine_of(L);
	struct outcome_view outcome = { .group = { NULL, 0 } };
	struct error err = { .code = TIDE_OK };

	spec_value_view(L, 3, view_of(SCRIPT_SETTLED, RULE_DECIDE, 1), presets, &outcome);
	lua_getfield(L, 3, "event");
	outcome.event =
		(enum settled_event)luaL_checkoption(L, -1, "ack", script_kind_events);
	struct msg *msg = spec_value_msg(L, 2);
	outcome.partition = (uint32_t)spec_value_integer(L, 2, "partition", 0);
	outcome.offset = (uint64_t)spec_value_integer(L, 2, "offset", 0);
	struct settled_pass p = { .msg = msg,
				  .outcome = &outcome,
				  .context = spec_box_context(L),
				  .now_unix_ms = msg->ts_unix_ms,
				  .copies = { .max = DRAFT_COPIES_MAX },
				  .on_step = note_failure,
				  .ctx = &err };
	settled_run(e, &p);
	spec_value_push_msgs_take(L, &p.copies);
	msg_unref(msg);
	return spec_value_answer(L, err.code, &err, 1);
}

/* ---- Who somebody is: authenticate, authorize, connect ---- */

static const struct spec_preset login_presets[] = { { "vhost", "/" },
						    { "address", "127.0.0.1" },
						    { "protocol", "line" },
						    { NULL, NULL } };

static void set_limits(lua_State *L, const struct auth_limits *l)
{
	const struct {
		const char *name;
		uint32_t value;
	} limits[] = { { "max_connections", l->connections },
		       { "max_channels", l->channels },
		       { "publish_rate", l->publish_rate },
		       { "publish_bytes", l->publish_bytes } };

	lua_newtable(L);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (limits[i].value > 0)
			spec_value_set_integer(L, limits[i].name, limits[i].value);
	lua_setfield(L, -2, "limits");
}

static void push_identity(lua_State *L, const struct auth_identity *i)
{
	static const char *const patterns[] = { "configure", "write", "read" };
	const char *tags[2];
	size_t count = 0;

	if (i->tags & AUTH_ADMIN)
		tags[count++] = "admin";
	if (i->tags & AUTH_MONITOR)
		tags[count++] = "monitor";
	lua_newtable(L);
	spec_value_set_text(L, "name", i->name);
	spec_value_set_list(L, "tags", tags, count);
	for (int p = 0; p < AUTH_PATTERN_COUNT; p++)
		spec_value_set_text(L, patterns[p], i->patterns[p]);
	set_limits(L, &i->limits);
}

/* "allow", "refuse" or "none"; the user that was made (a table), or the reason, or nil;
 * the file of the script that decided, or nil. */
static int push_decision(lua_State *L, int rc, struct auth_decision *d,
			 const struct error *err)
{
	lua_pushstring(L, auth_verdict_name(d->verdict));
	if (rc == TIDE_OK && d->has_identity)
		push_identity(L, &d->identity);
	else
		lua_pushstring(L, d->verdict == AUTH_REFUSE ? d->reason : NULL);
	lua_pushstring(L, d->file);
	if (rc == TIDE_OK)
		auth_decision_deinit(d);
	return spec_value_answer(L, rc, err, 3);
}

/* authenticate (login) -> push_decision */
static int l_authenticate(lua_State *L)
{
	struct engine *e = engine_of(L);
	struct auth_login login = { .context = spec_box_context(L) };
	struct auth_decision d;
	struct error err;

	spec_value_view(L, 2, view_of(SCRIPT_AUTH, RULE_AUTHENTICATE, 0), login_presets,
			&login);
	int rc = auth_authenticate(e, &login, &d, &err);
	return push_decision(L, rc, &d, &err);
}

/* authorize (user, action, object) -> push_decision */
static int l_authorize(lua_State *L)
{
	static const char *const actions[] = { "configure", "write", "read", NULL };
	static const char *const kinds[] = { "exchange", "queue", "topic", "lock", NULL };
	static const struct spec_preset of_object[] = { { "name", "" }, { NULL, NULL } },
					of_user[] = { { "vhost", "/" },
						      { "address", "127.0.0.1" },
						      { NULL, NULL } };
	struct engine *e = engine_of(L);
	struct auth_question q = { .context = spec_box_context(L) };
	struct auth_decision d;
	struct error err;

	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 4);
	/* The object's vhost is the user's. */
	spec_value_view(L, 4, view_of(SCRIPT_AUTH, RULE_DECIDE, 2), of_object, &q);
	spec_value_view(L, 2, view_of(SCRIPT_AUTH, RULE_DECIDE, 0), of_user, &q);
	q.tags = (spec_value_flag(L, 2, "is_admin") ? AUTH_ADMIN : 0u) |
		 (spec_value_flag(L, 2, "is_monitor") ? AUTH_MONITOR : 0u);
	q.action = actions[luaL_checkoption(L, 3, NULL, actions)];
	lua_getfield(L, 4, "kind");
	q.kind = kinds[luaL_checkoption(L, -1, "queue", kinds)];
	int rc = auth_authorize(e, &q, &d, &err);
	return push_decision(L, rc, &d, &err);
}

/* connect (client) -> what the scripts choose, a table with name, vhost, limits and file;
 * or nil, the reason and the file */
static int l_connect(lua_State *L)
{
	struct engine *e = engine_of(L);
	struct auth_login client = { .context = spec_box_context(L) };
	struct connect_decision d;
	struct error err;

	spec_value_view(L, 2, view_of(SCRIPT_CONNECT, RULE_DECIDE, 0), login_presets,
			&client);
	int rc = auth_connect(e, &client, &d, &err);
	if (d.is_refused) {
		lua_pushnil(L);
		lua_pushstring(L, rc < 0 ? err.text : d.reason);
		lua_pushstring(L, d.file);
		return 3;
	}
	lua_newtable(L);
	spec_value_set_text(L, "name", d.name[0] ? d.name : NULL);
	spec_value_set_text(L, "vhost", d.vhost[0] ? d.vhost : NULL);
	spec_value_set_text(L, "file", d.file);
	if (d.has_limits)
		set_limits(L, &d.limits);
	return 1;
}

/* ---- declare ---- */

/* The table on the top, with values that are texts, numbers or booleans. */
static void read_options(lua_State *L, struct args *out)
{
	if (lua_isnil(L, -1))
		return;
	if (!lua_istable(L, -1))
		luaL_error(L, "the options must be a table of texts, by name");
	for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
		const char *value = lua_isboolean(L, -1)
					    ? lua_toboolean(L, -1) ? "1" : "0"
					    : lua_tostring(L, -1);

		if (lua_type(L, -2) == LUA_TSTRING && value &&
		    args_add(out, slice_from(lua_tostring(L, -2)), slice_from(value)) ==
			    TIDE_OK)
			continue;
		args_deinit(out);
		luaL_error(L, "the options must be a table of texts, by name");
	}
}

/* declare ({ kind =, name =, options =, vhost =, user =, type = }) -> the options as the
 * policies leave them, and the files that changed them, or nil */
static int l_declare(lua_State *L)
{
	static const char *const names[] = { "kind", "name", "options", "vhost",
					     "user", "type", NULL };
	struct engine *e = engine_of(L);
	struct policy_call c = { .kind = NULL };
	struct error err;

	luaL_checktype(L, 2, LUA_TTABLE);
	field_check_names(L, 2, "what is declared", names);
	c.kind = spec_value_text(L, 2, "kind", "queue");
	c.name = spec_value_slice(L, 2, "name", "");
	c.vhost = spec_value_slice(L, 2, "vhost", "/");
	c.user = spec_value_slice(L, 2, "user", "");
	if (strcmp(c.kind, "exchange") == 0)
		c.type = spec_value_text(L, 2, "type", "direct");
	luaL_argcheck(L, c.name.len > 0, 2, "name is missing");
	lua_getfield(L, 2, "options");
	read_options(L, &c.options);
	int rc = policy_ask(e, &c, &err);
	lua_createtable(L, 0, (int)c.options.count);
	for (size_t i = 0; i < c.options.count; i++)
		spec_value_set_text(L, c.options.items[i].name, c.options.items[i].value);
	lua_pushstring(L, c.files[0] ? c.files : NULL);
	args_deinit(&c.options);
	return spec_value_answer(L, rc, &err, 2);
}

/* ---- schedule ---- */

/* A run's messages go into the table on the top of this state. */
static int take_message(void *ctx, const struct msg *m, struct error *err)
{
	static const char *const missing[] = { "id", "due", "expires" };
	lua_State *L = ctx;

	if (slice_is(m->exchange, "nowhere"))
		return error_set(err, TIDE_ENOTFOUND, "there is no exchange 'nowhere'");
	spec_value_push_msg(L, m);
	for (int i = 0; i < 3; i++)
		spec_value_set_text(L, missing[i], NULL);
	spec_value_set_integer(L, "delay", m->due_unix_ms);
	lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
	return TIDE_OK;
}

/* run (name, tick ms [, missed]) -> the messages that it published */
static int l_run(lua_State *L)
{
	struct engine *e = engine_of(L);
	const struct schedule_broker broker = { L, take_message, SLICE("/") };
	struct schedule_tick tick = { luaL_checkinteger(L, 3),
				      (uint64_t)luaL_optinteger(L, 4, 0) };
	struct error err;

	lua_newtable(L);
	int rc =
		schedule_run(e, slice_from(luaL_checkstring(L, 2)), &tick, &broker, &err);
	return spec_value_answer(L, rc, &err, 1);
}

/* next_run (name, ms) -> when the schedule's first tick after that time is run */
static int l_next_run(lua_State *L)
{
	const struct engine *e = engine_of(L);
	struct slice name = slice_from(luaL_checkstring(L, 2));
	int64_t ms = luaL_checkinteger(L, 3);
	struct rule *r;
	struct error err;
	int rc = generation_get(e->current, SCRIPT_SCHEDULE, name, &r, &err);

	if (rc == TIDE_OK)
		lua_pushinteger(L,
				schedule_spec_due(r->schedule, r->name,
						  schedule_spec_next(r->schedule, ms)));
	return spec_value_answer(L, rc, &err, 1);
}

/* ---- Strategies ---- */

/* strategy (kind, name [, options]) -> a use of the script */
static int l_strategy(lua_State *L)
{
	struct engine *e = engine_of(L);
	struct error err;
	struct args args;
	struct strategy *s;
	const char *file, *name = luaL_checkstring(L, 2);
	struct strategy_spec spec = { .name = slice_from(luaL_checkstring(L, 3)),
				      .options = &args,
				      .user = "queue 'spec'" };

	spec.kind = script_kind_of(lua_pushfstring(L, "%s/", name), &file);
	if (!file || !script_kind_rows[spec.kind].is_strategy)
		luaL_error(L,
			   "there are no strategies '%s'; there are: sharding priority "
			   "retry",
			   name);
	struct spec_box *box = spec_box_push(L, STRATEGY, 1);
	spec_value_args(L, 4, &args);
	int rc = strategy_create(e, &spec, &s, &err);
	args_deinit(&args);
	if (rc == TIDE_OK)
		box->object = s;
	return spec_value_answer(L, rc, &err, 1);
}

static int l_strategy_close(lua_State *L)
{
	struct spec_box *box = luaL_checkudata(L, 1, STRATEGY);

	strategy_destroy(box->object);
	box->object = NULL;
	return 0;
}

/* The load of a shard from the table at index 4 of the state. */
static uint64_t table_load(const void *ctx, unsigned shard)
{
	lua_State *L = (lua_State *)(uintptr_t)ctx;

	lua_rawgeti(L, 4, shard); /* which raises nothing through the engine */
	uint64_t load = (uint64_t)lua_tointeger(L, -1);
	lua_pop(L, 1);
	return load;
}

/* pick (msg, shards[, { [shard] = load }]) -> the shard */
static int l_pick(lua_State *L)
{
	struct strategy *s = spec_box_check(L, STRATEGY);
	struct error err;
	lua_Integer shards = luaL_checkinteger(L, 3);
	unsigned shard = 0;

	luaL_argcheck(L, shards >= 1 && shards <= INT_MAX, 3,
		      "the number of shards must be 1 or more");
	lua_settop(L, 4);
	strategy_set_load(s, lua_istable(L, 4) ? table_load : NULL, L);
	struct script_question q = { spec_value_msg(L, 2), spec_box_context(L) };
	int rc = strategy_pick(s, &q, (unsigned)shards, &shard, &err);
	msg_unref((struct msg *)q.msg);
	lua_pushinteger(L, shard);
	return spec_value_answer(L, rc, &err, 1);
}

/* rank (msg, { served =, ready =, shard = }) -> the rank */
static int l_rank(lua_State *L)
{
	static const struct spec_preset presets[] = { { "vhost", "/" },
						      { "name", "spec" },
						      { NULL, NULL } };
	struct strategy *s = spec_box_check(L, STRATEGY);
	struct error err;
	struct queue_view queue = { .shard = 0 };
	double rank = 0;

	spec_value_view(L, 3, view_of(SCRIPT_PRIORITY, RULE_DECIDE, 1), presets, &queue);
	lua_getfield(L, 3, "served");
	queue.served = luaL_optnumber(L, -1, 0);
	struct script_question q = { spec_value_msg(L, 2), spec_box_context(L) };
	int rc = strategy_rank(s, &q, &queue, &rank, &err);
	msg_unref((struct msg *)q.msg);
	lua_pushnumber(L, rank);
	return spec_value_answer(L, rc, &err, 1);
}

/* Push the extra deeds of a script, as a table. Takes the reference. */
static void push_extra_take(lua_State *L, struct retry_extra *extra)
{
	struct draft_copies copies = extra->copies;

	lua_newtable(L);
	if (extra->exchange)
		spec_value_set_text(L, "exchange",
				    extra->exchange[0] ? extra->exchange : "-");
	spec_value_set_text(L, "key", extra->key);
	if (extra->msg) {
		spec_value_push_msg(L, extra->msg);
		lua_setfield(L, -2, "msg");
	}
	extra->copies.count = 0;
	spec_value_push_msgs_take(L, &copies);
	lua_setfield(L, -2, "copies");
	strategy_extra_unref(extra);
}

/* decide (msg, { reason =, attempts =, deliveries =, failures =, reason_text = }) ->
 * delay or a name, and a table if the script did more */
static int l_decide(lua_State *L)
{
	struct strategy *s = spec_box_check(L, STRATEGY);
	struct error err;
	struct retry_decision decision;
	struct failure_view failure = { .partition = 0 };

	luaL_checktype(L, 3, LUA_TTABLE);
	lua_getfield(L, 3, "failures");
	const char *failures = luaL_optstring(L, -1, "1");
	const struct spec_preset presets[] = { { "reason", "nack" },
					       { "attempts", failures },
					       { "deliveries", failures },
					       { "failures", failures },
					       { NULL, NULL } };
	spec_value_view(L, 3, view_of(SCRIPT_RETRY, RULE_DECIDE, 1), presets, &failure);
	luaL_checktype(L, 2, LUA_TTABLE);
	failure.has_place = lua_getfield(L, 2, "offset") != LUA_TNIL;
	failure.partition = (uint32_t)spec_value_integer(L, 2, "partition", 0);
	failure.offset = (uint64_t)spec_value_integer(L, 2, "offset", 0);
	struct script_question q = { spec_value_msg(L, 2), spec_box_context(L) };
	int rc = strategy_decide(s, &q, &failure, &decision, &err);
	msg_unref((struct msg *)q.msg);
	if (rc != TIDE_OK)
		return spec_value_answer(L, rc, &err, 1);
	if (decision.action == RETRY_AFTER)
		lua_pushinteger(L, decision.delay_ms);
	else
		lua_pushstring(L, strategy_action_names[decision.action]);
	if (!decision.extra)
		return 1;
	push_extra_take(L, decision.extra);
	return 2;
}

static int l_strategy_is_pure(lua_State *L)
{
	lua_pushboolean(L, strategy_is_pure(spec_box_check(L, STRATEGY)));
	return 1;
}

/* ---- Indexes ---- */

/* index (type [, options]) -> an exchange's bindings */
static int l_index(lua_State *L)
{
	struct engine *e = engine_of(L);
	struct error err;
	struct args args;
	struct spec_index *x;
	const struct index_spec spec = { .type = slice_from(luaL_checkstring(L, 2)),
					 .options = &args,
					 .user = "exchange 'spec'" };
	struct spec_box *box = spec_box_push(L, INDEX, 1);

	spec_value_args(L, 3, &args);
	int rc = spec_index_create(e, &spec, &x, &err);
	args_deinit(&args);
	if (rc == TIDE_OK)
		box->object = x;
	return spec_value_answer(L, rc, &err, 1);
}

static int l_index_close(lua_State *L)
{
	struct spec_box *box = luaL_checkudata(L, 1, INDEX);

	spec_index_destroy(box->object);
	box->object = NULL;
	return 0;
}

static int change_index(lua_State *L,
			int (*make)(struct spec_index *x, const struct index_binding *b,
				    struct error *err))
{
	struct spec_index *x = spec_box_check(L, INDEX);
	struct error err;
	struct args args;
	const struct index_binding b = { .dest = (uint32_t)luaL_checkinteger(L, 3),
					 .pattern = slice_from(luaL_checkstring(L, 2)),
					 .args = &args };

	spec_value_args(L, 4, &args);
	int rc = make(x, &b, &err);
	args_deinit(&args);
	lua_pushboolean(L, 1);
	return spec_value_answer(L, rc, &err, 1);
}

/* bind (pattern, dest [, options]) */
static int l_bind(lua_State *L)
{
	return change_index(L, spec_index_bind);
}

static int l_unbind(lua_State *L)
{
	return change_index(L, spec_index_unbind);
}

/* route (msg) -> the destinations */
static int l_route(lua_State *L)
{
	struct spec_index *x = spec_box_check(L, INDEX);
	struct error err;
	const uint32_t *dests;
	size_t count = 0;
	struct script_question q = { spec_value_msg(L, 2), spec_box_context(L) };
	int rc = index_route(x->index, &q, &dests, &count, &err);

	msg_unref((struct msg *)q.msg);
	lua_createtable(L, (int)count, 0);
	for (size_t i = 0; i < count; i++) {
		lua_pushinteger(L, dests[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return spec_value_answer(L, rc, &err, 1);
}

static int l_index_is_pure(lua_State *L)
{
	const struct spec_index *x = spec_box_check(L, INDEX);

	lua_pushboolean(L, index_is_pure(x->index));
	return 1;
}

void spec_ask_open(lua_State *L)
{
	static const luaL_Reg strategy[] = {
		{ "pick", l_pick },     { "rank", l_rank },
		{ "decide", l_decide }, { "is_pure", l_strategy_is_pure },
		{ NULL, NULL },
	};
	static const luaL_Reg index[] = {
		{ "bind", l_bind },   { "unbind", l_unbind },
		{ "route", l_route }, { "is_pure", l_index_is_pure },
		{ NULL, NULL },
	};

	spec_box_type(L, STRATEGY, strategy, l_strategy_close);
	spec_box_type(L, INDEX, index, l_index_close);
}

const luaL_Reg spec_ask_methods[] = {
	{ "ask", l_ask },
	{ "filter", l_filter },
	{ "filter_count", l_filter_count },
	{ "deliver", l_deliver },
	{ "settled", l_settled },
	{ "authenticate", l_authenticate },
	{ "authorize", l_authorize },
	{ "connect", l_connect },
	{ "declare", l_declare },
	{ "run", l_run },
	{ "next_run", l_next_run },
	{ "strategy", l_strategy },
	{ "index", l_index },
	{ NULL, NULL },
};
