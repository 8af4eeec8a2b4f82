#include "repeat.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* Slots in which a format is looked for, from the one of its hash on. */
#define PROBES 8

static bool is_over(const struct repeat *r, int64_t mono_ms)
{
	return mono_ms - r->began_ms >= REPEAT_PERIOD_MS;
}

static bool is_free(const struct repeat *r, int64_t mono_ms)
{
	return !r->format || (!repeat_is_withheld(r) && is_over(r, mono_ms));
}

static struct repeat *find(struct repeats *all, const char *format, int64_t mono_ms)
{
	uint64_t hash = ((uintptr_t)format * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
	struct repeat *first_free = NULL;

	for (unsigned i = 0; i < PROBES; i++) {
		struct repeat *r = &all->slots[(hash + i) % REPEAT_SLOTS];

		if (r->format == format)
			return r;
		if (!first_free && is_free(r, mono_ms))
			first_free = r;
	}
	return first_free;
}

static void note_due(struct repeats *all, const struct repeat *r)
{
	int64_t end_ms = r->began_ms + REPEAT_PERIOD_MS;

	if (!all->due_ms || end_ms < all->due_ms)
		all->due_ms = end_ms;
}

struct repeat *repeat_count(struct repeats *all, const char *format, int64_t mono_ms)
{
	struct repeat *r = find(all, format, mono_ms);

	if (!r)
		return NULL;
	if (r->format != format || is_free(r, mono_ms)) {
		r->format = format;
		r->began_ms = mono_ms;
		r->count = 0;
	}
	r->count++;
	if (repeat_is_withheld(r))
		note_due(all, r);
	return r;
}

void repeat_keep(struct repeat *r, int level, const char *text)
{
	r->level = level;
	snprintf(r->text, sizeof(r->text), "%s", text);
	r->text[utf8_whole(r->text, strlen(r->text))] = '\0';
}

static void find_due(struct repeats *all)
{
	all->due_ms = 0;
	for (unsigned i = 0; i < REPEAT_SLOTS; i++)
		if (repeat_is_withheld(&all->slots[i]))
			note_due(all, &all->slots[i]);
}

bool repeat_take(struct repeats *all, int64_t mono_ms, bool is_end, struct repeat *out)
{
	if (!all->due_ms || (!is_end && mono_ms < all->due_ms))
		return false;
	for (unsigned i = 0; i < REPEAT_SLOTS; i++) {
		struct repeat *r = &all->slots[i];

		if (!repeat_is_withheld(r) || (!is_end && !is_over(r, mono_ms)))
			continue;
		*out = *r;
		r->count = 0;
		r->began_ms = mono_ms;
		find_due(all);
		return true;
	}
	find_due(all);
	return false;
}
