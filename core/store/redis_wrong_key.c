#include "redis_wrong_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "resp.h"

/* A script names more keys rarely. */
#define KEYS_MAX 64

void redis_wrong_key_deinit(struct redis_wrong_key *k)
{
	buf_deinit(&k->bytes);
	buf_deinit(&k->names);
}

static bool is_word(const redisReply *command, const char *word)
{
	return command->elements > 0 && strcasecmp(command->element[0]->str, word) == 0;
}

static redisReader *read_request(const struct redis_request *r)
{
	redisReader *reader = redisReaderCreate();

	for (unsigned i = 0; i < r->part_count; i++)
		redisReaderFeed(reader, r->parts[i].base, r->parts[i].len);
	return reader;
}

static redisReply *next_command(redisReader *reader)
{
	void *command = NULL;

	if (redisReaderGetReply(reader, &command) != REDIS_OK)
		return NULL;
	return command;
}

/* The number of the refused command; MULTI is the last one before the EXEC that is
 * answered. */
static size_t find_number(const struct redis_request *r, bool is_whole, size_t element)
{
	redisReader *reader;
	redisReply *command;
	size_t number = 0, multi = 0;

	if (is_whole)
		return r->answered - 1;
	reader = read_request(r);
	for (; number < r->answered && (command = next_command(reader)); number++) {
		if (is_word(command, "MULTI"))
			multi = number;
		freeReplyObject(command);
	}
	redisReaderFree(reader);
	return multi + 1 + element;
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

/* The keys of EVAL have their number before them; other commands have one key. */
static void add_keys(struct redis_wrong_key *k, const redisReply *command)
{
	bool is_script = is_word(command, "EVAL");
	size_t first = is_script ? 3 : 1, count = 1;

	if (is_script && command->elements > 2)
		count = strtoul(command->element[2]->str, NULL, 10);
	for (size_t i = 0; i < count && i < KEYS_MAX && first + i < command->elements;
	     i++)
		add_key(k, command->element[first + i]);
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
	struct slice bytes = buf_slice(&k->bytes);

	k->part = uv_buf_init((char *)(uintptr_t)bytes.data, (unsigned)bytes.len);
	k->is_out = k->request.replies > 0;
	return k->is_out;
}

bool redis_wrong_key_look(struct redis_wrong_key *k, const struct redis_request *r,
			  bool is_whole, size_t element)
{
	redisReader *reader;
	redisReply *command;
	size_t number;

	/* One at a time: the others are found when this one is right. */
	if (k->is_out || k->found[0])
		return false;
	clear(k);
	number = find_number(r, is_whole, element);
	reader = read_request(r);
	for (size_t i = 0; (command = next_command(reader)) != NULL; i++) {
		if (i == number)
			add_keys(k, command);
		freeReplyObject(command);
	}
	redisReaderFree(reader);
	return ready_to_send(k);
}

bool redis_wrong_key_again(struct redis_wrong_key *k)
{
	redisReply word = { .str = k->found, .len = strlen(k->found) };

	clear(k);
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

void redis_wrong_key_reply(struct redis_wrong_key *k, const redisReply *reply)
{
	const char *key = buf_cstr(&k->names) + k->next;

	if (k->request.answered == 1)
		k->found[0] = k->text[0] = '\0';
	k->next += strlen(key) + 1;
	if (reply->type == REDIS_REPLY_STATUS && !k->found[0])
		judge(k, key, reply->str);
	k->is_out = k->request.answered < k->request.replies;
}
