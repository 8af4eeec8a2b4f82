#include "redis_trouble.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/log.h"
#include "layout.h"
#include "resp.h"

/* Keys of one request that are asked for. */
#define KEYS_MAX 1024

static bool is_word(const redisReply *command, const char *word)
{
	return command->elements > 0 && strcasecmp(command->element[0]->str, word) == 0;
}

static void add_key(struct redis_wrong_key *k, const redisReply *word)
{
	buf_append(&k->names, word->str, word->len);
	buf_append_char(&k->names, '\0');
	resp_array(&k->bytes, 2);
	resp_text(&k->bytes, "TYPE");
	resp_bulk(&k->bytes, (struct slice){ word->str, word->len });
	k->request.replies++;
}

/* The keys of EVAL have their number before them; other commands have one key, or none
 * and one word. */
static void add_keys(struct redis_wrong_key *k, const redisReply *command)
{
	bool is_script = is_word(command, "EVAL");
	size_t first = is_script ? 3 : 1, count = 1;

	if (is_script && command->elements > 2)
		count = strtoul(command->element[2]->str, NULL, 10);
	for (size_t i = first; i < first + count && i < command->elements; i++)
		if (k->request.replies < KEYS_MAX)
			add_key(k, command->element[i]);
}

static void clear(struct redis_wrong_key *k)
{
	buf_clear(&k->bytes);
	buf_clear(&k->names);
	k->next = 0;
	k->request = (struct redis_request){ .parts = &k->part, .part_count = 1 };
}

static bool ready_to_send(struct redis_wrong_key *k)
{
	k->part = redis_request_part(buf_slice(&k->bytes));
	k->is_out = k->request.replies > 0;
	return k->is_out;
}

/* A command of `r` was refused. True: `request` is to be sent. */
static bool wrong_key_look(struct redis_wrong_key *k, const struct redis_request *r)
{
	redisReader *reader;
	void *command = NULL;

	/* One at a time: the others are found when this one is right. */
	if (k->is_out || k->found[0])
		return false;
	clear(k);
	k->was_known = false;
	reader = redisReaderCreate();
	for (unsigned i = 0; i < r->part_count; i++)
		redisReaderFeed(reader, r->parts[i].base, r->parts[i].len);
	while (redisReaderGetReply(reader, &command) == REDIS_OK && command) {
		add_keys(k, command);
		freeReplyObject(command);
	}
	redisReaderFree(reader);
	return ready_to_send(k);
}

/* Ask again for the one that was found. True: `request` is to be sent. */
static bool wrong_key_again(struct redis_wrong_key *k)
{
	redisReply word = { .str = k->found, .len = strlen(k->found) };

	clear(k);
	k->was_known = true;
	add_key(k, &word);
	return ready_to_send(k);
}

static const char *type_in_words(const char *type)
{
	return strcmp(type, "zset") == 0 ? "sorted set" : type;
}

static void judge(struct redis_wrong_key *k, const char *key, const char *type)
{
	struct layout_name name = { 0 };

	layout_read(slice_from(key), &name);
	if (!name.type || strcmp(type, "none") == 0 || strcmp(type, name.type) == 0)
		return;
	snprintf(k->found, sizeof(k->found), "%s", key);
	snprintf(
		k->text, sizeof(k->text),
		"the key '%.250s' in Redis is a %s and has to be a %s, so something else "
		"has written it: RENAME it, and run tidemq check-store when the broker "
		"has stopped",
		key, type_in_words(type), type_in_words(name.type));
}

/* A reply; after the last one `text` is what is so. */
static void wrong_key_reply(struct redis_wrong_key *k, const redisReply *reply)
{
	const char *key = buf_cstr(&k->names) + k->next;

	if (k->request.answered == 1)
		k->found[0] = k->text[0] = '\0';
	k->next += strlen(key) + 1;
	if (reply->type == REDIS_REPLY_STATUS && !k->found[0])
		judge(k, key, reply->str);
	k->is_out = k->request.answered < k->request.replies;
}

#define WORDS_MAX 4

