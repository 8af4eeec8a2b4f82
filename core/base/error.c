#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "slice.h"
#include "utf8.h"

/* libuv's numbers that are not an errno: the end of a stream, and the range of
 * the resolver's errors. Fixed parts of its ABI; base/ does not include uv.h. */
#define NUMBER_EOF (-4095)
#define NUMBER_RESOLVER_FIRST (-3000)
#define NUMBER_RESOLVER_LAST (-3014)

static const struct entry {
	int number;
	const char *wire;
	const char *text;
} entries[] = {
#define X(name, number, code, text) { number, code, text },
	TIDE_ERRORS(X)
#undef X
		{ TIDE_OK, "store", "no error" },
	{ TIDE_EMPTY, "not-found", "nothing is there now" },
	{ TIDE_AGAIN, "busy", "more input is needed" },
	{ NUMBER_EOF, "store", "end of file" },
};

#define ENTRY_COUNT (sizeof(entries) / sizeof(entries[0]))

static const struct entry *entry_find(int code)
{
	for (size_t i = 0; i < ENTRY_COUNT; i++) {
		if (entries[i].number == code)
			return &entries[i];
	}
	return NULL;
}

int error_set(struct error *err, int code, const char *format, ...)
{
	/* The arguments may point into err->text: an error that wraps itself. */
	char text[ERROR_TEXT_MAX];
	va_list ap;
	va_start(ap, format);
	int len = vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (!err)
		return code;
	if (len < 0)
		text[0] = '\0';
	if (len >= (int)sizeof(text))
		text[utf8_whole(text, sizeof(text) - 1)] = '\0';
	for (char *p = text; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
	}
	err->code = code;
	memcpy(err->text, text, sizeof(text));
	return code;
}

const char *error_wire_code(int code)
{
	const struct entry *e = entry_find(code);

	return e ? e->wire : "store";
}

const char *error_text(int code)
{
	const struct entry *e = entry_find(code);

	if (e)
		return e->text;
	if (code <= NUMBER_RESOLVER_FIRST && code >= NUMBER_RESOLVER_LAST)
		return "the host name cannot be resolved";
	const char *text = code < 0 && code > -4096 ? strerrordesc_np(-code) : NULL;
	return text ? text : "unknown error";
}
