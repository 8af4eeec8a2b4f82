#include "script_kind.h"

#include <ctype.h>
#include <lua.h>
#include <string.h>

#include "auth.h"
#include "deliver.h"
#include "engine_private.h"
#include "rules/api/view.h"
#include "settled.h"
#include "strategy.h"

/* ---- What scripts see of the broker's structures ---- */

static void push_is_admin(lua_State *L, const void *member)
{
	lua_pushboolean(L, *(const unsigned *)member & AUTH_ADMIN);
}

static void push_is_monitor(lua_State *L, const void *member)
{
	lua_pushboolean(L, *(const unsigned *)member & (AUTH_ADMIN | AUTH_MONITOR));
}

const char *const script_kind_events[] = {
	[SETTLED_ACK] = "ack",         [SETTLED_RETRY] = "retry",
	[SETTLED_EXPIRED] = "expired", [SETTLED_DEAD_LETTER] = "dead-letter",
	[SETTLED_BURY] = "bury",       [SETTLED_DROP] = "drop",
	[SETTLED_DROP + 1] = NULL,
};

static void push_event(lua_State *L, const void *member)
{
	lua_pushstring(L, script_kind_events[*(const enum settled_event *)member]);
}

static void push_double(lua_State *L, const void *member)
{
	lua_pushnumber(L, *(const double *)member);
}

#define FIELD(type, name, push, member)                          \
	{                                                        \
		name, push, offsetof(struct type, member), false \
	}
#define PURE(type, name, push, member)                          \
	{                                                       \
		name, push, offsetof(struct type, member), true \
	}
#define END                          \
	{                            \
		NULL, NULL, 0, false \
	}
#define VIEW(variable, id, text, fields_of)                      \
	static const struct view_type variable = { .number = id, \
						   .name = text, \
						   .fields = fields_of }

#define LOGIN(name, push) FIELD(auth_login, #name, view_push_##push, name)
static const struct view_field login_fields[] = {
	LOGIN(user, given),    LOGIN(password, given),
	LOGIN(vhost, given),   LOGIN(name, given),
	LOGIN(address, given), LOGIN(certificate, given),
	LOGIN(protocol, text), LOGIN(is_tls, bool),
	LOGIN(is_local, bool), END,
};
VIEW(login_view, VIEW_LOGIN, "login", login_fields);

/* A login, without the password. */
static const struct view_field client_fields[] = {
	LOGIN(user, given),    LOGIN(name, given),        LOGIN(vhost, given),
	LOGIN(address, given), LOGIN(certificate, given), LOGIN(protocol, text),
	LOGIN(is_tls, bool),   LOGIN(is_local, bool),     END,
};
VIEW(client_view, VIEW_CLIENT, "client", client_fields);

#define QUESTION(name, push, member) FIELD(auth_question, name, push, member)
static const struct view_field user_fields[] = {
	QUESTION("name", view_push_given, user),
	QUESTION("vhost", view_push_given, vhost),
	QUESTION("address", view_push_given, address),
	QUESTION("is_admin", push_is_admin, tags),
	QUESTION("is_monitor", push_is_monitor, tags),
	END,
};
VIEW(user_view, VIEW_USER, "user", user_fields);

static const struct view_field object_fields[] = {
	QUESTION("kind", view_push_text, kind),
	QUESTION("name", view_push_given, name),
	QUESTION("vhost", view_push_given, vhost),
	END,
};
VIEW(object_view, VIEW_OBJECT, "object", object_fields);

#define CONSUMER(name, push) FIELD(consumer_view, #name, view_push_##push, name)
static const struct view_field consumer_fields[] = {
	CONSUMER(address, optional),
	CONSUMER(channel, uint),
	CONSUMER(name, optional),
	CONSUMER(prefetch, uint),
	CONSUMER(protocol, text),
	CONSUMER(queue, slice),
	CONSUMER(sid, text),
	CONSUMER(unacked, uint),
	CONSUMER(user, optional),
	CONSUMER(vhost, slice),
	END,
};
VIEW(consumer_type, VIEW_CONSUMER, "consumer", consumer_fields);

