#include "lexer.h"

#include <ctype.h>
#include <stdlib.h>

void lexer_init(struct lexer *l, struct slice text)
{
	*l = (struct lexer){ text, 1 };
	if (text.len && text.data[0] == '#') {
		const char *end = memchr(text.data, '\n', text.len);
		l->rest = slice_skip(text, end ? (size_t)(end - text.data) : text.len);
	}
}

static char peek(const struct lexer *l, size_t at)
{
	return at < l->rest.len ? l->rest.data[at] : '\0';
}

/* Go on by `n` bytes, counting lines; gives them. */
static struct slice take(struct lexer *l, size_t n)
{
	if (n > l->rest.len)
		n = l->rest.len;
	struct slice taken = { l->rest.data, n };
	for (size_t i = 0; i < n; i++)
		l->line += taken.data[i] == '\n';
	l->rest = slice_skip(l->rest, n);
	return taken;
}

/* How many '=' there are between the brackets of a long string that begins here;
 * -1 when none does. */
static int long_level(const struct lexer *l, size_t at)
{
	int level = 0;
	if (peek(l, at) != '[')
		return -1;
	while (peek(l, at + 1 + (size_t)level) == '=')
		level++;
	return peek(l, at + 1 + (size_t)level) == '[' ? level : -1;
}

static struct slice take_long(struct lexer *l, int level)
{
	size_t brackets = (size_t)level + 2, at;
	take(l, brackets);
	for (at = 0; at < l->rest.len; at++) {
		size_t equals = 0;
		if (peek(l, at) != ']')
			continue;
		while (peek(l, at + 1 + equals) == '=')
			equals++;
		if (equals == (size_t)level && peek(l, at + 1 + equals) == ']')
			break;
	}
	struct slice text = take(l, at);
	take(l, brackets);
	return text;
}

static struct slice take_quoted(struct lexer *l, bool *has_escapes)
{
	char quote = peek(l, 0);
	size_t len = 0;
	take(l, 1);
	while (len < l->rest.len && peek(l, len) != quote) {
		*has_escapes |= peek(l, len) == '\\';
		len += peek(l, len) == '\\' ? 2 : 1;
	}
	struct slice text = take(l, len);
	take(l, 1);
	return text;
}

static void skip_blanks(struct lexer *l)
{
	for (;;) {
		if (l->rest.len && isspace((unsigned char)peek(l, 0))) {
			take(l, 1);
		} else if (peek(l, 0) == '-' && peek(l, 1) == '-') {
			int level = long_level(l, 2);
			take(l, 2);
			if (level >= 0) {
				take_long(l, level);
				continue;
			}
			while (l->rest.len && peek(l, 0) != '\n')
				take(l, 1);
		} else {
			return;
		}
	}
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static size_t word_len(const struct lexer *l)
{
	size_t len = 0;
	while (is_word(peek(l, len)))
		len++;
	return len;
}

static size_t number_len(const struct lexer *l)
{
	bool is_hex = peek(l, 0) == '0' && (peek(l, 1) | 0x20) == 'x';
	size_t len = 0;
	for (;; len++) {
		char c = peek(l, len), before = len ? (char)(peek(l, len - 1) | 0x20) : 0;
		bool is_sign = (c == '+' || c == '-') && before == (is_hex ? 'p' : 'e');
		if (!is_word(c) && c != '.' && !is_sign)
			return len;
	}
}

static size_t symbol_len(const struct lexer *l)
{
	static const char *const longer[] = { "...", "..", "==", "~=", "<=",
					      ">=",  "//", "::", "<<", ">>" };
	for (size_t i = 0; i < sizeof(longer) / sizeof(longer[0]); i++)
		if (slice_has_prefix(l->rest, longer[i]))
			return strlen(longer[i]);
	return 1;
}

struct token lexer_next(struct lexer *l)
{
	skip_blanks(l);
	struct token t = { .line = l->line };
	char c = peek(l, 0);
	if (l->rest.len == 0) {
		t.kind = TOKEN_END;
	} else if (c == '"' || c == '\'') {
		t.kind = TOKEN_STRING;
		t.text = take_quoted(l, &t.has_escapes);
	} else if (long_level(l, 0) >= 0) {
		t.kind = TOKEN_STRING;
		t.text = take_long(l, long_level(l, 0));
	} else if (isdigit((unsigned char)c) ||
		   (c == '.' && isdigit((unsigned char)peek(l, 1)))) {
		t.kind = TOKEN_NUMBER;
		t.text = take(l, number_len(l));
	} else if (is_word(c)) {
		t.kind = TOKEN_NAME;
		t.text = take(l, word_len(l));
	} else {
		t.kind = TOKEN_SYMBOL;
		t.text = take(l, symbol_len(l));
	}
	return t;
}

/* The escapes that stand for one byte; those of Unicode are left as they are. */
static size_t decode_escape(struct slice s, struct buf *out)
{
	static const char from[] = "abfnrtv", to[] = "\a\b\f\n\r\t\v";
	char digits[4] = "";
	const char *known;
	if (s.len == 0)
		return 0;
	known = strchr(from, s.data[0]);
	if (known && *known) {
		buf_append_char(out, to[known - from]);
		return 1;
	}
	if (s.data[0] == 'x' && s.len >= 3) {
		memcpy(digits, s.data + 1, 2);
		buf_append_char(out, (char)strtol(digits, NULL, 16));
		return 3;
	}
	size_t n = 0;
	while (n < 3 && n < s.len && isdigit((unsigned char)s.data[n]))
		n++;
	memcpy(digits, s.data, n);
	buf_append_char(out, n ? (char)atoi(digits) : s.data[0]);
	return n ? n : 1;
}

void token_decode(const struct token *t, struct buf *out)
{
	struct slice s = t->text;
	buf_clear(out);
	while (s.len) {
		if (!t->has_escapes || s.data[0] != '\\') {
			buf_append_char(out, s.data[0]);
			s = slice_skip(s, 1);
		} else {
			s = slice_skip(s, 1);
			s = slice_skip(s, decode_escape(s, out));
		}
	}
}
