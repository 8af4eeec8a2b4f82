#include "pattern.h"

#include <ctype.h>
#include <lauxlib.h>
#include <string.h>

#include "script.h"

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

/* ASCII, whatever the locale: a rule decides alike on every machine. */
static const struct pattern_set classes[26] = {
	['a' - 'a'] = { { 0, 0, 0x07fffffe, 0x07fffffe } },
	['c' - 'a'] = { { 0xffffffff, 0, 0, 0x80000000 } },
	['d' - 'a'] = { { 0, 0x03ff0000, 0, 0 } },
	['g' - 'a'] = { { 0, 0xfffffffe, 0xffffffff, 0x7fffffff } },
	['l' - 'a'] = { { 0, 0, 0, 0x07fffffe } },
	['p' - 'a'] = { { 0, 0xfc00fffe, 0xf8000001, 0x78000001 } },
	['s' - 'a'] = { { 0x00003e00, 0x00000001, 0, 0 } },
	['u' - 'a'] = { { 0, 0, 0x07fffffe, 0 } },
	['w' - 'a'] = { { 0, 0x03ff0000, 0x07fffffe, 0x07fffffe } },
	['x' - 'a'] = { { 0, 0x03ff0000, 0x0000007e, 0x0000007e } },
	['z' - 'a'] = { { 1, 0, 0, 0 } }, /* the zero byte; deprecated */
};
static const struct pattern_set none;

/* The set of the class that `letter` names; NULL: it stands for itself. */
static const struct pattern_set *class_of(unsigned char letter)
{
	return letter < 0x80 && isalpha(letter) && strchr("acdglpsuwxz", tolower(letter))
		       ? &classes[tolower(letter) - 'a']
		       : NULL;
}

struct compiler {
	lua_State *L;
	struct pattern *out;
	const char *p, *end;
	uint8_t open[PATTERN_CAPTURES_MAX]; /* captures that are not closed yet */
	unsigned open_count;
	/* Of each capture: what its '%1' may be. */
	enum { IS_OPEN, IS_CLOSED, IS_POSITION } state[PATTERN_CAPTURES_MAX];
};

static void set_add(struct pattern_set *set, unsigned char byte)
{
	set->bits[byte >> 5] |= UINT32_C(1) << (byte & 31);
}

static void set_add_class(struct pattern_set *set, unsigned char letter)
{
	const struct pattern_set *class = class_of(letter);

	if (!class) {
		set_add(set, letter);
		return;
	}
	for (int i = 0; i < 8; i++)
		set->bits[i] |= isupper(letter) ? ~class->bits[i] : class->bits[i];
}

/* The ']' that ends the set which begins at `p`, behind '[' and '^'. The first
 * character is of the set, whatever it is. */
static const char *end_of_set(struct compiler *c, const char *p)
{
	for (bool is_first = true;; is_first = false) {
		if (p >= c->end)
			luaL_error(c->L, "malformed pattern (missing ']')");
		if (*p == ']' && !is_first)
			return p;
		p += *p == '%' ? 2 : 1;
	}
}

/* The set behind a '['; the compiler goes on behind the ']'. */
static void compile_set(struct compiler *c, struct pattern_item *item)
{
	struct pattern_set *set = &c->out->sets[c->out->set_count++];

	*set = (struct pattern_set){ { 0 } };
	item->set = set;
	item->is_negated = c->p < c->end && *c->p == '^';
	c->p += item->is_negated;
	const char *end = end_of_set(c, c->p);
	while (c->p < end) {
		unsigned char first = (unsigned char)*c->p++;
		if (first == '%') {
			set_add_class(set, (unsigned char)*c->p++);
		} else if (end - c->p >= 2 && *c->p == '-') {
			unsigned char last = (unsigned char)c->p[1];
			for (unsigned b = first; b <= last; b++)
				set_add(set, (unsigned char)b);
			c->p += 2;
		} else {
			set_add(set, first);
		}
	}
	c->p = end + 1;
}

static struct pattern_item *add_item(struct compiler *c, enum pattern_op op)
{
	struct pattern_item *item = &c->out->items[c->out->item_count++];

	*item = (struct pattern_item){ .op = (uint8_t)op };
	return item;
}

