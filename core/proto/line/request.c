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

uint64_t request_uint(struct request *r, const char *name, struct number_limits limits,
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
	struct slice value = request_option(r, name);
	int64_t n = fallback;

	if (value.data && !slice_to_int(value, min, max, &n))
		request_refuse(r, name, value, "a number from %lld to %lld",
			       (long long)min, (long long)max);
	return n;
}

int64_t request_duration(struct request *r, const char *name, struct number_limits limits)
{
	struct slice value = request_option(r, name);
	char range[DURATION_RANGE_MAX];
	int64_t ms = 0;

	if (value.data && !duration_is_within(value, limits, &ms))
		request_refuse(r, name, value,
			       "a duration like 250ms, 30s, 5m, 2h or 1d, %s",
			       duration_format_range(limits, range));
	return ms;
}

unsigned request_choice(struct request *r, const char *name, const char *choices)
{
	struct slice value = request_option(r, name);
	unsigned index = 0;

	if (!value.data || slice_is_choice(value, choices, &index))
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
