#include "msg.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "mem.h"
#include "topic_pattern.h"

/* The first bytes of a free block. */
struct msg_block {
	struct msg_block *next;
};

void msg_pool_deinit(struct msg_pool *p)
{
	struct msg_block *block;

	for (size_t i = 0; i < sizeof(p->free_lists) / sizeof(p->free_lists[0]); i++)
		while ((block = p->free_lists[i]) != NULL) {
			p->free_lists[i] = block->next;
			mem_free(block);
		}
	p->kept_bytes = 0;
}

/* At least `*bytes`, which is set to how many they are; NULL when memory is out. */
static void *take_block(struct msg_pool *p, size_t *bytes)
{
	size_t steps = (*bytes + MSG_POOL_STEP - 1) / MSG_POOL_STEP;
	struct msg_block *block;

	if (*bytes > MSG_POOL_BLOCK_MAX)
		return mem_try_alloc(*bytes);
	*bytes = steps * MSG_POOL_STEP;
	block = p->free_lists[steps];
	if (!block)
		return mem_try_alloc(*bytes);
	p->free_lists[steps] = block->next;
	p->kept_bytes -= *bytes;
	return block;
}

static bool add(size_t *sum, size_t n)
{
	return !__builtin_add_overflow(*sum, n, sum);
}

/* Struct, headers, strings, payload, dedupe id, user, in this order; false when it is
 * more than an address space holds. */
static bool total_size(const struct msg *like, size_t *out)
{
	*out = sizeof(struct msg) + like->header_count * sizeof(struct msg_header);
	bool fits = add(out, like->exchange.len) && add(out, like->key.len);
	for (size_t i = 0; fits && i < like->header_count; i++)
		fits = add(out, like->headers[i].name.len) &&
		       add(out, like->headers[i].value.len);
	return fits && add(out, like->payload_len) && add(out, like->dedupe_len) &&
	       add(out, like->user_len);
}

/* Copy the bytes to where `at` is and move it behind them. */
static struct slice copy(char **at, struct slice s)
{
	struct slice out = { *at, s.len };

	if (s.len > 0)
		memcpy(*at, s.data, s.len);
	*at += s.len;
	return out;
}

struct msg *msg_create(const struct msg *like)
{
	struct msg_header *headers;
	size_t bytes;
	char *at;

	assert(like->dedupe_len <= MSG_DEDUPE_ID_MAX);
	if (!total_size(like, &bytes))
		return NULL;
	struct msg *m =
		like->pool ? take_block(like->pool, &bytes) : mem_try_alloc(bytes);
	if (!m)
		return NULL;
	*m = *like;
	m->refs = 1;
	m->bytes = bytes;
	headers = (struct msg_header *)(m + 1);
	m->headers = headers;
	at = (char *)(headers + like->header_count);
	m->exchange = copy(&at, like->exchange);
	m->key = copy(&at, like->key);
	for (size_t i = 0; i < like->header_count; i++) {
		headers[i].name = copy(&at, like->headers[i].name);
		headers[i].value = copy(&at, like->headers[i].value);
	}
	m->payload = at;
	if (like->payload && like->payload_len > 0)
		memcpy(at, like->payload, like->payload_len);
	at += like->payload_len;
	m->dedupe_id = copy(&at, msg_dedupe_id(like)).data;
	m->user = copy(&at, msg_user(like)).data;
	return m;
}

void msg_write_headers(const struct msg *m, struct json *out)
{
	json_key(out, "headers");
	json_object_begin(out);
	for (unsigned i = 0; i < m->header_count; i++) {
		if (msg_header_is_hidden(m->headers[i].name))
			continue;
		json_key_slice(out, m->headers[i].name);
		json_slice(out, m->headers[i].value);
	}
	json_object_end(out);
}

void msg_free(struct msg *m)
{
	struct msg_block *block = (struct msg_block *)m;
	struct msg_pool *p = m->pool;
	size_t bytes = m->bytes;

	assert(m->refs == 0);
	if (!p || bytes > MSG_POOL_BLOCK_MAX || POOL_KEEPS_NOTHING ||
	    p->kept_bytes + bytes > MSG_POOL_KEEP_BYTES) {
		mem_free(m);
		return;
	}
	block->next = p->free_lists[bytes / MSG_POOL_STEP];
	p->free_lists[bytes / MSG_POOL_STEP] = block;
	p->kept_bytes += bytes;
}

struct slice msg_header(const struct msg *m, struct slice name)
{
	for (size_t i = 0; i < m->header_count; i++) {
		if (slice_is_equal(m->headers[i].name, name))
			return m->headers[i].value;
	}
	return (struct slice){ 0 };
}

struct slice msg_cut_reason(struct slice text)
{
	size_t len = MSG_REASON_TEXT_MAX;

	if (text.len <= len)
		return text;
	/* A character has three bytes behind its first at most. */
	while (len > MSG_REASON_TEXT_MAX - 3 && ((uint8_t)text.data[len] & 0xc0) == 0x80)
		len--;
	return (struct slice){ text.data, len };
}

