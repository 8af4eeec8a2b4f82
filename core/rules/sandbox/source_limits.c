#include "source_limits.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/slice.h"

/* Lua refuses what nests deeper than 200. */
#define DEPTH_MAX 256

struct scan {
	const char *at, *end;
	int line;
	int jumps;
	bool is_suffix; /* the token before was '.' or ':' */
	/* The indexes of the expression under way, in each pair of brackets around. */
	int indexes[DEPTH_MAX];
	int depth;
};

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static char peek(const struct scan *s, size_t offset)
{
	return offset < (size_t)(s->end - s->at) ? s->at[offset] : '\0';
}

static void skip(struct scan *s, size_t len)
{
	for (; len > 0 && s->at < s->end; len--)
		s->line += *s->at++ == '\n';
}

/* A '[' with `level` '=' and another '[' begin a text; -1: this one does not. */
static int long_level(const struct scan *s)
{
	size_t level = 0;

	if (peek(s, 0) != '[')
		return -1;
	while (peek(s, 1 + level) == '=')
		level++;
	return peek(s, 1 + level) == '[' ? (int)level : -1;
}

static void skip_long(struct scan *s, int level)
{
	skip(s, 2 + (size_t)level);
	for (; s->at < s->end; skip(s, 1)) {
		int found = 0;
		while (*s->at == ']' && peek(s, 1 + (size_t)found) == '=')
			found++;
		if (*s->at == ']' && found == level && peek(s, 1 + (size_t)level) == ']')
			break;
	}
	skip(s, 2 + (size_t)level);
}

static void skip_comment(struct scan *s)
{
	skip(s, 2);
	int level = long_level(s);
	if (level >= 0) {
		skip_long(s, level);
		return;
	}
	while (s->at < s->end && *s->at != '\n')
		s->at++;
}

static void skip_quoted(struct scan *s)
{
	char quote = *s->at;

	for (skip(s, 1); s->at < s->end && *s->at != quote;)
		skip(s, *s->at == '\\' ? 2 : 1);
	skip(s, 1);
}

static void skip_number(struct scan *s)
{
	bool is_hex = *s->at == '0' && tolower((unsigned char)peek(s, 1)) == 'x';
	char exponent = is_hex ? 'p' : 'e';

	while (is_word(peek(s, 0)) || peek(s, 0) == '.') {
		bool is_exponent = tolower((unsigned char)*s->at) == exponent;
		bool has_sign = peek(s, 1) == '+' || peek(s, 1) == '-';
		skip(s, is_exponent && has_sign ? 2 : 1);
	}
}

/* A name that is no suffix, and each keyword, begins an expression or stands between
 * two. */
static void scan_word(struct scan *s)
{
	struct slice word = { s->at, 0 };

	while (s->at < s->end && is_word(*s->at))
		s->at++;
	word.len = (size_t)(s->at - word.data);
	s->jumps += slice_is(word, "goto") || slice_is(word, "break");
	if (!s->is_suffix)
		s->indexes[s->depth] = 0;
}

static void open_bracket(struct scan *s)
{
	skip(s, 1);
	if (s->depth + 1 < DEPTH_MAX)
		s->indexes[++s->depth] = 0;
}

/* An expression in brackets is part of the one around it. */
static void close_bracket(struct scan *s)
{
	skip(s, 1);
	if (s->depth == 0)
		return;
	s->depth--;
	s->indexes[s->depth] += s->indexes[s->depth + 1];
}

static void scan_sign(struct scan *s)
{
	bool is_dot = *s->at == '.' && peek(s, 1) != '.';

	if (is_dot || *s->at == '[')
		s->indexes[s->depth]++;
	if (*s->at && strchr("([{", *s->at)) {
		open_bracket(s);
	} else if (*s->at && strchr(")]}", *s->at)) {
		close_bracket(s);
	} else if (is_dot || *s->at == ':') {
		skip(s, 1);
	} else {
		s->indexes[s->depth] = 0;
		skip(s, *s->at == '.' ? 2 + (peek(s, 2) == '.') : 1);
	}
}

static void scan_token(struct scan *s)
{
	char c = *s->at;
	bool is_suffix = c == ':' || (c == '.' && peek(s, 1) != '.');

	if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)peek(s, 1))))
		skip_number(s);
	else if (is_word(c))
		scan_word(s);
	else if (c == '"' || c == '\'')
		skip_quoted(s);
	else if (long_level(s) >= 0)
		skip_long(s, long_level(s));
	else
		scan_sign(s);
	s->is_suffix = is_suffix;
}

int source_limits_check(const struct source *source, const char *name, struct error *err)
{
	struct scan s = { .at = source->data,
			  .end = source->data + source->len,
			  .line = 1 };

	while (s.at < s.end) {
		if (isspace((unsigned char)*s.at))
			skip(&s, 1);
		else if (*s.at == '-' && peek(&s, 1) == '-')
			skip_comment(&s);
		else
			scan_token(&s);
		if (s.jumps > SOURCE_LIMITS_JUMPS)
			return error_set(
				err, TIDE_ERULE,
				"%s:%d: more than %d 'goto' and 'break' in a file", name,
				s.line, SOURCE_LIMITS_JUMPS);
		if (s.indexes[s.depth] > SOURCE_LIMITS_INDEXES)
			return error_set(
				err, TIDE_ERULE,
				"%s:%d: more than %d '.' and '[' in one expression", name,
				s.line, SOURCE_LIMITS_INDEXES);
	}
	return TIDE_OK;
}
