/* request_parse.c: a line is taken apart. */
#include "base/percent.h"
#include "request.h"
#include "verb.h"

/* The next word of the rest of a line; false at its end. */
static bool next_word(struct slice *rest, struct slice *word)
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

/* The list has this name; spaces separate its names. */
static bool is_listed(const char *list, struct slice name)
{
	const char *at = list;

	while (at && *at) {
		const char *end = strchr(at, ' ');
		size_t len = end ? (size_t)(end - at) : strlen(at);

		if (len == name.len && memcmp(at, name.data, len) == 0)
			return true;
		at = end ? end + 1 : NULL;
	}
	return false;
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
	if (!(r->verb->features & VERB_HEADERS))
		return error_set(r->err, TIDE_ESYNTAX, "%s takes no headers",
				 r->verb->name);
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
static bool is_percentage(const struct verb *v, struct slice name, struct slice value)
{
	return value.len > 0 && value.data[value.len - 1] == '%' &&
	       memchr(value.data, '%', value.len) == value.data + value.len - 1 &&
	       is_listed(v->options, name);
}

static int take_option(struct request *r, struct slice name, struct slice value)
{
	const struct verb *v = r->verb;

	if (!(v->features & VERB_ANY_OPTIONS) && !is_listed(v->options, name))
		return error_set(r->err, TIDE_ESYNTAX,
				 "%s has no option '%.*s'; it takes: %s", v->name,
				 SLICE_HEAD(name, 64), v->options ? v->options : "none");
	if (!slice_is_name(name)) {
		request_check_name(r, name, "the name of an option");
		return r->rc;
	}
	if (r->option_count == REQUEST_OPTIONS_MAX)
		return error_set(r->err, TIDE_ETOOLONG,
				 "a request has at most %d options", REQUEST_OPTIONS_MAX);
	if (check_value(name, value, r->err) < 0)
		return r->err->code;
	if (!is_percentage(v, name, value) && decode(&value, r->err, name) < 0)
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
	const struct verb *v = r->verb;

	if (slice_is(word, "quiet") && !(v->features & VERB_ANSWERS)) {
		r->is_quiet = true;
		return TIDE_OK;
	}
	/* Not the value "1", as of other flags. */
	if (slice_has_prefix(word, "h:"))
		return error_set(r->err, TIDE_ESYNTAX,
				 "'%.*s' needs a value: h:<name>=<value>",
				 SLICE_HEAD(word, 64));
	/* A flag of DECLARE or BIND is an option that is on. */
	if (v->features & VERB_ANY_OPTIONS)
		return take_option(r, word, SLICE("1"));
	if (!is_listed(v->flags, word))
		return error_set(
			r->err, TIDE_ESYNTAX, "%s has no flag '%.*s'; it takes: %s%s",
			v->name, SLICE_HEAD(word, 64), v->flags ? v->flags : "",
			v->features & VERB_ANSWERS ? (v->flags ? "" : "none")
						   : (v->flags ? " quiet" : "quiet"));
	if (r->flag_count == REQUEST_FLAGS_MAX)
		return error_set(r->err, TIDE_ESYNTAX, "too many flags");
	r->flags[r->flag_count++] = word;
	return TIDE_OK;
}

/* A script reads the options: what it makes of `h:name=value` is its business. */
static bool takes_scripts_options(const struct verb *v)
{
	return (v->features & VERB_ANY_OPTIONS) && !(v->features & VERB_HEADERS);
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
			rc = slice_has_prefix(name, "h:") &&
					     !takes_scripts_options(r->verb)
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
				 "%s needs tags: numbers, or ranges like 3-7",
				 r->verb->name);
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
	       word.len > 0 && !slice_is(word, "quiet")) {
		end = word.data + word.len;
		before = *rest;
	}
	*rest = before;
	if (end == start && (r->verb->features & VERB_IDS))
		return error_set(r->err, TIDE_ESYNTAX,
				 "%s needs ids of messages: 16 hex digits each",
				 r->verb->name);
	if (end > start)
		r->tags = (struct slice){ start, (size_t)(end - start) };
	return TIDE_OK;
}