/* The words are those of Redis 6 to 8, with a blank behind. */
#define TROUBLE(kind, name, is_total, text, ...) \
	[STORE_TROUBLE_##kind] = { name, { __VA_ARGS__ }, is_total, text }

static const struct {
	const char *name;
	const char *words[WORDS_MAX];
	bool is_total;
	const char *text;
} kinds[STORE_TROUBLES] = {
	TROUBLE(MEMORY, "memory", true,
		"Redis is out of memory and refuses writes: raise its maxmemory, or "
		"consume what is stored",
		"OOM "),
	TROUBLE(DISK, "disk", true,
		"Redis cannot write to its disk and refuses writes: make room there, and "
		"see the log of Redis",
		"MISCONF "),
	TROUBLE(READONLY, "readonly", true,
		"Redis is a replica and refuses writes: promote it (REPLICAOF NO ONE), "
		"or start the broker with the --store of the primary",
		"READONLY "),
	TROUBLE(REPLICAS, "replicas", true,
		"Redis refuses writes: fewer replicas than its min-replicas-to-write are "
		"connected: start them, or lower it; what is to be written waits",
		"NOREPLICAS "),
	TROUBLE(BUSY, "busy", true,
		"Redis is busy with a script or loads its data, and refuses requests: "
		"wait, or end the script (SCRIPT KILL)",
		"BUSY ", "LOADING ", "MASTERDOWN "),
	TROUBLE(DENIED, "denied", true,
		"Redis does not permit the broker what it needs: give its user the "
		"permissions of docs/redis.md (ACL SETUSER)",
		"NOPERM ", "NOAUTH ", "WRONGPASS "),
	TROUBLE(TYPE, "type", false,
		"a key in Redis has another type than the broker gave it, and what needs "
		"the key waits: the log names the key and what to do",
		"WRONGTYPE "),
	TROUBLE(OTHER, "other", false,
		"Redis refuses requests: store.last_error in STATS and the log say why",
		NULL),
	TROUBLE(SILENT, "silent", true,
		"Redis is connected and does not answer: see whether it is stopped, runs "
		"a long command, or waits for its disk",
		NULL),
	TROUBLE(UNCONFIRMED, "unconfirmed", true,
		"too few replicas of Redis confirm what it has, so publishes, acks and "
		"declarations wait: start the replicas (INFO replication shows them), or "
		"restart with a lower --confirm",
		NULL),
};

const char *store_trouble_name(enum store_trouble kind)
{
	return kinds[kind].name;
}

bool store_trouble_is_total(enum store_trouble kind)
{
	return kinds[kind].is_total;
}

const char *redis_trouble_text(const struct redis_trouble *t, enum store_trouble kind)
{
	return kind == STORE_TROUBLE_REPLICAS && t->replicas[0] ? t->replicas
								: kinds[kind].text;
}

/* CONFIG SET may have raised the minimum since. */
void redis_trouble_set_replicas(struct redis_trouble *t, uint64_t wanted, uint64_t there)
{
	t->replicas[0] = '\0';
	if (there < wanted)
		snprintf(
			t->replicas, sizeof(t->replicas),
			"Redis refuses writes: min-replicas-to-write %llu, and only %llu "
			"replicas are connected: start them, or lower it; what is to be "
			"written waits",
			(unsigned long long)wanted, (unsigned long long)there);
}

/* The error of a script or of EXEC has the word of its cause within. */
static bool has_word(const char *text, const char *word)
{
	const char *at = strstr(text, word);

	return at && (at == text || !isalnum((unsigned char)at[-1]));
}

enum store_trouble redis_trouble_kind(const char *text)
{
	for (int kind = 0; kind < STORE_REFUSALS; kind++)
		for (int i = 0; i < WORDS_MAX && kinds[kind].words[i]; i++)
			if (has_word(text, kinds[kind].words[i]))
				return (enum store_trouble)kind;
	return STORE_TROUBLE_OTHER;
}

bool redis_trouble_is_elsewhere(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR &&
	       (has_word(reply->str, "READONLY ") ||
		has_word(reply->str, "MASTERDOWN ") || has_word(reply->str, "LOADING "));
}

/* Without a refusal for as long, a trouble has ended. */
#define QUIET_MS 5000

void redis_trouble_init(struct redis_trouble *t, const char *address, uint64_t *refused)
{
	*t = (struct redis_trouble){ .address = address, .refused = refused };
}

void redis_trouble_deinit(struct redis_trouble *t)
{
	buf_deinit(&t->key.bytes);
	buf_deinit(&t->key.names);
}

static void end(struct redis_trouble *t, enum store_trouble kind, uint64_t now_ms)
{
	unsigned long long took_ms = now_ms - t->kinds[kind].began_ms;

	t->kinds[kind].began_ms = 0;
	log_info(
		"store: Redis at %s: the trouble that was logged %llu ms ago is over: %s",
		t->kinds[kind].address, took_ms, store_trouble_name(kind));
}

/* `words` are those of Redis; NULL: it said none. */
static void begin(struct redis_trouble *t, enum store_trouble kind, const char *words,
		  uint64_t now_ms)
{
	bool is_new = !redis_trouble_has(t, kind);

	t->kinds[kind].last_ms = now_ms;
	if (!is_new)
		return;
	/* The loop's clock may be 0 in the first millisecond. */
	t->kinds[kind].began_ms = now_ms ? now_ms : 1;
	snprintf(t->kinds[kind].address, sizeof(t->kinds[kind].address), "%s",
		 t->address);
	/* The key is asked for first. */
	if (kind != STORE_TROUBLE_TYPE)
		log_error("store: Redis at %s: %s%s%s", t->address,
			  redis_trouble_text(t, kind), words ? "; it says: " : "",
			  words ? words : "");
}

/* The error that a reply is, or that EXEC has among the replies to its commands; NULL:
 * there is none. */
static const redisReply *find_error(const struct redis_request *r,
				    const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_ERROR)
		return reply;
	for (size_t i = 0; r->is_write && i < reply->elements; i++)
		if (reply->element[i]->type == REDIS_REPLY_ERROR)
			return reply->element[i];
	return NULL;
}

