#include "msg.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "mem.h"
#include "msg_pool.h"

static bool add(size_t *sum, size_t n)
{
	return !__builtin_add_overflow(*sum, n, sum);
}

/* Struct, headers, strings, payload, dedupe id, user, in this order; false when it is
 * more than an address space holds. */
static bool total_size(const struct msg_spec *spec, size_t *out)
{
	*out = sizeof(struct msg) + spec->header_count * sizeof(struct msg_header);
	bool fits = add(out, spec->exchange.len) && add(out, spec->key.len);
	for (size_t i = 0; fits && i < spec->header_count; i++)
		fits = add(out, spec->headers[i].name.len) &&
		       add(out, spec->headers[i].value.len);
	return fits && add(out, spec->payload_len) && add(out, spec->dedupe_id.len) &&
	       add(out, spec->user.len);
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

struct msg *msg_create(const struct msg_spec *spec)
{
	size_t bytes;

	assert(spec->dedupe_id.len <= MSG_DEDUPE_ID_MAX);
	assert(spec->user.len <= MSG_USER_MAX);
	if (!total_size(spec, &bytes))
		return NULL;
	struct msg *m =
		spec->pool ? msg_pool_try_take(spec->pool, &bytes) : mem_try_alloc(bytes);
	if (!m)
		return NULL;
	*m = (struct msg){
		.refs = 1,
		.priority = spec->priority,
		.header_count = spec->header_count,
		.dedupe_len = (uint8_t)spec->dedupe_id.len,
		.user_len = (uint8_t)spec->user.len,
		.id = spec->id,
		.ts_unix_ms = spec->ts_unix_ms,
		.due_unix_ms = spec->due_unix_ms,
		.expires_unix_ms = spec->expires_unix_ms,
		.headers = (struct msg_header *)(m + 1),
		.payload_len = spec->payload_len,
		.bytes = bytes,
		.pool = spec->pool,
	};
	char *at = (char *)(m->headers + spec->header_count);
	m->exchange = copy(&at, spec->exchange);
	m->key = copy(&at, spec->key);
	for (size_t i = 0; i < spec->header_count; i++) {
		m->headers[i].name = copy(&at, spec->headers[i].name);
		m->headers[i].value = copy(&at, spec->headers[i].value);
	}
	m->payload = at;
	if (spec->payload && spec->payload_len > 0)
		memcpy(m->payload, spec->payload, spec->payload_len);
	at += spec->payload_len;
	if (spec->dedupe_id.len > 0)
		m->dedupe_id = copy(&at, spec->dedupe_id).data;
	if (spec->user.len > 0)
		m->user = copy(&at, spec->user).data;
	return m;
}

void msg_to_spec(const struct msg *m, struct msg_spec *out)
{
	*out = (struct msg_spec){
		.id = m->id,
		.ts_unix_ms = m->ts_unix_ms,
		.due_unix_ms = m->due_unix_ms,
		.expires_unix_ms = m->expires_unix_ms,
		.priority = m->priority,
		.header_count = m->header_count,
		.exchange = m->exchange,
		.key = m->key,
		.headers = m->headers,
		.payload = m->payload,
		.payload_len = m->payload_len,
		.dedupe_id = msg_dedupe_id(m),
		.user = msg_user(m),
	};
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
