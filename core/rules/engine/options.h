/* options.h: the options that a script declares, and the values given to them.
 *
 *   options = {
 *     base   = { type = "duration", default = "1s", doc = "the first delay" },
 *     factor = { type = "number", default = 2, min = 1 },
 *     ["*"]  = { type = "string", doc = "any other name" },
 *   }
 *
 * A declaration is data of ours, read once when the script is loaded: values
 * are checked without the script. Defaults are kept as the text that a user
 * would have given. */
#ifndef TIDE_RULES_ENGINE_OPTIONS_H
#define TIDE_RULES_ENGINE_OPTIONS_H

#include <lua.h>
#include <stdbool.h>

#include "base/args.h"

#define OPTIONS_MAX 64
/* What a declaration keeps is outside of the scripts' memory, so it is bounded here:
 * a doc or a default, the name of an option, the choices of one. */
#define OPTION_TEXT_MAX 1024
#define OPTION_NAME_MAX 64
#define OPTION_CHOICES_MAX 64
#define OPTION_CHOICE_MAX 256

enum option_type {
	OPTION_STRING,
	OPTION_INTEGER,
	OPTION_NUMBER,
	OPTION_BOOLEAN,
	OPTION_DURATION, /* milliseconds for the script */
	OPTION_LIST,     /* "a,b,c"; a table for the script */
};

struct option {
	char *name; /* "*": every name that is not declared */
	char *doc;  /* NULL when there is none, like the next */
	char *preset;
	enum option_type type;
	enum option_type of; /* of a list's elements */
	bool is_required;
	bool has_min, has_max;
	double min, max;
	struct args choices; /* names alone; empty when anything goes */
};

struct options {
	struct option *items; /* by name */
	size_t count;
};

void options_init(struct options *o);
void options_deinit(struct options *o);

/* Read the declaration on the top of the stack into `o`, which is initialised
 * and its owner's: a wrong declaration raises. Nil declares nothing. */
void options_declare(lua_State *L, struct options *o);

/* TIDE_EMISMATCH for an option that is not declared, is missing, or whose value
 * is not of its type. `script` is what the error calls their script. */
TIDE_MUST_USE int options_check(const struct options *o, const struct args *args,
				const char *script, struct error *err);

/* Push the read-only table of values, checked before, defaults included. */
void options_push(lua_State *L, const struct options *o, const struct args *args);

/* The text on the top, of at most OPTION_TEXT_MAX bytes, for an owner outside of
 * the state; raises when it is none. `whose` is how the error begins. */
char *options_take_text(lua_State *L, const char *whose, const char *what);

const char *options_type_name(enum option_type type);

#endif
