/* SHARED and its words. */
#include "verb.h"

#include "line.h"

#define KEY_MAX 256
#define TTL_MAX_MS (INT64_C(366) * 24 * 3600 * 1000 * 100)

/* In the order of this list, what each takes and does. */
#define WORDS "list, get, set, delete or clear"
static const struct {
	const char *options;
	int (*run)(struct session *s, const struct shared_spec *spec, struct reply *r,
		   struct error *err);
	bool has_key;
} words[] = {
	{ "of prefix cursor", session_shared_list, false },
	{ "of key", session_shared_get, true },
	{ "key value type ttl", session_shared_set, true },
	{ "of key", session_shared_delete, true },
	{ "of prefix cursor", session_shared_clear, false },
};

static int check_options(struct request *q, unsigned word)
{
	for (unsigned i = 0; i < q->option_count; i++)
		if (!slice_is_listed(q->options[i].name, words[word].options))
			return error_set(q->err, TIDE_ESYNTAX,
					 "SHARED %" SLICE_FMT
					 " has no option '%" SLICE_FMT "'; it takes: %s",
					 SLICE_ARG(q->words[0]),
					 SLICE_ARG(q->options[i].name),
					 words[word].options);
	return TIDE_OK;
}

static void read_key(struct request *q, bool has_key, struct shared_spec *spec)
{
	spec->key = request_option(q, has_key ? "key" : "prefix");
	if (spec->key.len > KEY_MAX || (has_key && spec->key.len == 0))
		request_refuse(q, has_key ? "key" : "prefix", spec->key,
			       has_key ? "1 to 256 bytes" : "at most 256 bytes");
	if (!spec->key.data)
		spec->key = SLICE("");
}

COMMAND(shared)
{
	const struct number_limits ttl = { 1, (uint64_t)TTL_MAX_MS },
				   cursor = { 0, UINT32_MAX };
	struct shared_spec spec = { .value = request_option(q, "value") };
	unsigned word;

	if (!slice_is_choice(q->words[0], WORDS, &word))
		return error_set(q->err, TIDE_ESYNTAX, "SHARED takes: " WORDS);
	if (check_options(q, word) < 0)
		return q->err->code;
	read_key(q, words[word].has_key, &spec);
	spec.of = (enum shared_of)request_choice(q, "of", "keys, counters or buckets");
	if (request_option(q, "type").data)
		spec.type = 1 + (enum shared_as)request_choice(
					q, "type", "string, integer, number or boolean");
	spec.ttl_ms = request_duration(q, "ttl", ttl);
	spec.cursor = (uint32_t)request_uint(q, "cursor", cursor, 0);
	if (words[word].run == session_shared_set && !spec.value.data && q->rc == TIDE_OK)
		q->rc = error_set(q->err, TIDE_ESYNTAX,
				  "SHARED set needs key= and value=");
	return q->rc < 0 ? q->rc : words[word].run(l->base.session, &spec, r, q->err);
}
