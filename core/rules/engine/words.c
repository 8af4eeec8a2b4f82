#include "words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "lexer.h"

#define NUMBER_MAX 64

void words_deinit(struct words *w)
{
	for (size_t i = 0; i < w->count; i++)
		mem_free(w->items[i]);
	mem_free(w->items);
	*w = (struct words){ .items = NULL };
}

const char *words_add(struct words *w, struct slice text, bool *is_new)
{
	if (is_new)
		*is_new = false;
	for (size_t i = 0; i < w->count; i++)
		if (slice_is(text, w->items[i]))
			return w->items[i];
	if (w->count == w->cap) {
		w->cap = w->cap * 2 + 16;
		w->items = mem_realloc(w->items, w->cap * sizeof(*w->items));
	}
	if (is_new)
		*is_new = true;
	return w->items[w->count++] = mem_strndup(text.len ? text.data : "", text.len);
}

/* ---- patterns -------------------------------------------------------------------- */

/* A character of a class, '\0' for one of no visible character. */
static char of_class(char class)
{
	switch (class) {
	case 'd':
	case 'x':
		return '1';
	case 'a':
	case 'l':
	case 'w':
	case 'g':
	case 'S':
	case 'D':
	case 'P':
		return 'a';
	case 'u':
		return 'A';
	case 'p':
		return '.';
	case 's':
		return ' ';
	default:
		return isalnum((unsigned char)class) ? 'a' : class;
	}
}

/* One character that the item at the front matches; the item is taken off. */
static char take_item(struct slice *p)
{
	char c = p->data[0];
	if (c == '%' && p->len > 1) {
		c = of_class(p->data[1]);
		*p = slice_skip(*p, 2);
		return c;
	}
	*p = slice_skip(*p, 1);
	if (c != '[')
		return c == '.' ? 'a' : c;
	struct slice set = *p;
	while (p->len && p->data[0] != ']')
		*p = slice_skip(*p, 1);
	if (p->len)
		*p = slice_skip(*p, 1);
	if (set.len && set.data[0] == '^')
		return '~';
	return set.len ? take_item(&set) : '\0';
}

void words_match_pattern(struct buf *out, struct slice p)
{
	if (p.len && p.data[0] == '^')
		p = slice_skip(p, 1);
	while (p.len) {
		if (p.data[0] == '(' || p.data[0] == ')' ||
		    (p.data[0] == '$' && p.len == 1)) {
			p = slice_skip(p, 1);
			continue;
		}
		char c = take_item(&p);
		bool may_be_left_out = p.len && strchr("*-?", p.data[0]);
		if (p.len && strchr("*+-?", p.data[0]))
			p = slice_skip(p, 1);
		if (!may_be_left_out)
			buf_append_char(out, c);
	}
}

/* ---- literals ---------------------------------------------------------------------- */

static void add_string(struct words *w, const struct token *t)
{
	struct buf text, match;
	buf_init(&text);
	buf_init(&match);
	token_decode(t, &text);
	if (!memchr(buf_cstr(&text), '\0', buf_len(&text))) {
		words_add(w, buf_slice(&text), NULL);
		words_match_pattern(&match, buf_slice(&text));
		if (!memchr(buf_cstr(&match), '\0', buf_len(&match)))
			words_add(w, buf_slice(&match), NULL);
	}
	buf_deinit(&text);
	buf_deinit(&match);
}

static void add_number(struct words *w, double n)
{
	char text[NUMBER_MAX];
	for (int by = -1; by <= 1; by++) {
		snprintf(text, sizeof(text), "%.14g", n + by);
		words_add(w, slice_from(text), NULL);
	}
}

static double number_of(const struct token *t)
{
	char text[NUMBER_MAX];
	snprintf(text, sizeof(text), "%.*s", (int)(t->text.len % sizeof(text)),
		 t->text.data);
	return strtod(text, NULL);
}

void words_add_literals(struct words *w, const struct bundle_file *file, size_t max)
{
	struct lexer l;
	struct token t;
	double product = 0; /* of the numbers so far: 64 * 1024 */
	bool is_times = false;
	lexer_init(&l, (struct slice){ file->text, file->len });
	while ((t = lexer_next(&l)).kind != TOKEN_END && w->count < max) {
		if (t.kind == TOKEN_NUMBER) {
			add_number(w, number_of(&t));
			product = is_times ? product * number_of(&t) : number_of(&t);
			if (is_times)
				add_number(w, product);
		} else if (t.kind == TOKEN_STRING) {
			add_string(w, &t);
		}
		is_times = token_is(&t, TOKEN_SYMBOL, "*");
	}
}
