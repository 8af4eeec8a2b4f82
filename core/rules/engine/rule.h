/* rule.h: one script of the rules directory: loaded, its shape checked.
 *
 * A script returns a table with the functions of its kind (DESIGN section 6), `pure`,
 * `options`, for routing `binding_options`, and `doc`. Any other key is an error: most
 * likely it is one of these, misspelt. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"
#include "options.h"
#include "rule_match.h"
#include "rules/sandbox/sandbox.h"
#include "rules/sandbox/script.h"
#include "schedule_spec.h"
#include "script_kind.h"

struct account;

/* A script with the options of one queue or exchange, or with its own. */
struct use {
	struct rule *rule;       /* NULL: this number is not in use */
	struct account *account; /* of its memory; NULL: that of the vhost in the call */
	int options;             /* references */
	int state;               /* what `new` returned: for routing the index */
	bool is_pure;
	bool must_carry; /* the state of the former use, which nobody has asked for yet */
};

enum rule_pure { RULE_NOT_PURE, RULE_PURE, RULE_PURE_BY_OPTIONS };

struct rule {
	enum script_kind kind;
	char *name;        /* "topic" */
	UT_hash_handle hh; /* by name: the generation's of the kind */
	char *file; /* "routing/topic.lua"; of a shipped one "shipped/routing/topic.lua"
		     */
	bool is_shipped;
	char *doc;     /* NULL when there is none */
	uint64_t hash; /* of the file, and of its model's */
	/* Of an instance, which returns tide.use(…): the file with its functions, and
	 * what it gives them. */
	char *model; /* "shipped/filter/shed.lua"; NULL: it has its own */
	struct args values;
	/* Where the functions begin, in the file or its model's: for errors in what they
	 * return. */
	int lines[RULE_FUNCTION_COUNT];
	int line; /* the same, or that of tide.use: what stands for the whole script */
	/* References into the state's registry; LUA_NOREF for a missing function. */
	int functions[RULE_FUNCTION_COUNT];
	struct rule_match *match; /* NULL: not active, if its kind has a match */
	bool is_idle;             /* of auth/: `active = false` */
	struct use own;           /* of the kinds that nobody declares a use of */
	/* Of the last call that was for a vhost: most come from the same one. */
	struct account *recent;
	enum rule_pure pure;
	int pure_function;
	struct options options;
	struct options binding_options; /* routing alone */
	struct schedule_spec *schedule; /* schedules alone */
	struct script_stats stats;      /* of this generation */
	struct script_stats earlier;    /* of the generations before: figures.c */
	uint64_t hits_before;           /* cache hits of its uses then */
	uint64_t live_hits;             /* and when they were counted last */
};

/* A script with a match, a schedule that is due at times, or a script of auth/. */
bool rule_is_active(const struct rule *r);

/* Is the script without use, and not used by another of these scripts? Mostly its
 * `match` was forgotten. One with options waits for its instances, a shipped one for
 * its users. */
bool rule_is_forgotten(const struct rule *r, struct rule *const *scripts, size_t count);

/* The file with the functions. */
static inline const char *rule_code_file(const struct rule *r)
{
	return r->model ? r->model : r->file;
}

/* The file that is loaded: of the rules directory, or a shipped one. */
struct rule_place {
	enum script_kind kind;
	const char *name;
	bool is_shipped;
};

/* Load a file into the state, whose sandbox this is. TIDE_ERULE with file and line: it
 * fails. TIDE_ENOTFOUND: there is no such file. */
TIDE_MUST_USE int rule_load(struct script_state *s, struct sandbox *sandbox,
			    const struct rule_place *place, struct rule **out,
			    struct error *err);
/* Accepts NULL. The references go with the state. */
void rule_destroy(struct rule *r);
