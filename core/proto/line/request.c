#include "request.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/duration.h"
#include "base/id.h"

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

void request_refuse(struct request *r, const char *name, struct slice value,
		    const char *expected, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list ap;

	if (r->rc < 0)
		return;
	va_start(ap, expected);
	vsnprintf(text, sizeof(text), expected, ap);
	va_end(ap);
	r->rc = error_set(r->err, TIDE_ESYNTAX,
			  name ? "%s=%.*s: expected %s" : "%s'%.*s': expected %s",
			  name ? name : "", SLICE_HEAD(value, 64), text);
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

uint64_t request_uint(struct request *r, const char *name, struct request_limits limits,
		      uint64_t fallback)
{
	struct slice value = request_option(r, name);
	uint64_t n = fallback;

	if (value.data && (!slice_to_uint(value, limits.max, &n) || n < limits.min))
		request_refuse(r, name, value, "a number from %llu to %llu",
			       (unsigned long long)limits.min,
			       (unsigned long long)limits.max);
	return n;
}

double request_share(struct request *r, const char *name, double fallback)
{
	struct slice value = request_option(r, name);
	double share = fallback;

	if (value.data && !slice_to_share(value, &share))
		request_refuse(r, name, value, "a percentage above 0, up to 100");
	return share;
}

int64_t request_int(struct request *r, const char *name, int64_t min, int64_t max,
		    int64_t fallback)
{
	struct slice value = request_option(r, name), digits = value;
	bool is_negative = value.len > 0 && value.data[0] == '-';
	uint64_t n = 0;
	int64_t number;

	if (!value.data)
		return fallback;
	if (is_negative)
		digits = slice_skip(value, 1);
	if (slice_to_uint(digits, INT32_MAX, &n)) {
		number = is_negative ? -(int64_t)n : (int64_t)n;
		if (number >= min && number <= max)
			return number;
	}
	request_refuse(r, name, value, "a number from %lld to %lld", (long long)min,
		       (long long)max);
	return fallback;
}

int64_t request_duration(struct request *r, const char *name,
			 struct request_limits limits)
{
	struct slice value = request_option(r, name);
	char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];
	int64_t ms = 0;

	if (!value.data || (duration_parse(value, &ms) == TIDE_OK &&
			    (uint64_t)ms >= limits.min && (uint64_t)ms <= limits.max))
		return ms;
	duration_format((int64_t)limits.min, least);
	duration_format((int64_t)limits.max, most);
	request_refuse(r, name, value,
		       "a duration like 250ms, 30s, 5m, 2h or 1d, from %s to %s", least,
		       most);
	return 0;
}

bool request_find(const char *choices, struct slice word, unsigned *index)
{
	struct slice rest = slice_from(choices);

	*index = 0;
	while (rest.len > 0) {
		struct slice choice = slice_cut(&rest, ' ');

		if (slice_is(choice, "or"))
			continue;
		if (choice.data[choice.len - 1] == ',')
			choice.len--;
		if (slice_is_equal(choice, word))
			return true;
		++*index;
	}
	return false;
}

unsigned request_choice(struct request *r, const char *name, const char *choices)
{
	struct slice value = request_option(r, name);
	unsigned index = 0;

	if (!value.data || request_find(choices, value, &index))
		return index;
	request_refuse(r, name, value, "%s", choices);
	return 0;
}

uint64_t request_count(struct request *r, unsigned word, uint64_t max, uint64_t fallback)
{
	uint64_t n = fallback;

	if (r->word_count > word && (!slice_to_uint(r->words[word], max, &n) || n == 0))
		request_refuse(r, NULL, r->words[word], "a number from 1 to %llu",
			       (unsigned long long)max);
	return n;
}

uint64_t request_id(struct request *r, const char *name, struct slice value)
{
	uint64_t id = 0;

	if (id_parse(value, &id) < 0)
		request_refuse(r, name, value, "the id of a message, %d hex digits",
			       ID_HEX_LEN);
	return id;
}
