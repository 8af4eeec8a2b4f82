#include "sample.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/percent.h"
#include "inspect.h"
#include "topic.h"

#define LITERALS_MAX 400
#define KEYS_MAX 1000
#define FIRST_KEYS_MAX 12
#define FIRST_EXCHANGES_MAX 12

uint64_t sample_random(struct sample_pool *p, uint64_t n)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 7;
	p->random ^= p->random << 17;
	return p->random % n;
}

static bool is_likely(struct sample_pool *p, unsigned percent)
{
	return sample_random(p, 100) < percent;
}

/* ---- the pool --------------------------------------------------------------------- */

/* A key that the topic pattern matches: `word` for '*', `many` times for '#'. */
static void add_key(struct sample_pool *p, const char *pattern, const char *word,
		    unsigned many)
{
	struct buf key;
	buf_init(&key);
	for (const char *at = pattern; *at;) {
		size_t len = strcspn(at, ".");
		bool is_many = len == 1 && *at == '#', is_one = len == 1 && *at == '*';
		unsigned times = is_many ? many : 1;
		for (unsigned i = 0; i < times; i++) {
			if (buf_len(&key))
				buf_append_char(&key, '.');
			if (is_many || is_one)
				buf_append_text(&key, word);
			else
				buf_append(&key, at, len);
		}
		at += len + (at[len] == '.');
	}
	if (buf_len(&key) == 0 || slice_is_name(buf_slice(&key)))
		words_add(&p->keys, buf_slice(&key), NULL);
	buf_deinit(&key);
}

static void add_filter(struct sample_pool *p, const struct rule *r)
{
	if (strcmp(r->match_exchange, "*") != 0)
		words_add(&p->exchanges, slice_from(r->match_exchange), NULL);
	for (unsigned many = 0; many < 3; many++)
		add_key(p, r->match_key, "a", (many + 1) % 3);
}

/* What is a name may be a key or an exchange, and is one in a filter that sends
 * messages there. */
static void add_names(struct sample_pool *p, const struct words *literals)
{
	for (size_t i = 0; i < literals->count; i++) {
		struct slice text = slice_from(literals->items[i]);
		bool is_pattern = text.len && (text.data[0] == '^' ||
					       memchr(text.data, '%', text.len));
		if (slice_is_name(text) && !is_pattern && p->keys.count < KEYS_MAX)
			words_add(&p->keys, text, NULL);
	}
}

void sample_pool_init(struct sample_pool *p, const struct sample_source *source)
{
	static const char *const usual[] = { "1", "0", "true", "a" };
	*p = (struct sample_pool){ .random = UINT64_C(0x9e3779b97f4a7c15),
				   .filter_count = source->filter_count };
	p->literals = mem_zalloc((source->filter_count + 1) * sizeof(*p->literals));
	for (size_t i = 0; i < source->filter_count; i++)
		add_filter(p, source->filters[i]);
	for (size_t i = 0; i < source->exchange_count; i++)
		words_add(&p->exchanges, slice_from(source->exchanges[i]), NULL);
	words_add(&p->exchanges, SLICE(""), NULL);
	words_add(&p->exchanges, SLICE("any"), NULL);
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		words_add(&p->shared, slice_from(usual[i]), NULL);
	for (size_t i = 0; i < source->files->count; i++) {
		const struct bundle_file *file = &source->files->files[i];
		struct words *literals = &p->shared;
		bool is_script = inspect_is_script(file->path);
		for (size_t j = 0; j < source->filter_count; j++) {
			if (strcmp(source->filters[j]->file, file->path) == 0)
				literals = &p->literals[j];
		}
		if (is_script && literals == &p->shared)
			continue;
		words_add_literals(literals, file, LITERALS_MAX);
		add_names(p, literals);
	}
}

void sample_pool_deinit(struct sample_pool *p)
{
	words_deinit(&p->exchanges);
	words_deinit(&p->keys);
	words_deinit(&p->names);
	words_deinit(&p->shared);
	for (size_t i = 0; i < p->filter_count; i++)
		words_deinit(&p->literals[i]);
	mem_free(p->literals);
}

/* ---- first samples -------------------------------------------------------------------
 */

/* The `number`-th key that the pattern lets through; NULL when there are less. */
static const char *find_key(const struct sample_pool *p, const char *pattern,
			    size_t number)
{
	size_t found = 0;
	for (size_t i = 0; i < p->keys.count; i++) {
		if (!topic_matches(slice_from(pattern), slice_from(p->keys.items[i])))
			continue;
		if (found++ == number)
			return p->keys.items[i];
	}
	return NULL;
}

bool sample_first(struct sample_pool *p, const struct rule *filter, size_t number,
		  struct sample *out)
{
	bool is_for_all = strcmp(filter->match_exchange, "*") == 0;
	size_t exchange = number / FIRST_KEYS_MAX,
	       max = is_for_all ? p->exchanges.count : 1;
	*out = (struct sample){ .payload = "", .id = number + 1, .seed = number };
	if (exchange >= max || exchange >= FIRST_EXCHANGES_MAX)
		return false;
	out->exchange =
		is_for_all ? p->exchanges.items[exchange] : filter->match_exchange;
	out->key = find_key(p, filter->match_key, number % FIRST_KEYS_MAX);
	/* There are less keys than there is room for: the last one again. */
	if (!out->key)
		out->key = find_key(p, filter->match_key, 0);
	return out->key != NULL;
}