static void compile_repetition(struct compiler *c, struct pattern_item *item)
{
	char sign = c->p < c->end ? *c->p : '\0';

	if (sign == '*' || sign == '+' || sign == '?') {
		item->op = PATTERN_MANY;
		item->min = sign == '+';
		item->is_single = sign == '?';
		c->p++;
	} else if (sign == '-') {
		item->op = PATTERN_FEW;
		c->p++;
	}
}

/* One character, or a class of them, with what says how often. */
static void compile_single(struct compiler *c)
{
	struct pattern_item *item = add_item(c, PATTERN_ONE);
	unsigned char byte = (unsigned char)*c->p++;

	item->byte = byte;
	if (byte == '.') {
		item->set = &none;
		item->is_any = item->is_negated = true;
	} else if (byte == '[') {
		compile_set(c, item);
	} else if (byte == '%') {
		item->byte = (unsigned char)*c->p++;
		item->set = class_of(item->byte);
		item->is_negated = isupper(item->byte) != 0;
	}
	compile_repetition(c, item);
}

static void compile_open(struct compiler *c)
{
	unsigned number = c->out->captures;
	bool is_position = c->p + 1 < c->end && c->p[1] == ')';

	if (number == PATTERN_CAPTURES_MAX)
		luaL_error(c->L, "too many captures");
	c->out->captures++;
	c->state[number] = is_position ? IS_POSITION : IS_OPEN;
	if (!is_position)
		c->open[c->open_count++] = (uint8_t)number;
	add_item(c, is_position ? PATTERN_POSITION : PATTERN_OPEN)->capture =
		(uint8_t)number;
	c->p += is_position ? 2 : 1;
}

static void compile_close(struct compiler *c)
{
	if (c->open_count == 0)
		luaL_error(c->L, "invalid pattern capture");
	uint8_t number = c->open[--c->open_count];
	c->state[number] = IS_CLOSED;
	add_item(c, PATTERN_CLOSE)->capture = number;
	c->p++;
}

static void compile_again(struct compiler *c, char digit)
{
	int number = digit - '1';

	if (number < 0 || number >= (int)c->out->captures || c->state[number] == IS_OPEN)
		luaL_error(c->L, "invalid capture index %%%d in the pattern", number + 1);
	add_item(c, PATTERN_AGAIN)->capture = (uint8_t)number;
	c->p += 2;
}

static void compile_balance(struct compiler *c)
{
	if (c->end - c->p < 4)
		luaL_error(c->L, "malformed pattern (missing arguments to '%%b')");
	struct pattern_item *item = add_item(c, PATTERN_BALANCE);
	item->byte = (unsigned char)c->p[2];
	item->close = (unsigned char)c->p[3];
	c->p += 4;
}

static void compile_frontier(struct compiler *c)
{
	if (c->end - c->p < 3 || c->p[2] != '[')
		luaL_error(c->L, "missing '[' after '%%f' in pattern");
	c->p += 3;
	compile_set(c, add_item(c, PATTERN_FRONTIER));
}

static void compile_escape(struct compiler *c)
{
	if (c->p + 1 == c->end)
		luaL_error(c->L, "malformed pattern (ends with '%%')");
	char what = c->p[1];
	if (what == 'b')
		compile_balance(c);
	else if (what == 'f')
		compile_frontier(c);
	else if (what >= '0' && what <= '9')
		compile_again(c, what);
	else
		compile_single(c);
}

static void compile_item(struct compiler *c)
{
	if (*c->p == '(') {
		compile_open(c);
	} else if (*c->p == ')') {
		compile_close(c);
	} else if (*c->p == '$' && c->p + 1 == c->end) {
		add_item(c, PATTERN_BORDER);
		c->p++;
	} else if (*c->p == '%') {
		compile_escape(c);
	} else {
		compile_single(c);
	}
}

/* Every item and every repetition has a byte of the pattern at least, every set
 * three. */
static void make_room(lua_State *L, struct pattern *p, size_t len)
{
	p->items = p->small_items;
	p->choices = p->small_choices;
	p->sets = p->small_sets;
	if (len <= PATTERN_SMALL) {
		lua_pushnil(L);
		return;
	}
	size_t choices = len * sizeof(*p->choices);
	size_t items = (len + 1) * sizeof(*p->items);
	size_t sets = len / 3 * sizeof(*p->sets);
	char *room = lua_newuserdatauv(L, choices + items + sets, 0);
	p->choices = (struct pattern_choice *)room;
	p->items = (struct pattern_item *)(room + choices);
	p->sets = (struct pattern_set *)(room + choices + items);
}

