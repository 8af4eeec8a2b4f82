#include <jansson.h>

#include "http_api.h"
#include "http_request_private.h"

#define SHARED "/api/shared"
#define KEY_MAX 256
#define TTL_MAX_MS (UINT64_C(366) * 24 * 3600 * 1000 * 100)

typedef int shared_fn(struct session *s, const struct shared_spec *spec, struct reply *r,
		      struct error *err);

static void read_key(struct http_request *q, const char *name, struct shared_spec *spec)
{
	spec->key = http_request_text(q, name);
	if (spec->key.len > KEY_MAX)
		http_request_refuse(q, name, spec->key, "at most 256 bytes");
	if (!spec->key.data)
		spec->key = SLICE("");
	spec->of =
		(enum shared_of)http_request_choice(q, "of", "keys, counters or buckets");
}

static int run_entry(struct http_request *q, shared_fn *run, struct reply *r,
		     struct error *err)
{
	struct shared_spec spec = { .of = SESSION_SHARED_KEYS };

	http_api_need(q, "key", "the key of an entry");
	read_key(q, "key", &spec);
	if (http_request_check(q, err) < 0)
		return err->code;
	return run(http_request_session(q), &spec, r, err);
}

static int run_scan(struct http_request *q, shared_fn *run, struct reply *r,
		    struct error *err)
{
	const struct number_limits cursor = { 0, UINT32_MAX };
	struct shared_spec spec = { .of = SESSION_SHARED_KEYS };

	read_key(q, "prefix", &spec);
	spec.cursor = (uint32_t)http_request_uint(q, "cursor", cursor, 0);
	if (http_request_check(q, err) < 0)
		return err->code;
	return run(http_request_session(q), &spec, r, err);
}

static int get(struct http_request *q, struct reply *r, struct error *err)
{
	return run_entry(q, session_shared_get, r, err);
}

static int delete (struct http_request *q, struct reply *r, struct error *err)
{
	return run_entry(q, session_shared_delete, r, err);
}

static int list(struct http_request *q, struct reply *r, struct error *err)
{
	return run_scan(q, session_shared_list, r, err);
}

static int clear(struct http_request *q, struct reply *r, struct error *err)
{
	return run_scan(q, session_shared_clear, r, err);
}

/* The type is that of the JSON value. */
static enum shared_as type_of(const json_t *value)
{
	if (json_is_integer(value))
		return SESSION_SHARED_INTEGER;
	if (json_is_real(value))
		return SESSION_SHARED_NUMBER;
	return json_is_boolean(value) ? SESSION_SHARED_BOOLEAN : SESSION_SHARED_STRING;
}

static int put(struct http_request *q, struct reply *r, struct error *err)
{
	const struct number_limits ttl = { 1, TTL_MAX_MS };
	const json_t *value = json_object_get(http_request_json(q), "value");
	struct shared_spec spec = { .of = SESSION_SHARED_KEYS };

	http_api_need(q, "key", "the key of an entry");
	spec.key = http_request_text(q, "key");
	if (spec.key.len == 0 || spec.key.len > KEY_MAX)
		http_request_refuse(q, "key", spec.key, "1 to 256 bytes");
	spec.value = http_api_need(q, "value", "a text, a number or a boolean");
	spec.type = type_of(value);
	if (spec.type == SESSION_SHARED_BOOLEAN)
		spec.value = json_is_true(value) ? SLICE("true") : SLICE("false");
	spec.ttl_ms = http_request_duration(q, "ttl", ttl);
	if (http_request_check(q, err) < 0)
		return err->code;
	return session_shared_set(http_request_session(q), &spec, r, err);
}

const struct http_route http_api_shared_routes[] = {
	{ "GET", SHARED, "prefix cursor of", 0, list },
	{ "DELETE", SHARED, "prefix cursor of", 0, clear },
	{ "GET", SHARED "/entry", "key of", 0, get },
	{ "PUT", SHARED "/entry", "key value ttl", 0, put },
	{ "DELETE", SHARED "/entry", "key of", 0, delete },
	{ 0 },
};