unsigned msg_headers_with_reason(const struct msg *m, struct slice text,
				 struct msg_header out[MSG_HEADERS_ALL])
{
	unsigned count = 0;

	for (unsigned i = 0; i < m->header_count; i++)
		if (!slice_is_equal(m->headers[i].name, MSG_REASON_TEXT))
			out[count++] = m->headers[i];
	/* Redis may have a message with more headers than a broker gives it. */
	if (count < MSG_HEADERS_ALL)
		out[count++] = (struct msg_header){ MSG_REASON_TEXT, text };
	return count;
}

static bool take_prefix(struct slice *text, const char *prefix)
{
	if (!slice_has_prefix(*text, prefix))
		return false;
	*text = slice_skip(*text, strlen(prefix));
	return true;
}

static void parse(struct msg_match *match, struct slice text)
{
	size_t name_len, glob_at;

	match->kind = MSG_MATCH_TEXT;
	if (take_prefix(&text, "key:")) {
		match->kind = MSG_MATCH_KEY;
	} else if (take_prefix(&text, "h:")) {
		match->kind = MSG_MATCH_HEADER;
		name_len = slice_find(text, '=');
		glob_at = slice_find(text, '~');
		if (glob_at < name_len) {
			match->kind = MSG_MATCH_GLOB;
			name_len = glob_at;
		}
		if (name_len < text.len)
			match->value = slice_skip(text, name_len + 1);
		text.len = name_len;
	} else {
		take_prefix(&text, "text:");
	}
	match->text = text;
}

int msg_match_init(struct msg_match *match, struct slice option, struct error *err)
{
	*match = (struct msg_match){ .kind = MSG_MATCH_ALL };
	if (!option.data)
		return TIDE_OK;
	match->owned = mem_strndup(option.data, option.len);
	parse(match, (struct slice){ match->owned, option.len });
	if (match->text.len > 0 &&
	    (match->kind == MSG_MATCH_TEXT || slice_is_name(match->text)))
		return TIDE_OK;
	msg_match_deinit(match);
	return error_set(err, TIDE_ESYNTAX,
			 "match=%.*s: expected <text>, text:<text>, key:<pattern>, "
			 "h:<name>, h:<name>=<value>, h:<name>~<glob> or "
			 "lua:<expression>",
			 SLICE_HEAD(option, 64));
}

void msg_match_deinit(struct msg_match *match)
{
	if (match->script)
		match->script->destroy(match->script);
	mem_free(match->owned);
	*match = (struct msg_match){ .kind = MSG_MATCH_ALL };
}

static bool has_text(const char *data, size_t len, struct slice text)
{
	return len >= text.len && memmem(data, len, text.data, text.len) != NULL;
}

/* Each part between two stars is looked for behind the one before: the first place will
 * do for all but the last, which is at the end. */
static bool is_like(struct slice text, struct slice glob)
{
	size_t star = slice_find(glob, '*');
	const char *found;

	if (star == glob.len)
		return slice_is_equal(text, glob);
	if (text.len < star || memcmp(text.data, glob.data, star) != 0)
		return false;
	text = slice_skip(text, star);
	glob = slice_skip(glob, star + 1);
	while ((star = slice_find(glob, '*')) < glob.len) {
		found = text.len > 0 ? memmem(text.data, text.len, glob.data, star)
				     : text.data;
		if (!found || text.len < star)
			return false;
		text = slice_skip(text, (size_t)(found - text.data) + star);
		glob = slice_skip(glob, star + 1);
	}
	return text.len >= glob.len &&
	       memcmp(text.data + text.len - glob.len, glob.data, glob.len) == 0;
}

static bool is_in_content(const struct msg *m, struct slice text)
{
	for (unsigned i = 0; i < m->header_count; i++)
		if (has_text(m->headers[i].value.data, m->headers[i].value.len, text))
			return true;
	return has_text(m->payload, m->payload_len, text);
}

bool msg_match_is_spent(const struct msg_match *match, int64_t now_ms)
{
	struct msg_match_script *s = match->script;

	if (!s)
		return false;
	if (s->turn_ms != now_ms)
		s->spent_ns = 0;
	s->turn_ms = now_ms;
	return s->err.code < 0 || s->spent_ns > MSG_MATCH_TURN_NS;
}

bool msg_match_has(const struct msg_match *match, const struct msg *m, uint32_t attempt)
{
	struct slice value;

	switch (match->kind) {
	case MSG_MATCH_ALL:
		return true;
	case MSG_MATCH_TEXT:
		return is_in_content(m, match->text);
	case MSG_MATCH_KEY:
		return topic_pattern_matches(match->text, m->key);
	case MSG_MATCH_HEADER:
		value = msg_header(m, match->text);
		return value.data &&
		       (!match->value.data || slice_is_equal(value, match->value));
	case MSG_MATCH_GLOB:
		value = msg_header(m, match->text);
		return value.data && is_like(value, match->value);
	case MSG_MATCH_SCRIPT:
		return match->script->err.code == TIDE_OK &&
		       match->script->has(match->script, m, attempt);
	}
	return false;
}
