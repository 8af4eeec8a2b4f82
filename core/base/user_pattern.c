#include "user_pattern.h"

#include <ctype.h>

#include "mem.h"

/* Bounds, as in x{3,9}, copy what they stand behind, and nested ones multiply. */
#define COPIES_MAX 16384

static int refuse(struct slice text, struct error *err, const char *why)
{
	return error_set(err, TIDE_ESYNTAX, "the pattern '%.*s' %s", SLICE_HEAD(text, 60),
			 why);
}

/* The largest number of "{3,9}", which begins at `i`; 1: there is none. */
static size_t read_bound(struct slice text, size_t i)
{
	size_t largest = 1, n = 0;

	for (i++; i < text.len &&
		  (isdigit((unsigned char)text.data[i]) || text.data[i] == ',');
	     i++) {
		n = text.data[i] == ',' ? 0 : n * 10 + (size_t)(text.data[i] - '0');
		if (n > COPIES_MAX)
			return COPIES_MAX;
		if (n > largest)
			largest = n;
	}
	return largest;
}

/* Back-references take exponential time. */
static int check(struct slice text, struct error *err)
{
	size_t copies = text.len;

	if (text.len > USER_PATTERN_MAX)
		return error_set(err, TIDE_ETOOLONG,
				 "a pattern of %zu bytes is over the limit of %d",
				 text.len, USER_PATTERN_MAX);
	if (!slice_is_utf8(text) || memchr(text.data, '\0', text.len))
		return refuse(text, err, "is not valid UTF-8 text");
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] == '\\' && ++i < text.len &&
		    isdigit((unsigned char)text.data[i]))
			return refuse(text, err, "has a back-reference; it may not");
		if (i < text.len && text.data[i] == '{')
			copies *= read_bound(text, i);
		if (copies > COPIES_MAX)
			return refuse(text, err, "repeats too much with {}");
	}
	return TIDE_OK;
}

int user_pattern_init(struct user_pattern *p, struct slice text, struct error *err)
{
	char *copy, why[128];
	int rc = text.len == 0 ? TIDE_OK : check(text, err);

	if (rc < 0)
		return rc;
	copy = mem_strndup(text.data, text.len);
	p->is_all = slice_is(text, ".*");
	if (text.len > 0 && !p->is_all) {
		rc = regcomp(&p->regex, copy, REG_EXTENDED | REG_NOSUB);
		p->has_regex = rc == 0;
	}
	if (rc != 0) {
		regerror(rc, &p->regex, why, sizeof(why));
		mem_free(copy);
		return error_set(err, TIDE_ESYNTAX,
				 "the pattern '%.*s' is no regular expression: %s",
				 SLICE_HEAD(text, 60), why);
	}
	p->text = copy;
	return TIDE_OK;
}

void user_pattern_deinit(struct user_pattern *p)
{
	if (p->has_regex)
		regfree(&p->regex);
	mem_free(p->text);
	*p = (struct user_pattern){ 0 };
}

bool user_pattern_matches(const struct user_pattern *p, struct slice name)
{
	char text[NAME_LEN_MAX + 1];

	if (p->is_all)
		return true;
	/* REG_STARTEND would need no copy. AddressSanitizer's regexec knows nothing of
	 * it, and looks for the zero. */
	if (!p->has_regex || name.len > NAME_LEN_MAX)
		return false;
	if (name.len > 0)
		memcpy(text, name.data, name.len);
	text[name.len] = '\0';
	return regexec(&p->regex, text, 0, NULL, 0) == 0;
}