static bool takes_options(const struct verb *v)
{
	return v->options || (v->features & (VERB_ANY_OPTIONS | VERB_HEADERS));
}

/* The words from the `from`-th to before the `to`-th are missing. */
static int refuse_missing(const struct verb *v, unsigned from, unsigned to,
			  struct error *err)
{
	unsigned needed = v->min_words + (v->features & VERB_PAYLOAD ? 1 : 0);
	struct buf all = { 0 }, missing = { 0 };
	int rc;

	verb_list_words(v, 0, needed, &all);
	verb_list_words(v, from, to, &missing);
	rc = error_set(err, TIDE_ESYNTAX, "%s needs %s: %s %s missing", v->name,
		       buf_cstr(&all), buf_cstr(&missing), to - from > 1 ? "are" : "is");
	buf_deinit(&all);
	buf_deinit(&missing);
	return rc;
}

/* A word that may be left out is not confused with an option, if there are any, nor with
 * a flag of the verb. */
static bool is_no_word(const struct verb *v, struct slice word)
{
	return (takes_options(v) && memchr(word.data, '=', word.len)) ||
	       (v->flags && (is_listed(v->flags, word) || slice_is(word, "quiet")));
}

static int take_words(struct request *r, struct slice *rest)
{
	const struct verb *v = r->verb;
	struct slice word;

	while (r->word_count < v->max_words) {
		struct slice before = *rest;

		if (!next_word(rest, &word))
			break;
		if (word.len == 0)
			return error_set(r->err, TIDE_ESYNTAX,
					 "single spaces separate words");
		if (r->word_count >= v->min_words && is_no_word(v, word)) {
			*rest = before;
			break;
		}
		r->words[r->word_count++] = word;
	}
	return r->word_count < v->min_words
		       ? refuse_missing(v, r->word_count, v->min_words, r->err)
		       : TIDE_OK;
}

static int take_verb(struct request *r, struct slice *rest)
{
	struct slice word;

	next_word(rest, &word);
	r->verb = verb_find(word);
	if (r->verb)
		return TIDE_OK;
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

	if (!next_word(rest, &word))
		return;
	r->verb = verb_find(word);
	*is_lost = r->verb && (r->verb->features & VERB_PAYLOAD) && !read_length(r, rest);
}

static int refuse_length(struct request *r, struct slice rest)
{
	struct slice word;
	struct error why;
	unsigned count = 0;

	while (next_word(&rest, &word))
		count++;
	if (count > r->verb->min_words)
		error_set(&why, TIDE_ESYNTAX,
			  "%s must end with the length of the payload in decimal",
			  r->verb->name);
	else
		refuse_missing(r->verb, count, r->verb->min_words + 1, &why);
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
	*is_lost = (r->verb->features & VERB_PAYLOAD) && !read_length(r, &rest);
	if (*is_lost)
		return refuse_length(r, rest);
	if (memchr(line, '\0', len))
		rc = error_set(err, TIDE_ESYNTAX, "a line must not contain zero bytes");
	if (rc == TIDE_OK)
		rc = take_words(r, &rest);
	if (rc == TIDE_OK && (r->verb->features & VERB_TAGS))
		rc = take_tags(r, &rest);
	else if (rc == TIDE_OK && (r->verb->features & (VERB_IDS | VERB_LIST)))
		rc = take_list(r, &rest);
	if (rc == TIDE_OK)
		rc = take_rest(r, &rest);
	return rc;
}

const struct verb *request_parse_verb(struct slice line)
{
	struct slice word = { "", 0 };

	if (line.len > 0 && line.data[line.len - 1] == '\r')
		line.len--;
	if (line.len > 0 && line.data[0] == '@')
		next_word(&line, &word);
	return next_word(&line, &word) ? verb_find(word) : NULL;
}
