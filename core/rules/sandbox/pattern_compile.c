#include <ctype.h>
#include <lauxlib.h>
#include <string.h>

#include "pattern.h"

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

void pattern_compile(lua_State *L, struct pattern *p, const char *text, size_t len,
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