/* ---- changes -------------------------------------------------------------------------
 */

static const char *any_of(struct sample_pool *p, const struct words *w)
{
	return w->count ? w->items[sample_random(p, w->count)] : NULL;
}

/* A literal of one of the filters, now and then of the modules. */
static const char *any_literal(struct sample_pool *p)
{
	const struct words *w = &p->literals[sample_random(p, p->filter_count)];
	if (w->count == 0 || is_likely(p, 25))
		w = &p->shared;
	return any_of(p, w);
}

/* Mostly one that was asked for; a script that goes through all headers asks for
 * none. */
static const char *any_name(struct sample_pool *p)
{
	if (p->names.count && is_likely(p, 90))
		return any_of(p, &p->names);
	const char *name = any_literal(p);
	bool is_name = name && slice_is_name(slice_from(name)) && !strchr(name, '=');
	return is_name ? name : NULL;
}

static void change_header(struct sample_pool *p, struct sample *s)
{
	const char *name = any_name(p), *value = any_literal(p);
	unsigned i = 0;
	if (!name || !value)
		return;
	while (i < s->header_count && strcmp(s->names[i], name) != 0)
		i++;
	if (i == SAMPLE_HEADERS_MAX)
		return;
	s->names[i] = name;
	s->values[i] = value;
	s->header_count += i == s->header_count;
}

static void drop_header(struct sample_pool *p, struct sample *s)
{
	if (s->header_count == 0)
		return;
	unsigned i = (unsigned)sample_random(p, s->header_count--);
	s->names[i] = s->names[s->header_count];
	s->values[i] = s->values[s->header_count];
}

/* The text and the size are looked at apart: each is changed without the other. */
static void change_payload(struct sample_pool *p, struct sample *s)
{
	const char *text = any_literal(p);
	char *end;
	if (!text)
		return;
	unsigned long n = strtoul(text, &end, 10);
	if (end != text && *end == '\0' && n <= SAMPLE_PAYLOAD_MAX && is_likely(p, 70)) {
		s->payload_len = n;
		return;
	}
	s->payload = text;
	if (s->payload_len < strlen(text))
		s->payload_len = strlen(text);
}

static void change_priority(struct sample_pool *p, struct sample *s)
{
	const char *text = any_literal(p);
	s->priority = text ? (uint8_t)strtoul(text, NULL, 10) : 0;
}

static void change_once(struct sample_pool *p, struct sample *s)
{
	uint64_t what = sample_random(p, 100);
	if (what < 50)
		change_header(p, s);
	else if (what < 55)
		drop_header(p, s);
	else if (what < 70)
		s->key = any_of(p, &p->keys);
	else if (what < 80)
		s->exchange = any_of(p, &p->exchanges);
	else if (what < 93)
		change_payload(p, s);
	else
		change_priority(p, s);
}

void sample_mutate(struct sample_pool *p, struct sample *s)
{
	uint64_t times = 1 + sample_random(p, 3);
	for (uint64_t i = 0; i < times; i++)
		change_once(p, s);
	s->id = sample_random(p, UINT64_C(1) << 62) + 1;
	s->seed = s->id;
}

/* ---- what comes of it -----------------------------------------------------------------
 */

struct msg *sample_message(const struct sample *s, int64_t now_unix_ms)
{
	struct msg_header headers[SAMPLE_HEADERS_MAX];
	size_t text_len = strlen(s->payload);
	for (unsigned i = 0; i < s->header_count; i++)
		headers[i] = (struct msg_header){ slice_from(s->names[i]),
						  slice_from(s->values[i]) };
	const struct msg_spec spec = {
		.id = s->id,
		.ts_unix_ms = now_unix_ms,
		.priority = s->priority,
		.header_count = (uint8_t)s->header_count,
		.exchange = slice_from(s->exchange),
		.key = slice_from(s->key),
		.headers = headers,
		.payload_len = s->payload_len,
	};
	struct msg *m = msg_create(&spec);
	if (m && s->payload_len)
		memset(m->payload, ' ', s->payload_len);
	if (m && s->payload_len)
		memcpy(m->payload, s->payload,
		       text_len < s->payload_len ? text_len : s->payload_len);
	return m;
}

void sample_describe(const struct sample *s, struct buf *out)
{
	buf_printf(out, "exchange %s, key %s", s->exchange[0] ? s->exchange : "-",
		   s->key[0] ? s->key : "-");
	for (unsigned i = 0; i < s->header_count; i++) {
		buf_printf(out, ", h:%s=", s->names[i]);
		percent_encode(out, slice_from(s->values[i]));
	}
	if (s->priority)
		buf_printf(out, ", pri=%u", s->priority);
	if (s->payload_len)
		buf_printf(out, ", %zu bytes", s->payload_len);
}
