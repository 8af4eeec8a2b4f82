#include "redis_trouble.h"

#include <string.h>

#include "host/log.h"
#include "store_trouble.h"

/* Without a refusal for as long, a trouble has ended. */
#define QUIET_MS 5000

void redis_trouble_init(struct redis_trouble *t, const char *address, uint64_t *refused)
{
	*t = (struct redis_trouble){ .address = address, .refused = refused };
}

void redis_trouble_deinit(struct redis_trouble *t)
{
	redis_wrong_key_deinit(&t->key);
}

static void begin(struct redis_trouble *t, enum store_trouble kind, uint64_t now_ms)
{
	/* The loop's clock may be 0 in the first millisecond. */
	if (!t->kinds[kind].began_ms)
		t->kinds[kind].began_ms = now_ms ? now_ms : 1;
	t->kinds[kind].last_ms = now_ms;
}

static void end(struct redis_trouble *t, enum store_trouble kind, uint64_t now_ms)
{
	unsigned long long took_ms = now_ms - t->kinds[kind].began_ms;

	t->kinds[kind].began_ms = 0;
	log_info(
		"store: Redis at %s: the trouble that was logged %llu ms ago is over: %s",
		t->address, took_ms, store_trouble_name(kind));
}

static void refuse(struct redis_trouble *t, enum store_trouble kind, const char *words,
		   uint64_t now_ms)
{
	bool is_new = !redis_trouble_has(t, kind);

	begin(t, kind, now_ms);
	/* The key is asked for first. */
	if (is_new && kind != STORE_TROUBLE_TYPE)
		log_error("store: Redis at %s: %s; it says: %s", t->address,
			  store_trouble_text(kind), words);
}

/* The error that a reply is, or that EXEC has among the replies to its commands; NULL:
 * there is none. */
static const redisReply *find_error(const struct redis_request *r,
				    const redisReply *reply, size_t *element)
{
	*element = 0;
	if (reply->type == REDIS_REPLY_ERROR)
		return reply;
	for (; r->is_write && *element < reply->elements; ++*element)
		if (reply->element[*element]->type == REDIS_REPLY_ERROR)
			return reply->element[*element];
	return NULL;
}

bool redis_trouble_reply(struct redis_trouble *t, struct redis_request *r,
			 const redisReply *reply, uint64_t now_ms)
{
	const redisReply *found;
	enum store_trouble kind;
	size_t element;

	if (r->answered == 1)
		r->is_refused = false;
	/* A transaction that is refused has an error for each of its commands: the first
	 * one says why. */
	if (r->is_refused || !(found = find_error(r, reply, &element)))
		return false;
	r->is_refused = true;
	kind = store_trouble_of(found->str);
	t->refused[kind]++;
	refuse(t, kind, found->str, now_ms);
	return kind == STORE_TROUBLE_TYPE &&
	       redis_wrong_key_look(&t->key, r, reply == found, element);
}

void redis_trouble_key_reply(struct redis_trouble *t, const redisReply *reply,
			     uint64_t now_ms)
{
	bool was_known = t->key.found[0];

	redis_wrong_key_reply(&t->key, reply);
	if (t->key.request.answered < t->key.request.replies)
		return;
	if (t->key.text[0] && !was_known)
		log_error("store: Redis at %s: %s", t->address, t->key.text);
	else if (!t->key.text[0] && was_known)
		end(t, STORE_TROUBLE_TYPE, now_ms);
}

void redis_trouble_silent(struct redis_trouble *t, uint64_t now_ms)
{
	bool is_new = !redis_trouble_has(t, STORE_TROUBLE_SILENT);

	begin(t, STORE_TROUBLE_SILENT, now_ms);
	if (is_new)
		log_error("store: Redis at %s: %s", t->address,
			  store_trouble_text(STORE_TROUBLE_SILENT));
}

void redis_trouble_heard(struct redis_trouble *t, uint64_t now_ms)
{
	if (redis_trouble_has(t, STORE_TROUBLE_SILENT))
		end(t, STORE_TROUBLE_SILENT, now_ms);
}

void redis_trouble_forget(struct redis_trouble *t)
{
	memset(t->kinds, 0, sizeof(t->kinds));
	t->key.found[0] = t->key.text[0] = '\0';
}

bool redis_trouble_tick(struct redis_trouble *t, uint64_t now_ms)
{
	for (int kind = 0; kind < STORE_REFUSALS; kind++)
		if (kind != STORE_TROUBLE_TYPE && t->kinds[kind].began_ms &&
		    now_ms - t->kinds[kind].last_ms >= QUIET_MS)
			end(t, (enum store_trouble)kind, now_ms);
	if (!redis_trouble_has(t, STORE_TROUBLE_TYPE) || t->key.is_out)
		return false;
	/* No key of another type was found, so it has been mended meanwhile. */
	if (!t->key.found[0])
		t->kinds[STORE_TROUBLE_TYPE].began_ms = 0;
	return t->key.found[0] && redis_wrong_key_again(&t->key);
}