#define OUTCOME(name, push) FIELD(outcome_view, #name, view_push_##push, name)
static const struct view_field outcome_fields[] = {
	OUTCOME(attempts, uint),   FIELD(outcome_view, "event", push_event, event),
	OUTCOME(failures, uint),   OUTCOME(group, optional),
	OUTCOME(queue, slice),     OUTCOME(reason, text),
	OUTCOME(rule, text),       OUTCOME(took_ms, int64),
	OUTCOME(user, optional),   OUTCOME(vhost, slice),
	OUTCOME(waited_ms, int64), END,
};
VIEW(outcome_type, VIEW_OUTCOME, "outcome", outcome_fields);

static const struct view_field queue_fields[] = {
	PURE(queue_view, "name", view_push_slice, name),
	FIELD(queue_view, "ready", view_push_int64, ready),
	FIELD(queue_view, "served", push_double, served),
	FIELD(queue_view, "shard", view_push_uint, shard),
	PURE(queue_view, "vhost", view_push_slice, vhost),
	END,
};
VIEW(queue_type, VIEW_QUEUE, "queue", queue_fields);

#define FAILURE(name, push) FIELD(failure_view, #name, view_push_##push, name)
static const struct view_field failure_fields[] = {
	FAILURE(attempts, uint), FAILURE(deliveries, uint),      FAILURE(failures, uint),
	FAILURE(reason, text),   FAILURE(reason_text, optional), END,
};
VIEW(failure_type, VIEW_FAILURE, "failure", failure_fields);

/* ---- The arguments ---- */

static void push_view(lua_State *L, const struct use_call *c,
		      const struct view_type *view, const void *given)
{
	view_push(L, view, given);
}

static void push_msg(lua_State *L, const struct use_call *c, const struct view_type *view,
		     const void *given)
{
	api_msg_push(L, given);
}

/* The message that the script may write to; the draft is no constant. */
static void push_draft(lua_State *L, const struct use_call *c,
		       const struct view_type *view, const void *given)
{
	draft_push(L, (struct draft *)(uintptr_t)given);
}

static void push_text(lua_State *L, const struct use_call *c,
		      const struct view_type *view, const void *given)
{
	lua_pushstring(L, given);
}

/* Push the argument that one kind alone has. */
static void push_value(lua_State *L, const struct use_call *c,
		       const struct view_type *view, const void *given)
{
	const struct script_value *value = given;

	value->push(L, value->ctx);
}

static void push_options(lua_State *L, const struct use_call *c,
			 const struct view_type *view, const void *given)
{
	lua_rawgeti(L, LUA_REGISTRYINDEX, c->use->options);
}

static void push_state(lua_State *L, const struct use_call *c,
		       const struct view_type *view, const void *given)
{
	dry_run_push_state(L, c->use->state);
}

static void push_index(lua_State *L, const struct use_call *c,
		       const struct view_type *view, const void *given)
{
	lua_rawgeti(L, LUA_REGISTRYINDEX, c->use->state);
}

#define MSG                                  \
	{                                    \
		"msg", push_msg, NULL, false \
	}
#define DRAFT                                 \
	{                                     \
		"msg", push_draft, NULL, true \
	}
#define SEEN(name, view)                      \
	{                                     \
		name, push_view, &view, false \
	}
#define OWN                                      \
	{ "opts", push_options, NULL, false },   \
	{                                        \
		"state", push_state, NULL, false \
	}

/* ---- The table ---- */

#define LETS_PASS (RESULT_NIL | RESULT_TRUE)
#define REFUSES (LETS_PASS | RESULT_FALSE)
/* The state of most kinds, and how it comes into the next generation. */
#define KEEPS_STATE                                                           \
	[RULE_NEW] = { .name = "new", .is_optional = true }, [RULE_CARRY] = { \
		.name = "carry", .is_optional = true                          \
	}
