#include <lauxlib.h>
#include <string.h>

#include "pattern.h"
#include "script.h"

/* How much is done between two looks at the watchdog: some 100 microseconds. */
#define FUEL 65536

/* Where text is compared or copied as a block, so many bytes are a step. */
#define BYTES_PER_STEP 16

void pattern_match_init(struct pattern_match *m, lua_State *L, const char *function,
			const char *subject, size_t len)
{
	m->L = L;
	m->function = function;
	m->subject = subject;
	m->end = subject + len;
	m->fuel = FUEL;
	m->steps = PATTERN_STEPS + (int64_t)len * PATTERN_STEPS_PER_BYTE - FUEL;
}

/* The fuel is below zero. */
static void refuel(struct pattern_match *m)
{
	script_check(m->L);
	m->steps += m->fuel;
	if (m->steps < 0)
		script_fail(m->L,
			    "%s: the pattern needs more than its budget of %td steps for "
			    "a text of %td bytes",
			    m->function,
			    PATTERN_STEPS +
				    (m->end - m->subject) * PATTERN_STEPS_PER_BYTE,
			    m->end - m->subject);
	m->fuel = m->steps < FUEL ? m->steps : FUEL;
	m->steps -= m->fuel;
}

static inline void spend(struct pattern_match *m, ptrdiff_t steps)
{
	m->fuel -= steps;
	if (m->fuel < 0)
		refuel(m);
}

void pattern_match_spend(struct pattern_match *m, size_t steps)
{
	spend(m, (ptrdiff_t)steps);
}

static inline bool is_in_set(const struct pattern_item *item, unsigned char byte)
{
	bool is_in = (item->set->bits[byte >> 5] >> (byte & 31)) & 1;

	return is_in != item->is_negated;
}

static inline bool takes(const struct pattern_item *item, const char *at)
{
	unsigned char byte = (unsigned char)*at;

	return item->set ? is_in_set(item, byte) : item->byte == byte;
}

/* The first character from `at` that the item does not take. */
static const char *pass(const struct pattern_item *item, const char *at, const char *end)
{
	if (item->is_any)
		return end;
	while (at < end && takes(item, at))
		at++;
	return at;
}

static const char *match_again(struct pattern_match *m, const struct pattern_item *item,
			       const char *at)
{
	const struct pattern_capture *capture = &m->captures[item->capture];

	if (!capture->end)
		return NULL;
	ptrdiff_t len = capture->end - capture->start;
	if (len > m->end - at)
		return NULL;
	spend(m, len / BYTES_PER_STEP);
	return memcmp(capture->start, at, (size_t)len) == 0 ? at + len : NULL;
}

static const char *match_balance(struct pattern_match *m, const struct pattern_item *item,
				 const char *at)
{
	size_t depth = 0;
	const char *p = at;

	if (at == m->end || (unsigned char)*at != item->byte)
		return NULL;
	for (; p < m->end; p++) {
		unsigned char byte = (unsigned char)*p;
		/* The close first: in '%bxx' they are one. */
		if (byte == item->close && depth > 0) {
			if (--depth == 0)
				break;
		} else if (byte == item->byte) {
			depth++;
		}
	}
	spend(m, p - at);
	return p < m->end ? p + 1 : NULL;
}

/* The set begins here: before the subject and behind it there is a zero. */
static bool match_frontier(const struct pattern_match *m, const struct pattern_item *item,
			   const char *at)
{
	unsigned char before = at == m->subject ? 0 : (unsigned char)at[-1];
	unsigned char here = at == m->end ? 0 : (unsigned char)*at;

	return !is_in_set(item, before) && is_in_set(item, here);
}

static const char *match_other(struct pattern_match *m, const struct pattern_item *item,
			       const char *at)
{
	struct pattern_capture *capture = &m->captures[item->capture];

	switch (item->op) {
	case PATTERN_OPEN:
		*capture = (struct pattern_capture){ at, at };
		return at;
	case PATTERN_CLOSE:
		capture->end = at;
		return at;
	case PATTERN_POSITION:
		*capture = (struct pattern_capture){ at, NULL };
		return at;
	case PATTERN_AGAIN:
		return match_again(m, item, at);
	case PATTERN_BALANCE:
		return match_balance(m, item, at);
	case PATTERN_FRONTIER:
		return match_frontier(m, item, at) ? at : NULL;
	default: /* PATTERN_BORDER */
		return at == m->end ? at : NULL;
	}
}

/* Take as many as there are; that it might be fewer is a choice. */
static const char *take_many(struct pattern_match *m, const struct pattern_item *item,
			     const char *at, struct pattern_choice **top)
{
	const char *end = item->is_single && at < m->end ? at + 1 : m->end;
	const char *last = pass(item, at, end);
	const char *low = at + item->min;

	spend(m, last - at);
	if (last < low)
		return NULL;
	if (last > low)
		*(*top)++ = (struct pattern_choice){ item, last, low };
	return last;
}

/* Where the newest choice goes on; NULL when it is used up. */
static const char *choose_again(struct pattern_match *m, struct pattern_choice *choice)
{
	if (choice->item->op == PATTERN_MANY)
		return choice->at > choice->low ? --choice->at : NULL;
	if (choice->at == m->end || !takes(choice->item, choice->at))
		return NULL;
	return ++choice->at;
}

static const char *match_at(struct pattern_match *m, const struct pattern *p,
			    const char *at)
{
	const struct pattern_item *item = p->items;
	struct pattern_choice *top = p->choices;

	while (item->op != PATTERN_END) {
		spend(m, 1);
		switch (item->op) {
		case PATTERN_ONE:
			at = at < m->end && takes(item, at) ? at + 1 : NULL;
			break;
		case PATTERN_MANY:
			at = take_many(m, item, at, &top);
			break;
		case PATTERN_FEW:
			*top++ = (struct pattern_choice){ item, at, at };
			break;
		default:
			at = match_other(m, item, at);
		}
		while (!at && top > p->choices) {
			spend(m, 1);
			item = top[-1].item;
			at = choose_again(m, top - 1);
			top -= !at;
		}
		if (!at)
			return NULL;
		item++;
	}
	return at;
}

const char *pattern_match_search(struct pattern_match *m, const struct pattern *p,
				 const char **at)
{
	const struct pattern_item *first = p->items;

	if (p->is_anchored)
		return match_at(m, p, *at);
	bool has_first_byte = first->op == PATTERN_ONE && !first->set;
	for (const char *from = *at; from <= m->end; from++) {
		if (has_first_byte) {
			const char *next =
				memchr(from, first->byte, (size_t)(m->end - from));
			spend(m, ((next ? next : m->end) - from) / BYTES_PER_STEP);
			if (!next)
				return NULL;
			from = next;
		}
		const char *end = match_at(m, p, from);
		if (end) {
			*at = from;
			return end;
		}
	}
	return NULL;
}
