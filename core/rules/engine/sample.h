/* sample.h: messages made up to try filters on.
 *
 * They are made of what the filters' own texts have: a filter that looks for the
 * header region=eu has both words somewhere. The sequence is the same in each
 * run. */
#ifndef TIDE_RULES_ENGINE_SAMPLE_H
#define TIDE_RULES_ENGINE_SAMPLE_H

#include "base/msg.h"
#include "generation.h"
#include "words.h"

#define SAMPLE_HEADERS_MAX 8
#define SAMPLE_PAYLOAD_MAX ((size_t)1 << 20)

/* The texts are the pool's. */
struct sample {
	const char *exchange; /* "" is the default one */
	const char *key;
	const char *names[SAMPLE_HEADERS_MAX], *values[SAMPLE_HEADERS_MAX];
	unsigned header_count;
	const char *payload;
	size_t payload_len; /* more than the text has: filled up */
	uint8_t priority;
	uint64_t id;
	uint64_t seed; /* of tide.random */
};

struct sample_pool {
	uint64_t random;
	struct words exchanges, keys, names;
	struct words shared;    /* literals of modules */
	struct words *literals; /* of each filter's file */
	size_t filter_count;
};

/* `filters` and `exchanges` are the caller's, like all that they point to. */
struct sample_source {
	struct rule *const *filters; /* the active ones */
	size_t filter_count;
	const struct bundle *files;
	const char *const *exchanges; /* that there are; may be none */
	size_t exchange_count;
};
void sample_pool_init(struct sample_pool *p, const struct sample_source *source);
void sample_pool_deinit(struct sample_pool *p);

/* For filter `i`: the first exchanges and keys that its match lets through, one
 * for each `number` from 0 on; false when there are no more. */
bool sample_first(struct sample_pool *p, const struct rule *filter, size_t number,
		  struct sample *out);
/* Change something about it. */
void sample_mutate(struct sample_pool *p, struct sample *s);
uint64_t sample_random(struct sample_pool *p, uint64_t n); /* 0 .. n - 1 */

/* NULL when there is no memory for it. */
struct msg *sample_message(const struct sample *s, int64_t now_unix_ms);
/* "exchange orders, key a.b, h:region=eu" */
void sample_describe(const struct sample *s, struct buf *out);

#endif