#define A_SCRIPT "a script refused it"

const struct script_row script_kind_rows[] = {
	[SCRIPT_ROUTING] = {
		.folder = "routing",
		.functions = {
			[RULE_DECIDE] = { "route", false,
				{ { "index", push_index, NULL, false }, MSG, { "to", push_value, NULL, false } },
				0, "nothing" },
			[RULE_NEW] = { .name = "new" },
			[RULE_BIND] = { .name = "bind" },
			[RULE_UNBIND] = { .name = "unbind" },
		},
		.is_strategy = true,
	},
	[SCRIPT_SHARDING] = {
		.folder = "sharding",
		.functions = {
			[RULE_DECIDE] = { "pick", false,
				{ MSG, { "n", push_value, NULL, false }, OWN,
				  { "loads", push_value, NULL, false } },
				RESULT_NUMBER, "an integer" },
			KEEPS_STATE,
		},
		.is_strategy = true,
	},
	[SCRIPT_PRIORITY] = {
		.folder = "priority",
		.functions = {
			[RULE_DECIDE] = { "rank", false,
				{ MSG, SEEN("queue", queue_type), OWN },
				RESULT_NUMBER, "a finite number" },
			KEEPS_STATE,
		},
		.is_strategy = true,
	},
	[SCRIPT_RETRY] = {
		.folder = "retry",
		.functions = {
			[RULE_DECIDE] = { "decide", false,
				{ DRAFT, SEEN("failure", failure_type), OWN },
				RESULT_NUMBER | RESULT_TEXT | RESULT_TABLE,
				"a finite delay of 0 or more milliseconds, tide.BURY, "
				"tide.DEAD_LETTER, tide.dead_letter(exchange, key) "
				"or tide.DROP" },
			KEEPS_STATE,
		},
		.is_strategy = true,
	},
	[SCRIPT_FILTER] = {
		.folder = "filter",
		.functions = {
			[RULE_DECIDE] = { "publish", false, { DRAFT, OWN }, REFUSES,
				"nothing, or false and a reason" },
			KEEPS_STATE,
		},
		.match = MATCH_EXCHANGE | MATCH_KEY | MATCH_VHOST | MATCH_USER | MATCH_MESSAGE,
		.refusal = "a filter refused the message",
	},
	[SCRIPT_SCHEDULE] = {
		.folder = "schedule",
		.functions = {
			[RULE_DECIDE] = { "run", false,
				{ { "broker", push_value, NULL, false },
				  { "tick", push_value, NULL, false }, OWN },
				0, "nothing" },
			KEEPS_STATE,
		},
	},
	[SCRIPT_AUTH] = {
		.folder = "auth",
		.functions = {
			[RULE_DECIDE] = { "authorize", true,
				{ SEEN("user", user_view), { "action", push_text, NULL, false },
				  SEEN("object", object_view), OWN },
				REFUSES, "nil, true, or false and a reason" },
			[RULE_AUTHENTICATE] = { "authenticate", true,
				{ SEEN("login", login_view), OWN }, REFUSES | RESULT_TABLE,
				"nil, true, false and a reason, or a table that is the user" },
			[RULE_NEW] = { .name = "new", .is_optional = true },
		},
		.has_active = true,
		.refusal = A_SCRIPT,
	},
	[SCRIPT_DELIVER] = {
		.folder = "deliver",
		.functions = {
			[RULE_DECIDE] = { "deliver", false,
				{ DRAFT, SEEN("consumer", consumer_type), OWN },
				REFUSES | RESULT_NUMBER | RESULT_TEXT | RESULT_REASON,
				"nothing, false and a reason, or a delay of 1 or "
				"more milliseconds or like \"30s\"" },
			KEEPS_STATE,
		},
		.match = MATCH_QUEUE | MATCH_VHOST | MATCH_USER | MATCH_MESSAGE,
	},
	[SCRIPT_SETTLED] = {
		.folder = "settled",
		.functions = {
			[RULE_DECIDE] = { "settled", false,
				{ DRAFT, SEEN("outcome", outcome_type), OWN },
				RESULT_NIL, "nothing" },
			KEEPS_STATE,
		},
		.match = MATCH_QUEUE | MATCH_VHOST | MATCH_MESSAGE,
	},
	[SCRIPT_DECLARE] = {
		.folder = "declare",
		.functions = {
			[RULE_DECIDE] = { "declare", false,
				{ { "what", push_value, NULL, false }, OWN }, REFUSES,
				"nothing, or false and a reason to refuse" },
			KEEPS_STATE,
		},
		.match = MATCH_EXCHANGE | MATCH_QUEUE | MATCH_VHOST | MATCH_USER,
		.refusal = "a policy refuses it",
	},
	[SCRIPT_CONNECT] = {
		.folder = "connect",
		.functions = {
			[RULE_DECIDE] = { "connect", false,
				{ SEEN("client", client_view), OWN },
				RESULT_NIL | RESULT_FALSE | RESULT_TABLE,
				"nothing, false and a reason, or a table with name, vhost "
				"or limits" },
			KEEPS_STATE,
		},
		.match = MATCH_VHOST | MATCH_USER,
		.refusal = A_SCRIPT,
	},
#ifdef SCRIPT_KIND_REHEARSAL /* test_script_kind.c adds a row */
	SCRIPT_KIND_REHEARSAL
#endif
};
const unsigned script_kind_count = sizeof(script_kind_rows) / sizeof(script_kind_rows[0]);
_Static_assert(sizeof(script_kind_rows) / sizeof(script_kind_rows[0]) <= SCRIPT_KINDS_MAX,
	       "arrays have room for all kinds");