/* Compile, or raise. Pushes a userdata for a long pattern, else nil. It must stay on the
 * stack while the pattern is used. */
static void compile_pattern(lua_State *L, struct pattern *p, const char *text, size_t len,
			    bool has_anchor)
{
	struct compiler c = { .L = L, .out = p, .p = text, .end = text + len };

	/* A longer one would need more memory than all scripts together have. */
	if (len > 1024 * 1024)
		luaL_error(L, "the pattern is over %d bytes", 1024 * 1024);
	make_room(L, p, len);
	p->item_count = p->set_count = 0;
	p->captures = 0;
	p->is_anchored = has_anchor && len > 0 && *text == '^';
	c.p += p->is_anchored;
	while (c.p < c.end)
		compile_item(&c);
	if (c.open_count > 0)
		luaL_error(L, "unfinished capture");
	add_item(&c, PATTERN_END);
}

/* How much is done between two looks at the watchdog: some 100 microseconds. */
#define FUEL 65536

/* Where text is compared or copied as a block, so many bytes are a step. */
#define BYTES_PER_STEP 16

static void init_match(struct pattern_match *m, lua_State *L, const char *function,
		       const char *subject, size_t len)
{
	m->L = L;
	m->function = function;
	m->subject = subject;
	m->end = subject + len;
	m->fuel = FUEL;
	m->steps = PATTERN_STEPS + (int64_t)len * PATTERN_STEPS_PER_BYTE - FUEL;
}

/* The fuel is below zero. */
static void refuel(struct pattern_match *m)
{
	script_check(m->L);
	m->steps += m->fuel;
	if (m->steps < 0)
		script_fail(m->L,
			    "%s: the pattern needs more than its budget of %td steps for "
			    "a text of %td bytes",
			    m->function,
			    PATTERN_STEPS +
				    (m->end - m->subject) * PATTERN_STEPS_PER_BYTE,
			    m->end - m->subject);
	m->fuel = m->steps < FUEL ? m->steps : FUEL;
	m->steps -= m->fuel;
}

static inline void spend(struct pattern_match *m, ptrdiff_t steps)
{
	m->fuel -= steps;
	if (m->fuel < 0)
		refuel(m);
}

/* Take `steps` from the budget, for work beside the matching. */
static void spend_steps(struct pattern_match *m, size_t steps)
{
	spend(m, (ptrdiff_t)steps);
}

static inline bool is_in_set(const struct pattern_item *item, unsigned char byte)
{
	bool is_in = (item->set->bits[byte >> 5] >> (byte & 31)) & 1;

	return is_in != item->is_negated;
}

static inline bool takes(const struct pattern_item *item, const char *at)
{
	unsigned char byte = (unsigned char)*at;

	return item->set ? is_in_set(item, byte) : item->byte == byte;
}

/* The first character from `at` that the item does not take. */
static const char *pass(const struct pattern_item *item, const char *at, const char *end)
{
	if (item->is_any)
		return end;
	while (at < end && takes(item, at))
		at++;
	return at;
}

static const char *match_again(struct pattern_match *m, const struct pattern_item *item,
			       const char *at)
{
	const struct pattern_capture *capture = &m->captures[item->capture];

	if (!capture->end)
		return NULL;
	ptrdiff_t len = capture->end - capture->start;
	if (len > m->end - at)
		return NULL;
	spend(m, len / BYTES_PER_STEP);
	return memcmp(capture->start, at, (size_t)len) == 0 ? at + len : NULL;
}

static const char *match_balance(struct pattern_match *m, const struct pattern_item *item,
				 const char *at)
{
	size_t depth = 0;
	const char *p = at;

	if (at == m->end || (unsigned char)*at != item->byte)
		return NULL;
	for (; p < m->end; p++) {
		unsigned char byte = (unsigned char)*p;
		/* The close first: in '%bxx' they are one. */
		if (byte == item->close && depth > 0) {
			if (--depth == 0)
				break;
		} else if (byte == item->byte) {
			depth++;
		}
	}
	spend(m, p - at);
	return p < m->end ? p + 1 : NULL;
}

