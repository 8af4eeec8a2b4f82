#include "id.h"

#include <endian.h>
#include <string.h>

#include "bytes.h"

#define SEQUENCE_BITS 12
#define SEQUENCE_MAX ((1u << SEQUENCE_BITS) - 1)
#define MS_SHIFT 22 /* node and sequence are below */
#define MS_MAX ((INT64_C(1) << 42) - 1)

void id_source_init(struct id_source *s, unsigned node)
{
	*s = (struct id_source){
		.node = node & ID_NODE_MAX,
		.sequence = SEQUENCE_MAX,
		.follow_ms = MS_MAX,
		.end_ms = MS_MAX,
	};
}

void id_source_limit(struct id_source *s, int64_t follow_ms, int64_t end_ms)
{
	s->end_ms = end_ms < MS_MAX ? end_ms : MS_MAX;
	s->follow_ms = follow_ms < s->end_ms ? follow_ms : s->end_ms;
}

void id_source_advance(struct id_source *s, uint64_t id)
{
	int64_t ms = id_unix_ms(id);

	if (ms < s->last_ms)
		return;
	/* The node of `id` may be above ours, so its whole millisecond is over. */
	s->last_ms = ms;
	s->sequence = SEQUENCE_MAX;
}

uint64_t id_next(struct id_source *s, int64_t now_ms)
{
	if (now_ms > s->follow_ms)
		now_ms = s->follow_ms;
	if (now_ms > s->last_ms) {
		s->last_ms = now_ms;
		s->sequence = 0;
	} else if (s->sequence < SEQUENCE_MAX) {
		s->sequence++;
	} else if (s->last_ms < s->end_ms) {
		s->last_ms++;
		s->sequence = 0;
	} else {
		return 0;
	}
	return (uint64_t)s->last_ms << MS_SHIFT | s->node << SEQUENCE_BITS | s->sequence;
}

int64_t id_unix_ms(uint64_t id)
{
	return (int64_t)(id >> MS_SHIFT);
}

uint64_t id_at_unix_ms(int64_t unix_ms)
{
	return (uint64_t)unix_ms << MS_SHIFT;
}

/* The eight hex digits of 32 bits, all at once: each nibble moves to a byte of
 * its own, the first to the highest, and becomes '0'-'9' or 'a'-'f'. */
static uint64_t hex_digits(uint32_t bits)
{
	uint64_t n = bits;

	n = (n << 16 | n) & UINT64_C(0x0000ffff0000ffff);
	n = (n << 8 | n) & UINT64_C(0x00ff00ff00ff00ff);
	n = (n << 4 | n) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	/* 10 to 15 carry into the upper half of their byte. */
	uint64_t is_letter =
		(n + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
	return n + UINT64_C(0x3030303030303030) + is_letter * ('a' - '0' - 10);
}

int id_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void id_format(uint64_t id, char out[ID_HEX_LEN])
{
	uint64_t high = htobe64(hex_digits((uint32_t)(id >> 32)));
	uint64_t low = htobe64(hex_digits((uint32_t)id));

	memcpy(out, &high, sizeof(high));
	memcpy(out + sizeof(high), &low, sizeof(low));
}

int id_parse(struct slice text, uint64_t *out)
{
	if (text.len != ID_HEX_LEN)
		return TIDE_ESYNTAX;
	uint64_t id = 0;
	for (size_t i = 0; i < ID_HEX_LEN; i++) {
		int digit = hex_value_lower(text.data[i]);

		if (digit < 0)
			return TIDE_ESYNTAX;
		id = id << 4 | (uint64_t)digit;
	}
	*out = id;
	return TIDE_OK;
}
