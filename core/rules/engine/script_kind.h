/* script_kind.h: the kinds of scripts. Each is a folder of the rules directory, and one
 * row of `script_kind_rows`: the functions of its scripts, what they are given, what they
 * may return, what they match, what a refusal is.
 *
 * The engine loads and calls scripts by this row, `tidemq check` and `tidemq test` read
 * it, and a test compares the documents and the stubs for editors with it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

#define SCRIPT_NAME_MAX 64

enum script_kind {
	SCRIPT_ROUTING,
	SCRIPT_SHARDING,
	SCRIPT_PRIORITY,
	SCRIPT_RETRY,
	SCRIPT_FILTER,
	SCRIPT_SCHEDULE,
	SCRIPT_AUTH,
	SCRIPT_DELIVER,
	SCRIPT_SETTLED,
	SCRIPT_DECLARE,
	SCRIPT_CONNECT,
	SCRIPT_KINDS_MAX = 16, /* room in arrays; `script_kind_count` are in use */
};

/* The functions of a script. RULE_DECIDE is the one that decides: `publish` of a filter.
 */
enum rule_function {
	RULE_DECIDE,
	RULE_NEW,
	RULE_BIND,
	RULE_UNBIND,
	RULE_CARRY,
	RULE_AUTHENTICATE,
	RULE_FUNCTION_COUNT
};

/* The allowed first results of a function. A function that may refuse returns a
 * reason next to it. */
enum script_result {
	RESULT_NIL = 1 << 0,
	RESULT_TRUE = 1 << 1,
	RESULT_FALSE = 1 << 2, /* a refusal */
	RESULT_NUMBER = 1 << 3,
	RESULT_TEXT = 1 << 4,
	RESULT_TABLE = 1 << 5,
	RESULT_OTHER = 1 << 6, /* no function may return it */
	/* Numbers and texts may have a reason, too. */
	RESULT_REASON = 1 << 7,
};

struct lua_State;
struct use_call;
struct view_type;

/* An argument of a function: its name in documents, and the function that pushes it.
 * `given` is the member of the call in the argument's place. */
struct script_argument {
	const char *name;
	void (*push)(struct lua_State *L, const struct use_call *c,
		     const struct view_type *view, const void *given);
	const struct view_type *view; /* NULL: the argument is no view */
	bool is_written;              /* a draft: the script may write to it */
};
#define SCRIPT_ARGUMENTS_MAX 5

/* The value of an argument that one kind alone has: how to push it. */
struct script_value {
	void (*push)(struct lua_State *L, const void *ctx);
	const void *ctx;
};

struct script_function {
	const char *name; /* NULL: the kind has no such function */
	bool is_optional;
	struct script_argument arguments[SCRIPT_ARGUMENTS_MAX];
	unsigned results;   /* enum script_result; 0: results are ignored */
	const char *wanted; /* the results in words, for errors */
};

/* The keys of `match`. */
enum script_match {
	MATCH_EXCHANGE = 1 << 0,
	MATCH_KEY = 1 << 1,
	MATCH_QUEUE = 1 << 2,
	MATCH_VHOST = 1 << 3,
	MATCH_USER = 1 << 4,
	MATCH_MESSAGE = 1 << 5, /* headers, min_size, max_size */
};

struct script_row {
	const char *folder;
	struct script_function functions[RULE_FUNCTION_COUNT];
	unsigned match; /* enum script_match; a script with a match is active. 0: none */
	/* A queue or an exchange names the script, and gives it options. */
	bool is_strategy;
	bool has_active; /* `active = false` turns a script off */
	/* The reason of a refusal without one. NULL: "", and refusals are not counted as
	 * `rejected`. */
	const char *refusal;
};

extern const struct script_row script_kind_rows[];
extern const unsigned script_kind_count;

/* The name of the folder: "routing", ... */
const char *script_kind_name(enum script_kind kind);

/* Scripts of these kinds are asked one after the other, in the order of their names,
 * which may begin with a digit (10-x.lua). */
bool script_kind_is_ordered(enum script_kind kind);

/* Is a script of the kind active when it has a `match`? */
bool script_kind_has_match(enum script_kind kind);

/* Can a script of the kind have this name? A letter (in kinds that are ordered also a
 * digit) or '_', then letters, digits, '_' and '-'. */
bool script_kind_is_name(enum script_kind kind, struct slice name);

/* Does a file of such a folder have the name of a script? Specs (x_spec.lua) and what
 * editors leave behind (.x.lua.swp, #x.lua#, x.lua~) do not. */
bool script_kind_is_file(const char *name);

/* The kind whose folder a path in the rules directory begins with: "routing/topic.lua".
 * `*file` is the rest behind the folder; NULL, with script_kind_count, for other paths.
 */
enum script_kind script_kind_of(const char *path, const char **file);

/* script_kind_is_file for such a path, directly in the folder. */
bool script_kind_is_path(const char *path);