bool redis_trouble_passes(const struct redis_request *r, const redisReply *reply)
{
	const redisReply *found = find_error(r, reply);

	enum store_trouble kind;

	if (!found)
		return false;
	kind = redis_trouble_kind(found->str);
	return kind == STORE_TROUBLE_REPLICAS || (r->is_replayed && kinds[kind].is_total);
}

bool redis_trouble_reply(struct redis_trouble *t, struct redis_request *r,
			 const redisReply *reply, uint64_t now_ms)
{
	const redisReply *found;
	enum store_trouble kind;

	if (r->answered == 1)
		r->is_refused = false;
	/* A transaction that is refused has an error for each of its commands: the first
	 * one says why. */
	if (r->is_refused || !(found = find_error(r, reply)))
		return false;
	r->is_refused = true;
	kind = redis_trouble_kind(found->str);
	t->refused[kind]++;
	begin(t, kind, found->str, now_ms);
	return kind == STORE_TROUBLE_TYPE && wrong_key_look(&t->key, r);
}

void redis_trouble_key_reply(struct redis_trouble *t, const redisReply *reply,
			     uint64_t now_ms)
{
	wrong_key_reply(&t->key, reply);
	if (t->key.request.answered < t->key.request.replies)
		return;
	if (t->key.text[0] && !t->key.was_known)
		log_error("store: Redis at %s: %s", t->address, t->key.text);
	else if (!t->key.text[0] && t->key.was_known)
		end(t, STORE_TROUBLE_TYPE, now_ms);
}

void redis_trouble_silent(struct redis_trouble *t, uint64_t now_ms)
{
	begin(t, STORE_TROUBLE_SILENT, NULL, now_ms);
}

void redis_trouble_heard(struct redis_trouble *t, uint64_t now_ms)
{
	if (redis_trouble_has(t, STORE_TROUBLE_SILENT))
		end(t, STORE_TROUBLE_SILENT, now_ms);
}

void redis_trouble_unconfirmed(struct redis_trouble *t, bool is_unconfirmed,
			       uint64_t now_ms)
{
	if (is_unconfirmed)
		begin(t, STORE_TROUBLE_UNCONFIRMED, NULL, now_ms);
	else if (redis_trouble_has(t, STORE_TROUBLE_UNCONFIRMED))
		end(t, STORE_TROUBLE_UNCONFIRMED, now_ms);
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
	return t->key.found[0] && wrong_key_again(&t->key);
}