const char *script_kind_name(enum script_kind kind)
{
	return script_kind_rows[kind].folder;
}

bool script_kind_has_match(enum script_kind kind)
{
	return script_kind_rows[kind].match != 0;
}

bool script_kind_is_ordered(enum script_kind kind)
{
	return script_kind_rows[kind].has_active || script_kind_has_match(kind);
}

bool script_kind_is_name(enum script_kind kind, struct slice name)
{
	if (name.len == 0 || name.len > SCRIPT_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		unsigned char c = (unsigned char)name.data[i];
		bool is_later = i > 0 || script_kind_is_ordered(kind);

		if (!isalpha(c) && c != '_' && !(is_later && (isdigit(c) || c == '-')))
			return false;
	}
	return true;
}

bool script_kind_is_file(const char *name)
{
	return name[0] != '.' && name[0] != '#' &&
	       slice_has_suffix(slice_from(name), ".lua") &&
	       !slice_has_suffix(slice_from(name), "_spec.lua");
}

enum script_kind script_kind_of(const char *path, const char **file)
{
	unsigned kind = 0;

	for (; kind < script_kind_count; kind++) {
		size_t len = strlen(script_kind_rows[kind].folder);

		if (strncmp(path, script_kind_rows[kind].folder, len) == 0 &&
		    path[len] == '/') {
			*file = path + len + 1;
			return (enum script_kind)kind;
		}
	}
	*file = NULL;
	return (enum script_kind)kind;
}

bool script_kind_is_path(const char *path)
{
	const char *file;

	script_kind_of(path, &file);
	return file && !strchr(file, '/') && script_kind_is_file(file);
}

void script_kind_open(lua_State *L)
{
	for (unsigned kind = 0; kind < script_kind_count; kind++) {
		const struct script_row *row = &script_kind_rows[kind];

		for (int f = 0; f < RULE_FUNCTION_COUNT; f++)
			for (int i = 0; i < SCRIPT_ARGUMENTS_MAX; i++)
				if (row->functions[f].arguments[i].view)
					view_open(L, row->functions[f].arguments[i].view);
	}
}
