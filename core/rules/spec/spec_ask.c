#include "spec_ask.h"

#include <lauxlib.h>
#include <string.h>

#include "base/buf.h"
#include "rules/api/view.h"
#include "rules/engine/engine_private.h"
#include "rules/engine/hook.h"
#include "rules/sandbox/field.h"
#include "spec_box.h"
#include "spec_field.h"
#include "spec_msg.h"

#define FIELDS_MAX 32
#define SUBJECT_MAX 512 /* bytes of a struct behind a view */
#define FIRST 3         /* argument of the method that the script is given */

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

/* Fill a struct from the table at `idx`, by the fields of its view. Texts stay. A field
 * that has a `push` of its own stays 0. */
static void read_view(lua_State *L, int idx, const struct view_type *view, char *out)
{
	const char *names[FIELDS_MAX + 1] = { NULL };
	size_t count = 0;

	for (const struct view_field *f = view->fields; f->name; f++)
		names[count++] = f->name;
	luaL_checktype(L, idx, LUA_TTABLE);
	luaL_checkstack(L, FIELDS_MAX, NULL);
	field_check_names(L, idx, view->name, names);
	for (const struct view_field *f = view->fields; f->name; f++) {
		void *member = out + f->offset;

		if (f->push == view_push_text)
			*(const char **)member = spec_field_text(L, idx, f->name, NULL);
		else if (f->push == view_push_bool)
			*(bool *)member = spec_field_flag(L, idx, f->name);
		else if (f->push == view_push_uint)
			*(uint32_t *)member =
				(uint32_t)spec_field_integer(L, idx, f->name, 0);
		else if (f->push == view_push_int64)
			*(int64_t *)member = spec_field_integer(L, idx, f->name, 0);
		else if (f->push == view_push_slice || f->push == view_push_given ||
			 f->push == view_push_optional)
			*(struct slice *)member = spec_field_slice(L, idx, f->name, NULL);
	}
}

/* The row's arguments, but `opts` and `state`, from FIRST on. */
static void read_arguments(lua_State *L, const struct script_function *f,
			   struct spec_asking *a, struct hook_call *call)
{
	int idx = FIRST;

	for (int i = 0; i < SCRIPT_ARGUMENTS_MAX && f->arguments[i].push; i++) {
		const struct script_argument *argument = &f->arguments[i];

		if (argument->view) {
			read_view(L, idx, argument->view, a->subjects[i]);
			call->given[i] = a->subjects[i];
		} else if (strcmp(argument->name, "msg") == 0) {
			a->read = spec_msg_read(L, idx);
			a->msg = (struct api_msg){ .msg = a->read };
			a->copies.max = DRAFT_COPIES_MAX;
			draft_init(&a->draft, a->read, a->read->ts_unix_ms, &a->copies);
			call->subject.msg = a->read;
			call->given[i] = argument->is_written ? (void *)&a->draft
							      : (void *)&a->msg;
		} else {
			continue;
		}
		call->subject.vhost = spec_field_slice(L, idx, "vhost", "/");
		call->subject.user = spec_field_slice(L, idx, "user", "");
		call->subject.queue = spec_field_slice(L, idx++, "queue", "");
	}
}

static int push_result(lua_State *L, const struct spec_asking *a,
		       const struct script_refusal *refusal)
{
	if (refusal->is_refused) {
		lua_pushboolean(L, false);
		lua_pushstring(L, refusal->reason);
		return 2;
	}
	if (a->result == RESULT_TEXT)
		field_push(L, buf_slice(&a->text));
	else if (a->result == RESULT_NUMBER)
		lua_pushnumber(L, a->number);
	else
		lua_pushboolean(L, true);
	return 1;
}

int spec_ask(lua_State *L, struct engine *e, struct decision_context *context)
{
	const char *file, *kind = luaL_checkstring(L, 2);
	struct script_refusal refusal = { false, "" };
	struct spec_asking a = { .result = 0 };
	struct hook_call call = {
		.context = context, .take = take_result, .ctx = &a, .refusal = &refusal
	};
	struct error err;
	int count;

	call.kind = script_kind_of(lua_pushfstring(L, "%s/", kind), &file);
	luaL_argcheck(L, file && script_kind_has_match(call.kind), 2,
		      "no kind of scripts with a match");
	read_arguments(L, &script_kind_rows[call.kind].functions[RULE_DECIDE], &a, &call);
	int rc = hook_run(e, &call, &err);
	count = rc == TIDE_OK ? push_result(L, &a, &refusal)
			      : spec_box_answer(L, rc, &err);
	buf_deinit(&a.text);
	for (unsigned i = 0; i < a.copies.count; i++)
		msg_unref(a.copies.items[i]);
	if (a.read)
		draft_deinit(&a.draft);
	msg_unref(a.read);
	return count;
}
