#include "request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/percent.h"

/* The rest reads words and options for a command. The first that is wrong is told in
 * the `err` of request_parse, and is in r->rc from then on; what is read is not good. */

static int check_name(struct slice name, const char *what, struct error *err)
{
	if (slice_is_name(name))
		return TIDE_OK;
	return error_set(err, name.len > NAME_LEN_MAX ? TIDE_ETOOLONG : TIDE_ESYNTAX,
			 "%s must be 1-%d bytes of UTF-8 without white space and control "
			 "characters",
			 what, NAME_LEN_MAX);
}

struct slice request_option(const struct request *r, const char *name)
{
	for (unsigned i = 0; i < r->option_count; i++)
		if (slice_is(r->options[i].name, name))
			return r->options[i].value;
	return (struct slice){ NULL, 0 };
}

bool request_has_flag(const struct request *r, const char *name)
{
	for (unsigned i = 0; i < r->flag_count; i++)
		if (slice_is(r->flags[i], name))
			return true;
	return false;
}

void request_check_name(struct request *r, struct slice name, const char *what)
{
	if (r->rc == TIDE_OK && !slice_is_name(name))
		r->rc = check_name(name, what, r->err);
}

struct slice request_name(struct request *r, unsigned word, const char *what)
{
	request_check_name(r, r->words[word], what);
	return r->words[word];
}

struct slice request_word(struct request *r, unsigned word, const char *what)
{
	if (slice_is(r->words[word], "-"))
		return SLICE("");
	return request_name(r, word, what);
}

/* ---- a line is taken apart ---- */

/* The next word of the rest of a line; false at its end. Inline: a publish is five words.
 */
static inline __attribute__((always_inline)) bool next_word(struct slice *rest,
							    struct slice *word)
{
	const char *space;

	if (!rest->data)
		return false;
	space = memchr(rest->data, ' ', rest->len);
	if (space) {
		*word = (struct slice){ rest->data, (size_t)(space - rest->data) };
		*rest = slice_skip(*rest, word->len + 1);
	} else {
		*word = *rest;
		*rest = (struct slice){ NULL, 0 };
	}
	return true;
}

static int take_channel(struct request *r, struct slice *rest)
{
	struct slice word;
	uint64_t n;

	r->channel = 0;
	if (rest->len == 0 || rest->data[0] != '@')
		return TIDE_OK;
	next_word(rest, &word);
	if (!slice_to_uint(slice_skip(word, 1), REQUEST_CHANNEL_MAX, &n))
		return error_set(
			r->err, TIDE_ESYNTAX,
			"'%.*s' is not a channel: expected @0 to @65535 and a space",
			SLICE_HEAD(word, 40));
	r->channel = (unsigned)n;
	if (!rest->data)
		return error_set(r->err, TIDE_ESYNTAX,
				 "a verb is missing after the channel");
	return TIDE_OK;
}

/* The length is the last word of the line, whatever stands before it. */
static bool read_length(struct request *r, struct slice *rest)
{
	size_t at = rest->data ? rest->len : 0;
	struct slice word;

	while (at > 0 && rest->data[at - 1] != ' ')
		at--;
	word = rest->data ? slice_skip(*rest, at) : (struct slice){ NULL, 0 };
	if (!slice_to_uint(word, REQUEST_PAYLOAD_ABSURD, &r->payload_len))
		return false;
	*rest = at > 0 ? (struct slice){ rest->data, at - 1 } : (struct slice){ NULL, 0 };
	return true;
}

static bool is_known_name(const struct request *r, struct slice name, bool is_flag)
{
	return r->verb ? verb_takes(r->verb, name, is_flag)
		       : operation_takes(r->operation, name,
					 is_flag ? OPERATION_LINE_FLAGS
						 : OPERATION_LINE_OPTIONS);
}

