#include "unroutable.h"

#include "base/mem.h"

struct unroutable_key {
	char *text;
	size_t len;
	uint64_t count; /* since it is in the sample */
	int64_t last_ms;
};

void unroutable_deinit(struct unroutable *u)
{
	for (unsigned i = 0; i < u->key_count; i++)
		mem_free(u->keys[i].text);
	mem_free(u->keys);
	*u = (struct unroutable){ 0 };
}

/* The keys are in the order in which they were seen, the last one first. */
static unsigned find(const struct unroutable *u, struct slice key)
{
	unsigned at = 0;

	while (at < u->key_count &&
	       !slice_is_equal((struct slice){ u->keys[at].text, u->keys[at].len }, key))
		at++;
	return at;
}

static unsigned take_place(struct unroutable *u, struct slice key)
{
	unsigned at = u->key_count;

	if (!u->keys)
		u->keys = mem_zalloc(UNROUTABLE_KEYS_MAX * sizeof(*u->keys));
	if (at == UNROUTABLE_KEYS_MAX)
		mem_free(u->keys[--at].text);
	else
		u->key_count++;
	u->keys[at] = (struct unroutable_key){
		.text = mem_strndup(key.len ? key.data : "", key.len),
		.len = key.len,
	};
	return at;
}

void unroutable_add(struct unroutable *u, struct slice key, int64_t now_ms)
{
	unsigned at = find(u, key);
	struct unroutable_key seen;

	u->count++;
	if (at == u->key_count)
		at = take_place(u, key);
	seen = u->keys[at];
	seen.count++;
	seen.last_ms = now_ms;
	memmove(&u->keys[1], &u->keys[0], at * sizeof(seen));
	u->keys[0] = seen;
}

void unroutable_write(const struct unroutable *u, struct json *out)
{
	json_member_int(out, "unroutable", (int64_t)u->count);
	json_member_array(out, "unroutable_keys");
	for (unsigned i = 0; i < u->key_count; i++) {
		const struct unroutable_key *k = &u->keys[i];

		json_object_begin(out);
		json_member_string(out, "key", (struct slice){ k->text, k->len });
		json_member_int(out, "count", (int64_t)k->count);
		json_member_int(out, "last_ms", k->last_ms);
		json_object_end(out);
	}
	json_array_end(out);
}
