#include "duration.h"

#include <inttypes.h>
#include <stdio.h>

static const struct unit {
	const char *name;
	int64_t ms;
} units[] = {
	{ "d", INT64_C(24) * 3600 * 1000 },
	{ "h", 3600 * 1000 },
	{ "m", 60 * 1000 },
	{ "s", 1000 },
	{ "ms", 1 },
	{ "", 1 },
};

#define UNIT_COUNT (sizeof(units) / sizeof(units[0]))

int duration_parse(struct slice text, int64_t *out_ms)
{
	size_t digits = 0;

	while (digits < text.len && text.data[digits] >= '0' && text.data[digits] <= '9')
		digits++;
	struct slice number = { text.data, digits };
	struct slice name = { text.data + digits, text.len - digits };
	for (size_t i = 0; i < UNIT_COUNT; i++) {
		uint64_t n;

		if (!slice_is(name, units[i].name))
			continue;
		if (!slice_to_uint(number, (uint64_t)(DURATION_MAX_MS / units[i].ms), &n))
			return TIDE_ESYNTAX;
		*out_ms = (int64_t)n * units[i].ms;
		return TIDE_OK;
	}
	return TIDE_ESYNTAX;
}

void duration_format(int64_t ms, char out[DURATION_TEXT_MAX])
{
	size_t i = 0;

	if (ms == 0)
		i = 3; /* every unit is exact; seconds are the plain one */
	while (ms % units[i].ms != 0)
		i++;
	snprintf(out, DURATION_TEXT_MAX, "%" PRId64 "%s", ms / units[i].ms,
		 units[i].name);
}

bool duration_is_within(struct slice text, struct number_limits limits, int64_t *out_ms)
{
	int64_t ms;

	if (duration_parse(text, &ms) != TIDE_OK || (uint64_t)ms < limits.min ||
	    (uint64_t)ms > limits.max)
		return false;
	*out_ms = ms;
	return true;
}

const char *duration_format_range(struct number_limits limits,
				  char out[DURATION_RANGE_MAX])
{
	char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];

	duration_format((int64_t)limits.min, least);
	duration_format((int64_t)limits.max, most);
	snprintf(out, DURATION_RANGE_MAX, "from %s to %s", least, most);
	return out;
}