/* "PUB has no option 'x'; it takes: pri delay" */
static int refuse_unknown(struct request *r, struct slice name, bool is_flag)
{
	const struct parameter *p = r->verb ? r->verb->takes : NULL;
	struct buf names = { 0 };
	int rc;

	if (r->operation)
		operation_write_names(
			r->operation,
			is_flag ? OPERATION_LINE_FLAGS : OPERATION_LINE_OPTIONS, &names);
	for (; p && p->name; p++)
		if ((p->type == PARAMETER_FLAG) == is_flag)
			buf_printf(&names, " %s", operation_line_name(p));
	if (is_flag && !(r->features & VERB_ANSWERS))
		buf_append_text(&names, " quiet");
	rc = error_set(r->err, TIDE_ESYNTAX, "%s has no %s '%.*s'; it takes:%s", r->name,
		       is_flag ? "flag" : "option", SLICE_HEAD(name, 64),
		       buf_len(&names) ? buf_cstr(&names) : " none");
	buf_deinit(&names);
	return rc;
}

/* White space was taken for the end of the word. */
static bool has_control(struct slice s)
{
	bool is_bad = false;

	for (size_t i = 0; i < s.len; i++)
		is_bad |= (unsigned char)s.data[i] < 0x21 || s.data[i] == 0x7f;
	return is_bad;
}

static int check_value(struct slice name, struct slice value, struct error *err)
{
	if (!has_control(value))
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "the value of '%.*s' has a control character; write it as "
			 "%% and two hex digits",
			 SLICE_HEAD(name, 64));
}

static int decode(struct slice *value, struct error *err, struct slice name)
{
	size_t len;

	if (!memchr(value->data, '%', value->len))
		return TIDE_OK;
	/* The line is the connection's own buffer, and decoding only shortens. */
	if (percent_decode(*value, (char *)value->data, &len) < 0)
		return error_set(err, TIDE_ESYNTAX,
				 "the value of '%.*s' has a %% that is not followed by "
				 "two hex digits",
				 SLICE_HEAD(name, 64));
	value->len = len;
	return TIDE_OK;
}

static int take_header(struct request *r, struct slice name, struct slice value)
{
	if (!(r->features & VERB_HEADERS))
		return error_set(r->err, TIDE_ESYNTAX, "%s takes no headers", r->name);
	if (!slice_is_name(name)) {
		request_check_name(r, name, "the name of a header");
		return r->rc;
	}
	if (r->header_count == MSG_HEADERS_MAX)
		return error_set(r->err, TIDE_ETOOLONG,
				 "a message has at most %d headers", MSG_HEADERS_MAX);
	if (check_value(name, value, r->err) < 0 || decode(&value, r->err, name) < 0)
		return r->err->code;
	for (unsigned i = 0; i < r->header_count; i++)
		if (slice_is_equal(r->headers[i].name, name))
			return error_set(r->err, TIDE_ESYNTAX,
					 "header '%" SLICE_FMT "' appears twice",
					 SLICE_ARG(name));
	r->headers[r->header_count++] = (struct msg_header){ name, value };
	return TIDE_OK;
}

/* "10%", as one writes it: of an option whose meaning we know, a percent sign
 * that is the last and only one stands for itself. */
static bool is_percentage(const struct request *r, struct slice name, struct slice value)
{
	return value.len > 0 && value.data[value.len - 1] == '%' &&
	       memchr(value.data, '%', value.len) == value.data + value.len - 1 &&
	       is_known_name(r, name, false);
}

static int take_option(struct request *r, struct slice name, struct slice value)
{
	if (!(r->features & VERB_ANY_OPTIONS) && !is_known_name(r, name, false))
		return refuse_unknown(r, name, false);
	if (!slice_is_name(name)) {
		request_check_name(r, name, "the name of an option");
		return r->rc;
	}
	if (r->option_count == REQUEST_OPTIONS_MAX)
		return error_set(r->err, TIDE_ETOOLONG,
				 "a request has at most %d options", REQUEST_OPTIONS_MAX);
	if (check_value(name, value, r->err) < 0)
		return r->err->code;
	if (!is_percentage(r, name, value) && decode(&value, r->err, name) < 0)
		return r->err->code;
	for (unsigned i = 0; i < r->option_count; i++)
		if (slice_is_equal(r->options[i].name, name))
			return error_set(r->err, TIDE_ESYNTAX,
					 "option '%" SLICE_FMT "' appears twice",
					 SLICE_ARG(name));
	r->options[r->option_count++] = (struct request_option){ name, value };
	return TIDE_OK;
}

