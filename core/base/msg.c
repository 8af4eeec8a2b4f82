#include "msg.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "json.h"
#include "mem.h"
#include "msg_pool.h"

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
		like->pool ? msg_pool_try_take(like->pool, &bytes) : mem_try_alloc(bytes);
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
		json_key_slice(out, m->headers[i].name);
		json_slice(out, m->headers[i].value);
	}
	json_object_end(out);
}

void msg_free(struct msg *m)
{
	assert(m->refs == 0);
	if (m->pool)
		msg_pool_give(m->pool, m, m->bytes);
	else
		mem_free(m);
}

struct slice msg_header(const struct msg *m, struct slice name)
{
	for (size_t i = 0; i < m->header_count; i++) {
		if (slice_is_equal(m->headers[i].name, name))
			return m->headers[i].value;
	}
	return (struct slice){ 0 };
}
