/* pattern.h: the pattern functions of Lua's string library, with a budget.
 *
 * Why not Lua's own: its matcher is a C function, and no hook interrupts it. A pattern of
 * a few dozen bytes can keep it busy for years. This matcher has the language of section
 * 6.4.1 of the manual, and counts its steps.
 *
 * A pattern is compiled into a row of items. There are no alternatives. To go back is to
 * go to the nearest repetition before; what follows it is matched again. A match
 * therefore needs one choice for each repetition, whatever the subject is, and no
 * recursion. Captures need no restoring: those before the repetition stay, those behind
 * it are set again before they are read.
 *
 * A wrong pattern is refused when it is compiled, even if the match would not reach the
 * wrong part. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

/* The steps of one call, of 1 to 3 ns each. Each byte of the subject adds some, enough
 * for one pass over a large payload. */
#define PATTERN_STEPS 1000000
#define PATTERN_STEPS_PER_BYTE 32

#define PATTERN_CAPTURES_MAX 32

enum pattern_op {
	PATTERN_ONE,      /* a character */
	PATTERN_MANY,     /* '*', '+' and '?': as many as there are, `min` to `max` */
	PATTERN_FEW,      /* '-': as few as will do */
	PATTERN_OPEN,     /* '(' of capture `capture` */
	PATTERN_CLOSE,    /* ')' */
	PATTERN_POSITION, /* '()' */
	PATTERN_AGAIN,    /* '%1' */
	PATTERN_BALANCE,  /* '%b()' */
	PATTERN_FRONTIER, /* '%f[set]' */
	PATTERN_BORDER,   /* '$' */
	PATTERN_END,
};

struct pattern_set {
	uint32_t bits[8]; /* one for each byte */
};

struct pattern_item {
	uint8_t op;
	unsigned char byte, close; /* the pair of a balance */
	bool is_single;            /* '?': one at most */
	uint8_t min;
	uint8_t capture;
	/* The characters: those of the set, or those that are not; `byte` alone if NULL.
	 */
	const struct pattern_set *set;
	bool is_negated;
	bool is_any; /* '.': the set is that of all */
};

/* Where to go on when what follows an item has failed. */
struct pattern_choice {
	const struct pattern_item *item;
	const char *at;  /* where what follows was tried last */
	const char *low; /* MANY: nothing before this */
};

struct pattern_capture {
	const char *start;
	const char *end; /* NULL: a position */
};

#define PATTERN_SMALL 24

/* A compiled pattern. A short one needs no allocation. */
struct pattern {
	struct pattern_item *items;
	struct pattern_choice *choices;
	struct pattern_set *sets;
	size_t item_count, set_count;
	unsigned captures;
	bool is_anchored;
	struct pattern_item small_items[PATTERN_SMALL + 1];
	struct pattern_choice small_choices[PATTERN_SMALL];
	struct pattern_set small_sets[PATTERN_SMALL / 3];
};

struct pattern_match {
	lua_State *L;
	const char *function; /* "string.find", for the error of the budget */
	const char *subject, *end;
	int64_t fuel;  /* until the next look at the watchdog */
	int64_t steps; /* left beyond the fuel */
	struct pattern_capture captures[PATTERN_CAPTURES_MAX];
};

/* Compile, or raise. Pushes a userdata for a long pattern, else nil. It must stay on the
 * stack while the pattern is used. */
void pattern_compile(lua_State *L, struct pattern *p, const char *text, size_t len,
		     bool has_anchor);

void pattern_match_init(struct pattern_match *m, lua_State *L, const char *function,
			const char *subject, size_t len);
/* The end of the first match at `*at` or behind it, NULL when there is none. `*at` is set
 * to its begin. Raises when the call has used up its steps or its time. */
const char *pattern_match_search(struct pattern_match *m, const struct pattern *p,
				 const char **at);
/* Take `steps` from the budget, for work beside the matching. */
void pattern_match_spend(struct pattern_match *m, size_t steps);

/* Replace find, match, gmatch and gsub in the table at `idx`. */
void pattern_lib_install(lua_State *L, int idx);