static int take_flag(struct request *r, struct slice word)
{
	if (slice_is(word, "quiet") && !(r->features & VERB_ANSWERS)) {
		r->is_quiet = true;
		return TIDE_OK;
	}
	/* Not the value "1", as of other flags. */
	if (slice_has_prefix(word, "h:"))
		return error_set(r->err, TIDE_ESYNTAX,
				 "'%.*s' needs a value: h:<name>=<value>",
				 SLICE_HEAD(word, 64));
	/* A flag of DECLARE or BIND is an option that is on. */
	if (r->features & VERB_ANY_OPTIONS)
		return take_option(r, word, SLICE("1"));
	if (!is_known_name(r, word, true))
		return refuse_unknown(r, word, true);
	if (r->flag_count == REQUEST_FLAGS_MAX)
		return error_set(r->err, TIDE_ESYNTAX, "too many flags");
	r->flags[r->flag_count++] = word;
	return TIDE_OK;
}

/* A script reads the options: what it makes of `h:name=value` is its business. */
static bool takes_scripts_options(const struct request *r)
{
	return (r->features & VERB_ANY_OPTIONS) && !(r->features & VERB_HEADERS);
}

static int take_rest(struct request *r, struct slice *rest)
{
	struct slice word;

	while (next_word(rest, &word)) {
		const char *equals = memchr(word.data, '=', word.len);
		struct slice name, value;
		int rc;

		if (word.len == 0)
			return error_set(r->err, TIDE_ESYNTAX,
					 "single spaces separate words");
		if (!equals) {
			rc = take_flag(r, word);
		} else {
			name = (struct slice){ word.data, (size_t)(equals - word.data) };
			value = slice_skip(word, name.len + 1);
			rc = slice_has_prefix(name, "h:") && !takes_scripts_options(r)
				     ? take_header(r, slice_skip(name, 2), value)
				     : take_option(r, name, value);
		}
		if (rc < 0)
			return rc;
	}
	return TIDE_OK;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The words of a list of tags: those at the front that begin with a digit. */
static int take_tags(struct request *r, struct slice *rest)
{
	struct slice before = *rest, word;
	const char *start = rest->data;
	const char *end = start;

	while (rest->data && rest->len && is_digit(rest->data[0])) {
		next_word(rest, &word);
		end = word.data + word.len;
		before = *rest;
	}
	*rest = before;
	if (end == start)
		return error_set(r->err, TIDE_ESYNTAX,
				 "%s needs tags: numbers, or ranges like 3-7", r->name);
	r->tags = (struct slice){ start, (size_t)(end - start) };
	return TIDE_OK;
}

/* The words of a list: those at the front that are no option and no flag. */
static int take_list(struct request *r, struct slice *rest)
{
	struct slice before = *rest, word;
	const char *start = rest->data;
	const char *end = start;

	while (next_word(rest, &word) && !memchr(word.data, '=', word.len) &&
	       word.len > 0 && !slice_is(word, "quiet") &&
	       !(r->operation &&
		 operation_takes(r->operation, word, OPERATION_LINE_FLAGS))) {
		end = word.data + word.len;
		before = *rest;
	}
	*rest = before;
	if (end > start)
		r->tags = (struct slice){ start, (size_t)(end - start) };
	return TIDE_OK;
}

static bool takes_options(const struct request *r)
{
	struct buf names = { 0 };
	bool has_some = r->features & (VERB_ANY_OPTIONS | VERB_HEADERS) ||
			(r->verb && r->verb->takes);

	if (r->operation)
		operation_write_names(r->operation, OPERATION_LINE_OPTIONS, &names);
	has_some |= buf_len(&names) > 0;
	buf_deinit(&names);
	return has_some;
}

/* "<exchange>, <key> and <length>": the words from the `from`-th to before the `to`-th.
 */
static void list_words(const struct request *r, unsigned from, unsigned to,
		       struct buf *out)
{
	struct slice rest = slice_from(r->verb ? r->verb->words : NULL);

	for (unsigned i = 0; i < to; i++) {
		struct slice name =
			i < r->min_words ? slice_cut(&rest, ' ') : SLICE("length");

		if (i < from)
			continue;
		if (i > from)
			buf_append_text(out, i == to - 1 ? " and " : ", ");
		if (r->operation)
			operation_write_word(operation_word(r->operation, i), out);
		else
			buf_printf(out, "<%" SLICE_FMT ">", SLICE_ARG(name));
	}
}

static int refuse_missing(const struct request *r, unsigned from, unsigned to,
			  struct error *err)
{
	unsigned needed = r->min_words + (r->features & VERB_PAYLOAD ? 1 : 0);
	struct buf all = { 0 }, missing = { 0 };
	int rc;

	list_words(r, 0, needed, &all);
	list_words(r, from, to, &missing);
	rc = error_set(err, TIDE_ESYNTAX, "%s needs %s: %s %s missing", r->name,
		       buf_cstr(&all), buf_cstr(&missing), to - from > 1 ? "are" : "is");
	buf_deinit(&all);
	buf_deinit(&missing);
	return rc;
}

/* A word that may be left out is not confused with an option, if there are any, nor with
 * a flag of the verb. */
static bool is_no_word(const struct request *r, struct slice word)
{
	return (memchr(word.data, '=', word.len) && takes_options(r)) ||
	       is_known_name(r, word, true) ||
	       (slice_is(word, "quiet") && !(r->features & VERB_ANSWERS));
}

/* Nor is any word of an operation: the name of a user is no "pass=secret". */
static bool is_operations_option(const struct request *r, struct slice word)
{
	size_t len;

	/* Publishes come first: their words are not searched. */
	if (!r->operation)
		return false;
	len = slice_find(word, '=');
	return len < word.len &&
	       (operation_word(r->operation, r->word_count)->features &
			PARAMETER_SCRIPT ||
		is_known_name(r, (struct slice){ word.data, len }, false));
}

static int take_words(struct request *r, struct slice *rest)
{
	struct slice word;

	while (r->word_count < r->max_words) {
		struct slice before = *rest;

		if (!next_word(rest, &word))
			break;
		if (word.len == 0)
			return error_set(r->err, TIDE_ESYNTAX,
					 "single spaces separate words");
		if (r->word_count >= r->min_words ? is_no_word(r, word)
						  : is_operations_option(r, word)) {
			*rest = before;
			break;
		}
		r->words[r->word_count++] = word;
	}
	return r->word_count < r->min_words
		       ? refuse_missing(r, r->word_count, r->min_words, r->err)
		       : TIDE_OK;
}

static void be_verb(struct request *r, const struct verb *v)
{
	r->verb = v;
	r->name = v->name;
	r->features = v->features;
	r->min_words = r->max_words = v->count;
}

static void be_operation(struct request *r, const struct operation *o)
{
	r->operation = o;
	r->name = o->line;
	r->features = verb_features(o);
	r->min_words = operation_words(o, true);
	r->max_words = operation_words(o, false);
}

static bool has_empty_word(struct slice line)
{
	for (size_t i = 0; i < line.len; i++)
		if (line.data[i] == ' ' && (i + 1 == line.len || line.data[i + 1] == ' '))
			return true;
	return false;
}

static int take_verb(struct request *r, struct slice *rest)
{
	struct slice line = *rest, word;
	const struct operation *o;
	const struct verb *v;

	next_word(rest, &word);
	v = verb_find(word);
	if (v) {
		be_verb(r, v);
		return TIDE_OK;
	}
	o = operation_find(line, rest, r->err);
	if (o) {
		/* A word that is empty stands behind a space at the end, too. */
		if (rest->len == 0 && line.data[line.len - 1] != ' ')
			rest->data = NULL;
		be_operation(r, o);
		return TIDE_OK;
	}
	if (r->err->code == TIDE_ESYNTAX)
		return has_empty_word(line) ? error_set(r->err, TIDE_ESYNTAX,
							"single spaces separate words")
					    : TIDE_ESYNTAX;
	if (!slice_is_name(word))
		return error_set(r->err, TIDE_ESYNTAX,
				 "a request begins with a verb; single spaces separate "
				 "words");
	return error_set(r->err, TIDE_EVERB, "there is no verb '%.*s'",
			 SLICE_HEAD(word, 40));
}

/* A channel that cannot be read does not make requests of what a client sends
 * as a payload. */
static void find_payload(struct request *r, struct slice *rest, bool *is_lost)
{
	struct slice word;

	const struct verb *v;

	if (!next_word(rest, &word))
		return;
	v = verb_find(word);
	if (v)
		be_verb(r, v);
	*is_lost = r->features & VERB_PAYLOAD && !read_length(r, rest);
}

static int refuse_length(struct request *r, struct slice rest)
{
	struct slice word;
	struct error why;
	unsigned count = 0;

	while (next_word(&rest, &word))
		count++;
	if (count > r->min_words)
		error_set(&why, TIDE_ESYNTAX,
			  "%s must end with the length of the payload in decimal",
			  r->name);
	else
		refuse_missing(r, count, r->min_words + 1, &why);
	return error_set(r->err, why.code, "%s; the connection cannot continue",
			 why.text);
}

int request_parse(struct request *r, char *line, size_t len, bool *is_lost,
		  struct error *err)
{
	struct slice rest = { line, len };
	int rc;

	r->err = err;
	r->rc = TIDE_OK;
	r->verb = NULL;
	r->operation = NULL;
	r->name = NULL;
	r->features = 0;
	r->word_count = r->option_count = r->flag_count = r->header_count = 0;
	r->is_quiet = false;
	r->payload_len = 0;
	r->tags = (struct slice){ NULL, 0 };
	*is_lost = false;
	rc = take_channel(r, &rest);
	if (rc < 0) {
		find_payload(r, &rest, is_lost);
		return rc;
	}
	rc = take_verb(r, &rest);
	if (rc < 0)
		return rc;
	*is_lost = (r->features & VERB_PAYLOAD) && !read_length(r, &rest);
	if (*is_lost)
		return refuse_length(r, rest);
	if (memchr(line, '\0', len))
		rc = error_set(err, TIDE_ESYNTAX, "a line must not contain zero bytes");
	if (rc == TIDE_OK)
		rc = take_words(r, &rest);
	if (rc == TIDE_OK && (r->features & VERB_TAGS))
		rc = take_tags(r, &rest);
	else if (rc == TIDE_OK && (r->features & VERB_LIST))
		rc = take_list(r, &rest);
	if (rc == TIDE_OK)
		rc = take_rest(r, &rest);
	return rc;
}

unsigned request_features(struct slice line)
{
	struct slice word = { "", 0 };
	const struct operation *o;
	const struct verb *v;
	struct error ignored;

	if (line.len > 0 && line.data[line.len - 1] == '\r')
		line.len--;
	if (line.len > 0 && line.data[0] == '@')
		next_word(&line, &word);
	v = verb_find((struct slice){ line.data, slice_find(line, ' ') });
	o = v ? NULL : operation_find(line, &word, &ignored);
	return v ? v->features : o ? verb_features(o) : 0;
}