/* The set begins here: before the subject and behind it there is a zero. */
static bool match_frontier(const struct pattern_match *m, const struct pattern_item *item,
			   const char *at)
{
	unsigned char before = at == m->subject ? 0 : (unsigned char)at[-1];
	unsigned char here = at == m->end ? 0 : (unsigned char)*at;

	return !is_in_set(item, before) && is_in_set(item, here);
}

static const char *match_other(struct pattern_match *m, const struct pattern_item *item,
			       const char *at)
{
	struct pattern_capture *capture = &m->captures[item->capture];

	switch (item->op) {
	case PATTERN_OPEN:
		*capture = (struct pattern_capture){ at, at };
		return at;
	case PATTERN_CLOSE:
		capture->end = at;
		return at;
	case PATTERN_POSITION:
		*capture = (struct pattern_capture){ at, NULL };
		return at;
	case PATTERN_AGAIN:
		return match_again(m, item, at);
	case PATTERN_BALANCE:
		return match_balance(m, item, at);
	case PATTERN_FRONTIER:
		return match_frontier(m, item, at) ? at : NULL;
	default: /* PATTERN_BORDER */
		return at == m->end ? at : NULL;
	}
}

/* Take as many as there are; that it might be fewer is a choice. */
static const char *take_many(struct pattern_match *m, const struct pattern_item *item,
			     const char *at, struct pattern_choice **top)
{
	const char *end = item->is_single && at < m->end ? at + 1 : m->end;
	const char *last = pass(item, at, end);
	const char *low = at + item->min;

	spend(m, last - at);
	if (last < low)
		return NULL;
	if (last > low)
		*(*top)++ = (struct pattern_choice){ item, last, low };
	return last;
}

/* Where the newest choice goes on; NULL when it is used up. */
static const char *choose_again(struct pattern_match *m, struct pattern_choice *choice)
{
	if (choice->item->op == PATTERN_MANY)
		return choice->at > choice->low ? --choice->at : NULL;
	if (choice->at == m->end || !takes(choice->item, choice->at))
		return NULL;
	return ++choice->at;
}

static const char *match_at(struct pattern_match *m, const struct pattern *p,
			    const char *at)
{
	const struct pattern_item *item = p->items;
	struct pattern_choice *top = p->choices;

	while (item->op != PATTERN_END) {
		spend(m, 1);
		switch (item->op) {
		case PATTERN_ONE:
			at = at < m->end && takes(item, at) ? at + 1 : NULL;
			break;
		case PATTERN_MANY:
			at = take_many(m, item, at, &top);
			break;
		case PATTERN_FEW:
			*top++ = (struct pattern_choice){ item, at, at };
			break;
		default:
			at = match_other(m, item, at);
		}
		while (!at && top > p->choices) {
			spend(m, 1);
			item = top[-1].item;
			at = choose_again(m, top - 1);
			top -= !at;
		}
		if (!at)
			return NULL;
		item++;
	}
	return at;
}

/* The end of the first match at `*at` or behind it, NULL when there is none. `*at` is set
 * to its begin. Raises when the call has used up its steps or its time. */
static const char *search_match(struct pattern_match *m, const struct pattern *p,
				const char **at)
{
	const struct pattern_item *first = p->items;

	if (p->is_anchored)
		return match_at(m, p, *at);
	bool has_first_byte = first->op == PATTERN_ONE && !first->set;
	for (const char *from = *at; from <= m->end; from++) {
		if (has_first_byte) {
			const char *next =
				memchr(from, first->byte, (size_t)(m->end - from));
			spend(m, ((next ? next : m->end) - from) / BYTES_PER_STEP);
			if (!next)
				return NULL;
			from = next;
		}
		const char *end = match_at(m, p, from);
		if (end) {
			*at = from;
			return end;
		}
	}
	return NULL;
}

/* string.find, match, gmatch and gsub on the matcher. */

/* One capture, or the whole match where the pattern has none. */
static void push_capture(const struct pattern_match *m, const struct pattern *p,
			 unsigned number, const char *from, const char *to)
{
	if (number >= p->captures) {
		if (number > 0)
			luaL_error(m->L, "invalid capture index %%%d", (int)number + 1);
		lua_pushlstring(m->L, from, (size_t)(to - from));
		return;
	}
	const struct pattern_capture *capture = &m->captures[number];
	if (capture->end)
		lua_pushlstring(m->L, capture->start,
				(size_t)(capture->end - capture->start));
	else
		lua_pushinteger(m->L, capture->start - m->subject + 1);
}

