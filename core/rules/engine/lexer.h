/* lexer.h: the words of a Lua text, for what is looked up in a source without
 * running it. The text has been compiled before: what is no Lua is not told. */
#ifndef TIDE_RULES_ENGINE_LEXER_H
#define TIDE_RULES_ENGINE_LEXER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_STRING, TOKEN_NUMBER, TOKEN_SYMBOL };

struct token {
	enum token_kind kind;
	int line;
	struct slice
		text;     /* keywords are names; of a string what is between its quotes */
	bool has_escapes; /* a string whose text is to be decoded */
};

struct lexer {
	struct slice rest;
	int line;
};

void lexer_init(struct lexer *l, struct slice text);
/* The next one; TOKEN_END for ever when there is none. */
struct token lexer_next(struct lexer *l);
/* What the string stands for, in `out`, which is cleared before. */
void token_decode(const struct token *t, struct buf *out);

static inline bool token_is(const struct token *t, enum token_kind kind, const char *text)
{
	return t->kind == kind && slice_is(t->text, text);
}

#endif
