#include "topic_pattern.h"

#define MANY_MAX 2

/* The rest of a text. A text of no bytes has no words at all; one that ends in a dot
 * has an empty word behind it. */
struct words {
	struct slice rest;
	bool has_more;
};

static struct words words_of(struct slice text)
{
	return (struct words){ text, text.len > 0 };
}

static struct slice first(const struct words *w)
{
	const char *dot = memchr(w->rest.data, '.', w->rest.len);

	return (struct slice){ w->rest.data,
			       dot ? (size_t)(dot - w->rest.data) : w->rest.len };
}

static void step(struct words *w)
{
	size_t len = first(w).len;

	w->has_more = len < w->rest.len;
	w->rest = slice_skip(w->rest, w->has_more ? len + 1 : len);
}

const char *topic_pattern_fault(struct slice pattern)
{
	int many = 0;
	bool is_run = false; /* `#.#` and `#.*.#` are no more work than one `#` */

	for (struct words w = words_of(pattern); w.has_more; step(&w)) {
		struct slice word = first(&w);

		if (word.len > 1 && (slice_find(word, '*') < word.len ||
				     slice_find(word, '#') < word.len))
			return "has a word with a wildcard in it; '*' and '#' are words "
			       "of "
			       "their own";
		many += slice_is(word, "#") && !is_run;
		is_run = slice_is(word, "#") || (is_run && slice_is(word, "*"));
	}
	return many > MANY_MAX ? "has '#' more than twice" : NULL;
}

/* The last `#` takes as few words as it can, then one more each time that what
 * follows it does not fit: an earlier one never has to be tried again. */
bool topic_pattern_matches(struct slice pattern, struct slice key)
{
	struct words p = words_of(pattern), k = words_of(key);
	struct words after_many, taken_to;
	bool has_many = false;

	while (k.has_more || p.has_more) {
		struct slice word = p.has_more ? first(&p) : (struct slice){ NULL, 0 };
		if (p.has_more && slice_is(word, "#")) {
			step(&p);
			has_many = true;
			after_many = p;
			taken_to = k;
		} else if (p.has_more && k.has_more &&
			   (slice_is(word, "*") || slice_is_equal(word, first(&k)))) {
			step(&p);
			step(&k);
		} else if (has_many && taken_to.has_more) {
			step(&taken_to);
			p = after_many;
			k = taken_to;
		} else {
			return false;
		}
	}
	return true;
}
