/* inspect_source.c: what a text says twice, which the running script cannot
 * tell: of two equal keys in a table the first is as if it were not there. */

#include "base/mem.h"
#include "generation.h"
#include "inspect.h"
#include "lexer.h"

#define DEPTH_MAX 200
#define KEYS_MAX 1024 /* of all tables that are open */

/* What the tokens are inside of: commas separate fields in a table alone. */
enum level_kind { IN_TABLE, IN_PARENTHESES, IN_BLOCK };

struct level {
	enum level_kind kind;
	size_t first_key;
	bool is_key_next; /* behind '{', ',' and ';' */
};

struct reading {
	struct findings *findings;
	const char *file;
	struct lexer lexer;
	struct token now, next;
	struct level levels[DEPTH_MAX];
	size_t depth;
	struct token keys[KEYS_MAX];
	size_t key_count;
	struct token functions[KEYS_MAX]; /* of `function M.x` outside of all blocks */
	size_t function_count;
};

static void advance(struct reading *r)
{
	r->now = r->next;
	r->next = lexer_next(&r->lexer);
}

static bool is_symbol(const struct token *t, const char *text)
{
	return token_is(t, TOKEN_SYMBOL, text);
}

static void open_level(struct reading *r, enum level_kind kind)
{
	if (r->depth < DEPTH_MAX)
		r->levels[r->depth] = (struct level){ kind, r->key_count, true };
	r->depth++;
}

static void close_level(struct reading *r)
{
	if (r->depth == 0)
		return;
	r->depth--;
	if (r->depth < DEPTH_MAX)
		r->key_count = r->levels[r->depth].first_key;
}

static struct level *level_of(struct reading *r)
{
	return r->depth > 0 && r->depth <= DEPTH_MAX ? &r->levels[r->depth - 1] : NULL;
}

/* The token is the key of a field of the innermost table. */
static void note_key(struct reading *r, const struct token *key)
{
	for (size_t i = level_of(r)->first_key; i < r->key_count; i++) {
		if (!slice_is_equal(r->keys[i].text, key->text))
			continue;
		findings_add(r->findings, r->file, key->line,
			     "'%" SLICE_FMT "' stands twice in this table, first in line "
			     "%d, which has no effect; keep one of the two",
			     SLICE_ARG(key->text), r->keys[i].line);
		return;
	}
	if (r->key_count < KEYS_MAX)
		r->keys[r->key_count++] = *key;
}

/* name = ..., or ["name"] = ... */
static void read_key(struct reading *r)
{
	struct token key = r->now;
	if (key.kind == TOKEN_NAME && is_symbol(&r->next, "=")) {
		note_key(r, &key);
	} else if (is_symbol(&key, "[") && r->next.kind == TOKEN_STRING) {
		advance(r);
		key = r->now;
		if (!is_symbol(&r->next, "]"))
			return;
		advance(r);
		if (is_symbol(&r->next, "="))
			note_key(r, &key);
	}
}

/* function M.name: outside of all blocks the later one takes the place. */
static void read_function_name(struct reading *r)
{
	const char *start = r->next.text.data;
	int line = r->next.line;
	if (r->next.kind != TOKEN_NAME)
		return;
	while (r->next.kind == TOKEN_NAME || is_symbol(&r->next, ".") ||
	       is_symbol(&r->next, ":"))
		advance(r);
	struct token name = { .line = line };
	name.text = (struct slice){ start, (size_t)(r->now.text.data + r->now.text.len -
						    start) };
	for (size_t i = 0; i < r->function_count; i++) {
		if (!slice_is_equal(r->functions[i].text, name.text))
			continue;
		findings_add(r->findings, r->file, line,
			     "function '%" SLICE_FMT "' is defined twice, first in line "
			     "%d, which has no effect; keep one of the two",
			     SLICE_ARG(name.text), r->functions[i].line);
		return;
	}
	if (r->function_count < KEYS_MAX)
		r->functions[r->function_count++] = name;
}

static bool opens_block(const struct token *t)
{
	return token_is(t, TOKEN_NAME, "function") || token_is(t, TOKEN_NAME, "if") ||
	       token_is(t, TOKEN_NAME, "do") || token_is(t, TOKEN_NAME, "repeat");
}

static void read_token(struct reading *r, bool is_local)
{
	struct level *level = level_of(r);
	bool is_field = level && level->kind == IN_TABLE && level->is_key_next;
	if (level)
		level->is_key_next = is_symbol(&r->now, ",") || is_symbol(&r->now, ";");
	if (is_field)
		read_key(r);
	if (token_is(&r->now, TOKEN_NAME, "function") && r->depth == 0 && !is_local)
		read_function_name(r), open_level(r, IN_BLOCK);
	else if (opens_block(&r->now))
		open_level(r, IN_BLOCK);
	else if (is_symbol(&r->now, "{"))
		open_level(r, IN_TABLE);
	else if (is_symbol(&r->now, "("))
		open_level(r, IN_PARENTHESES);
	else if (is_symbol(&r->now, "}") || is_symbol(&r->now, ")") ||
		 token_is(&r->now, TOKEN_NAME, "end") ||
		 token_is(&r->now, TOKEN_NAME, "until"))
		close_level(r);
}

void inspect_source(const struct bundle_file *file, struct findings *f)
{
	struct reading *r = mem_zalloc(sizeof(*r));
	bool is_local = false;
	r->findings = f;
	r->file = file->path;
	lexer_init(&r->lexer, (struct slice){ file->text, file->len });
	advance(r);
	for (advance(r); r->now.kind != TOKEN_END; advance(r)) {
		struct token was = r->now;
		read_token(r, is_local);
		is_local = token_is(&was, TOKEN_NAME, "local");
	}
	mem_free(r);
}
