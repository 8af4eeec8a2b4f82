#include "store_tries.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const reasons[STORE_REASONS] = { "nack", "timeout", "gone",
						    "rejected" };

const char *store_tries_reason(unsigned i)
{
	return reasons[i];
}

size_t store_tries_format(const struct store_tries *tries, char out[STORE_TRIES_TEXT_MAX])
{
	int len = snprintf(out, STORE_TRIES_TEXT_MAX, "%u %u %.31s", tries->deliveries,
			   tries->failures, tries->reason ? tries->reason : "");

	for (unsigned i = 0; i < STORE_REASONS; i++)
		if (tries->failed[i])
			len += snprintf(out + len, STORE_TRIES_TEXT_MAX - (size_t)len,
					" %s=%u", reasons[i], tries->failed[i]);
	return (size_t)len;
}

static void parse_count(struct slice word, struct store_row *row)
{
	struct slice count = word, name = slice_cut(&count, '=');
	uint64_t n;

	for (unsigned i = 0; i < STORE_REASONS; i++)
		if (slice_is(name, reasons[i]) && slice_to_uint(count, UINT16_MAX, &n))
			row->failed[i] = (uint16_t)n;
}

void store_tries_parse(const char *text, struct store_row *row)
{
	struct slice rest, word;
	char *end;

	row->deliveries = (uint32_t)strtoul(text, &end, 10);
	row->failures = (uint32_t)strtoul(end, &end, 10);
	while (*end == ' ')
		end++;
	rest = slice_from(end);
	word = slice_cut(&rest, ' ');
	snprintf(row->reason, sizeof(row->reason), "%" SLICE_FMT, SLICE_ARG(word));
	while (rest.len > 0)
		parse_count(slice_cut(&rest, ' '), row);
}
