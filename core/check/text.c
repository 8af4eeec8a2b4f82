#include "text.h"

#include <ctype.h>

struct reader {
	struct slice rest;
	int line;
	bool is_in_long; /* a long string or comment continues */
};

static const char *find(struct slice s, const char *text)
{
	return s.len ? memmem(s.data, s.len, text, strlen(text)) : NULL;
}

/* The line up to a comment or a long string. Notes a long one that stays open. */
static struct slice cut_line(struct reader *r, struct slice line)
{
	const char *comment = find(line, "--"), *open = find(line, "[[");
	const char *end = comment ? comment : line.data + line.len;

	/* "-- see [[x" opens nothing, "--[[" does. */
	if (open && (!comment || open <= comment + 2))
		r->is_in_long = !find(slice_skip(line, (size_t)(open - line.data)), "]]");
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
		r->is_in_long = !find(line, "]]");
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

		while ((at = find(code, field))) {
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
