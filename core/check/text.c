#include "text.h"

#include <ctype.h>

struct reader {
	struct slice rest;
	int line;
	bool is_in_long; /* a long string or comment continues */
};

static const char *find_text(struct slice s, const char *text)
{
	return s.len ? memmem(s.data, s.len, text, strlen(text)) : NULL;
}

/* The line up to a comment or a long string. Notes a long one that stays open. */
static struct slice cut_line(struct reader *r, struct slice line)
{
	const char *comment = find_text(line, "--"), *open = find_text(line, "[[");
	const char *end = comment ? comment : line.data + line.len;

	/* "-- see [[x" opens nothing, "--[[" does. */
	if (open && (!comment || open <= comment + 2))
		r->is_in_long =
			!find_text(slice_skip(line, (size_t)(open - line.data)), "]]");
	if (open && open < end)
		end = open;
	return (struct slice){ line.data, (size_t)(end - line.data) };
}

/* The next line that is not within a long string or comment. */
static bool next_line(struct reader *r, struct slice *code)
{
	while (r->rest.len > 0) {
		struct slice line = slice_cut(&r->rest, '\n');

		r->line++;
		if (!r->is_in_long) {
			*code = cut_line(r, line);
			return true;
		}
		r->is_in_long = !find_text(line, "]]");
	}
	return false;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static struct slice skip_blank(struct slice s)
{
	while (s.len && (s.data[0] == ' ' || s.data[0] == '\t'))
		s = slice_skip(s, 1);
	return s;
}

/* The name in `= "name"`; empty when the text goes on in another way. */
static struct slice assigned_name(struct slice s)
{
	const struct slice none = { NULL, 0 };
	struct slice name;
	const char *end;

	s = skip_blank(s);
	if (!slice_has_prefix(s, "="))
		return none;
	s = skip_blank(slice_skip(s, 1));
	if (s.len < 2 || (s.data[0] != '"' && s.data[0] != '\''))
		return none;
	end = memchr(s.data + 1, s.data[0], s.len - 1);
	if (!end)
		return none;
	name = (struct slice){ s.data + 1, (size_t)(end - s.data - 1) };
	return memchr(name.data, '\\', name.len) ? none : name;
}

void text_each_exchange(struct slice text, text_fn *on_name, void *ctx)
{
	static const char field[] = "exchange";
	struct reader r = { .rest = text };
	struct slice code, name;
	const char *at;

	while (next_line(&r, &code)) {
		char before = ' ';

		while ((at = find_text(code, field))) {
			if (at > code.data)
				before = at[-1];
			code = slice_skip(code, (size_t)(at - code.data) + strlen(field));
			name = assigned_name(code);
			if (!is_word(before) && slice_is_name(name) &&
			    !slice_is(name, "-") && !slice_is(name, "*"))
				on_name(ctx, name, r.line);
			before = field[0];
		}
	}
}

void text_each_function(struct slice text, text_fn *on_name, void *ctx)
{
	struct reader r = { .rest = text };
	struct slice code, name;

	while (next_line(&r, &code)) {
		if (!slice_has_prefix(code, "function "))
			continue;
		name = skip_blank(slice_skip(code, strlen("function ")));
		for (code = name;
		     code.len && (is_word(code.data[0]) || strchr(".:", code.data[0]));)
			code = slice_skip(code, 1);
		name.len -= code.len;
		if (name.len)
			on_name(ctx, name, r.line);
	}
}

#define NUMBERS_MAX 16 /* names of a file that are looked for */

static bool is_conversion(struct slice s)
{
	return slice_has_prefix(s, "tonumber(") || slice_has_prefix(s, "math.tointeger(");
}

static struct slice cut_word(struct slice s)
{
	size_t len = 0;

	while (len < s.len && is_word(s.data[len]))
		len++;
	s.len = len;
	return s;
}

/* The name in `local name = tonumber(`; empty in other lines. */
static struct slice number_name(struct slice code)
{
	const struct slice none = { NULL, 0 };
	struct slice name;

	code = skip_blank(code);
	if (!slice_has_prefix(code, "local "))
		return none;
	name = cut_word(skip_blank(slice_skip(code, strlen("local "))));
	code.len -= (size_t)(name.data + name.len - code.data);
	code.data = name.data + name.len;
	code = skip_blank(code);
	if (!slice_has_prefix(code, "="))
		return none;
	return is_conversion(skip_blank(slice_skip(code, 1))) ? name : none;
}

/* Is the text in brackets, which begins here, assigned to? */
static bool is_assigned(struct slice s)
{
	const char *end = find_text(s, "]");

	if (!end)
		return false;
	s = skip_blank(slice_skip(s, (size_t)(end - s.data) + 1));
	return slice_has_prefix(s, "=") && !slice_has_prefix(s, "==");
}

void text_each_number_key(struct slice text, text_fn *on_key, void *ctx)
{
	struct reader r = { .rest = text };
	struct slice code, key, names[NUMBERS_MAX], name;
	size_t count = 0;
	const char *at;

	while (next_line(&r, &code)) {
		name = number_name(code);
		if (name.len && count < NUMBERS_MAX)
			names[count++] = name;
		while ((at = find_text(code, "["))) {
			code = slice_skip(code, (size_t)(at - code.data) + 1);
			key = cut_word(code);
			bool is_number = is_conversion(code);
			for (size_t i = 0; i < count; i++)
				is_number |=
					slice_is_equal(names[i], key) &&
					slice_has_prefix(slice_skip(code, key.len), "]");
			if (is_number && is_assigned(code))
				on_key(ctx, key, r.line);
		}
	}
}
