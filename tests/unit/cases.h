/* cases.h: the files of tests/cases: lines of text that C and Lua tests share.
 *
 * An empty line and one that begins with '#' say nothing. Escapes, wherever the
 * reader of a file wants them: \xHH a byte, \r \n \t, \\ a backslash, \{N:text} the
 * text N times, in which \# is the number of the repetition. */
#ifndef TIDE_TEST_CASES_H
#define TIDE_TEST_CASES_H

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"

struct cases {
	FILE *file;
	char *line; /* without its end */
	size_t cap;
	unsigned number; /* of the line, from 1 */
};

static inline void cases_open(struct cases *c, const char *name)
{
	char path[256];

	*c = (struct cases){ 0 };
	snprintf(path, sizeof(path), "tests/cases/%s", name);
	c->file = fopen(path, "r");
	if (!c->file) {
		fprintf(stderr, "%s cannot be read: run this from the Makefile's place\n",
			path);
		abort();
	}
}

static inline void cases_close(struct cases *c)
{
	free(c->line);
	fclose(c->file);
}

/* The next line that says something; false at the end. */
static inline bool cases_next(struct cases *c)
{
	ssize_t len;

	while ((len = getline(&c->line, &c->cap, c->file)) >= 0) {
		c->number++;
		if (len > 0 && c->line[len - 1] == '\n')
			c->line[len - 1] = '\0';
		if (c->line[0] != '\0' && c->line[0] != '#')
			return true;
	}
	return false;
}

static inline void cases_unescape(const char *text, const char *end, unsigned round,
				  struct buf *out);

/* \{N:text}, of which `text` points behind the brace; gives what is behind. */
static inline const char *cases_repeat(const char *text, struct buf *out)
{
	char *from;
	unsigned long times = strtoul(text, &from, 10);
	const char *end = strchr(from, '}');

	if (*from != ':' || !end)
		abort();
	for (unsigned long i = 0; i < times; i++)
		cases_unescape(from + 1, end, (unsigned)i, out);
	return end + 1;
}

static inline void cases_unescape(const char *text, const char *end, unsigned round,
				  struct buf *out)
{
	static const char names[] = "rnt", values[] = "\r\n\t";
	const char *name;

	while (text < end) {
		char hex[3] = "";

		if (*text != '\\') {
			buf_append_char(out, *text++);
			continue;
		}
		switch (text[1]) {
		case 'x':
			memcpy(hex, text + 2, 2);
			buf_append_char(out, (char)strtoul(hex, NULL, 16));
			text += 4;
			break;
		case '{':
			text = cases_repeat(text + 2, out);
			break;
		case '#':
			buf_append_uint(out, round);
			text += 2;
			break;
		default:
			name = strchr(names, text[1]);
			buf_append_char(out, name ? values[name - names] : text[1]);
			text += 2;
			break;
		}
	}
}

/* The bytes that a text with escapes stands for, at the end of `out`. */
static inline void cases_bytes(const char *text, struct buf *out)
{
	cases_unescape(text, text + strlen(text), 0, out);
}

/* The other way: what is not printable, and '\\', as escapes. */
static inline void cases_escape(struct slice bytes, struct buf *out)
{
	for (size_t i = 0; i < bytes.len; i++) {
		unsigned char c = (unsigned char)bytes.data[i];

		if (c == '\\')
			buf_append_text(out, "\\\\");
		else if (c < 0x20 || c == 0x7f)
			buf_printf(out, "\\x%02x", c);
		else
			buf_append_char(out, (char)c);
	}
}

#endif
