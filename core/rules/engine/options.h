/* options.h: the options that a script declares, and the values given to them.
 *
 *   options = {
 *     base   = { type = "duration", default = "1s", doc = "the first delay" },
 *     factor = { type = "number", default = 2, min = 1 },
 *     ["*"]  = { type = "string", doc = "any other name" },
 *   }
 *
 * A declaration is read once, when the script is loaded. It is data of the engine: values
 * are checked without the script. A default is kept as the text that a user would give.
 */
#pragma once

#include <lua.h>
#include <stdbool.h>

#include "base/args.h"
#include "base/option.h"

/* A declaration is kept outside of the scripts' memory, and therefore bounded: a doc or
 * a default, the name of an option, its choices. */
#define OPTIONS_MAX 64
#define OPTION_TEXT_MAX 1024
#define OPTION_NAME_MAX 64
#define OPTION_CHOICES_MAX 64
#define OPTION_CHOICE_MAX 256

struct option {
	/* The row's texts are the option's own. The name "*" is every name that is
	 * not declared; the fallback is the default. */
	struct option_row row;
	bool is_required;
	struct args choices; /* names alone; empty: any value */
};

struct options {
	struct option *items; /* by name */
	size_t count;
	/* The table of the defaults, which all uses and bindings without options of their
	 * own share. A reference into the registry; LUA_NOREF before the first. */
	int presets;
};

void options_init(struct options *o);
void options_deinit(struct options *o);

/* Read the declaration on the top of the stack into `o`, which is initialised and whose
 * owner frees it. Nil declares nothing. A wrong declaration raises. */
void options_declare(lua_State *L, struct options *o);

/* Read values, a table on the top with what a user would write, into `out`, which is
 * empty and whose owner frees it. Nil: none. Raises for what has no text. */
void options_take_values(lua_State *L, struct args *out);

/* TIDE_EMISMATCH for an option that is not declared, that is missing, or whose value is
 * not of its type. `script` is what the error calls the script. */
TIDE_MUST_USE int options_check(const struct options *o, const struct args *args,
				const char *script, struct error *err);

/* The first option by which `has` and `wanted` differ, its values, and that it is one.
 * Equal values are equal however they are spelled; an option that is not given has its
 * default. A value is NULL where there is neither. */
struct option_difference {
	const char *name;
	const char *has;
	const char *wanted;
};
bool options_differ(const struct options *o, const struct args *has,
		    const struct args *wanted, struct option_difference *out);

/* Push the read-only table of values, which have been checked, with the defaults. */
void options_push(lua_State *L, struct options *o, const struct args *args);

/* Copy the `doc` on the top, at most OPTION_TEXT_MAX bytes; raises when it is no text.
 * `name` is that of its option; NULL: the doc of the script. */
char *options_take_doc(lua_State *L, const char *name);
