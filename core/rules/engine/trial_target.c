/* trial_target.c: where in a text an address stands. */

#include "lexer.h"
#include "rule.h"
#include "trial.h"

/* Go on to the next `field = "..."`; false when there is none. */
static bool next_field(struct lexer *l, const char *field, struct token *value)
{
	struct token before = { .kind = TOKEN_END }, t;
	bool is_assigned = false;
	while ((t = lexer_next(l)).kind != TOKEN_END) {
		if (is_assigned && t.kind == TOKEN_STRING) {
			*value = t;
			return true;
		}
		is_assigned = token_is(&t, TOKEN_SYMBOL, "=") &&
			      token_is(&before, TOKEN_NAME, field);
		before = t;
	}
	return false;
}

int trial_line_of(const struct bundle_file *file, const char *field, const char *value)
{
	struct lexer l;
	struct token t;
	lexer_init(&l, (struct slice){ file->text, file->len });
	while (next_field(&l, field, &t))
		if (slice_is(t.text, value))
			return t.line;
	return 0;
}

void trial_tell(const struct trial *t, struct trial_target target)
{
	const struct bundle_file *file = bundle_find(t->rules->good, target.file);
	int line = 0;
	if (!t->on_target)
		return;
	if (file)
		line = target.exchange[0]
			       ? trial_line_of(file, "exchange", target.exchange)
			       : trial_line_of(file, "key", target.key);
	if (line > 0)
		target.line = line;
	t->on_target(t->ctx, &target);
}

void trial_tell_literals(const struct trial *t, const struct rule *r)
{
	const struct bundle_file *file = bundle_find(t->rules->good, r->file);
	struct lexer l;
	struct token value;
	struct buf name;
	if (!file)
		return;
	buf_init(&name);
	lexer_init(&l, (struct slice){ file->text, file->len });
	while (next_field(&l, "exchange", &value)) {
		token_decode(&value, &name);
		bool is_match = r->match_exchange &&
				slice_is(buf_slice(&name), r->match_exchange);
		/* '-' and '' are the default one, and '*' stands in a match alone. */
		if (is_match || !slice_is_name(buf_slice(&name)) ||
		    slice_is(buf_slice(&name), "-") || slice_is(buf_slice(&name), "*"))
			continue;
		trial_tell(t, (struct trial_target){ .file = r->file,
						     .line = value.line,
						     .exchange = buf_cstr(&name),
						     .key = "" });
	}
	buf_deinit(&name);
}