static int push_captures(const struct pattern_match *m, const struct pattern *p,
			 const char *from, const char *to)
{
	unsigned count = p->captures ? p->captures : 1;

	luaL_checkstack(m->L, (int)count, "too many captures");
	for (unsigned i = 0; i < count; i++)
		push_capture(m, p, i, from, to);
	return (int)count;
}

/* The offset that argument `idx` means: from 1, or from the end when negative. It
 * may be behind the text. */
static size_t read_init(lua_State *L, int idx, size_t len)
{
	lua_Integer init = luaL_optinteger(L, idx, 1);

	if (init > 0)
		return (size_t)init - 1;
	if (init == 0 || init < -(lua_Integer)len)
		return 0;
	return len - (size_t)-init;
}

static bool is_plain(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] && strchr("^$*+?.([%-", text[i]))
			return false;
	}
	return true;
}

static int search(lua_State *L, const char *function, bool is_find)
{
	struct pattern p;
	struct pattern_match m;
	size_t len, pattern_len;

	script_check(L);
	const char *text = luaL_checklstring(L, 1, &len);
	const char *pattern = luaL_checklstring(L, 2, &pattern_len);
	size_t init = read_init(L, 3, len);
	if (init > len) {
		lua_pushnil(L);
		return 1;
	}
	const char *at = text + init, *end;
	if (is_find && (lua_toboolean(L, 4) || is_plain(pattern, pattern_len))) {
		/* memmem is linear, whatever is looked for. */
		at = memmem(at, len - init, pattern, pattern_len);
		end = at ? at + pattern_len : NULL;
		p.captures = 0;
	} else {
		compile_pattern(L, &p, pattern, pattern_len, true);
		init_match(&m, L, function, text, len);
		end = search_match(&m, &p, &at);
	}
	if (!end) {
		lua_pushnil(L);
		return 1;
	}
	if (!is_find)
		return push_captures(&m, &p, at, end);
	lua_pushinteger(L, at - text + 1);
	lua_pushinteger(L, end - text);
	return 2 + (p.captures ? push_captures(&m, &p, at, end) : 0);
}

static int l_find(lua_State *L)
{
	return search(L, "string.find", true);
}

static int l_match(lua_State *L)
{
	return search(L, "string.match", false);
}

struct iteration {
	struct pattern pattern;
	const char *at;
	const char *last; /* where the match before ended: an empty one there is none */
};

/* Upvalues: the subject, the pattern (kept for their memory), the iteration, and
 * what compile_pattern pushed. */
static int l_next(lua_State *L)
{
	struct iteration *it = lua_touserdata(L, lua_upvalueindex(3));
	struct pattern_match m;
	size_t len;
	const char *text = lua_tolstring(L, lua_upvalueindex(1), &len);

	script_check(L);
	init_match(&m, L, "string.gmatch", text, len);
	while (it->at <= m.end) {
		const char *end = search_match(&m, &it->pattern, &it->at);
		if (!end)
			break;
		const char *from = it->at;
		if (end == it->last) {
			it->at++;
			continue;
		}
		it->at = it->last = end;
		return push_captures(&m, &it->pattern, from, end);
	}
	it->at = m.end + 1;
	return 0;
}

static int l_gmatch(lua_State *L)
{
	size_t len, pattern_len;

	script_check(L);
	const char *text = luaL_checklstring(L, 1, &len);
	const char *pattern = luaL_checklstring(L, 2, &pattern_len);
	size_t init = read_init(L, 3, len);
	lua_settop(L, 2);
	struct iteration *it = lua_newuserdatauv(L, sizeof(*it), 0);
	compile_pattern(L, &it->pattern, pattern, pattern_len, false);
	it->at = init > len ? text + len + 1 : text + init;
	it->last = NULL;
	lua_pushcclosure(L, l_next, 4);
	return 1;
}

struct substitution {
	struct pattern pattern;
	struct pattern_match match;
	luaL_Buffer out;
	int type; /* of argument 3, the replacement */
};

/* The replacement is a text in which %0 to %9 are captures. */
static void add_text(struct substitution *s, const char *from, const char *to)
{
	lua_State *L = s->match.L;
	size_t len;
	const char *text = lua_tolstring(L, 3, &len), *end = text + len, *percent;

	spend_steps(&s->match, len / 16);
	for (; (percent = memchr(text, '%', (size_t)(end - text))); text = percent + 2) {
		spend_steps(&s->match, 2);
		luaL_addlstring(&s->out, text, (size_t)(percent - text));
		char what = percent + 1 < end ? percent[1] : '\0';
		if (what == '%') {
			luaL_addchar(&s->out, '%');
		} else if (what == '0') {
			luaL_addlstring(&s->out, from, (size_t)(to - from));
		} else if (what >= '1' && what <= '9') {
			push_capture(&s->match, &s->pattern, (unsigned)(what - '1'), from,
				     to);
			luaL_tolstring(L, -1, NULL); /* a position is a number */
			lua_remove(L, -2);
			luaL_addvalue(&s->out);
		} else {
			luaL_error(L, "invalid use of '%%' in replacement string");
		}
	}
	luaL_addlstring(&s->out, text, (size_t)(end - text));
}

/* Of a table or a function; false when the match stays as it is. */
static bool add_value(struct substitution *s, const char *from, const char *to)
{
	lua_State *L = s->match.L;

	if (s->type == LUA_TFUNCTION) {
		lua_pushvalue(L, 3);
		lua_call(L, push_captures(&s->match, &s->pattern, from, to), 1);
	} else {
		push_capture(&s->match, &s->pattern, 0, from, to);
		lua_gettable(L, 3);
	}
	if (!lua_toboolean(L, -1)) {
		lua_pop(L, 1);
		luaL_addlstring(&s->out, from, (size_t)(to - from));
		return false;
	}
	if (!lua_isstring(L, -1))
		luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
	luaL_addvalue(&s->out);
	return true;
}

static bool replace(struct substitution *s, const char *from, const char *to)
{
	spend_steps(&s->match, 4);
	if (s->type == LUA_TFUNCTION || s->type == LUA_TTABLE) {
		/* A C function, a chain of __index: no instruction, no hook. */
		script_check(s->match.L);
		return add_value(s, from, to);
	}
	add_text(s, from, to);
	return true;
}

static lua_Integer substitute(struct substitution *s, lua_Integer max, bool *has_changed)
{
	struct pattern_match *m = &s->match;
	const char *at = m->subject, *last = NULL;
	lua_Integer count = 0;

	while (count < max) {
		const char *from = at;
		const char *end = search_match(m, &s->pattern, &from);
		if (!end)
			break;
		luaL_addlstring(&s->out, at, (size_t)(from - at));
		at = from;
		if (end != last) {
			*has_changed |= replace(s, from, end);
			count++;
			at = last = end;
		} else if (at < m->end) {
			luaL_addchar(&s->out, *at++);
		} else {
			break;
		}
		if (s->pattern.is_anchored)
			break;
	}
	luaL_addlstring(&s->out, at, (size_t)(m->end - at));
	return count;
}

static int l_gsub(lua_State *L)
{
	struct substitution s;
	size_t len, pattern_len;
	bool has_changed = false;
	const char *text = luaL_checklstring(L, 1, &len);
	const char *pattern = luaL_checklstring(L, 2, &pattern_len);

	s.type = lua_type(L, 3);
	luaL_argexpected(L,
			 s.type == LUA_TNUMBER || s.type == LUA_TSTRING ||
				 s.type == LUA_TTABLE || s.type == LUA_TFUNCTION,
			 3, "string/function/table");
	lua_Integer max = luaL_optinteger(L, 4, (lua_Integer)len + 1);
	lua_settop(L, 3);
	compile_pattern(L, &s.pattern, pattern, pattern_len, true);
	init_match(&s.match, L, "string.gsub", text, len);
	luaL_buffinit(L, &s.out);
	lua_Integer count = substitute(&s, max, &has_changed);
	luaL_pushresult(&s.out);
	if (!has_changed)
		lua_pushvalue(L, 1);
	lua_pushinteger(L, count);
	return 2;
}

void pattern_lib_install(lua_State *L, int idx)
{
	static const luaL_Reg functions[] = {
		{ "find", l_find },   { "gmatch", l_gmatch }, { "gsub", l_gsub },
		{ "match", l_match }, { NULL, NULL },
	};

	lua_pushvalue(L, idx);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}
